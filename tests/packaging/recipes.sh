#!/usr/bin/env bash
# The recipes of packaging/, and the workflows, as far as what reads them is here: what is not here is named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
read_by=() unread=()

# reads WHAT PROGRAM ARGUMENT...
reads() {
  local what=$1 messages
  shift
  if ! command -v "$1" >/dev/null; then
    unread+=("$what ($1)")
    return
  fi
  messages=$("$@" 2>&1) || { echo "$what: $*: $messages" >&2; exit 1; }
  read_by+=("$what")
}
compiled='import ast, pathlib, sys; [ast.parse(pathlib.Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]'
reads Conan python3 -c "$compiled" packaging/conan/conanfile.py packaging/conan/test_package/conanfile.py
reads vcpkg python3 -m json.tool packaging/vcpkg/iobind/vcpkg.json
reads Homebrew ruby -wc packaging/homebrew/iobind.rb
reads Nix nix-instantiate --parse packaging/nix/default.nix
reads RPM rpmspec --parse packaging/rpm/iobind.spec
reads CITATION.cff cffconvert --validate
reads workflows actionlint

# Each option of CMake that a recipe sets is one that there is.
for option in $(grep -rhoE -e 'IOBIND_[A-Z]+_[A-Z]+=' packaging debian/rules | sort -u | tr -d '='); do
  grep -Eq "(option|set)\($option " CMakeLists.txt || { echo "packaging/ sets $option, which CMakeLists.txt does not have" >&2; exit 1; }
done
# What OpenSSF Scorecard asks of a workflow: no right to write, and actions by their commits.
for workflow in .github/workflows/*.yml; do
  [ "$(grep -A 1 '^permissions:' "$workflow")" = $'permissions:\n  contents: read' ] || { echo "$workflow: expected the permission to read and no other" >&2; exit 1; }
  if grep ': *write' "$workflow"; then echo "$workflow: a job has the right to write" >&2; exit 1; fi
  if grep 'uses:' "$workflow" | grep -vE '@[0-9a-f]{40} # v'; then echo "$workflow: an action without its commit" >&2; exit 1; fi
done
# A job calls what runs on any machine: a target of make, or a script.
for command in $(sed -n 's/^ *- run: *\(bash \)\{0,1\}//p' .github/workflows/*.yml | sed 's/^make \([a-z-]*\)$/make:\1/; s/ .*//' | sort -u); do
  case $command in
    make:*) grep -q "^${command#make:}:" Makefile || { echo "a workflow calls 'make ${command#make:}', which is no target" >&2; exit 1; } ;;
    *) [ -f "$command" ] || { echo "a workflow calls $command, which is not there" >&2; exit 1; } ;;
  esac
done
# The workflow of a release installs what the scripts that build its parts ask for.
installed=$(sed -n 's/^ *- run: scripts.install-packages//p' .github/workflows/release.yml)
for group in $(grep -ho 'scripts/install-packages [a-z]*' scripts/package scripts/build-{python,java,site,portable} scripts/get-port-libraries | sed 's/.* //' | sort -u); do
  [[ " $installed " == *" $group "* ]] || { echo ".github/workflows/release.yml: expected install-packages $group, got install-packages$installed" >&2; exit 1; }
done
echo "recipes: read ${read_by[*]}${unread[*]+; not read, for want of a reader: ${unread[*]}}"
