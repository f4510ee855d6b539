#!/bin/sh
# The conformance rows on vcuda: conformance.sh WITH_CUDA CONFORMANCE FOLDER_OF_ROWS
#
# Rows that are left out. Most expect that a run on a stream is still under way when the call returns: on CUDA it is over, because
# ONNX Runtime up to 1.31 crashes if such a run is given a stream. The last one is a race of ONNX Runtime's own in a plain run: it uploads an
# input that the model hands on, on its own stream, and fetches it on the NULL stream, and now and then fetches it too early.
set -eu
left_out='carry-on-a-stream|stream-run-under-way|async-many-bindings-one-stream|async-queue-of-new-data|unbound-passthrough'
with_cuda=$1 conformance=$2 rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
grep -vE "^($left_out)[/	]" "$3/cases.tsv" >"$rows"
status=0
"$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --at-least 780 "$rows" || status=$?
[ "$status" != 0 ] || "$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --all-wrong "$3/wrong.tsv" || status=$?
exit "$status"
