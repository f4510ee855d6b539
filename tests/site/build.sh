#!/usr/bin/env bash
# Build the site, without a warning, for the tests beside this one; and once more, to the same bytes.
# usage: build.sh OUT PYTHON_MODULE_DIR   77 (skipped) where a tool is missing, or 1 if IOBIND_REQUIRE, a list, names site
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
missing=''
command -v doxygen >/dev/null || missing='Doxygen (scripts/install-packages site)'
"$root/scripts/java-home" >/dev/null 2>&1 || missing='a JDK of version 22 or newer (scripts/get-jdk)'
cmp -s "$root/scripts/requirements-site.txt" "$root/.runtime/python-site/requirements.txt" || missing='Sphinx (scripts/get-python --site)'
if [ -n "$missing" ]; then
  echo "skipped: the site needs $missing"
  [[ ,${IOBIND_REQUIRE:-}, == *,site,* ]] && exit 1
  exit 77
fi
rm -rf "$1" "$1-again"
warnings=$("$root/scripts/build-site" --module "$2" "$1" 2>&1 >/dev/null) || { echo "$warnings"; exit 1; }
[ -z "$warnings" ] || { echo "the build prints: $warnings"; exit 1; }
mkdir -p "$1-again/0.9.0" && touch "$1-again/0.9.0/objects.inv" # an older version, which stays
(umask 027 && "$root/scripts/build-site" --module "$2" "$1-again" >/dev/null)
version=$(cd "$1" && echo [0-9]*)
diff -r "$1/$version" "$1-again/$version"
grep -q "\[\"$version\", \"0.9.0\"\]" "$1-again/versions.js"
grep -q "url=$version/index.html" "$1-again/index.html"
rm -rf "$1-again"
