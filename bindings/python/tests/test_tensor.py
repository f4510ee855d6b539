"""Tensors on every device, and DLPack."""

import ctypes
import gc
import threading
import weakref
from array import array as array_of_c

import ml_dtypes
import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, SMALL, STRING, UINT8, child, foreign, model, same, twice

DTYPES = ["float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64", "uint32", "uint64",
          ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: numpy.dtype(dtype).name)
def test_every_type_there_and_back(device, dtype):
    array = numpy.array([[0, 1, 2], [1, 0, 1]]).astype(dtype)
    tensor = iobind.tensor(array, device)
    assert tensor.shape == (2, 3) and tensor.dtype == array.dtype and tensor.nbytes == array.nbytes and tensor.size == 6 and tensor.ndim == 2
    assert iobind._core.dtype_name(tensor.dtype_code) == tensor.dtype_name
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
    with pytest.raises(iobind.ShapeError, match="wrap: expected a dense array.* its memory is shared, and a dense copy is other memory"):
        iobind.wrap(numpy.zeros((4, 4))[:, 1])


class Copies:
    """NumPy finds an array in it, another one each time."""

    def __init__(self):
        self.array = numpy.ones(2, numpy.float32)

    def __array__(self, dtype=None, copy=None):
        return self.array.copy()


class Shares(Copies):
    def __array__(self, dtype=None, copy=None):
        return self.array


WITHOUT_MEMORY = {"a list": [1.0, 2.0], "a scalar": numpy.float32(0), "a number": 1.0, "what copies": Copies(),
                  "a class": type(iobind.REUSE)}


@pytest.mark.parametrize("value", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY)
def test_what_would_be_copied_is_not_shared(value):
    session = iobind.Session(same(FLOAT))
    with pytest.raises(iobind.InvalidArgument, match="^wrap: expected a Tensor or an array, got (?!.*from_dlpack)"):
        iobind.wrap(value)
    with pytest.raises(iobind.InvalidArgument, match="^bind: 'y': expected a Tensor or an array, got"):
        session.bind(outputs={"y": value})
    with pytest.raises(iobind.InvalidArgument, match="^bind: 'x': expected a Tensor or an array, got"):
        session.bind({"x": iobind.live(value)})


@pytest.mark.parametrize("make", [lambda: memoryview(bytearray(8)).cast("f"), lambda: array_of_c("f", [0, 0]), Shares,
                                  lambda: iobind.empty(2), lambda: numpy.zeros(2, numpy.float32)],
                         ids=["memoryview", "array.array", "__array__", "Tensor", "ndarray"])
def test_what_has_memory_is_shared(make):
    source, target, wrapped = make(), make(), make()
    numpy.asarray(source)[:] = 1
    binding = iobind.Session(same(FLOAT)).bind({"x": iobind.live(source)}, outputs={"y": target})
    binding.run()
    assert numpy.asarray(target).tolist() == [1, 1]
    numpy.asarray(source)[:] = 2
    binding.run()
    assert numpy.asarray(target).tolist() == [2, 2]
    iobind.wrap(wrapped).write([3, 3])
    assert numpy.asarray(wrapped).tolist() == [3, 3]


def test_empty_memory_is_shared():
    assert iobind.wrap(bytearray()).shape == iobind.wrap(b"", writable=False).shape == (0,)


def test_a_device_tensor_of_another_library_is_no_array():
    other = foreign(iobind.tensor([1.0, 2.0], "vdev", "float32"))
    session = iobind.Session(same(FLOAT))
    binding = session.bind({"x": [1, 2]})
    for use in (lambda: iobind.wrap(other), lambda: iobind.tensor(other), lambda: iobind.empty(2).write(other),
                lambda: session.bind(outputs={"y": other}),
                lambda: session.run(None, {"x": other}), lambda: binding.update("x", other)):
        with pytest.raises(iobind.InvalidArgument, match="expected a Tensor or an array, got Foreign; iobind.from_dlpack imports"):
            use()


