"""Memory and semaphores of other libraries and processes, on the virtual accelerator."""

import ctypes
import gc
import mmap
import os

import numpy
import pytest

import iobind
from iobind import _runtime
from support import twice

f32 = numpy.float32
BYTES = 8192


@pytest.fixture
def file():
    made = os.memfd_create("shared")
    os.ftruncate(made, BYTES)
    yield made
    os.close(made)


@pytest.fixture
def native():
    iobind.device("vdev")
    library = ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so"))
    library.vdev_semaphore_create.argtypes = [ctypes.c_uint64]
    library.vdev_semaphore_signal.argtypes = [ctypes.c_int, ctypes.c_uint64]
    library.vdev_semaphore_wait.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int64]
    return library


def numbers_of(file):
    return numpy.frombuffer(mmap.mmap(file, BYTES), f32)


def test_what_a_device_imports():
    for kind in ("fd_memory", "fd_semaphore"):
        assert iobind.check_import("vdev", kind) is None
    for device, kind in (("cpu", "fd_memory"), ("vdev", "d3d12_heap")):
        with pytest.raises(iobind.NotSupported, match="check_import: "):
            iobind.check_import(device, kind)


def test_a_run_on_memory_of_another_s(file):
    """Neither input nor output is copied, and what was imported stays with its tensors."""
    there = numbers_of(file)
    there[:4] = 1, 2, 3, 4
    memory = iobind.ExternalMemory("vdev", file, BYTES)
    assert memory.device == iobind.device("vdev")
    x, y = memory.tensor([4]), memory.tensor((4,), numpy.float32, offset=4096)
    del memory
    gc.collect()
    before = iobind.device("vdev").counters()
    iobind.Session(twice(), device="vdev").bind({"x": x}, outputs={"y": y}).run()
    after = iobind.device("vdev").counters()
    assert there[1024:1028].tolist() == [2, 4, 6, 8] and y.numpy().tolist() == [2, 4, 6, 8]
    assert (after["upload_bytes"], after["download_bytes"]) == (before["upload_bytes"], before["download_bytes"])
    parts = x[1:3]
    del x
    assert parts.tolist() == [2, 3]


def test_a_stream_behind_a_semaphore(file, native):
    """The run reads what the other side has written by the value 1; the value 2 tells the other side that the run has ended."""
    shared = native.vdev_semaphore_create(0)
    there = numbers_of(file)
    memory, semaphore = iobind.ExternalMemory("vdev", file, BYTES), iobind.Semaphore("vdev", shared)
    stream = iobind.Stream("vdev")
    binding = iobind.Session(twice(), device="vdev").bind({"x": memory.tensor([4])}, outputs={"y": memory.tensor([4], offset=4096)})
    stream.wait_semaphore(semaphore, 1)
    binding.run(stream=stream)
    stream.signal_semaphore(semaphore, 2)
    del semaphore, memory
    with pytest.raises(iobind.Timeout):
        stream.record().wait(timeout=0.05)
    there[:4] = 5
    assert native.vdev_semaphore_signal(shared, 1) == 0 and native.vdev_semaphore_wait(shared, 2, 60 * 10**9) == 1
    assert there[1024:1028].tolist() == [10] * 4
    stream.synchronize()
    os.close(shared)


def test_what_is_wrong(file, native):
    memory, shared = iobind.ExternalMemory("vdev", file, BYTES), native.vdev_semaphore_create(0)
    semaphore, stream = iobind.Semaphore("vdev", shared), iobind.Stream("vdev")
    for use, kind, said in ((lambda: iobind.ExternalMemory("cpu", file, BYTES), iobind.NotSupported, "ExternalMemory: "),
                            (lambda: iobind.ExternalMemory("vdev", file, 0), ValueError, "ExternalMemory: nbytes: expected the size"),
                            (lambda: iobind.ExternalMemory("vdev", -1, BYTES), ValueError, "got -1"),
                            (lambda: iobind.ExternalMemory("vdev", file, 1 << 40), iobind.Error, "ExternalMemory: "),
                            (lambda: iobind.ExternalMemory("vdev", shared, BYTES, kind="fd_semaphore"), ValueError, "kind: expected one of fd_memory"),
                            (lambda: iobind.Semaphore("vdev", file), iobind.Error, "Semaphore: "),
                            (lambda: iobind.Semaphore("vdev", shared, kind="fd_memory"), ValueError, "kind: expected one of fd_semaphore"),
                            (lambda: iobind.check_import("vdev", "fd"), ValueError, "check_import: kind: .* got 'fd'"),
                            (lambda: memory.tensor([BYTES]), ValueError, "ExternalMemory.tensor: expected a part of the memory's 8192 bytes"),
                            (lambda: memory.tensor([1], offset=-1), ValueError, "offset: expected 0 or more, got -1"),
                            (lambda: memory.tensor([1], "string"), TypeError, "ExternalMemory.tensor: strings"),
                            (lambda: stream.wait_semaphore(semaphore, -1), ValueError, "value: expected a number of 64 bits, got -1"),
                            (lambda: stream.wait_semaphore(None, 1), TypeError, "expected an iobind.Semaphore, got None"),
                            (lambda: iobind.Stream("cpu").wait_semaphore(semaphore, 1), iobind.DeviceError, "wait_semaphore: "),
                            (lambda: iobind.Stream("cpu").signal_semaphore(semaphore, 1), iobind.DeviceError, "signal_semaphore: ")):
        with pytest.raises(kind, match=said):
            use()
    os.close(shared)
