#!/usr/bin/env bash
# The packages for systems with RPM are built, split as Debian's, and what is in them works.
# 77: there is no rpmbuild, or this is no clone.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in rpmbuild rpm2cpio cpio; do
  command -v $program >/dev/null || { echo "skipped: no $program (scripts/install-packages deb)"; exit 77; }
done
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || { echo 'skipped: not a clone'; exit 77; }
fail() {
  echo "rpm: $*" >&2
  exit 1
}

"$source/scripts/package" --output "$work" rpm
names=$(for package in "$work"/*.rpm; do rpm -qp --queryformat '%{NAME}\n' "$package"; done | LC_ALL=C sort | xargs)
expected='iobind-tools libiobind-devel libiobind-doc libiobind-vdev libiobind1'
[ "$names" = "$expected" ] || fail "expected $expected, got $names"
mkdir "$work/installed"
for package in "$work"/*.rpm; do rpm2cpio "$package" | (cd "$work/installed" && cpio -idm --quiet); done
libraries=$(dirname "$(find "$work/installed" -name libiobind.so)")
version=$(sed -n 's/^Version: *//p' "$source/packaging/rpm/iobind.spec")
said=$(LD_LIBRARY_PATH=$libraries "$work/installed/usr/bin/iobind" --version)
[ "$said" = "iobind $version (libiobind $version)" ] || fail "the tool says '$said'"
printf '#include <iobind/iobind.h>\nint main(void) { return iobind_get_version() == IOBIND_VERSION_NUMBER ? 0 : 1; }\n' >"$work/use.c"
for kind in "$libraries/libiobind.so" "-DIOBIND_STATIC $libraries/libiobind.a -ldl -pthread"; do
  # shellcheck disable=SC2086 # the options are words
  cc "$work/use.c" -I"$work/installed/usr/include" $kind -o "$work/use"
  LD_LIBRARY_PATH=$libraries "$work/use" || fail "a program with $kind does not run"
done
rpm -qp --requires "$work"/iobind-tools-*.rpm >"$work/requires"
grep -q "^libiobind.so.${version%%.*}()" "$work/requires" || fail 'iobind-tools does not ask for the library'
if grep -rlF "$source" "$work/installed"; then fail 'these name the directory that they were built in'; fi
linted='; no rpmlint here'
if command -v rpmlint >/dev/null; then
  rpmlint --config "$source/packaging/rpm/rpmlint.toml" "$work"/*.rpm >"$work/lint" 2>&1 || true
  grep -q ' 0 errors, 0 warnings' "$work/lint" || fail "rpmlint: $(cat "$work/lint")"
  linted='; rpmlint finds nothing'
fi
echo "rpm: $expected of $version, built and used$linted"
