"""iobind: tensors stay where the model runs. I/O binding for ONNX Runtime on any execution provider.

    import iobind
    s = iobind.Session("m.onnx", device="gpu,cpu")
    b = s.bind({"x": x}, outputs={"y": "cpu"})
    b["x"] = new
    y = b.run()["y"].numpy()
"""

from . import _core
from ._audit import Audit
from ._batch import Batch, Row
from ._binding import REUSE, Binding, Outputs, in_place
from ._core import Device
from ._errors import (
    BY_STATUS,
    CLASSES,
    Cancelled,
    DeviceError,
    DeviceLost,
    DTypeError,
    Error,
    FileError,
    FileNotFound,
    InternalError,
    InvalidArgument,
    InvalidState,
    NameNotFound,
    NotFound,
    NotSupported,
    OrtError,
    OutOfMemory,
    ResultError,
    ShapeError,
    Timeout,
    VersionError,
)
from ._external import ExternalMemory, Semaphore, check_import
from ._pipeline import Map, Times
from ._runtime import attach, attached, configure, device, devices, info, preload, register_ep
from ._session import Session, StateKind, Value
from ._state import State
from ._tensor import Difference, Event, Live, Stream, Tensor, copy, empty, from_dlpack, live, tensor, wrap, wrap_address

__version__ = _core.version()
for _class in CLASSES:
    _class.__module__ = "iobind"
_core.use_classes(Tensor, Outputs, Binding, BY_STATUS)

__all__ = [
    "REUSE", "Audit", "Batch", "Binding", "Cancelled", "DTypeError", "Device", "DeviceError", "DeviceLost", "Difference", "Error", "Event", "ExternalMemory", "FileError", "FileNotFound",
    "InternalError", "InvalidArgument", "InvalidState", "Live", "Map", "NameNotFound", "NotFound", "NotSupported", "OrtError", "OutOfMemory", "Outputs", "ResultError", "Row", "Semaphore", "Session",
    "ShapeError", "State", "StateKind", "Stream", "Tensor", "Timeout", "Times", "Value", "VersionError", "attach", "attached", "check_import", "configure", "copy", "device",
    "devices", "empty", "from_dlpack", "in_place", "info", "live", "preload", "register_ep", "tensor", "wrap", "wrap_address",
]
