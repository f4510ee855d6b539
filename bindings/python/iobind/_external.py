"""Memory and semaphores of other libraries and processes, by their handles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core, _dtypes
from ._errors import InvalidArgument
from ._runtime import DeviceSpec
from ._runtime import device as find_device
from ._tensor import Tensor

KINDS = {"fd_memory": 1, "win32_memory": 2, "d3d12_resource": 3, "d3d12_heap": 4, "fd_semaphore": 5, "win32_semaphore": 6, "d3d12_fence": 7}
"""What a handle stands for. fd: a file descriptor, of Vulkan's opaque memory or timeline semaphore; on the virtual accelerator a memfd."""
OF_MEMORY = ["fd_memory", "win32_memory", "d3d12_resource", "d3d12_heap"]
OF_SEMAPHORES = ["fd_semaphore", "win32_semaphore", "d3d12_fence"]


def _number(kind: str, among: Sequence[str], what: str) -> int:
    if kind not in among:
        raise InvalidArgument(f"{what}: kind: expected one of {', '.join(among)}, got {kind!r}")
    return KINDS[kind]


def check_import(device: DeviceSpec, kind: str) -> None:
    """Check that `device` can import handles of this kind: "fd_memory", "fd_semaphore", "win32_memory", "win32_semaphore",
    "d3d12_resource", "d3d12_heap" or "d3d12_fence". Raises NotSupported with the reason if it cannot, InvalidArgument, NotFound,
    OrtError."""
    _core.check_import(find_device(device), _number(kind, list(KINDS), "check_import"))


class ExternalMemory(_core.ExternalMemory):
    """Imported memory of another library or process, which the device uses without a copy. It remains valid until this object and all its
    tensors are destroyed."""

    def __new__(cls, device: DeviceSpec, handle: int, nbytes: int, *, kind: str = "fd_memory") -> ExternalMemory:
        number = _number(kind, OF_MEMORY, "ExternalMemory")
        if nbytes < 1:
            raise InvalidArgument(f"ExternalMemory: nbytes: expected the size of the memory, got {nbytes}")
        return super().__new__(cls, find_device(device), number, handle, nbytes)

    def __init__(self, device: DeviceSpec, handle: int, nbytes: int, *, kind: str = "fd_memory") -> None:
        """device: the device that imports the memory. handle: a file descriptor, or a HANDLE. nbytes: the size of the whole allocation in
        bytes. kind: "fd_memory", "win32_memory", "d3d12_resource" or "d3d12_heap". The execution provider determines who closes the
        handle: CUDA takes ownership of an imported file descriptor; the virtual accelerator does not, and the descriptor may be closed at
        once. Raises NotSupported as check_import(), InvalidArgument, NotFound, OutOfMemory, OrtError."""

    def tensor(self, shape: Sequence[int], dtype: Any = "float32", *, offset: int = 0) -> Tensor:
        """A tensor of this shape over the part that begins at `offset` (in bytes). shape, dtype: of the data there. Accesses by others
        are not ordered: order them and the work on streams by semaphores, or wait. Raises InvalidArgument (a part that is not within the
        memory), ShapeError, DTypeError, OutOfMemory, OrtError."""
        if offset < 0:
            raise InvalidArgument(f"ExternalMemory.tensor: offset: expected 0 or more, got {offset}")
        return self._view(offset, _dtypes.code_of(dtype), list(shape))


class Semaphore(_core.Semaphore):
    """An imported timeline semaphore of another library or process: a value that only increases. Stream.wait_semaphore() makes a stream
    wait for a value, Stream.signal_semaphore() sets it. Streams that use a semaphore retain it."""

    def __new__(cls, device: DeviceSpec, handle: int, *, kind: str = "fd_semaphore") -> Semaphore:
        return super().__new__(cls, find_device(device), _number(kind, OF_SEMAPHORES, "Semaphore"), handle, 0)

    def __init__(self, device: DeviceSpec, handle: int, *, kind: str = "fd_semaphore") -> None:
        """device: the device whose streams use it. handle: a file descriptor, or a HANDLE; see ExternalMemory for who closes it. kind:
        "fd_semaphore", "win32_semaphore" or "d3d12_fence". Raises NotSupported as check_import(), InvalidArgument, NotFound, OutOfMemory,
        OrtError."""
