"""The command `iobind`: the tool of the wheel, on the ONNX Runtime of this Python's environment."""

import os
import subprocess
import sys

from ._runtime import HERE, WINDOWS, find_ort


def main() -> None:
    """Become the tool; docs/tool.md has its commands."""
    tool = os.path.join(HERE, "iobind.exe" if WINDOWS else "bin/iobind")  # Windows looks for its DLL beside it
    if not os.path.exists(tool):
        sys.exit("iobind: this installation has no command-line tool")
    ort = find_ort()
    if ort is not None and not os.environ.get("ORT_NATIVE_LIB_PATH"):
        os.environ["ORT_NATIVE_LIB_PATH"] = ort
    if WINDOWS:  # where no process becomes another one
        sys.exit(subprocess.call([tool, *sys.argv[1:]]))
    paths = [os.path.join(HERE, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]  # what libzip needs lies beside it
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    os.execv(tool, ["iobind", *sys.argv[1:]])


if __name__ == "__main__":
    main()
