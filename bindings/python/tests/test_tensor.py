"""Tensors on every device, and DLPack."""

import ctypes
import gc
import threading
import weakref

import ml_dtypes
import numpy
import pytest

import iobind
from support import SMALL, child, twice

DTYPES = ["float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64", "uint32", "uint64",
          ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: numpy.dtype(dtype).name)
def test_every_type_there_and_back(device, dtype):
    array = numpy.array([[0, 1, 2], [1, 0, 1]]).astype(dtype)
    tensor = iobind.tensor(array, device)
    assert tensor.shape == (2, 3) and tensor.dtype == array.dtype and tensor.nbytes == array.nbytes and tensor.size == 6
    assert tensor.numpy().tobytes() == array.tobytes() and tensor.numpy().dtype == array.dtype
    assert tensor.to("cpu").numpy().tobytes() == array.tobytes()
    assert tensor.copy().numpy().tobytes() == array.tobytes()


def test_packed_types():
    tensor = iobind.empty([5], "int4")
    tensor._write_bytes(bytes([0x21, 0x43, 5]), 0, None)
    assert tensor.nbytes == 3 and tensor.numpy().tolist() == [0x21, 0x43, 5] and tensor.dtype_name == "int4"


def test_parts(device):
    tensor = iobind.tensor(numpy.arange(12, dtype=numpy.int32).reshape(4, 3), device)
    if device == "webgpu":
        assert tensor[0:2].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        with pytest.raises(iobind.NotSupported, match="no addresses"):
            tensor[1:3]
        return
    assert tensor[1:3].numpy().tolist() == [[3, 4, 5], [6, 7, 8]]
    assert tensor[-1].numpy().tolist() == [9, 10, 11] and [part.shape for part in tensor] == [(3,)] * 4
    tensor[2:3].write(numpy.array([[0, 0, 0]], numpy.int32))
    assert tensor.reshape(2, -1).numpy().tolist() == [[0, 1, 2, 3, 4, 5], [0, 0, 0, 9, 10, 11]]
    assert tensor.view("uint8", [4], 4).numpy().tolist() == [1, 0, 0, 0]
    with pytest.raises(iobind.NotSupported, match="step"):
        tensor[::2]
    with pytest.raises(IndexError):
        tensor[4]
    for key in (..., "a", None, 1.5):
        with pytest.raises(TypeError):
            tensor[key]
    with pytest.raises(iobind.InvalidArgument):
        tensor.reshape(5)


def test_host_memory_is_shared_with_numpy():
    tensor = iobind.empty([2, 2])
    array = tensor.numpy()
    array[:] = 3
    assert numpy.asarray(tensor).tolist() == [[3, 3], [3, 3]] and memoryview(tensor).shape == (2, 2)
    del tensor
    gc.collect()
    array[0, 0] = 4
    assert array.tolist() == [[4, 3], [3, 3]]


def test_a_device_tensor_is_no_array(device):
    tensor = iobind.tensor([1.0, 2.0], device, "float32")
    if tensor.host_readable:
        assert numpy.asarray(tensor).tolist() == [1, 2]
        return
    with pytest.raises(TypeError, match="numpy\\(\\) copies it"):
        numpy.asarray(tensor)
    with pytest.raises(BufferError):
        memoryview(tensor)
    assert tensor.numpy().tolist() == [1, 2]
    with pytest.raises(TypeError, match="truth"):
        bool(tensor)


def test_wrapped_memory_lives_as_long_as_it_is_used():
    array = numpy.arange(3, dtype=numpy.float32)
    tensor = iobind.wrap(array)
    array[0] = 9
    assert tensor.numpy().tolist() == [9, 1, 2]
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is not None or tensor.numpy().base is not None
    part = tensor[1:]
    del tensor
    gc.collect()
    assert part.numpy().tolist() == [1, 2]
    locked = numpy.arange(3)
    locked.flags.writeable = False
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        iobind.wrap(locked)
    with pytest.raises(iobind.ShapeError, match="ascontiguousarray"):
        iobind.wrap(numpy.zeros((4, 4))[:, 1])


