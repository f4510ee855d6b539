#!/usr/bin/env python3
"""Every function that iobind.h, with what it includes, promises to several threads is called by the tests in this folder.

usage: check_calls.py HEADER SOURCE...

Promised are those with `@threads any` and `@threads shared-read`.
"""
import pathlib
import re
import sys

DECLARATION = re.compile(r"/\*\*(?P<comment>(?:(?!\*/).)*)\*/\s*IOBIND_API\s+(?P<declaration>[^;]*);", re.S)


def promised(header):
    """Name and tag of each public function."""
    found = {}
    for match in DECLARATION.finditer(header):
        name = re.search(r"\b(iobind_\w+)\s*\(", match["declaration"])
        tag = re.search(r"@threads\s+([\w-]+)", match["comment"])
        if name:
            found[name[1]] = tag[1] if tag else None
    return found


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    header = pathlib.Path(arguments[0])
    parts = re.findall(r'#include "(\w+\.h)"', header.read_text(encoding="utf-8"))
    functions = promised("".join(header.with_name(part).read_text(encoding="utf-8") for part in parts))
    sources = "".join(pathlib.Path(name).read_text(encoding="utf-8") for name in arguments[1:])
    # rig/calls.h has the call_...
    called = {"iobind_" + name for name in re.findall(r"\b(?:iobind|call)_(\w+)\s*\(", sources)}
    problems = [f"{name} has no @threads" for name, tag in functions.items() if tag is None]
    problems += [f"{name} is promised to several threads ({tag}), and no test here calls it"
                 for name, tag in functions.items() if tag in ("any", "shared-read") and name not in called]
    if len(functions) < 50:
        problems.append(f"expected 50 functions or more in {arguments[0]}, found {len(functions)}")
    for problem in problems:
        print(f"check_calls: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
