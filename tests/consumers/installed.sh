#!/usr/bin/env bash
# What `cmake --install` puts in place is whole, can be moved, and three kinds of user build with it.
# usage: installed.sh BUILD-FOLDER MAKE-MODEL   CC: the compiler; ORT_NATIVE_LIB_PATH: ORT, or its folder
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$work/add.onnx
"$2" add "$model"
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"

umask 027 # as careful administrators have it: what is installed is there for others all the same
DESTDIR=$work/stage quietly cmake --install "$build" --prefix /opt/iobind
(cd "$work" && find stage -printf '%M %p\n') | readable 'what is installed with umask 027'
(cd "$work" && quietly timeout 60 cmake --install "$build" --prefix relative)
[ -f "$work/relative/include/iobind/iobind.h" ] || fail 'installing with a relative prefix: expected it in the current directory'
mkdir -m 2775 -p "$work/there/share"
DESTDIR=$work/there quietly cmake --install "$build" --prefix /
[ "$(stat -c %a "$work/there/share")" = 2775 ] || fail 'installing changes the mode of a directory that is there'

# What is installed can be removed: nothing else of that directory, and only where the last installation was.
uninstall() { DESTDIR=$work/there cmake -D BUILD="$build" "$@" -P "$consumers/../../cmake/uninstall.cmake" >"$work/messages" 2>&1; }
echo mine >"$work/there/include/iobind/mine.h"
if uninstall -D PREFIX=/usr; then fail 'uninstalling from another prefix than the last installation had: expected to be refused'; fi
said 'was not to /usr' 'uninstalling from another prefix'
DESTDIR=$work/there quietly cmake --build "$build" --target uninstall
[ "$(cd "$work/there" && find . ! -type d)" = ./include/iobind/mine.h ] || fail "left behind: $(find "$work/there" ! -type d)"
left=$(cd "$work/there" && find . -name iobind)
[ "$left" = ./include/iobind ] || fail "directories that are left behind: $left"
if uninstall; then fail 'uninstalling twice: expected to be refused'; fi
said 'nothing is installed' 'uninstalling twice'
prefix="$work/moved, to" # a name that needs care from the shell, and from the compiler
mv "$work/stage/opt/iobind" "$prefix"
[ -z "$(find "$work/stage" -type f)" ] || fail "files outside the prefix: $(find "$work/stage" -type f)"

came=$(cd "$prefix" && find . \( -type f -o -type l \) | sed 's|^\./||; s|-[a-z]*\.cmake$|-BUILD.cmake|' | LC_ALL=C sort)
expected="bin/iobind
include/iobind/audit.h
include/iobind/base.h
include/iobind/batch.h
include/iobind/binding.h
include/iobind/device.h
include/iobind/interop.h
include/iobind/interop.hpp
include/iobind/iobind.h
include/iobind/iobind.hpp
include/iobind/pipeline.h
include/iobind/runtime.h
include/iobind/session.h
include/iobind/states.h
include/iobind/stream.h
include/iobind/tensor.h
include/iobind/vdev.h
include/iobind/version.h
lib/cmake/iobind/iobindConfig.cmake
lib/cmake/iobind/iobindConfigVersion.cmake
lib/cmake/iobind/iobindTargets-BUILD.cmake
lib/cmake/iobind/iobindTargets.cmake
lib/cmake/iobind/iobindVdevTargets-BUILD.cmake
lib/cmake/iobind/iobindVdevTargets.cmake
lib/libiobind.so
lib/libiobind.so.$interface
lib/libiobind.so.$version
lib/libiobind_java.so
lib/libiobind_vdev.so
lib/pkgconfig/iobind-vdev.pc
lib/pkgconfig/iobind.pc
share/bash-completion/completions/iobind
share/doc/iobind/CHANGELOG.md
share/doc/iobind/LICENSE
share/doc/iobind/NOTICE
share/fish/vendor_completions.d/iobind.fish
share/man/man1/iobind.1
share/zsh/site-functions/_iobind"
[ "$came" = "$expected" ] || fail "what is installed: $(diff <(echo "$expected") <(echo "$came"))"
soname=$(readelf -dW "$prefix/lib/libiobind.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libiobind.so.$interface" ] || fail "the library's SONAME: expected libiobind.so.$interface, got '$soname'"
source=$(cd "$consumers/../.." && pwd)
if grep -rIlF -e "$source" -e "$work" "$prefix"; then fail "these name the folder that iobind was built or installed in"; fi
if grep -rlF 'scripts/' "$prefix/bin" "$prefix/lib" "$prefix/include" "$prefix/share/man"; then
  fail "these name scripts, which are not installed"
