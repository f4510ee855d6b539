#!/usr/bin/env bash
# A program that clang-cl compiles for the ABI of Microsoft's compiler uses the DLLs that mingw-w64 has made, under Wine. The C library and its
# headers are mingw's: the Windows SDK is not here.
# usage: clang-cl.sh MAKE-MODEL
# 77: clang-cl, mingw-w64 or Wine is missing, or ORT for Windows could not be fetched.
set -euo pipefail
make_model=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
skip() {
  echo "skip: $*"
  exit 77
}
llvm=$(compgen -G "/usr/lib/llvm-*/bin" | sort -V | tail -n 1 || true) # Debian has its clang-cl there alone
export PATH=$PATH:/usr/lib/wine:$llvm
for program in clang-cl llvm-dlltool llvm-readobj x86_64-w64-mingw32-gcc-posix wine64 wineserver; do
  command -v $program >/dev/null || skip "$program is not there; scripts/install-packages ports installs it"
done
work=$(mktemp -d)
export WINEPREFIX=$work/wine WINEDEBUG=-all DISPLAY=''
trap 'wineserver -k || true; rm -rf "$work"' EXIT
step() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }
scripts/get-onnxruntime --platform win-x64 >"$work/log" 2>&1 || skip "$(tail -n 3 "$work/log")"
ORT_NATIVE_LIB_PATH=$(realpath "$(sed -n 's/^onnxruntime .*: //p' "$work/log")")
export ORT_NATIVE_LIB_PATH

step cmake -G Ninja -S . -B "$work/build" --toolchain cmake/toolchains/win-x64.cmake -DCMAKE_BUILD_TYPE=RelWithDebInfo -DIOBIND_BUILD_TOOL=OFF \
  -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF -DIOBIND_BUILD_EXAMPLES=OFF
step cmake --build "$work/build" --target iobind iobind_vdev
# The import library as Microsoft's linker has it, from the names that the DLL exports.
{ echo 'EXPORTS' && llvm-readobj --coff-exports "$work/build/bin/iobind.dll" | sed -n 's/^ *Name: \(iobind_.*\)$/\1/p'; } >"$work/iobind.def"
step llvm-dlltool -m i386:x86-64 -d "$work/iobind.def" -D iobind.dll -l "$work/iobind.lib"
# /GS- and _fltused: Microsoft's C library has what these refer to.
step clang-cl --target=x86_64-pc-windows-msvc -imsvc /usr/share/mingw-w64/include /Zl /GS- /O2 /W4 /WX -Iinclude /c "/Fo$work/consumer.obj" -- tests/consumers/consumer.c
"$make_model" add "$work/add.onnx"
cp "$work"/build/bin/*.dll "$work/"
for library in "$work/iobind.lib" "$work/build/lib/libiobind.dll.a"; do
  step x86_64-w64-mingw32-gcc-posix "$work/consumer.obj" "$library" -Wl,--defsym=_fltused=0 -o "$work/consumer.exe"
  for device in cpu vdev; do
    said=$(cd "$work" && wine64 consumer.exe add.onnx "$device" 2>messages | tr -d '\r') || { cat "$work/messages" >&2; exit 1; }
    [ "$said" = '1.5 2.5 3.5 4.5' ] || { echo "$(basename "$library"), $device: expected '1.5 2.5 3.5 4.5', got '$said'" >&2; exit 1; }
  done
done
echo 'clang-cl: a program for the ABI of Microsoft runs on cpu and vdev, with an import library of either kind'
