#!/usr/bin/env bash
# What a built libiobind asks of the system: libc, libdl and libpthread, no more, and no executable stack.
# usage: elf.sh LIBRARY [SANITIZERS]   SANITIZERS: those it was built with; their libraries may then be there, too
set -euo pipefail
library=$1 sanitizers=${2-}
allowed='libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux[-.a-z0-9_]*\.so\.[0-9]'
if [ -n "$sanitizers" ]; then allowed="$allowed|lib[a-z]*san\.so\.[0-9]*|libm\.so\.6|libgcc_s\.so\.1"; fi

needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ] || { echo "elf: $library: needs no library at all: is that a shared library?" >&2; exit 1; }
foreign=$(grep -Evx "$allowed" <<<"$needed" || true)
if [ -n "$foreign" ]; then
  echo "elf: $library: needs $(tr '\n' ' ' <<<"$foreign")besides libc, libdl and libpthread" >&2
  exit 1
fi
flags=$(readelf -lW "$library" | awk '$1 == "GNU_STACK" { print $7 }')
if [ "$flags" != RW ]; then
  echo "elf: $library: expected a stack with the flags RW, got '${flags:-no GNU_STACK entry}'" >&2
  exit 1
fi
echo "$library: needs $(tr '\n' ' ' <<<"$needed")and no executable stack"
