"""CUDA without a GPU: python -m iobind.vcuda -- COMMAND runs a command with NVIDIA's libraries in software (docs/vcuda.md).

The libraries are a package of their own: pip install iobind-vcuda. `python -m iobind.vcuda -- pytest` runs a program's tests;
those of its sessions that name CUDA find it, if onnxruntime-gpu is installed.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def folder() -> str | None:
    """Where the package iobind-vcuda lies; None: it is not installed."""
    spec = importlib.util.find_spec("iobind_vcuda")
    return None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]


def environment() -> dict[str, str]:
    """This process's environment, with the libraries found before any others of their names."""
    where = folder()
    if where is None:
        raise ModuleNotFoundError("iobind.vcuda: the libraries are a package of their own: pip install iobind-vcuda")
    paths = [os.path.join(where, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths))}


def main() -> None:
    """Become the command behind "--"."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] != "--" or len(arguments) < 2:
        sys.exit("usage: python -m iobind.vcuda -- COMMAND [ARGUMENT ...]")
    try:
        os.execvpe(arguments[1], arguments[1:], environment())
    except (OSError, ModuleNotFoundError) as failed:
        sys.exit(f"iobind.vcuda: {arguments[1]}: {failed}")


if __name__ == "__main__":
    main()