fi
for file in "$prefix/bin/iobind" "$prefix/lib/"libiobind{,_java,_vdev}.so; do
  foreign=$(readelf -dW "$file" | sed -n 's/.*(R\(UN\)\{0,1\}PATH).*\[\(.*\)\]/\2/p' | tr : '\n' | grep -v '^\$ORIGIN/' || true)
  [ -z "$foreign" ] || fail "$file looks for libraries in $foreign"
done

use_tool "$prefix/bin/iobind"
expect "iobind $version (libiobind $version)" "$prefix/bin/iobind" --version

# Without ONNX Runtime the message names the variable that nobody has set. A machine may have one that the loader finds.
missing=$(env -u ORT_NATIVE_LIB_PATH "$prefix/bin/iobind" devices 2>&1) ||
  grep -q 'no ONNX Runtime found, and ORT_NATIVE_LIB_PATH, which may name' <<<"$missing" || fail "devices without ONNX Runtime: $missing"

# ONNX Runtime and an EP plugin where docs/install.md says that they go: nothing has to be named then.
plugin=onnxruntime_providers_webgpu
mkdir -p "$prefix/lib/iobind/ep"
ln -s "$ORT_NATIVE_LIB_PATH" "$prefix/lib/iobind/onnxruntime"
[ ! -d "$source/.runtime/ep/webgpu" ] || cp -rL "$source/.runtime/ep/webgpu" "$prefix/lib/iobind/ep/"
found=$(env -u ORT_NATIVE_LIB_PATH "$prefix/bin/iobind" doctor 2>&1) || fail "doctor: $found"
grep -q 'the runtime directory' <<<"$found" || fail "doctor does not find ONNX Runtime in lib/iobind/onnxruntime: $found"
[ ! -d "$prefix/lib/iobind/ep/webgpu" ] || grep -q "lib/iobind/ep/webgpu/lib$plugin" <<<"$found" ||
  fail "doctor does not find the plugin in lib/iobind/ep/webgpu: $found"
rm -r "$prefix/lib/iobind"

build_with_cmake "$prefix" "$work/cmake"
use_consumer "$work/cmake/consumer"
expect '16 bytes' "$work/cmake/accelerator"
if cmake -S "$consumers/cmake" -B "$work/older" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.2 >"$work/messages" 2>&1; then
  fail 'find_package(iobind 0.2) found this version, whose interface is another one'
fi
if cmake -S "$consumers/cmake" -B "$work/newer" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=99.0 >"$work/messages" 2>&1; then
  fail 'find_package(iobind 99.0) found this version'
fi
said "$version" 'find_package(iobind 99.0)'

# Neither of these takes a folder with a blank in its name: pkg-config's answer is split into words by the shell.
mv "$prefix" "$work/moved"
prefix=$work/moved
export LD_LIBRARY_PATH=$prefix/lib
build_with_pkg_config "$prefix/lib/pkgconfig" "$work/with-pkg-config"
use_consumer "$work/with-pkg-config"
read -ra flags <<<"$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs iobind "iobind-vdev = $version")"
quietly "$cc" "$consumers/accelerator.c" "${flags[@]}" -o "$work/accelerator"
expect '16 bytes' "$work/accelerator"
if command -v g++ >/dev/null; then
  read -ra flags <<<"$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs iobind)"
  quietly g++ -std=c++17 "$source/examples/cpp/loop.cpp" "${flags[@]}" -o "$work/with-c++"
  "$2" scale "$work/scale.onnx"
  expect '2 4 6 8 in 100 runs: 1 up, 1 down' "$work/with-c++" "$work/scale.onnx" vdev
fi
use_frozen
unset LD_LIBRARY_PATH

quietly "$cc" "$consumers/consumer.c" -I"$prefix/include" -L"$prefix/lib" -liobind -Wl,-rpath,"$prefix/lib" -o "$work/plain"
use_consumer "$work/plain"
quietly cmake -G Ninja -S "$consumers/cmake" -B "$work/part" -DCMAKE_C_COMPILER="$cc" -DSOURCES="$source"
quietly cmake --build "$work/part"
expect '1.5 2.5 3.5 4.5' "$work/part/consumer" "$model" cpu
[ -z "$(find "$work/part" -name 'libiobind_vdev*' -o -name iobind -type f -perm -u+x)" ] ||
  fail 'as a part of another project iobind builds more than the library'
echo "installed: $version, moved, used by CMake, pkg-config and a plain line"
