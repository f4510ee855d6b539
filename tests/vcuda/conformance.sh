#!/bin/sh
# The conformance rows on vcuda: conformance.sh WITH_CUDA CONFORMANCE FOLDER_OF_ROWS
#
# Rows that are left out: ONNX Runtime 1.31 crashes where a run on a stream of the caller's uses cuBLAS, on hardware as well: the
# kernels take the stream object for one of another class.
set -eu
crashing='carry-of-a-decoder-on-a-stream|async-product|async-products-of-two-bindings|async-products-in-a-row|async-transpose'
crashing="$crashing|pipeline-product|pipeline-transpose|pipeline-decoder"
with_cuda=$1 conformance=$2 rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
grep -vE "^($crashing)[/	]" "$3/cases.tsv" >"$rows"
status=0
"$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --at-least 700 "$rows" || status=$?
[ "$status" != 0 ] || "$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --all-wrong "$3/wrong.tsv" || status=$?
exit "$status"
