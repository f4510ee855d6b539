#!/usr/bin/env bash
# The wheels for each platform are built, and are what their names say (scripts/check-wheel); pip installs those for this one by the names that
# users give, and pytest takes the plugin once. Nothing is fetched by pip.
# 77: this is no Linux on x86-64, or what the wheels are built with could not be fetched.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "wheels: $*" >&2
  exit 1
}
[ "$(uname -sm)" = 'Linux x86_64' ] || { echo 'skipped: this is no Linux on x86-64'; exit 77; }
for platform in manylinux-x64 manylinux-arm64 win-x64 linux-arm64; do
  "$source/scripts/get-port-libraries" "$platform" >"$work/log" 2>&1 || { echo "skipped: $(tail -n 1 "$work/log")"; exit 77; }
done
"$source/scripts/get-python" --release >"$work/log" 2>&1 || { echo "skipped: $(tail -n 1 "$work/log")"; exit 77; }
"$source/scripts/build-python" --all --to "$work" >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"

version=$(sed -n 's/^#define IOBIND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/iobind/version.h" | paste -sd.)
came=$(cd "$work" && for file in *.whl *.tar.gz; do echo "${file/-$version/}"; done | LC_ALL=C sort)
expected='onnxruntime_iobind-cp311-abi3-manylinux_2_28_aarch64.whl
onnxruntime_iobind-cp311-abi3-manylinux_2_28_x86_64.whl
onnxruntime_iobind-cp311-abi3-win_amd64.whl
onnxruntime_iobind-cp313-cp313t-manylinux_2_28_x86_64.whl
onnxruntime_iobind-cp314-cp314t-manylinux_2_28_aarch64.whl
onnxruntime_iobind-cp314-cp314t-manylinux_2_28_x86_64.whl
onnxruntime_iobind.tar.gz
onnxruntime_iobind_vcuda-py3-none-manylinux_2_28_x86_64.whl
pytest_iobind-py3-none-any.whl'
[ "$came" = "$expected" ] || fail "$(diff <(echo "$expected") <(echo "$came"))"
# terms WHEEL: those that lie in it, besides iobind's own
terms() { "$source/.runtime/python/bin/python" -m zipfile -l "$1" | sed -n 's|.*\.dist-info/licenses/\([a-z0-9-]*\)\.txt.*|\1|p' | LC_ALL=C sort | xargs; }
for wheel in "$work"/*.whl; do
  case $wheel in
    *vcuda*) expected=zig ;;
    *manylinux*) expected='jansson libpng libzip popt zig zlib' ;;
    *win_amd64*) expected='jansson libzip mingw-w64 popt zlib' ;;
    *) expected='' ;;
  esac
  [ "$(terms "$wheel")" = "$expected" ] || fail "$(basename "$wheel"): expected the terms of '$expected', got '$(terms "$wheel")'"
  checked=$("$source/scripts/check-wheel" "$wheel") || fail "$(basename "$wheel")"
  echo "$(basename "$wheel"): $checked"
  grep -q '^twine' <<<"$checked" || fail "$(basename "$wheel"): expected to be checked by twine, got: $checked"
  case $wheel in
    *abi3*) grep -q 'abi3audit.*imported' <<<"$checked" || fail "$(basename "$wheel"): expected to be imported, got: $checked" ;;
  esac
done

# A user's environment, where pip finds what is in that directory alone: the extra and the plugin name distributions, of which onnxruntime,
# numpy and pytest are the tests' own.
python3=$source/.runtime/python/bin/python
"$python3" -m venv "$work/venv"
site=$("$work/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
printf '%s\n' "$("$python3" -c 'import site; print(site.getsitepackages()[0])')" "$source/.runtime/python-tests" >"$site/tests.pth"
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check)
"${pip[@]}" install --quiet --no-index --find-links "$work" 'onnxruntime-iobind[ort]' pytest-iobind 2>"$work/log" || fail "pip: $(cat "$work/log")"
"${pip[@]}" list --format freeze >"$work/log" # to a file: pip fails if its reader ends first
grep -qx "pytest-iobind==$version" "$work/log" || fail 'pip: pytest-iobind is not installed'
cat >"$work/test_plugin.py" <<'TEST'
def test_the_accelerator(vdev):
    assert vdev.devices


def test_the_plugin(pytestconfig):
    named = [name for name, plugin in pytestconfig.pluginmanager.list_name_plugin() if getattr(plugin, "__name__", "") == "iobind._pytest"]
    assert named == ["iobind_vdev"]
TEST
(cd "$work" && ORT_DISABLE_TELEMETRY=1 venv/bin/python -m pytest -q -p no:cacheprovider test_plugin.py) >"$work/log" 2>&1 || fail "pytest: $(tail -n 20 "$work/log")"
grep -q '^2 passed' "$work/log" || fail "pytest: $(tail -n 5 "$work/log")"
echo 'wheels: built, checked, installed by pip; pytest takes the plugin once'
