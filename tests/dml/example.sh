#!/usr/bin/env bash
# Is examples/directml.c right for Windows? Only compiled: tests/dml/road.sh runs it.
# 77: there is no compiler for Windows here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
compiler=x86_64-w64-mingw32-gcc-posix
command -v $compiler >/dev/null || { echo "skip: mingw-w64 is not there; scripts/install-packages ports installs it"; exit 77; }
$compiler -std=c17 -Wall -Wextra -Werror -fsyntax-only -I include examples/directml.c
