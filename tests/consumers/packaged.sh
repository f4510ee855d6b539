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

ls "$2"/*.deb >/dev/null 2>&1 || { echo 'packaged: the archive works; no package for Debian was made'; exit; }
file_of() { echo "$2/$1_${version}_"*.deb; }
names='iobind-tools libiobind-dev libiobind-doc libiobind-vdev libiobind1'
found=$(for file in "$2"/*.deb; do dpkg-deb --field "$file" Package; done | LC_ALL=C sort | paste -sd' ')
[ "$found" = "$names" ] || fail "the packages for Debian: expected $names, got $found"
root=$work/root
for name in $names; do
  package=$(file_of "$name" "$2")
  field() { dpkg-deb --field "$package" "$1"; }
  [ "$(field Version)" = "$version" ] || fail "$name: expected version $version, got $(field Version)"
  [ "$(field Maintainer)" = 'Somebody <somebody@example.org>' ] || fail "$name: Maintainer is not what --maintainer said: $(field Maintainer)"
  if grep -q onnx <<<"$(field Depends)"; then fail "$name: Depends: ONNX Runtime is in no Debian: $(field Depends)"; fi
  dpkg-deb --contents "$package" | readable "$package"
  dpkg-deb -x "$package" "$root"
done
package=$(file_of iobind-tools "$2")
for needed in libc6 libpopt0 libjansson4 libzip4 libiobind1; do
  grep -Eq "(^|, )$needed(t64)? \(>= [0-9.]+\)" <<<"$(field Depends)" || fail "iobind-tools: Depends: $needed is missing: $(field Depends)"
done
package=$(file_of libiobind1 "$2")
[ "$(field Depends | tr ',' '\n' | awk '{ print $1 }' | xargs)" = libc6 ] || fail "libiobind1: expected libc6 alone in Depends, got $(field Depends)"
[[ $(field Description) == *ORT_NATIVE_LIB_PATH* ]] || fail "libiobind1: the description does not say where ONNX Runtime comes from"
dpkg-deb --ctrl-tarfile "$package" | tar -x -O ./shlibs >"$work/shlibs"
grep -qx "libiobind $interface libiobind1 (>= $version)" "$work/shlibs" || fail 'libiobind1: shlibs is wrong'
exported=$(nm -D --defined-only "$(echo "$root"/usr/lib/*/"libiobind.so.$interface")" | awk '{ print $3 }' | sed 's/@@/@/; s/^IOBIND_1$/&@&/' | LC_ALL=C sort)
[ "$(dpkg-deb --ctrl-tarfile "$package" | tar -x -O ./symbols | sed -n 's/^ \(.*\) [0-9.]*$/\1/p' | LC_ALL=C sort)" = "$exported" ] ||
  fail 'libiobind1: symbols is not what the library exports'
linted='; no lintian here'
if command -v lintian >/dev/null; then
  lintian --allow-root --display-info --pedantic "$2"/*.deb >"$work/messages" 2>&1 || fail "lintian: $(cat "$work/messages")"
  [ ! -s "$work/messages" ] || fail "lintian: $(cat "$work/messages")"
  linted='; lintian finds nothing'
fi

libraries=$(dirname "$(find "$root/usr/lib" -name 'libiobind.so')")
gzip -dc "$root/usr/share/man/man1/iobind.1.gz" >"$work/manual"
grep -q '^\.Dt IOBIND 1' "$work/manual" || fail 'no manual page'
[ -s "$root/usr/share/zsh/vendor-completions/_iobind" ] || fail "no completions where Debian's zsh looks for them"
# The loader knows these directories only where they are the system's own.
export LD_LIBRARY_PATH=$libraries
use_tool "$root/usr/bin/iobind"
build_with_cmake "$root/usr" "$work/with-package"
use_consumer "$work/with-package/consumer"
[ "$(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs iobind | xargs)" = -liobind ] ||
  fail "pkg-config names directories that the compiler knows: $(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs iobind)"
use_frozen
quietly "$cc" "$consumers/consumer.c" -isystem "$root/usr/include" -L"$libraries" -liobind -o "$work/plain"
use_consumer "$work/plain"

# The virtual accelerator is a package of its own: CMake finds the library without it.
rm "$libraries"/libiobind_vdev.so "$libraries"/cmake/iobind/iobindVdevTargets*.cmake
quietly cmake -S "$consumers/cmake" -B "$work/without-vdev" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$root/usr" -DWANTED="$version"
said 'no iobind::vdev' 'a package without vdev'
quietly cmake --build "$work/without-vdev"
expect '1.5 2.5 3.5 4.5' "$work/without-vdev/consumer" "$model" cpu
echo "packaged: archive and Debian's packages of $version, unpacked and used$linted"