def test_another_order_of_bytes():
    swapped = numpy.array([1, 2], ">f4")
    session = iobind.Session(same(FLOAT))
    for use in (lambda: iobind.wrap(swapped), lambda: iobind.wrap(swapped, writable=False), lambda: session.bind(outputs={"y": swapped}),
                lambda: iobind.tensor(swapped), lambda: iobind.empty(2, ">f4"), lambda: iobind.empty(2).view(">i4", [2])):
        with pytest.raises(iobind.DTypeError, match=r"expected (float|int)32 in this machine's byte order, got >.4: .*newbyteorder\('='\)"):
            use()
    assert iobind.wrap(swapped.astype(swapped.dtype.newbyteorder("="))).numpy().tolist() == [1, 2]
    assert iobind.tensor(numpy.array(["a"], ">U1")).numpy().tolist() == ["a"]


def test_bytes_are_numbers_of_8_bits():
    session = iobind.Session(same(UINT8))
    assert session.bind({"x": b"abc"}).run()["y"].numpy().tolist() == session.run(None, {"x": b"abc"})[0].tolist() == [97, 98, 99]
    assert iobind.tensor(b"abc").numpy().tolist() == iobind.wrap(b"abc", writable=False).numpy().tolist() == [97, 98, 99]


# ---- strings ----

@pytest.mark.parametrize("value", [["Z"], ["Z"] * 4, [["Z"]] * 3, "Z"], ids=str)
def test_strings_of_another_shape_are_not_written(value):
    tensor = iobind.tensor(["a", "b", "c"])
    with pytest.raises(iobind.ShapeError, match=r"write: expected \[3\], got"):
        tensor.write(value)
    assert tensor.numpy().tolist() == ["a", "b", "c"]


def test_strings_are_written_all_or_none():
    tensor = iobind.tensor(["a", "b"])
    for wrong, error, text in (([1, "d"], iobind.DTypeError, "element 0: .*int"), (["c", None], iobind.DTypeError, "element 1: .*NoneType"),
                               (numpy.array([b"c", b"d"]), iobind.DTypeError, "bytes"), ([["c"], ["d", "e"]], iobind.DTypeError, "list"),
                               (numpy.zeros(2), iobind.DTypeError, "expected strings, got float64"), (b"c", iobind.DTypeError, "bytes"),
                               (["c", "d\0"], iobind.InvalidArgument, "element 1: .*NUL"),
                               (["c", "\udc80"], iobind.InvalidArgument, "UTF-8")):
        with pytest.raises(error, match=f"^write: .*{text}"):
            tensor.write(wrong)
        with pytest.raises(error, match=f"^bind: 'x': .*{text}"):
            iobind.Session(same(STRING)).bind({"x": wrong})
    assert tensor.numpy().tolist() == tensor.read().tolist() == ["a", "b"]
    for refused in (lambda: tensor.write(["c", "d"], offset=1), lambda: tensor.write(["c", "d"], stream=iobind.Stream("vdev")),
                    lambda: tensor.read(offset=1), lambda: tensor.read(numpy.empty(2, object))):
        with pytest.raises(iobind.NotSupported, match="strings"):
            refused()
    assert tensor.numpy().tolist() == ["a", "b"]
    tensor.write(numpy.array(["c", "\u00fc"]))
    assert tensor.numpy().tolist() == ["c", "\u00fc"]


@pytest.mark.parametrize("texts, error, words", [(["a", "b\0"], iobind.InvalidArgument, "element 1: .*NUL"),
                                                 (["a", 1], iobind.DTypeError, "element 1: expected a str, got int")])
def test_lists_of_strings_are_not_changed(texts, error, words):
    """NumPy's own array of them would have no NUL at the end of one, and a string for a number."""
    with pytest.raises(error, match=f"^tensor: {words}"):
        iobind.tensor(texts)


