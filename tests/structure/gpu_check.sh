#!/usr/bin/env bash
# scripts/gpu-check where there is nothing to check: it says all that is missing, writes nothing, and tells wrong usage apart.
set -euo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/gpu-check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() { # STATUS TEXT ARGUMENT...
  local status=0 expected=$1 text=$2
  shift 2
  PATH=$work/bin:$PATH "$script" "$@" >"$work/out" 2>&1 || status=$?
  if [ "$status" != "$expected" ] || ! grep -qF -- "$text" "$work/out"; then
    echo "gpu-check $*: expected status $expected and '$text', got $status and:" >&2
    cat "$work/out" >&2
    exit 1
  fi
}

# A driver that has lost its GPU, in front of whatever this machine has.
mkdir "$work/bin" "$work/empty"
printf '#!/bin/sh\necho "No devices were found"\nexit 6\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"

expect 2 'no folder'
expect 2 'not a folder' "$work/none"
expect 2 'not an option' --wrong "$work/empty"
expect 2 'expected a value' "$work/empty" --device
expect 2 'expected one device' --device cuda,cpu "$work/empty"
expect 2 'expected a number' --seconds soon "$work/empty"
expect 2 '--no-build' --no-build --build "$work/none" "$work/empty"
expect 2 'one folder is expected' "$work/empty" "$work/empty"
expect 1 "nvidia-smi says 'No devices were found'" --output "$work/report" "$work/empty"
expect 1 "libonnxruntime.so in $work/empty" --output "$work/report" "$work/empty"
expect 1 'libonnxruntime_providers_cuda.so' --output "$work/report" "$work/empty"
[ ! -e "$work/report" ] || { echo 'gpu-check: wrote a report although it ran nothing' >&2; exit 1; }
expect 0 'Exit status' --help
echo 'gpu-check: says what is missing and what is wrong'
