"""The package and C's interface: every function of the headers has a way in Python, or a reason here. The stubs hold."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import iobind

PROJECT = pathlib.Path(__file__).resolve().parents[3]
WITHOUT = {
    "iobind_version": "iobind.__version__ is iobind_version_string",
    "iobind_tensor_get_data": "Tensor.numpy and the buffer protocol know type and place, and ask for the address",
    "iobind_session_find_input": "names are keys of a dict, made once",
    "iobind_tensor_retain": "Python counts references",
    "iobind_session_run_request": "Binding has targets, places and run options",
    "iobind_pipeline_submit": "iobind_pipeline_submit_request takes tensors on the host and on devices",
    # onnxruntime gives no addresses of its objects and takes none: DLPack carries tensors between the two, Session.adopt takes a session.
    "iobind_tensor_wrap_ort": "from_dlpack",
    "iobind_tensor_to_ort": "Tensor.__dlpack__",
    "iobind_runtime_get_ort": "for what calls ORT's C interface",
    "iobind_session_get_ort": "for what calls ORT's C interface",
    # Direct3D's objects: no library for Python gives their addresses.
    "iobind_runtime_adopt_device": "for programs in C",
    "iobind_tensor_get_native": "for programs in C",
    # NumPy, and CuPy on a device, slice rows of what DLPack gives them.
    "iobind_tensor_copy_rows": "from_dlpack, Tensor.__dlpack__",
    # Handles of other processes and graphics interfaces: no library for Python gives them, and a file descriptor alone does not say enough.
    "iobind_device_check_import": "for programs in C",
    "iobind_external_memory_import": "for programs in C",
    "iobind_external_memory_destroy": "for programs in C",
    "iobind_external_memory_view": "for programs in C",
    "iobind_semaphore_import": "for programs in C",
    "iobind_semaphore_destroy": "for programs in C",
    "iobind_stream_wait_semaphore": "for programs in C",
    "iobind_stream_signal_semaphore": "for programs in C",
}
# What another part of the library brings, with the reason why Python does without it for now.
LATER = {}


def test_every_function_of_c_has_a_way():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "include/iobind").glob("*.h"))
    declared = set(re.findall(r"^IOBIND_API\b[^;{}#]*?\b(iobind_\w+)\(", text, flags=re.M))
    used = set(re.findall(r"\b(iobind_\w+)\(", "\n".join(
        path.read_text(encoding="utf-8") for path in (PROJECT / "bindings/python/src").glob("*.c"))))
    used |= set(re.findall(r"\b(iobind_session_get_input|iobind_session_get_output)\b", (PROJECT / "bindings/python/src/session.c").read_text()))
    assert len(declared) > 70
    assert sorted(declared - used - set(WITHOUT) - set(LATER)) == []
    assert sorted(set(LATER) & used) == []
    assert sorted((set(WITHOUT) | set(LATER)) - declared) == []


def test_everything_public_is_documented():
    for name in iobind.__all__:
        thing = getattr(iobind, name)
        assert inspect.getdoc(thing), name
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_the_types_hold():
    here = PROJECT / "bindings/python"
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, "--follow-imports=silent",
                           *map(str, sorted((here / "iobind").glob("*.py"))), *map(str, sorted((here / "samples").glob("*.py")))],
                          capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(here)})
    if "No module named mypy" in done.stderr:
        pytest.skip("no mypy: scripts/get-python --tests fetches it")
    assert done.returncode == 0, done.stdout + done.stderr
