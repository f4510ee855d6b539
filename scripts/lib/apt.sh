# shellcheck shell=bash
# apt-get with lists and a cache of its own, for what the machine's own does not know: another architecture, sources, another release.
# What it downloads is checked against Debian's signed lists as ever. Sourced after fetch.sh; the caller has $work, a folder to write in.

# apt_begin: empty lists and a cache in $work; more settings may be added to $work/apt.conf afterwards.
apt_begin() {
  local command
  for command in apt-get dpkg-deb; do
    command -v $command >/dev/null || die "$command is needed: what this script fetches comes out of Debian's packages"
  done
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/sources" "$work/packages"
  : >"$work/installed"
  cat >"$work/apt.conf" <<CONFIG
Dir::State "$work/state";
Dir::State::status "$work/installed";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Languages "none";
CONFIG
}

# private_apt ARGUMENT...: what it downloads by `download` or `source` goes to $work/packages.
private_apt() {
  (cd "$work/packages" && APT_CONFIG=$work/apt.conf apt-get -qq "$@" >"$work/messages" 2>&1) ||
    die "apt-get $*: $(tail -n 5 "$work/messages")"
}

# apt_mirror -> where the machine's own apt has its release's packages from, or nothing.
apt_mirror() {
  local release
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Identifier: Packages' 2>/dev/null |
    awk -v release="$release" '$2 == release && $3 == "main" && !found++ { print $1 }'
}

# unpack_pinned PACKAGE POOL WHAT: the pinned file of the pool's directory, such as o/onnxruntime, unpacked below $temporary/tree.
# The caller has made $temporary.
unpack_pinned() {
  local helper=/usr/lib/apt/apt-helper version sha256 file mirror
  if [ ! -x $helper ] || ! command -v dpkg-deb >/dev/null; then
    die "apt-helper and dpkg-deb are needed: $3 come out of a Debian package."
  fi
  mirror=$(apt_mirror)
  [ -n "$mirror" ] || die "apt has no source of Debian's packages here"
  version=$(pinned_version "$1")
  read -r sha256 file <<<"$(pin "$1" "$version" any)"
  $helper -o APT::Sandbox::User= download-file "${mirror%/}/pool/main/$2/$file" "$temporary/$file" >"$temporary/messages" 2>&1 ||
    die "$file: $(grep -m 1 '^E:' "$temporary/messages" || tail -n 1 "$temporary/messages")
Debian may have replaced it by a newer one; then the pin in scripts/checksums has to follow."
  check_sha256 "$temporary/$file" "$sha256"
  dpkg-deb -x "$temporary/$file" "$temporary/tree"
}
