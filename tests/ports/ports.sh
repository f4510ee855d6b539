#!/usr/bin/env bash
# Compile everything for another platform, and run its tests there by an emulator.
# usage: ports.sh linux-arm64|win-x64 BUILD-FOLDER
# 77: a compiler or an emulator is missing, or what the platform needs could not be fetched.
set -euo pipefail
platform=$1 build=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
skip() {
  echo "skip: $*"
  exit 77
}

case $platform in
  linux-arm64)
    compiler=aarch64-linux-gnu-gcc
    emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
    ;;
  win-x64)
    compiler=x86_64-w64-mingw32-gcc-posix
    emulator=$(PATH=$PATH:/usr/lib/wine command -v wine64 || command -v wine || true)
    ;;
esac
for program in "$compiler" "${emulator:-an emulator}"; do
  command -v "$program" >/dev/null || skip "$program is not there; scripts/install-packages ports installs it"
done
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
{ scripts/get-port-libraries "$platform" && scripts/get-onnxruntime --platform "$platform"; } >"$messages" 2>&1 ||
  skip "$(tail -n 3 "$messages")"
ORT_NATIVE_LIB_PATH=$(realpath "$(sed -n 's/^onnxruntime .*: //p' "$messages")")
export ORT_NATIVE_LIB_PATH IOBIND_REQUIRE=cpu,vdev LC_ALL=C.UTF-8

step() {
  "$@" >"$messages" 2>&1 || {
    tail -n 40 "$messages"
    echo "$platform: failed: $*"
    exit 1
  }
}
# The compiler's own sanitizers do not reach into an emulator: the build is the one that users get.
step cmake -G Ninja -S . -B "$build" --toolchain "cmake/toolchains/$platform.cmake" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DIOBIND_BUILD_TESTS=ON
step cmake --build "$build"

if [ "$platform" = win-x64 ]; then
  # Wine makes its folder once, before tests that would do so at the same time.
  WINEPREFIX=$build/wine WINEDEBUG=-all DISPLAY='' step "$emulator" wineboot --init
fi
ctest --test-dir "$build" --output-on-failure --no-tests=error -LE 'webgpu|cuda'
