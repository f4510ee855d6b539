"""The exceptions: one for each status of iobind's C interface."""

from __future__ import annotations

import re
from typing import Any

from . import _core

CALLS = {
    "session_create": "session", "session_create_from_memory": "session", "session_run": "run", "session_create_tensor": "allocate", "session_wrap": "adopt",
    "binding_set_input": "bind", "binding_set_output": "bind", "binding_place_output": "bind", "binding_write_input": "update",
    "binding_get_output": "outputs", "binding_reset_graphs": "forget_graphs", "binding_take_output": "take", "binding_create": "bind", "tensor_create": "empty",
    "binding_save_state": "save", "binding_restore_state": "restore", "binding_reorder_state": "reorder", "binding_rewind_state": "rewind", "session_get_state_kind": "state_kind", "state_kind": "state_kind", "state_load": "load_state", "tensor_to_dlpack": "__dlpack__", "tensor_get_string": "numpy", "tensor_set_string": "write", "tensor_map": "numpy",
    "stream_create": "stream", "event_create": "event", "batch_create": "batch", "batch_set_input": "set", "batch_take_output": "outputs", "batch_save_state": "save", "batch_await": "result", "pipeline_create": "map", "pipeline_next": "map", "pipeline_submit": "map",
    "external_memory_import": "ExternalMemory", "external_memory_view": "ExternalMemory.tensor", "semaphore_import": "Semaphore",
    "runtime_create": "onnxruntime", "runtime_find_device": "device", "dtype_get_bytes": "dtype"}
"""calls of C that begin the library's messages, and what begins them in Python; any other call has its verb as its name"""

BEGINS = re.compile(r"^(?:runtime|device|session|binding|tensor|stream|event|pipeline|dtype|audit|state|batch|external_memory|semaphore)_([a-z0-9_]+)(?=: )")

ADVICE = {
    "no ONNX Runtime found": "no ONNX Runtime found (`pip install onnxruntime`, or onnxruntime-gpu, installs one)",
    "no device works: ": "no device works (`iobind doctor` shows why): ",
    "attach to that copy (ort_api_base)": "call iobind.attach(onnxruntime) before anything else of iobind, under pytest in conftest.py",
    "set IOBIND_DLPACK_COPY_STRIDED": "set copy=True",
    "IOBIND_SESSION_PLACEMENT": "placement=True",
    "IOBIND_SESSION_STRICT": "strict=True",
    "IOBIND_RUNTIME_SOFTWARE_DEVICES": "iobind.configure(software_devices=True)",
    "IOBIND_RUNTIME_POOLS": "iobind.configure(pools=True)",
    "IOBIND_SESSION_IDENTIFY": "identify=True",
    "bind it IN_PLACE if": "bind in_place(tensor) if",
    "bind the output IN_PLACE if": "bind the output by in_place(tensor) if",
    "which cannot be LIVE: bind it RESIDENT or SNAPSHOT": "which cannot be live(): bind a tensor or an array",
    "is bound LIVE: bind the first state RESIDENT or SNAPSHOT": "is bound by live(): bind the first state as a tensor or an array",
    "expected REUSE, FIXED or IN_PLACE, got FRESH": "expected REUSE, a tensor or in_place(tensor), got a device, which is FRESH",
    "expected SWAP or IN_PLACE, got MOVE": 'expected "swap" or "in_place", got "move"',
    "SWAP needs two": '"swap" needs two',
    "got LIVE from": "got live() from",
    "LIVE: copied before": "live(): copied before",
    "SNAPSHOT: copied when": "an array: copied when",
    "' RESIDENT, and write": "', and write",
    "let the source be a HOST_ACCESSIBLE tensor": "let the source be a tensor in memory such as 'cuda/pinned'",
    "use FRESH, which": "use a FRESH output, which",
    "create it there, or bind it SNAPSHOT or LIVE, which copy it": "create it there, tensor.to(device), or bind an array, which is copied",
    "or SNAPSHOT and iobind_binding_write_input": "or an array, and Binding.update",
    "use iobind_tensor_create": "use iobind.empty",
    "iobind_tensor_read and iobind_tensor_write can access the part": "Tensor.read and Tensor.write with an offset can access the part",
    "iobind_tensor_read copies it": "Tensor.read copies it",
    "iobind_tensor_get_address returns its address": "its address is Tensor.address",
    ": set it for all rows (IOBIND_BATCH_ALL)": ": Batch.set",
    "set it once, for all rows (IOBIND_BATCH_ALL)": "set it once, by Batch.set",
    "set it for each row": "set it for each row, by Row.set",
    "input_axes and output_axes": "axes",
    "or IOBIND_BATCH_NO_AXIS": "or None",
    "external.bytes": "nbytes",
    "external.handle": "handle",
    "external.kind": "kind",
    "graph_limit": "graphs",
    "intra_op_threads": "threads",
    "inter_op_threads": "inter_threads",
}
"""what the library's messages advise, in C's words and in Python's"""

