#!/usr/bin/env bash
# The library, the virtual accelerator and a program, without the tool and its libraries, by this system's compiler: what can be built on
# each system. The program runs, with ONNX Runtime if it can be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TOOL=OFF -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF \
  -DIOBIND_BUILD_EXAMPLES=OFF
cmake --build "$work/build"
cmake --install "$work/build" --prefix "$work/installed"
cc tests/ports/library.c -I"$work/installed/include" -L"$work/installed/lib" -liobind -o "$work/program"
ort=$(scripts/get-onnxruntime | sed -n 's/^onnxruntime .*: //p')
said=$(LD_LIBRARY_PATH=$work/installed/lib DYLD_LIBRARY_PATH=$work/installed/lib PATH=$work/installed/bin:$PATH ORT_NATIVE_LIB_PATH=$ort "$work/program")
echo "$said"
[ "${said%$'\r'}" = runs ]
