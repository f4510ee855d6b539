#!/usr/bin/env bash
# Debian's packages, built without a network in a minimal Debian by scripts/package, on a Debian that has nothing: a minimal system by
# debootstrap, from where this machine's apt has its packages. There they are installed by apt, used, and removed.
# usage: fresh.sh MAKE-MODEL   ORT_NATIVE_LIB_PATH: ORT's directory
# 77: it cannot be tried here.
set -euo pipefail
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
for program in debootstrap mmdebstrap apt-get dpkg unshare curl; do
  command -v "$program" >/dev/null || skip "no $program"
done
work=$(mktemp -d -p "$PWD") # not in /tmp, where the system may allow no devices
trap 'rm -rf "$work"' EXIT
model=$work/add.onnx
"$1" add "$model"
# shellcheck source=tests/consumers/use.sh
. "$(dirname "${BASH_SOURCE[0]}")/use.sh"

# Where this system's own packages come from, by the way that its apt takes.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Identifier: Packages' |
  awk -v release="$release" '$2 == release && $3 == "main" && !found++ { print $1 }')
[ -n "$mirror" ] || skip "apt has no source for '$release'"
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
if [ -n "$proxy" ]; then export http_proxy=$proxy; fi
curl -sSf -o /dev/null "${mirror%/}/dists/$release/Release" || skip "apt's source for '$release' cannot be reached"

quietly "$consumers/../../scripts/package" --output "$work/packages" --chroot deb
root=$work/root
quietly debootstrap --variant=minbase "$release" "$root" "$mirror"
# inside COMMAND...: in the new system, with /proc for as long as the command runs.
inside() {
  # shellcheck disable=SC2016
  unshare --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive ORT_DISABLE_TELEMETRY=1 \
    ${http_proxy:+http_proxy="$http_proxy"} \
    sh -c 'mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" "$@"' sh "$root" "$@"
}
cp "$work/packages"/*.deb "$consumers/../../debian/tests/use" "$root/tmp/"
quietly inside apt-get update
quietly inside sh -c 'apt-get install -y --no-install-recommends /tmp/*.deb cmake g++ make pkgconf libstdc++6'
quietly inside /tmp/use

mkdir "$root/opt/onnxruntime"
cp -L "$ORT_NATIVE_LIB_PATH"/libonnxruntime*.so* "$root/opt/onnxruntime/"
cp "$model" "$root/tmp/add.onnx"
with_ort() { inside env ORT_NATIVE_LIB_PATH=/opt/onnxruntime "$@"; }
with_ort iobind devices >"$work/messages" 2>&1 || fail "iobind devices: $(cat "$work/messages")"
grep -q '^cpu ' "$work/messages" || fail "iobind devices does not name the CPU: $(cat "$work/messages")"
quietly with_ort iobind run /tmp/add.onnx --random --dim n=4 --device vdev --output-dir /tmp/out
[ -s "$root/tmp/out/z.npy" ] || fail 'iobind run: wrote no out/z.npy'

quietly inside apt-get purge -y '^(lib)?iobind'
left=$(find "$root/usr" -name '*iobind*' -not -path '*/dpkg/*')
[ -z "$left" ] || fail "left behind: $left"
echo "fresh: Debian's packages of $version built without a network, installed, used and removed on a minimal '$release'"
