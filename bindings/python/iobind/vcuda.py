"""CUDA without a GPU: python -m iobind.vcuda [--gpus N] -- COMMAND runs a command on a machine that seems to have NVIDIA GPUs (docs/vcuda.md).

NVIDIA's libraries in software are a package of their own, onnxruntime-iobind-vcuda, which `make python` builds. `python -m iobind.vcuda -- pytest` runs a program's
tests; those of its sessions that name CUDA find it, if onnxruntime-gpu is installed. Where the system allows no mount namespace, it says so
and exits with 77.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def folder() -> str | None:
    """Where the package onnxruntime-iobind-vcuda lies; None: it is not installed."""
    spec = importlib.util.find_spec("iobind_vcuda")
    return None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]


def main() -> None:
    """Become the command behind "--", by the package's with-cuda. Raises SystemExit, with the reason, if it cannot."""
    options, dashes, command = sys.argv[1:], "--", []
    if dashes in options:
        options, command = options[:options.index(dashes)], options[options.index(dashes) + 1:]
    if not command:
        sys.exit("usage: python -m iobind.vcuda [--gpus N] -- COMMAND [ARGUMENT ...]")
    where = folder()
    if where is None:
        sys.exit("iobind.vcuda: the libraries are a package of their own: build it with `make python`, and pip install its file, "
                 "dist/onnxruntime_iobind_vcuda-*.whl")
    with_cuda = os.path.join(where, "bin", "with-cuda")
    try:
        os.execv(with_cuda, [with_cuda, *options, *command])
    except OSError as failed:
        sys.exit(f"iobind.vcuda: {with_cuda}: {failed}")


if __name__ == "__main__":
    main()