def test_copies_between_places(device):
    array = numpy.arange(6, dtype=numpy.float32)
    tensors = [iobind.tensor(array + number) for number in range(3)]
    targets = [iobind.empty(6, device=device) for _ in tensors]
    iobind.copy(tensors, targets)
    assert [target.numpy()[0] for target in targets] == [0, 1, 2]
    targets[0].copy_from(targets[2])
    assert targets[0].numpy().tolist() == (array + 2).tolist()
    with pytest.raises(iobind.ShapeError):
        targets[0].copy_from(iobind.empty(5))
    with pytest.raises(iobind.DTypeError):
        targets[0].copy_from(iobind.empty(6, "int32"))


def test_what_is_refused():
    with pytest.raises(iobind.ShapeError):
        iobind.empty([-1])
    with pytest.raises(iobind.ShapeError):
        iobind.empty([1] * 17)
    with pytest.raises(iobind.DTypeError):
        iobind.empty([1], "datetime64[s]")
    with pytest.raises(iobind.NotSupported):
        iobind.empty([1], "complex64")
    with pytest.raises(iobind.InvalidArgument):
        iobind.empty([1], device="no such spec!")
    with pytest.raises(iobind.NotFound):
        iobind.device("cuda:77")
    with pytest.raises(iobind.ShapeError):
        iobind.empty([2]).write(numpy.zeros(3, numpy.float32))
    with pytest.raises(iobind.InvalidArgument):
        iobind.empty([2]).write(numpy.zeros(3, numpy.float32), offset=4)
    with pytest.raises(TypeError):
        iobind.Tensor()
    with pytest.raises(TypeError):
        iobind.Device()
    with pytest.raises(iobind.DTypeError):
        iobind.Session(twice()).bind({"x": numpy.zeros(3, ">f4")})  # another order of bytes


def test_empty_tensors(device):
    tensor = iobind.empty([0, 3], device=device)
    assert tensor.numpy().shape == (0, 3) and len(tensor) == 0 and tensor.nbytes == 0
    assert iobind.tensor(numpy.float32(5), device).numpy().shape == ()


# ---- DLPack ----

def test_numpy_by_dlpack_both_ways():
    tensor = iobind.tensor(numpy.arange(6, dtype=numpy.int16).reshape(2, 3))
    array = numpy.from_dlpack(tensor)
    array[0, 0] = 7
    assert tensor.numpy()[0, 0] == 7
    del tensor
    gc.collect()
    assert array.tolist() == [[7, 1, 2], [3, 4, 5]]
    source = numpy.arange(4, dtype=numpy.float64)
    taken = iobind.from_dlpack(source)
    source[1] = 8
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert taken.numpy().tolist() == [0, 8, 2, 3]
    del taken
    gc.collect()
    assert gone() is None


def test_strides_are_refused_or_copied():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T
    with pytest.raises(iobind.ShapeError, match="dense"):
        iobind.from_dlpack(array)
    copied = iobind.from_dlpack(array, copy=True)
    array[0, 0] = 9
    assert copied.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_copy_is_made_only_if_it_is_asked_for(device):
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    tensor = iobind.tensor(array, device)
    for source, address in ((tensor, tensor.address), (array, array.ctypes.data)):
        for copy in (None, False):
            assert iobind.from_dlpack(source, copy=copy).address == address
        copied = iobind.from_dlpack(source, copy=True)
        assert copied.address != address and copied.numpy().tolist() == array.tolist()
        copied.write(-array)
    assert tensor.numpy().tolist() == array.tolist() == [[0, 1, 2], [3, 4, 5]]
    capsule = tensor.__dlpack__(max_version=(1, 1))
    assert iobind.from_dlpack(capsule, copy=True).address != tensor.address
    taken = iobind.from_dlpack(tensor.__dlpack__(max_version=(1, 1), copy=True))
    assert taken.address != tensor.address and taken.device == tensor.device


