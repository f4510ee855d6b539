"""The exceptions: one for each status of iobind's C interface."""

from __future__ import annotations

from typing import Any

from . import _core


IN_PYTHON = {
    "attach to that copy (ort_api_base)": "call iobind.attach(onnxruntime) before anything else of iobind, under pytest in conftest.py",
    "ask for a copy (IOBIND_DLPACK_COPY_STRIDED)": "ask for a copy (copy=True)",
}
"""what the library's messages advise, in C's words and in Python's"""


class Error(Exception):
    """What failed, in one line. message: that line. `status` is its name, `ort_code` ONNX Runtime's OrtErrorCode (0 if it was not
    ONNX Runtime). `item` and `tag` are those of the item of Session.map that failed."""

    status = "UNKNOWN"
    item: int | None = None
    tag: Any = None

    def __init__(self, message: str, ort_code: int = 0) -> None:
        for c, python in IN_PYTHON.items():
            message = message.replace(c, python)
        super().__init__(message)
        self.ort_code = ort_code


class InvalidArgument(Error, ValueError):
    """An argument is wrong in itself."""


class InvalidState(Error, RuntimeError):
    """The object is not in a state for this call."""


class NotFound(Error, LookupError):
    """No such file, name, index or device."""


class NotSupported(Error):
    """The device, the execution provider or this version cannot do it."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory is exhausted."""


class FileError(Error):
    """A file could not be read or written."""


class VersionError(Error, RuntimeError):
    """ONNX Runtime or a library is too old or too new."""


class OrtError(Error, RuntimeError):
    """ONNX Runtime refused; `ort_code` and the message say why."""


class DeviceError(Error):
    """The memory lives, or the work would run, on the wrong device."""


class ShapeError(Error, ValueError):
    """The rank or the dims do not fit."""


class DTypeError(Error, TypeError):
    """The element type does not fit."""


class Timeout(Error, TimeoutError):
    """The time given was not enough."""


class Cancelled(Error):
    """The run was cancelled."""


class InternalError(Error, RuntimeError):
    """A defect of iobind: please report it."""


class DeviceLost(DeviceError):
    """Nothing works on the device any more in this process; its work has failed."""


BY_STATUS: dict[int, type[Error]] = dict(enumerate(
    [InvalidArgument, InvalidState, NotFound, NotSupported, OutOfMemory, FileError, VersionError, OrtError, DeviceError, ShapeError,
     DTypeError, Timeout, Cancelled, InternalError, DeviceLost], 1))
for _number, _class in BY_STATUS.items():
    _class.status = _core.status_name(_number)