def test_strings_are_bound_anew():
    binding = iobind.Session(same(STRING)).bind({"x": ["a"]})
    with pytest.raises(iobind.DTypeError, match=r"update: 'x': strings .* b\['x'\] = array"):
        binding.update("x", ["q"])
    with pytest.raises(iobind.NotSupported, match="bind: 'x': an array of strings .*live\\(tensor\\)"):
        binding["x"] = iobind.live(numpy.array(["q"], object))
    assert binding.run()["y"].numpy().tolist() == ["a"]
    tensor = iobind.tensor(["b"])
    binding["x"] = iobind.live(tensor)
    assert binding.run()["y"].numpy().tolist() == ["b"]
    tensor.write(["c"])
    assert binding.run()["y"].numpy().tolist() == ["c"]


# ---- Python's numbers ----

@pytest.mark.parametrize("value, dtype", [
    ([1e300], "float32"), ([70000], "float16"), ([1000.0], "float8_e4m3fn"), ([float("inf")], "float8_e4m3fn"), ([16777217], "float32"),
    ([16777217, 0.5], "float32"), ([257], "bfloat16"), ([2**63 - 1], "float64"), ([2**53 + 1, 0.5], "float64"), ([2**70 + 1], "float64"),
    ([10**400], "float64"), ([2], "bool"), (300, "uint8"), ([-1], "uint64"), ([2**63], "int64"), ([1j], "float32"), ([1j], "uint8"),
    ([1, None], "float64"), ([1, None], "bool"), ([ml_dtypes.bfloat16(1)], "int32"), ([numpy.datetime64(1, "s")], "float32"),
    ([numpy.void(b"1234")], "float32")], ids=str)
def test_a_number_that_the_type_does_not_have(value, dtype):
    with pytest.raises(iobind.DTypeError, match=f"^tensor: expected numbers that {dtype} can represent, got "):
        iobind.tensor(value, dtype=dtype)


@pytest.mark.parametrize("value, dtype", [
    ([0.1, 1e-50], "float32"), ([16777217.0], "float32"), ([16777216, True, 0.5], "float32"), ([float("inf"), -float("inf")], "float16"),
    ([float("nan")], "float8_e4m3fn"), ([256, 1], "bfloat16"), ([2**70], "float64"), ([2**64 - 1], "uint64"), ([-128, 127], "int8"),
    ([0, 1, True], "bool"), ([ml_dtypes.bfloat16(1)], "float32"), ([], "int32"), ([[]], "bool")], ids=str)
def test_a_number_that_the_type_has(value, dtype):
    made = iobind.tensor(value, dtype=dtype)
    assert made.dtype_name == dtype or dtype in ("bool", "float8_e4m3fn")
    assert numpy.array_equal(made.numpy(), numpy.array(value).astype(made.dtype), equal_nan=True)


def test_lists_of_different_lengths():
    session = iobind.Session(same(FLOAT))
    for use in (lambda: iobind.tensor([[1], [1, 2]]), lambda: iobind.tensor([[1], [1, 2]], dtype="float32"),
                lambda: session.bind({"x": [[1], [1, 2]]}), lambda: session.run(None, {"x": [[1], [1, 2]]})):
        with pytest.raises(iobind.ShapeError, match=r": expected lists of one length at each depth, got \[\[1\], \[1, 2\]\]"):
            use()


def test_numpy_is_told_of_a_copy():
    tensor = iobind.tensor([1.0, 2.0], dtype="bfloat16")
    with pytest.raises(ValueError, match="bfloat16 .*float32 without a copy"):
        numpy.asarray(tensor, "float32", copy=False)
    assert numpy.asarray(tensor, "float32").tolist() == [1, 2]
    for dtype in (None, ml_dtypes.bfloat16):
        assert numpy.shares_memory(numpy.asarray(tensor, dtype, copy=False), tensor.numpy())
        assert not numpy.shares_memory(numpy.array(tensor, dtype, copy=True), tensor.numpy())


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
    assert memoryview(iobind.empty([0, 1 << 40, 1 << 40])).shape == (0, 1 << 40, 1 << 40)  # its strides are not numbers of 64 bits


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
    with pytest.raises(iobind.ShapeError, match=r"dense.*copy=True(?!.*IOBIND_)"):
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
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        binding.carry("y", "x", "in_place")
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
    with pytest.raises(iobind.InvalidArgument, match="not used yet"):
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