def test_dlpack_to_another_device(device):
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    tensor = iobind.tensor(array, device)
    assert iobind.from_dlpack(tensor, device=device).address == tensor.address
    if device == "cpu":
        assert numpy.from_dlpack(tensor, device="cpu").ctypes.data == tensor.address
        assert numpy.from_dlpack(tensor, device="cpu", copy=True).ctypes.data != tensor.address
        return
    for copy in (None, False):
        with pytest.raises(BufferError, match="copy=True"):
            numpy.from_dlpack(tensor, device="cpu", copy=copy)
        for source, target in ((tensor, "cpu"), (array, device)):
            with pytest.raises(iobind.DeviceError, match="copy=True"):
                iobind.from_dlpack(source, device=target, copy=copy)
    assert numpy.from_dlpack(tensor, device="cpu", copy=True).tolist() == array.tolist()
    down = iobind.from_dlpack(tensor, device="cpu", copy=True)
    assert down.device == iobind.device("cpu") and down.numpy().tolist() == array.tolist()
    up = iobind.from_dlpack(array.T, device=device, copy=True)
    assert up.device == tensor.device and up.numpy().tolist() == array.T.tolist()


def test_a_copy_comes_behind_what_writes_the_tensor(device):
    if device in ("cpu", "webgpu"):
        pytest.skip("no pinned memory")
    stream, pinned, tensor = iobind.Stream(device), iobind.empty(4, device=device + "/pinned"), iobind.empty(4, device=device)
    for value in range(20):
        pinned.numpy()[:] = value
        tensor.copy_from(pinned, stream=stream)
        assert numpy.from_dlpack(tensor, device="cpu", copy=True).tolist() == [value] * 4
        tensor.copy_from(pinned, stream=stream)
        copied = iobind.from_dlpack(tensor, copy=True, stream=stream)
        stream.synchronize()
        assert copied.numpy().tolist() == [value] * 4


def test_a_copy_says_that_it_is_one():
    def flags(capsule):
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        return ctypes.cast(pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(ctypes.c_uint64))[3]  # version, context, deleter, flags

    tensor = iobind.tensor([1.0])
    assert [flags(tensor.__dlpack__(max_version=(1, 1), copy=copy)) for copy in (None, False, True)] == [0, 0, 2]
    locked = iobind.wrap(tensor.numpy(), writable=False)
    assert [flags(locked.__dlpack__(max_version=(1, 1), copy=copy)) for copy in (None, True)] == [1, 2]


def test_what_dlpack_cannot_name_is_a_buffer_error():
    tensor = iobind.tensor(["a", "b"])
    for ask in (tensor.__dlpack__, tensor.__dlpack_device__, lambda: tensor.__dlpack__(max_version=(1, 1), copy=True),
                lambda: numpy.from_dlpack(tensor), lambda: iobind.from_dlpack(tensor)):
        with pytest.raises(BufferError, match="string"):
            ask()


def test_a_capsule_that_was_refused_can_still_be_taken():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T
    capsule = array.__dlpack__(max_version=(1, 1))
    with pytest.raises(iobind.ShapeError, match="dense"):
        iobind.from_dlpack(capsule)
    assert iobind.from_dlpack(capsule, copy=True).numpy().tolist() == array.tolist()
    with pytest.raises(iobind.InvalidArgument, match="used"):
        iobind.from_dlpack(capsule, copy=True)


def test_one_of_two_threads_takes_a_capsule():
    """The copy of what has gaps is made without the GIL, and large enough for the other thread to come meanwhile."""
    assert child(SMALL + """
import threading
wide = numpy.ones((2048, 4096), "f4")

def take():
    together.wait()
    try:
        taken.append(iobind.from_dlpack(capsule, copy=True))
    except iobind.InvalidArgument as reason:
        assert "used" in str(reason)
        refused.append(reason)

for _ in range(10):
    taken, refused, together = [], [], threading.Barrier(2)
    capsule = wide[:, ::2].__dlpack__(max_version=(1, 1))
    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(refused) == 1, (taken, refused)
    assert taken[0].numpy().sum() == 2048 * 2048
""") == ""


