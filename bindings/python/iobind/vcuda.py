"""CUDA without a GPU: python -m iobind.vcuda [--gpus N] -- COMMAND runs a command as if the machine had NVIDIA GPUs (docs/vcuda.md).

NVIDIA's libraries in software are in a separate package, onnxruntime-iobind-vcuda, which `make python` builds. `python -m iobind.vcuda --
pytest` runs a program's tests; if onnxruntime-gpu is installed, their sessions that name CUDA use these libraries. If the system does not
allow mount namespaces, the command reports it and exits with 77."""

from __future__ import annotations

import importlib.util
import os
import sys


def folder() -> str | None:
    """The directory of the package onnxruntime-iobind-vcuda; None: it is not installed."""
    spec = importlib.util.find_spec("iobind_vcuda")
    return None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]


def main() -> None:
    """Replace this process by the command after "--", under the package's with-cuda. Raises SystemExit, with the reason, if that is not
    possible."""
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
