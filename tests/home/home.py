#!/usr/bin/env python3
"""Run a command as a user whose home folder is empty, and see that it stays so: ORT's telemetry, for one, would put a
data base there, and a file beside the temporary ones.

usage: home.py COMMAND [ARGUMENT...]
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def main(command):
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as top:
        folders = {name: pathlib.Path(top, name) for name in ("home", "temporary", "working")}
        for folder in folders.values():
            folder.mkdir()
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("XDG_") and name != "ORT_DISABLE_TELEMETRY"}
        environment.update(HOME=str(folders["home"]), TMPDIR=str(folders["temporary"]))
        ran = subprocess.run(command, cwd=folders["working"], env=environment)
        left = [f"{name}: {path.relative_to(folder)}" for name, folder in folders.items()
                for path in sorted(folder.rglob("*"))]
    for entry in left:
        print(f"home: {command[0]} left something in the folder {entry}", file=sys.stderr)
    if ran.returncode != 0:
        print(f"home: {command[0]} ended with {ran.returncode}", file=sys.stderr)
    return 1 if left or ran.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
