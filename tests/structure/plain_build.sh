#!/usr/bin/env bash
# One plain line builds the library, without any build system, and a program that is linked to it starts.
# usage: plain_build.sh   CC is the compiler (default: cc)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here/../.."
cc=${CC:-cc}

"$cc" -std=c17 -shared -fPIC -Iinclude -Isrc -Iabi src/*/*.c -ldl -pthread -o "$work/libiobind.so"

bash "$here/elf.sh" "$work/libiobind.so"
cat >"$work/program.c" <<'PROGRAM'
#include <iobind/iobind.h>
#include <stdio.h>
int main(void) {
  puts(iobind_get_version_string());
  return iobind_get_version() == IOBIND_VERSION_NUMBER ? 0 : 1;
}
PROGRAM
"$cc" -std=c17 -Iinclude "$work/program.c" "$work/libiobind.so" -Wl,-rpath,"$work" -o "$work/program"
"$work/program"
