#!/usr/bin/env bash
# What users get is hardened: each of the files, by what the linker and the compiler have left in it.
# usage: hardened.sh FILE... [--small FILE...]
#   --small  files without an array on the stack and without a call that FORTIFY knows: the compiler leaves no trace of either there
set -euo pipefail
problems=0 files=0 is_small=
problem() {
  echo "hardened: $file: $*" >&2
  problems=1
}

for file; do
  if [ "$file" = --small ]; then
    is_small=1
    continue
  fi
  files=$((files + 1))
  dynamic=$(readelf -dW "$file")
  segments=$(readelf -lW "$file")
  imports=$(nm -D --undefined-only "$file" | awk '{ sub("@.*", "", $2); print $2 }')
  grep -q 'Type:.*DYN' <(readelf -hW "$file") || problem 'is loaded at a fixed address'
  grep -q 'GNU_RELRO' <<<"$segments" || problem 'no RELRO: the tables of addresses stay writable'
  grep -Eq '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' <<<"$dynamic" || problem 'no BIND_NOW: the table of functions stays writable'
  if grep -q 'TEXTREL' <<<"$dynamic"; then problem 'its code is written to when it is loaded (TEXTREL)'; fi
  if grep -q ' RWE ' <<<"$segments"; then problem 'memory that is writable and executable'; fi
  if [ -z "$is_small" ]; then
    grep -Eq '^__stack_chk_(fail|guard)$' <<<"$imports" || problem 'no stack protector'
    grep -Eq '^__[a-z]+_chk$' <<<"$imports" || problem 'no function of FORTIFY: built without -D_FORTIFY_SOURCE or without optimization'
  fi
  if [ "$(uname -m)" = x86_64 ]; then
    grep -q 'SHSTK' <(readelf -nW "$file") || problem 'not marked for shadow stacks'
    # Debian's own start code (crti.o) is not marked for indirect branch tracking, and so no file is; the code is ready for it.
    while read -r address name; do
      grep -q 'endbr64' <(objdump -d --no-show-raw-insn --start-address="0x$address" --stop-address="0x$(printf %x $((0x$address + 4)))" "$file") ||
        problem "$name does not begin with endbr64"
    done < <(nm -D --defined-only "$file" | awk '$2 == "T" { print $1, $3 }' | grep -v ' _\(init\|fini\)')
  fi
done
[ "$problems" = 0 ] || exit 1
echo "hardened: $files files"