def copied(tensors, pinned, stream):
    for tensor in tensors:
        tensor.copy_from(pinned, stream=stream)


def run_into(tensors, pinned, stream):
    both = model([("Add", ["x", "x"], ["y"]), ("Neg", ["x"], ["z"])], [("x", FLOAT, [4])], [("y", FLOAT, [4]), ("z", FLOAT, [4])])
    run_into.binding = run_into.binding or iobind.Session(both, device="vdev").bind({"x": pinned.numpy()}, outputs=dict(zip("yz", tensors)))
    run_into.binding.run(stream=stream)
    stream.synchronize()


run_into.binding = None


@pytest.mark.parametrize("write", [copied, run_into])
def test_a_stream_that_a_program_let_go_of_is_not_held_by_what_it_wrote(write):
    """Neither of two tensors keeps it; vdev has at most 512 at a time."""
    pinned, tensors = iobind.empty(4, device="vdev/pinned"), [iobind.empty(4, device="vdev") for _ in range(2)]
    for _ in range(600):
        write(tensors, pinned, iobind.Stream("vdev"))
    assert all(len(tensor._writers()) < 6 for tensor in tensors)


def test_a_tensor_of_many_streams_is_handed_over_behind_them_all():
    """Those that the program still has stay noted while work is in flight; those that it let go of were waited for, or are noted."""
    assert child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
assert setting(0, b"race", b"count") == 0
tensor, target, pinned = iobind.tensor(numpy.zeros(12, "f4"), PLACE), iobind.empty(12, device=PLACE), iobind.empty(12, device=PLACE + "/pinned")
consumer, right = iobind.Stream(PLACE), 0
for step in range(1, 6):
    pinned.numpy()[:] = step
    kept = []
    for part in range(12):
        stream = iobind.Stream(PLACE)
        kept += [stream] * (part % 2)
        setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
        tensor[part:part + 1].copy_from(pinned[part:part + 1], stream=stream)
        del stream
    setting(0, b"delay_copy", b"0")
    assert set(kept) <= set(tensor._writers())
    target.copy_from(iobind.from_dlpack(tensor.__dlpack__(stream=consumer.native, max_version=(1, 1))), stream=consumer)
    consumer.synchronize()
    right += target.numpy().tolist() == [step] * 12
print(right, get(0, b"races"))
""") == "5 0\n"


def test_memory_that_a_device_does_not_have():
    child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
assert setting(0, b"mem_limit", b"8") == 0
try:
    iobind.empty(1000, device=PLACE)
except iobind.OutOfMemory as reason:
    assert isinstance(reason, MemoryError) and "4000 bytes" in str(reason), reason
else:
    raise SystemExit("there was memory")
""")


@pytest.mark.parametrize("dtype, fits, does_not", [
    ("float32", [1 << 24, 0.5], [(1 << 24) + 1, 0.5]), ("float32", [1 << 24], [(1 << 24) + 1]), ("float64", [1 << 53, 0.5], [(1 << 53) + 1, 0.5]),
    ("float16", [2048, 0.5], [2049, 0.5]), ("float16", [2048], [2049]), ("float32", [(1 << 63) - (1 << 40)], [(1 << 63) - 1])])
def test_whole_numbers_in_lists_are_not_rounded(dtype, fits, does_not):
    assert iobind.tensor(fits, dtype=dtype).numpy().tolist() == fits
    with pytest.raises(iobind.DTypeError, match="expected numbers that"):
        iobind.tensor(does_not, dtype=dtype)
