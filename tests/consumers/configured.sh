#!/usr/bin/env bash
# What the options of the build are for: each is given to CMake, built, installed and used.
# usage: configured.sh CASE MAKE-MODEL   CASE: a function below; CC: the compiler; ORT_NATIVE_LIB_PATH: ORT, or its folder
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$work/add.onnx
"$2" add "$model"
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"
source=$(cd "$consumers/../.." && pwd)
build=$work/build prefix=$work/prefix

# configure OPTION...: only what users get, but for the tool
configure() {
  quietly cmake -G Ninja -S "$source" -B "$build" -DCMAKE_C_COMPILER="$cc" -DIOBIND_BUILD_TOOL=OFF -DIOBIND_BUILD_TESTS=OFF \
    -DIOBIND_BUILD_BENCH=OFF -DIOBIND_BUILD_EXAMPLES=OFF "$@"
}

# build_and_install
build_and_install() {
  quietly cmake --build "$build"
  quietly cmake --install "$build" --prefix "$prefix"
}

# refused TEXT OPTION...: CMake refuses these options, and says why.
refused() {
  local expected=$1
  shift
  if cmake -G Ninja -S "$source" -B "$work/refused" -DCMAKE_C_COMPILER="$cc" "$@" >"$work/messages" 2>&1; then
    fail "cmake $*: expected to be refused"
  fi
  said "$expected" "cmake $*"
}

# What a distribution's tools say: no type, and the flags of its own.
build_type() {
  configure
  grep -qx 'CMAKE_BUILD_TYPE:STRING=RelWithDebInfo' "$build/CMakeCache.txt" ||
    fail "without a build type: expected RelWithDebInfo, got $(grep ^CMAKE_BUILD_TYPE: "$build/CMakeCache.txt")"
  rm -r "$build"
  configure -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS='-g -O2'
  quietly cmake --build "$build" --target iobind iobind_vdev
  quietly bash "$source/tests/structure/hardened.sh" "$build/lib/libiobind.so" "$build/lib/libiobind_vdev.so"
  echo 'build_type: a build without a type is an optimised one, and one of the type None is hardened'
}

# libpng by a switch. pkg-config searches nothing but a folder, which has the other libraries of the tool or libpng, too.
png() {
  refused "IOBIND_WITH_PNG: expected AUTO, ON or OFF, got 'YES'" -DIOBIND_WITH_PNG=YES
  local name package
  mkdir "$work/without" "$work/with"
  for name in popt jansson libzip libpng; do
    package=$'Name: it\nDescription: it\nVersion: 1.6.40'
    echo "$package" >"$work/with/$name.pc"
    [ "$name" = libpng ] || echo "$package" >"$work/without/$name.pc"
  done
  links without AUTO no
  links with AUTO yes
  links with OFF no
  links with ON yes
  PKG_CONFIG_LIBDIR=$work/without refused "'libpng>=1.6'" -DIOBIND_WITH_PNG=ON -DIOBIND_BUILD_TESTS=OFF -DIOBIND_BUILD_BENCH=OFF -DIOBIND_BUILD_EXAMPLES=OFF
  echo 'png: AUTO, ON and OFF'
}

# links LIBRARIES IOBIND_WITH_PNG yes|no: whether the tool is compiled for libpng
links() {
  local came=no
  rm -rf "$build"
  PKG_CONFIG_LIBDIR=$work/$1 configure -DIOBIND_BUILD_TOOL=ON -DIOBIND_WITH_PNG="$2"
  if grep -q IOBIND_TOOL_PNG "$build/build.ninja"; then came=yes; fi
  [ "$came" = "$3" ] || fail "IOBIND_WITH_PNG=$2 $1 libpng: expected $3, got $came"
}

