#!/usr/bin/env bash
# Debian's package on a Debian that has nothing: a minimal system by debootstrap, from where this machine's apt has its packages. There
# the package is installed by apt, used, and removed.
# usage: fresh.sh MAKE-MODEL PACKAGES   PACKAGES: what scripts/package has written; ORT_NATIVE_LIB_PATH: ORT's folder
# 77: it cannot be tried here.
set -euo pipefail
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
for program in debootstrap apt-get dpkg unshare curl; do
  command -v "$program" >/dev/null || skip "no $program"
done
work=$(mktemp -d -p "$PWD") # not in /tmp, where the system may allow no devices
trap 'rm -rf "$work"' EXIT
model=$work/add.onnx
"$1" add "$model"
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"
package=$(find "$2" -maxdepth 1 -name "iobind_${version}_*.deb")
[ -n "$package" ] || skip "no package for Debian was made"

# Where this system's own packages come from, by the way that its apt takes.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Identifier: Packages' |
  awk -v release="$release" '$2 == release && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || skip "apt has no source for '$release'"
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
if [ -n "$proxy" ]; then export http_proxy=$proxy; fi
curl -sSf -o /dev/null "${mirror%/}/dists/$release/Release" || skip "apt's source for '$release' cannot be reached"

root=$work/root
quietly debootstrap --variant=minbase "$release" "$root" "$mirror"
# inside COMMAND...: in the new system, with /proc for as long as the command runs.
inside() {
  # shellcheck disable=SC2016
  unshare --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive ORT_DISABLE_TELEMETRY=1 \
    ${http_proxy:+http_proxy="$http_proxy"} \
    sh -c 'mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" "$@"' sh "$root" "$@"
}
cp "$package" "$root/tmp/iobind.deb"
quietly inside apt-get update
quietly inside apt-get install -y /tmp/iobind.deb
expect "iobind $version (libiobind $version)" inside iobind --version
gzip -dc "$root/usr/share/man/man1/iobind.1.gz" | grep -q '^\.Dt IOBIND 1' || fail 'no manual page'

# Without ONNX Runtime: what is missing, and how it is named.
if inside iobind devices >"$work/messages" 2>&1; then fail "iobind devices works without ONNX Runtime: $(cat "$work/messages")"; fi
grep -q 'ONNX Runtime' "$work/messages" && grep -q 'ORT_NATIVE_LIB_PATH' "$work/messages" ||
  fail "iobind devices does not say what is missing: $(cat "$work/messages")"

mkdir "$root/opt/onnxruntime"
cp -L "$ORT_NATIVE_LIB_PATH"/libonnxruntime*.so* "$root/opt/onnxruntime/"
cp "$model" "$root/tmp/add.onnx"
with_ort() { inside env ORT_NATIVE_LIB_PATH=/opt/onnxruntime "$@"; }
with_ort iobind devices >"$work/messages" 2>&1 || fail "iobind devices: $(cat "$work/messages")"
grep -q '^cpu ' "$work/messages" || fail "iobind devices does not name the CPU: $(cat "$work/messages")"
quietly with_ort iobind run /tmp/add.onnx --random --dim n=4 --device vdev --output-dir /tmp/out
[ -s "$root/tmp/out/z.npy" ] || fail 'iobind run: wrote no out/z.npy'

quietly inside apt-get purge -y iobind
left=$(find "$root/usr" -name '*iobind*')
[ -z "$left" ] || fail "left behind: $left"
echo "fresh: $(basename "$package") installed, used and removed on a minimal '$release'"
