#!/bin/sh
# The conformance rows on vcuda: conformance.sh WITH_CUDA CONFORMANCE FOLDER_OF_ROWS
#
# REPEATS: number of runs (default: 1), each with another seed for the random delays that VCUDA_DELAY_ variables set.
#
# The omitted row has a race of ONNX Runtime's own in a plain run. ORT uploads an input that the model passes through on its own stream, downloads
# it on the NULL stream, and sometimes downloads it too early.
set -eu
# Use the ONNX Runtime of the GPU package, even if the other tests use another one.
[ -e "${ORT_NATIVE_LIB_PATH:-}/libonnxruntime_providers_cuda.so" ] || unset ORT_NATIVE_LIB_PATH
# LeakSanitizer crashes with signal 11 at the end of a process with ONNX Runtime 1.25.1 or 1.26.0, so it is enabled only for the newest release.
[ -z "${ORT_NATIVE_LIB_PATH:-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
left_out='unbound-passthrough'
with_cuda=$1 conformance=$2 rows=$3
status=0 seed=0
while [ "$status" = 0 ] && [ "$seed" -lt "${REPEATS:-1}" ]; do
  seed=$((seed + 1))
  "$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda VCUDA_SEED="$seed" \
    "$conformance" --device cuda --except "$left_out" --at-least 800 "$rows/cases.tsv" || status=$?
done
[ "$status" != 0 ] || "$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --all-wrong "$rows/wrong.tsv" || status=$?
exit "$status"
