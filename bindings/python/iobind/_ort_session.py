"""The address of the OrtSession inside an onnxruntime.InferenceSession. The package has no call for it, but its C++ object has a pointer
to it. The pointer is identified by the class of its object: in Itanium's C++ ABI an object with virtual functions leads to the name of
its class. All memory is read by the system, which refuses invalid addresses."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from typing import Any

from ._errors import NotSupported

POINTER = struct.calcsize("P")
HOLDER = b"N11onnxruntime6python18PyInferenceSessionE"
SESSION = b"N11onnxruntime16InferenceSessionE"


def _reader(file: int) -> tuple[Callable[[int], int], Callable[[int], bytes]]:
    """Reads a word, and the name of an object's class; 0 and b"" if there is none."""

    def read(address: int, size: int) -> bytes:
        try:
            return os.pread(file, size, address)
        except (OSError, OverflowError, ValueError):
            return b""

    def word(address: int) -> int:
        found = read(address, POINTER)
        return int.from_bytes(found, "little") if len(found) == POINTER else 0

    def class_of(address: int) -> bytes:
        functions = word(address)
        described = word(functions - POINTER) if functions > POINTER else 0  # its std::type_info
        name = word(described + POINTER) if described else 0
        return read(name, 80).split(b"\0")[0] if name else b""

    return word, class_of


def address_of(session: Any) -> int:
    """session: an onnxruntime.InferenceSession. Raises NotSupported if its OrtSession is not found."""
    inner = session._sess
    file = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        word, class_of = _reader(file)
        holder = word(id(inner) + object.__basicsize__)  # pybind11 keeps it behind the object's head
        if class_of(holder) == HOLDER:
            size = ctypes.CDLL(None).malloc_usable_size
            size.argtypes, size.restype = [ctypes.c_void_p], ctypes.c_size_t
            for offset in range(0, size(holder), POINTER):
                found = word(holder + offset)
                if class_of(found) == SESSION:
                    return found
    finally:
        os.close(file)
    raise NotSupported(f"adopt: no OrtSession was found in {type(session).__name__}: this onnxruntime stores it at another address")