def test_a_read_only_array_stays_unwritten():
    array = numpy.zeros(2, numpy.float32)
    array.flags.writeable = False
    tensor = iobind.from_dlpack(array)
    assert tensor.read_only and not tensor.numpy().flags.writeable
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        tensor.write(numpy.ones(2, numpy.float32))
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        iobind.Session(twice()).bind({"x": numpy.ones(2, numpy.float32)}, outputs={"y": tensor})
    with pytest.raises(BufferError):
        tensor.__dlpack__()  # a struct of before 1.0 cannot say it
    assert not numpy.from_dlpack(tensor).flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "int64", ml_dtypes.bfloat16], ids=lambda dtype: numpy.dtype(dtype).name)
@pytest.mark.parametrize("locked", [True, False])
def test_wrapped_without_the_right_to_write(device, dtype, locked):
    array = numpy.array([[1, 2], [3, 4]], dtype)
    array.flags.writeable = not locked
    tensor = iobind.wrap(array, writable=False)
    assert tensor.read_only and tensor.shape == (2, 2) and tensor.dtype == array.dtype and not tensor.numpy().flags.writeable
    assert tensor.numpy().tolist() == array.tolist() and tensor.to(device).numpy().tolist() == array.tolist()
    assert tensor[1:].read_only and tensor.reshape(4).read_only
    for write in (lambda: tensor.write(array), lambda: tensor.copy_from(iobind.tensor(array)), lambda: tensor[1:].write(array[1:])):
        with pytest.raises(iobind.InvalidArgument, match="read-only"):
            write()
    assert not tensor.copy().read_only
    del tensor
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


def test_no_run_writes_what_may_not_be_written():
    array = numpy.ones(2, numpy.float32)
    tensor = iobind.wrap(array, writable=False)
    binding = iobind.Session(twice()).bind({"x": tensor})
    assert binding.run()["y"].numpy().tolist() == [2, 2]  # to be read it is good
    for write in (lambda: binding.set_output("y", tensor), lambda: binding.set_output("y", iobind.in_place(tensor))):
        with pytest.raises(iobind.InvalidArgument, match="read-only"):
            write()
    binding.carry("y", "x", "in_place")
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        binding.run()
    assert array.tolist() == [1, 1]
    assert iobind.wrap(numpy.zeros((0, 3)), writable=False).shape == (0, 3)


def test_the_type_of_device_is_true(device):
    tensor = iobind.tensor([1.0], device, "float32")
    kind = {"cpu": 1, "vdev": 12, "webgpu": 15, "cuda": 2}[device]
    assert tensor.__dlpack_device__() == (kind, 0)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(99, 0))
    again = iobind.from_dlpack(tensor.__dlpack__(max_version=(1, 1)))
    assert again.numpy().tolist() == [1]
    if kind != 1:
        with pytest.raises((BufferError, RuntimeError, TypeError)):
            numpy.from_dlpack(tensor)


def test_a_capsule_is_used_once():
    capsule = iobind.empty(1).__dlpack__(max_version=(1, 0))
    iobind.from_dlpack(capsule)
    with pytest.raises(iobind.InvalidArgument, match="used already"):
        iobind.from_dlpack(capsule)
    iobind.empty(1).__dlpack__()  # a capsule that nobody uses gives its tensor back
    with pytest.raises(iobind.InvalidArgument):
        iobind.from_dlpack(3)


def test_lifetimes_in_threads():
    arrays = [numpy.full(100, number, numpy.float32) for number in range(50)]
    wrong = []

    def work():
        for array in arrays:
            tensor = iobind.from_dlpack(array)
            back = numpy.from_dlpack(tensor)
            wrapped = iobind.wrap(array)
            del tensor
            if back[99] != array[0] or wrapped.numpy()[0] != array[0]:
                wrong.append(array[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