# Where a distribution has ONNX Runtime: found last, and named by `iobind doctor` in either case.
ort_library() {
  refused "IOBIND_ORT_LIBRARY: expected an absolute path, got 'lib'" -DIOBIND_ORT_LIBRARY=lib
  ln -s "$ORT_NATIVE_LIB_PATH" "$work/ort"
  configure -DIOBIND_BUILD_TOOL=ON -DIOBIND_ORT_LIBRARY="$work/ort"
  build_and_install
  local by='the default of this build (IOBIND_ORT_LIBRARY)' report
  report=$(env -u ORT_NATIVE_LIB_PATH "$prefix/bin/iobind" doctor 2>&1) || fail "doctor: $report"
  if grep -q "^found by: *the loader's search" <<<"$report"; then
    echo 'ort_library: the loader finds an ONNX Runtime here, before the path that is built in'
    return
  fi
  grep -qF "$by" <<<"$report" || fail "doctor: expected '$by', got: $report"
  use_tool "$prefix/bin/iobind"
  rm "$work/ort"
  report=$(env -u ORT_NATIVE_LIB_PATH "$prefix/bin/iobind" doctor 2>&1) && fail "doctor without ONNX Runtime: $report"
  grep -qF "$by: $work/ort" <<<"$report" || fail "doctor without ONNX Runtime does not say where it looked last: $report"
  echo 'ort_library: found last, and named by doctor'
}

# The static library beside the shared one.
static_beside_shared() {
  configure -DIOBIND_BUILD_STATIC=ON
  build_and_install
  build_with_cmake "$prefix" "$work/shared"
  [[ $(readelf -dW "$work/shared/consumer") == *"libiobind.so.$interface"* ]] || fail 'iobind::iobind is not the shared library'
  build_with_cmake "$prefix" "$work/static" -DLIBRARY=iobind::static
  use_static "$work/static/consumer"
  read -ra flags <<<"$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --static --cflags --libs iobind | sed 's/-liobind/-l:libiobind.a/')"
  quietly "$cc" "$consumers/consumer.c" "${flags[@]}" -o "$work/with-pkg-config"
  use_static "$work/with-pkg-config"
  [[ $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --libs iobind) != *pthread* ]] || fail 'programs of the shared library link what it needs'
  # as a package for the virtual accelerator alone has it
  rm "$prefix/lib/libiobind_vdev.so" "$prefix"/lib/cmake/iobind/iobindVdev*
  build_with_cmake "$prefix" "$work/without-vdev" -DLIBRARY=iobind::static
  echo 'static_beside_shared: used by CMake and pkg-config'
}

# The static library alone.
static_alone() {
  refused 'IOBIND_BUILD_TESTS needs the shared library, got BUILD_SHARED_LIBS=OFF' -DBUILD_SHARED_LIBS=OFF -DIOBIND_BUILD_TESTS=ON
  configure -DBUILD_SHARED_LIBS=OFF
  build_and_install
  came=$(cd "$prefix" && find lib -name 'libiobind*' | LC_ALL=C sort | xargs)
  [ "$came" = 'lib/libiobind.a lib/libiobind_vdev.so' ] || fail "installed with BUILD_SHARED_LIBS=OFF: $came"
  build_with_cmake "$prefix" "$work/static"
  use_static "$work/static/consumer"
  build_with_pkg_config "$prefix/lib/pkgconfig" "$work/with-pkg-config"
  use_static "$work/with-pkg-config"
  quietly cmake -G Ninja -S "$consumers/cmake" -B "$work/part" -DCMAKE_C_COMPILER="$cc" -DSOURCES="$source" -DBUILD_SHARED_LIBS=OFF
  quietly cmake --build "$work/part"
  expect '1.5 2.5 3.5 4.5' "$work/part/consumer" "$model" cpu
  [ -z "$(find "$work/part" -name 'libiobind.so*')" ] || fail 'as a part of a project of static libraries, iobind is a shared one'
  echo 'static_alone: used by CMake, by pkg-config and as a part'
}

# use_static PROGRAM: it needs no libiobind.so. The virtual accelerator is searched for beside the program.
use_static() {
  readelf -dW "$1" >"$work/dynamic"
  if grep -q 'NEEDED.*libiobind' "$work/dynamic"; then fail "$1 needs a shared libiobind"; fi
  expect '1.5 2.5 3.5 4.5' "$1" "$model" cpu
  cp "$prefix/lib/libiobind_vdev.so" "$(dirname "$1")"
  expect '1.5 2.5 3.5 4.5' "$1" "$model" vdev
}

"$1"
