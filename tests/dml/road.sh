#!/usr/bin/env bash
# The real DirectML execution provider of ONNX Runtime's package for Windows, with its own DirectML.dll, under Wine 10 and a software Vulkan
# driver: compile what is needed for Windows, and run the tool, tests/dml, examples/directml.c and the conformance rows there.
# usage: road.sh BUILD-FOLDER
# 77: something is missing here, with the reason.
set -euo pipefail
build=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
skip() {
  echo "skip: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "only root may enter another root folder"
unshare --mount --pid --fork true 2>/dev/null || skip "this machine lets nobody make a mount namespace"
command -v x86_64-w64-mingw32-gcc-posix >/dev/null || skip "mingw-w64 is not there; scripts/install-packages ports installs it"
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
{ scripts/get-wine && scripts/get-port-libraries win-x64 && scripts/get-onnxruntime --directml --platform win-x64; } >"$messages" 2>&1 ||
  skip "$(tail -n 3 "$messages")"
ort=$(realpath "$(sed -n 's/^onnxruntime-directml .*: //p' "$messages")")

step() {
  "$@" >"$messages" 2>&1 || {
    tail -n 40 "$messages"
    echo "road: failed: $*"
    exit 1
  }
}
step cmake -G Ninja -S . -B "$build" --toolchain cmake/toolchains/win-x64.cmake -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DIOBIND_BUILD_TESTS=ON
step cmake --build "$build" --target dml iobind_tool directml make-model conformance wine_d3d12
folder=$build/road
mkdir -p "$folder"
cp "$ort"/*.dll "$build/bin"/{dml,iobind,directml,make-model,conformance}.exe "$build/bin"/{iobind,iobind_vdev}.dll \
  "$build/bin/wine/d3d12.dll" tests/conformance/{cases,wrong}.tsv "$folder"
run() {
  local status=0
  timeout 3000 tests/dml/wine.sh "$folder" "$@" >"$messages" 2>&1 || status=$?
  tr -d '\r' <"$messages"
  if [ $status != 0 ]; then
    echo "road: $*: status $status"
    exit $status
  fi
}
run iobind.exe devices
grep -q '^dml:0 .*GPU  *host-accessible, streams' "$messages" || { echo 'road: dml:0 has no memory of its own'; exit 1; }
run dml.exe
run make-model.exe scale binary=0 scale.onnx
run directml.exe scale.onnx

# What is left out of the rows, besides models that need Add and Mul: outputs of element types that DirectML has not; casts whose shaders
# Wine's Direct3D cannot run; and outputs that are too small, of which ORT's reason does not come through DirectML's EP (RUNTIME, not SHAPE).
refused=identity-device/bfloat16
for type in e4m3fn e4m3fnuz e5m2 e5m2fnuz; do refused+=,identity-device/float8$type; done
refused+=,cast/float32:float64,cast/int64:float32,cast/uint8:int64
refused+=,sizes-by-content-reuse,output-fixed-of-a-size-known-in-the-run,carry-fixed-shape-that-changes,carry-in-place-torn
refused+=,pipeline-sizes-only-a-run-knows,pipeline-item-fails,host-read-in-a-pipeline/1,state-undefined
conformance() { run conformance.exe --device dml:0 --no-binary --sessions 1 "$@"; }
conformance --except $refused --at-least 600 cases.tsv
conformance --all-wrong wrong.tsv
