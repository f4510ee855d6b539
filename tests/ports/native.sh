#!/usr/bin/env bash
# What can be built on each system: the library without the tool, whose libraries not every system has, by this system's own compiler. A
# program with it is linked, and creates a runtime.
# usage: native.sh [--build-only]   the program is not started
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TOOL=OFF -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF \
  -DIOBIND_BUILD_EXAMPLES=OFF
cmake --build "$work/build"
cmake --install "$work/build" --prefix "$work/installed"
"${CC:-cc}" tests/ports/library.c -I"$work/installed/include" -L"$work/installed/lib" -liobind -o "$work/program"
[ "${1-}" != --build-only ] || exit 0
ort=$(scripts/get-onnxruntime | sed -n 's/^onnxruntime .*: //p')
said=$(LD_LIBRARY_PATH=$work/installed/lib DYLD_LIBRARY_PATH=$work/installed/lib PATH=$work/installed/bin:$PATH ORT_NATIVE_LIB_PATH=$ort "$work/program")
echo "$said"
[ "${said%$'\r'}" = runs ]
