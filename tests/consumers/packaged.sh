#!/usr/bin/env bash
# The packages of scripts/package, unpacked into folders that hold nothing else: what is in them works there.
# usage: packaged.sh MAKE-MODEL PACKAGES   PACKAGES: what it has written; CC: the compiler; ORT_NATIVE_LIB_PATH: ORT, or its folder
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$work/add.onnx
"$1" add "$model"
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"
archive=$(ls "$2"/iobind-"$version"-*.tar.gz)
tar -t -v -f "$archive" | readable "$archive"
mkdir "$work/archive"
tar -x -f "$archive" -C "$work/archive" --strip-components=1
use_tool "$work/archive/bin/iobind"
build_with_cmake "$work/archive" "$work/with-archive"
use_consumer "$work/with-archive/consumer"

command -v dpkg-deb >/dev/null || { echo 'packaged: the archive works; no dpkg-deb, so no package for Debian'; exit; }
package=$(ls "$2"/iobind_"$version"_*.deb)
dpkg-deb --contents "$package" | readable "$package"
# default_maintainer -> the same package, with the maintainer that it names where none is given.
default_maintainer() {
  local name
  name=$(sed -n 's/^set(IOBIND_MAINTAINER "\(.*\)" CACHE STRING$/\1/p' "$consumers/../../CMakeLists.txt")
  dpkg-deb -R "$package" "$work/default"
  sed -i "s/^Maintainer: .*/Maintainer: $name/" "$work/default/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$work/default" "$work/default.deb" >/dev/null
  echo "$work/default.deb"
}
field() { dpkg-deb --field "$package" "$1"; }
[ "$(field Package) $(field Version) $(field Architecture)" = "iobind $version $(dpkg --print-architecture)" ] ||
  fail "the package is $(field Package) $(field Version) $(field Architecture)"
for needed in libc6 libpopt0 libjansson4 libzip4; do
  grep -Eq "(^|, )$needed(t64)? \(>= [0-9.]+\)" <<<"$(field Depends)" || fail "Depends: $needed is missing: $(field Depends)"
done
if field Depends | grep -q onnx; then fail "Depends: ONNX Runtime is in no Debian: $(field Depends)"; fi
field Description | grep -q 'ORT_NATIVE_LIB_PATH' || fail "the description does not say where ONNX Runtime comes from"
dpkg-deb --ctrl-tarfile "$package" | tar -x -O ./shlibs | grep -qx "libiobind $interface iobind (>= $version)" || fail 'shlibs is wrong'
[ "$(field Maintainer)" = 'Somebody <somebody@example.org>' ] || fail "Maintainer: is not what --maintainer said: $(field Maintainer)"
linted='; no lintian here'
if command -v lintian >/dev/null; then
  # What it warns of is meant: one package for the library, its header and the tool, and no list of Debian's own changes.
  for named in "$package" "$(default_maintainer)"; do
    lintian --allow-root --fail-on error "$named" >"$work/messages" 2>&1 || fail "lintian: $(cat "$work/messages")"
  done
  linted=
fi

root=$work/root
dpkg-deb -x "$package" "$root"
libraries=$(dirname "$(find "$root/usr/lib" -name 'libiobind.so')")
[ -f "$root/usr/share/doc/iobind/copyright" ] || fail 'no copyright file'
gzip -dc "$root/usr/share/man/man1/iobind.1.gz" | grep -q '^\.Dt IOBIND 1' || fail 'no manual page'
# The loader knows these folders where they are the system's own; here it is told.
export LD_LIBRARY_PATH=$libraries
use_tool "$root/usr/bin/iobind"
build_with_cmake "$root/usr" "$work/with-package"
use_consumer "$work/with-package/consumer"
[ "$(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs iobind | xargs)" = -liobind ] ||
  fail "pkg-config names folders that the compiler knows: $(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs iobind)"
use_frozen
quietly "$cc" "$consumers/consumer.c" -isystem "$root/usr/include" -L"$libraries" -liobind -o "$work/plain"
use_consumer "$work/plain"
echo "packaged: archive and Debian's package of $version, unpacked and used$linted"
