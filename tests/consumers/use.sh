# shellcheck shell=bash
# Sourced: what the tests of an installed iobind share. The caller has set -euo pipefail, $work (a folder to write in), $model
# and ORT_NATIVE_LIB_PATH.
consumers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC:-cc}

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# quietly COMMAND...: its output is shown only where it fails.
quietly() {
  "$@" >"$work/messages" 2>&1 || fail "$*:
$(tail -n 30 "$work/messages")"
}

# said TEXT WHAT: CMake breaks its messages into lines, where depends on the names of directories in them.
said() { [[ $(tr -s ' \n' ' ' <"$work/messages") == *"$1"* ]] || fail "$2: expected '$1', got: $(cat "$work/messages")"; }

# expect TEXT COMMAND...
expect() {
  local expected=$1 came
  shift
  came=$("$@" 2>&1) || fail "$*: $came"
  [ "$came" = "$expected" ] || fail "$*: expected '$expected', got '$came'"
}

# readable WHAT: of lines "MODE PATH" with ls's modes: everybody can read what is installed, and only its owner can write it.
readable() {
  local wrong
  wrong=$(grep -vE '^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) ' || true)
  [ -z "$wrong" ] || fail "$1: expected modes of 0755 and 0644, got: $wrong"
}

# use_consumer PROGRAM: it computes on the CPU and on the virtual accelerator, which lies beside the library.
use_consumer() {
  expect '1.5 2.5 3.5 4.5' "$1" "$model" cpu
  expect '1.5 2.5 3.5 4.5' "$1" "$model" vdev
}

# use_tool PROGRAM
use_tool() {
  local report
  report=$("$1" doctor 2>&1) || fail "$1 doctor: $report"
  grep -q '^cpu .*yes' <<<"$report" || fail "$1 doctor does not say that the CPU works: $report"
  quietly "$1" run "$model" --random --dim n=4 --device vdev --output-dir "$work/out"
  [ -s "$work/out/z.npy" ] || fail "$1 run: wrote no out/z.npy"
}

# build_with_cmake PREFIX FOLDER [OPTION...]
build_with_cmake() {
  local folder=$2
  quietly cmake -S "$consumers/cmake" -B "$folder" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$1" -DWANTED="$version" "${@:3}"
  quietly cmake --build "$folder"
}

# build_with_pkg_config PC-FOLDER PROGRAM
build_with_pkg_config() {
  local flags
  read -ra flags <<<"$(PKG_CONFIG_PATH=$1 pkg-config --cflags --libs "iobind = $version")"
  quietly "$cc" "$consumers/consumer.c" "${flags[@]}" -o "$2"
}

# use_frozen: the programs of released versions (tests/abi/clients, empty before the first), as they were built when each was new: against
# its header, and for a library whose name the loader took from the first number.
use_frozen() {
  local frozen library=$work/libfrozen.so
  for frozen in "$consumers"/../abi/clients/*; do
    [ -d "$frozen" ] || continue
    python3 "$consumers/../abi/public.py" table "$frozen/include" >"$work/table.c"
    sed -n 's/^    {"\(iobind_[a-z0-9_]*\)".*/void \1(void);\nvoid \1(void) {}/p' "$work/table.c" >"$work/names.c"
    quietly "$cc" -shared -fPIC "$work/names.c" -Wl,-soname,"libiobind.so.$(basename "$frozen" | cut -d. -f1)" \
      -Wl,--version-script="$consumers/../../src/iobind.map" -o "$library"
    quietly "$cc" -I"$frozen/include" -I"$consumers/../abi" "$frozen/client.c" "$work/table.c" "$library" -o "$work/frozen"
    rm "$library"
    quietly "$work/frozen"
  done
}

version=$(sed -n 's/^#define IOBIND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$consumers/../../include/iobind/version.h" | paste -sd.)
interface=${version%%.*}
