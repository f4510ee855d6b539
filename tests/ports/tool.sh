#!/usr/bin/env bash
# The tool of another platform: it finds ORT, reads and writes files under names beyond ASCII, and computes.
# usage: tool.sh MAKE-MODEL TOOL [EMULATOR...]   ORT_NATIVE_LIB_PATH: the folder of ORT, in the words of that platform
set -euo pipefail
make_model=$1 tool=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
iobind() { "${emulator[@]}" "$tool" "$@" | tr -d '\r'; }
emulator=("$@")
fail() {
  echo "tool: $*"
  exit 1
}
# numpy FILE BYTES: four floats
numpy() {
  local header="{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$1"
  printf '%b' "$2" >>"$1"
}

"$@" "$make_model" add add.onnx
mkdir 'Größe 模型'
mv add.onnx 'Größe 模型/'
numpy x.npy '\0\0\200\077\0\0\0\100\0\0\100\100\0\0\200\100'
numpy y.npy '\0\0\0\077\0\0\0\077\0\0\0\077\0\0\0\077'
numpy expected.npy '\0\0\300\077\0\0\040\100\0\0\140\100\0\0\220\100'

iobind doctor >report || fail "doctor: $(cat report)"
grep -q '^cpu *yes' report || fail 'doctor does not say that the CPU works'
iobind inspect 'Größe 模型/add.onnx' --json >report || fail "inspect: $(cat report)"
grep -q '"n"' report || fail "inspect does not show the open dim 'n'"
for pass in first again; do # the second takes the place of the files of the first
  iobind run 'Größe 模型/add.onnx' --input x=x.npy --input y=y.npy --output-dir 'out/Größe' >report || fail "run, $pass: $(cat report)"
  cmp 'out/Größe/z.npy' expected.npy || fail "run, $pass: z.npy is not x + y"
done
[ "$(ls -A 'out/Größe')" = z.npy ] || fail "run leaves more than its output: $(ls -A 'out/Größe')"
iobind bench 'Größe 模型/add.onnx' --dim n=4 --device cpu --iterations 5 --seconds 1 --plot plot.svg --json >bench.json
grep -q '</svg>' plot.svg || fail 'bench --plot writes no whole picture'
grep -q '"unbound"' bench.json || fail 'bench --json has no figures'

status=0
iobind run absent.onnx >message 2>&1 || status=$?
if [ "$status" != 1 ] || ! grep -q '^iobind: run: absent.onnx: cannot be opened' message; then
  fail "a model that is not there: status $status, '$(cat message)'"
fi
status=0
iobind rum >message 2>&1 || status=$?
[ "$status" = 2 ] || fail "an unknown command: status $status, '$(cat message)'"
echo 'tool: finds ORT, reads, computes, writes'
