#!/usr/bin/env bash
# What is built does not depend on the folder that it is built in: two copies of the sources in two folders give the same bytes.
# usage: reproducible.sh   CC: the compiler
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1 # it would hand the files of the one over to the other

# build SOURCES BUILD-FOLDER PREFIX
build() {
  mkdir -p "$1"
  (cd "$source" && tar -c --exclude=./build --exclude=./dist --exclude=./.runtime --exclude=./.git .) | tar -x -C "$1"
  {
    cmake -G Ninja -S "$1" -B "$2" -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TESTS=OFF \
      -DIOBIND_BUILD_BENCH=OFF -DIOBIND_BUILD_EXAMPLES=OFF && cmake --build "$2" && cmake --install "$2" --prefix "$3"
  } >"$work/log" 2>&1 || {
    tail -n 30 "$work/log" >&2
    exit 1
  }
}
build "$work/one" "$work/one/build/release" "$work/first"
build "$work/another folder, with a longer name" "$work/built elsewhere" "$work/second"

diff -r "$work/first" "$work/second" >&2 || { echo 'reproducible: two builds of the same sources differ' >&2; exit 1; }
if grep -rlF "$work" "$work/first"; then
  echo 'reproducible: these name the folder that they were built in' >&2
  exit 1
fi
echo "reproducible: $(find "$work/first" -type f | wc -l) files, twice the same"
