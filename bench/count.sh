# shellcheck shell=bash
# What the scripts run of bench/ share. Sourced, not run: `. count.sh NAME "$@"` begins, with the script's name and arguments.
#
# A script prints a table. With --limits it prints, instead, a line "VALUE MOST WHAT" for each figure that has a limit: bench/worst reads those.
set -euo pipefail

name=$1
limits=false
shift
if [ "${1:-}" = --limits ]; then
  limits=true
  shift
fi
arguments=("$@")

die() {
  echo "$name: $*" >&2
  exit 1
}
if ! command -v valgrind >/dev/null; then
  echo "$name: valgrind is not installed; install the package valgrind" >&2
  exit 77
fi
export ORT_DISABLE_TELEMETRY=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect_arguments LEAST MOST: the arguments, or the script's own comment.
expect_arguments() {
  if [ ${#arguments[@]} -ge "$1" ] && [ ${#arguments[@]} -le "$2" ]; then return; fi
  sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
}

# callgrind OUT OPTION... PROGRAM ARGUMENT...: counts into the files OUT.1, OUT.2, ..., as the options say.
callgrind() {
  local out=$1 code=0
  shift
  valgrind --tool=callgrind --callgrind-out-file="$out" "$@" >"$folder/log" 2>&1 || code=$?
  if [ "$code" != 0 ]; then
    cat "$folder/log" >&2
    exit "$code"
  fi
}
total() { sed -n 's/^totals: \([0-9]*\)$/\1/p' "$1"; }
# Of a file of callgrind: the instructions in libiobind itself, all outside of ONNX Runtime and of what it calls, and the number of its calls.
# The line after `calls` has the instructions of what was called, which lies in the same object unless `cob` names another.
sides() {
  awk '/^c?ob=/ { split($1, pair, "="); id = pair[2]; if (NF > 1) kind[id] = /libonnxruntime\./ ? "ort" : /libiobind\./ ? "own" : "other" }
    /^ob=/ { here = kind[id] }
    /^cob=/ { called = kind[id] }
    /^calls=/ {
      split($1, pair, "="); getline
      if (here != "ort" && called == "ort") { calls += pair[2]; of_ort += $2 }
      called = ""; next
    }
    /^[-+*0-9]/ && here == "own" { own += $2 }
    /^totals:/ { all = $2 }
    END { print own + 0, all - of_ort, calls + 0 }' "$1"
}

# count PROGRAM ALLOCATIONS RUNS MODE...: the instructions of RUNS calls in the function `steady`, mode after mode, those of them in libiobind,
# those outside of ONNX Runtime, the calls of ONNX Runtime, and the allocations of all and of libiobind, which the library ALLOCATIONS counts,
# into instructions, inside, outside, calls, all and ours.
declare -A instructions inside outside calls all ours
count() {
  local program=$1 allocations=$2 runs=$3 allocated=() i
  shift 3
  callgrind "$folder/out" --toggle-collect=steady --dump-after=steady "$program" "$runs" "$@"
  mapfile -t allocated < <(LD_PRELOAD=$allocations "$program" "$runs" "$@" | sed -n 's/^allocations \([0-9]*\), of iobind \([0-9]*\)$/\1 \2/p')
  [ ${#allocated[@]} = $# ] || die "the library that counts allocations gave ${#allocated[@]} counts, expected $#"
  for ((i = 1; i <= $#; i++)); do
    instructions[${!i}]=$(total "$folder/out.$i")
    # shellcheck disable=SC2034 # some scripts use them
    read -r "inside[${!i}]" "outside[${!i}]" "calls[${!i}]" <<<"$(sides "$folder/out.$i")"
    read -r "all[${!i}]" "ours[${!i}]" <<<"${allocated[i - 1]}"
  done
}

each() { awk -v all="$1" -v runs="$runs" 'BEGIN { printf "%.1f", all / runs }'; }
ratio() { awk -v a="${instructions[$1]}" -v b="${instructions[$2]}" 'BEGIN { printf "%.4f", a / b }'; }

# A row of the table: row FORMAT VALUE...
row() {
  $limits && return
  # shellcheck disable=SC2059 # the formats are the script's own
  printf "$@"
}
# limit WHAT VALUE MOST
limit() {
  $limits || return 0
  [[ $2 =~ ^-?[0-9.]+$ ]] || die "$1: expected a number, got '$2'"
  echo "$2 $3 $1"
}
