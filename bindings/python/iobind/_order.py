"""Order another library's stream after one of iobind's, by calls of the library to which both belong; iobind.Stream.wrap would retain
that stream."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from ._errors import InvalidArgument
from ._runtime import runtime, vdev_path

if TYPE_CHECKING:
    from ._tensor import Stream

CUDA, VDEV = 1, 3  # iobind_native_kind
NO_TIMES = 2  # of cuEventCreate: an event that only orders


@functools.cache
def _cuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _vdev() -> Any:
    registered = [entry["path"] for entry in runtime().eps() if entry["name"] == "vdev" and entry["path"]]
    library = ctypes.CDLL(registered[0] if registered else vdev_path())
    library.vdev_event_create.restype = ctypes.c_void_p
    library.vdev_last_error.restype = ctypes.c_char_p
    return library


def _check(failed: int, what: str) -> None:
    if failed != 0:
        raise InvalidArgument(f"__dlpack__: {what}: CUDA error {failed}")


def _behind_on_cuda(consumer: int, writer: Stream) -> None:
    driver, context, event = _cuda(), ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuStreamGetCtx(ctypes.c_void_p(writer.native), ctypes.byref(context)), "the context of the stream that writes the tensor")
    _check(driver.cuCtxPushCurrent_v2(context), "the context of the stream that writes the tensor")
    try:
        _check(driver.cuEventCreate(ctypes.byref(event), NO_TIMES), "an event")
        try:
            writer.signal_native(event.value or 0)
            _check(driver.cuStreamWaitEvent(ctypes.c_void_p(consumer), event, 0), f"stream {consumer:#x}")
        finally:
            driver.cuEventDestroy_v2(event)
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))


def _behind_on_vdev(consumer: int, writer: Stream) -> None:
    library = _vdev()
    event = library.vdev_event_create(0)
    try:
        writer.signal_native(event)
        if library.vdev_stream_wait(ctypes.c_void_p(consumer), ctypes.c_void_p(event)) != 0:
            raise InvalidArgument(f"__dlpack__: stream: {library.vdev_last_error().decode()}")
    finally:
        library.vdev_event_destroy(ctypes.c_void_p(event))


def put_behind(kind: int, consumer: int, writer: Stream) -> None:
    """Make later work on the stream `consumer` wait for all work previously submitted to `writer`, without blocking the host."""
    (_behind_on_cuda if kind == CUDA else _behind_on_vdev)(consumer, writer)


__all__ = ["CUDA", "VDEV", "put_behind"]
