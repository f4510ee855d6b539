#!/usr/bin/env bash
# A project in C++ fetches iobind from a clone, by CMake's FetchContent, and builds it as a part of its own.
# usage: fetched.sh   CC: the compiler; ORT_NATIVE_LIB_PATH: ORT, or its directory
# 77: this is no clone.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"

source=$(cd "$consumers/../.." && pwd)
commit=$(git -C "$source" rev-parse --verify --quiet HEAD) || { echo 'skipped: not a clone'; exit 77; }
quietly cmake -S "$consumers/fetched" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release -DREPOSITORY="$source" -DCOMMIT="$commit"
quietly cmake --build "$work/build" --parallel 2 --target fetched
fetched=$(git -C "$work/build/_deps/iobind-src" rev-parse HEAD)
[ "$fetched" = "$commit" ] || fail "fetched: expected commit $commit, got $fetched"
expect "$version 3" "$work/build/fetched"
# Of iobind only the library is built, and nothing of it is installed with the project.
[ -z "$(find "$work/build" -name 'libiobind_vdev*' -o -name 'libiobind_java*' -o -path '*/bin/iobind')" ] || fail 'fetched: more is built than the library'
