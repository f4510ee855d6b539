#!/bin/sh
# The conformance rows on vcuda: conformance.sh WITH_CUDA CONFORMANCE FOLDER_OF_ROWS
#
# Rows that are left out: they expect that a run on a stream is still under way when the call returns. On CUDA it is over, because
# ONNX Runtime up to 1.31 crashes if such a run is given a stream.
set -eu
queued='carry-on-a-stream|stream-run-under-way|async-many-bindings-one-stream|async-queue-of-new-data'
with_cuda=$1 conformance=$2 rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
grep -vE "^($queued)[/	]" "$3/cases.tsv" >"$rows"
status=0
"$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --at-least 780 "$rows" || status=$?
[ "$status" != 0 ] || "$with_cuda" --onnxruntime env IOBIND_REQUIRE=cuda "$conformance" --device cuda --all-wrong "$3/wrong.tsv" || status=$?
exit "$status"
