#!/usr/bin/env bash
# The recipe for Conan, shared and static, with the program of its test_package. Conan's directory is a new one, and nothing is fetched.
# 77: there is no conan.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v conan >/dev/null || { echo 'skipped: no conan (pip install conan)'; exit 77; }
CONAN_HOME=$(mktemp -d)
export CONAN_HOME
trap 'rm -rf "$CONAN_HOME"' EXIT
version=$(sed -n 's/^#define IOBIND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/iobind/version.h" | paste -sd.)
run() {
  "$@" >"$CONAN_HOME/log" 2>&1 || { tail -n 40 "$CONAN_HOME/log" >&2; exit 1; }
}
run conan profile detect
run conan remote disable '*'
for shared in True False; do
  run conan create "$source/packaging/conan" -o "iobind/*:shared=$shared"
  grep -qx "iobind $version" "$CONAN_HOME/log" || { echo "conan: shared=$shared: the program of test_package did not say 'iobind $version'" >&2; exit 1; }
done
echo "conan: iobind $version, shared and static, packed and used"
