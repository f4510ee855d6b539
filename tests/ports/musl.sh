#!/usr/bin/env bash
# The library and the virtual accelerator for musl, for which ONNX Runtime has no release: a program with them starts, and reports why it
# finds no ORT. 77: there is no musl-gcc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v musl-gcc >/dev/null || { echo 'skip: musl-gcc is not there; scripts/install-packages ports installs it'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }
# The kernel's headers are the system's: Debian's musl has none. -idirafter, because glibc's are there, too.
step cmake -S . -B "$work/build" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TOOL=OFF \
  -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF -DIOBIND_BUILD_EXAMPLES=OFF \
  "-DCMAKE_C_FLAGS=-idirafter /usr/include -idirafter /usr/include/$(cc -print-multiarch)"
step cmake --build "$work/build" --target iobind iobind_vdev
for library in iobind iobind_vdev; do
  needed=$(readelf -dW "$work/build/lib/lib$library.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  [ "$needed" = libc.so ] || { echo "lib$library.so needs '$needed': expected musl's libc.so alone" >&2; exit 1; }
done
step musl-gcc tests/ports/library.c -Iinclude -L"$work/build/lib" -liobind -o "$work/program"
said=$(LD_LIBRARY_PATH=$work/build/lib ORT_NATIVE_LIB_PATH=$PWD/.runtime/onnxruntime "$work/program")
[[ $said == *'built for musl and cannot load'* ]] || { echo "expected a message about musl, got '$said'" >&2; exit 1; }
echo "musl: built, linked and loaded; $said"