MENTIONS = {"iobind_binding_": "Binding.", "iobind_session_create": "iobind.Session", "iobind_pipeline_next": "next()",
            "iobind_tensor_get_string": "Tensor.numpy", "iobind_tensor_set_string": "Tensor.write", "iobind_tensor_": "Tensor.", "iobind_binding_write_input": "Binding.update",
            "iobind_batch_set_input": "Row.set", "iobind_batch_join": "Batch.join", "iobind_batch_save_state": "Row.save",
            "iobind_batch_submit": "Row.submit", "iobind_batch_step": "Batch.step", "iobind_batch_await": "Row.result",
            "iobind_binding_reset_graphs": "Binding.forget_graphs"}
"""names of C's calls within a message, and Python's; the longest that fits counts"""

MENTIONED = re.compile("|".join(sorted(MENTIONS, key=len, reverse=True)))


def in_python(message: str) -> str:
    """A message of the library, with Python's names."""
    for c, python in ADVICE.items():
        message = message.replace(c, python)
    message = BEGINS.sub(lambda found: CALLS.get(found[0], found[1]), message)
    return MENTIONED.sub(lambda found: MENTIONS[found[0]], message) if "iobind_" in message else message


class Error(Exception):
    """An error with a message of one line. `message` is that line, `status` the name of the status, `ort_code` ONNX Runtime's
    OrtErrorCode (0 if ONNX Runtime did not fail). `item` and `tag` identify the failed item of Session.map."""

    status = "UNKNOWN"
    item: int | None = None
    tag: Any = None

    def __init__(self, message: str, ort_code: int = 0) -> None:
        super().__init__(in_python(message if "\n" not in message else " ".join(message.split())))  # an array's repr has several lines
        self.ort_code = ort_code

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would quote it


class InvalidArgument(Error, ValueError):
    """An argument is invalid."""


class InvalidState(Error, RuntimeError):
    """The object's state does not allow this call."""


class NotFound(Error, LookupError):
    """No such file, name, index or device."""


class NameNotFound(NotFound, KeyError):
    """The model has no input, output or dim of this name."""


class FileNotFound(NotFound, FileNotFoundError):
    """No such file or directory."""


class NotSupported(Error, NotImplementedError):
    """The device, the execution provider or this version does not support it."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory is exhausted."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class VersionError(Error, RuntimeError):
    """ONNX Runtime or a library is too old or too new."""


class OrtError(Error, RuntimeError):
    """ONNX Runtime failed; `ort_code` and the message have the reason."""


class DeviceError(Error, RuntimeError):
    """The memory is on the wrong device, or the work would run on the wrong device."""


class ShapeError(Error, ValueError):
    """The rank or the dims do not match."""


class DTypeError(Error, TypeError):
    """The element type does not match."""


class Timeout(Error, TimeoutError):
    """Timed out; the work remains in flight."""


class Cancelled(Error):
    """The run was cancelled."""


class InternalError(Error, RuntimeError):
    """A defect of iobind: please report it."""


class DeviceLost(DeviceError):
    """The device does not work any more in this process; all its work has failed."""


class ResultError(Error, ArithmeticError):
    """The device's result differs from the CPU's: see Session(verify=...)."""


BY_STATUS: dict[int, type[Error]] = dict(enumerate(
    [InvalidArgument, InvalidState, NotFound, NotSupported, OutOfMemory, FileError, VersionError, OrtError, DeviceError, ShapeError,
     DTypeError, Timeout, Cancelled, InternalError, DeviceLost, ResultError], 1))
for _number, _class in BY_STATUS.items():
    _class.status = _core.status_name(_number)
CLASSES: list[type[Error]] = [Error, *BY_STATUS.values(), NameNotFound, FileNotFound]
