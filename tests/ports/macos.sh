#!/usr/bin/env bash
# The library and the Java package's part of it for macOS on arm64, by Zig's compiler: compiled and linked. Nothing here can run them.
# 77: there is no Zig.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
zig=$PWD/.runtime/ports/manylinux-x64/ziglang/zig
[ -x "$zig" ] || { echo 'skip: no Zig; scripts/get-port-libraries manylinux-x64 fetches it'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR=$work/zig
step() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }
printf '#!/bin/sh\nexec "%s" cc -target aarch64-macos -Wno-unused-command-line-argument "$@"\n' "$zig" >"$work/cc"
chmod +x "$work/cc"
step cmake -S . -B "$work/build" -G Ninja -DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=arm64 -DCMAKE_C_COMPILER="$work/cc" \
  -DCMAKE_INSTALL_NAME_TOOL=true -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TOOL=OFF -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF \
  -DIOBIND_BUILD_EXAMPLES=OFF
step cmake --build "$work/build"
step "$work/cc" tests/ports/library.c -Iinclude -L"$work/build/lib" -liobind -o "$work/program"
for file in "$work"/build/lib/libiobind{,_java}.dylib "$work/program"; do
  [[ $(file --brief --dereference "$file") == 'Mach-O 64-bit arm64'* ]] || { echo "$file: $(file --brief --dereference "$file")" >&2; exit 1; }
done
echo 'macOS: built and linked; not run'
