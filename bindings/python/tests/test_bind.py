"""What a bind takes: all or nothing, and one meaning for every library's tensors."""

import weakref

import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, SMALL, add, child, counter, foreign, model, needs_graphs, twice

f32 = numpy.float32


def floats(*values):
    return numpy.array(values, f32)


# ---- all or nothing ----

WRONG = {
    "an input's shape": ({"x": floats(9, 9), "y": numpy.zeros((2, 2), f32)}, {}),
    "an input's type": ({"x": floats(9, 9), "y": numpy.zeros(2)}, {}),
    "an input's name": ({"x": floats(9, 9), "w": floats(9)}, {}),
    "an output's name": ({"x": floats(9, 9)}, {"w": "cpu"}),
    "an output's shape": ({"x": floats(9, 9)}, {"z": numpy.zeros((2, 2), f32)}),
    "an output's type": ({"x": floats(9, 9)}, {"z": numpy.zeros(2, "i4")}),
    "an output's place": ({"x": floats(9, 9)}, {"z": 5}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_refused_bind_changes_nothing(device, wrong):
    inputs, outputs = WRONG[wrong]
    binding = iobind.Session(add(), device=device).bind({"x": floats(1, 2), "y": floats(3, 4)}, outputs={"z": iobind.REUSE})
    out = binding.run()
    with pytest.raises(iobind.Error):
        binding.bind(inputs, outputs=outputs)
    assert out["z"].numpy().tolist() == [4, 6]  # those of the last run have not ended
    assert binding.run()["z"].numpy().tolist() == [4, 6]
    binding["x"] = floats(5, 6)
    assert binding.run()["z"].numpy().tolist() == [8, 10]


def test_a_refused_bind_leaves_what_overlaps():
    """Memory that another input or output has, of this call or of one before it."""
    shared = iobind.tensor(floats(1, 2))
    binding = iobind.Session(add()).bind({"x": shared, "y": floats(3, 4)})
    other = iobind.tensor(floats(7, 7))
    for inputs, outputs in (({"y": floats(9, 9)}, {"z": shared}), ({"y": other}, {"z": other}), ({"y": iobind.live(floats(1, 1)), "x": other}, {"z": other})):
        with pytest.raises(iobind.InvalidArgument, match="overlaps"):
            binding.bind(inputs, outputs=outputs)
        assert binding.run()["z"].numpy().tolist() == [4, 6]
    shared.write(floats(2, 2))
    assert binding.run()["z"].numpy().tolist() == [5, 6]
    binding.bind({"x": other, "y": floats(1, 1)}, outputs={"z": shared})  # the input is not there any more
    assert binding.run()["z"] is shared and shared.numpy().tolist() == [8, 8]


@pytest.mark.parametrize("how", ["a second carry", "an input behind the carry", "an output behind the carry"])
def test_a_refused_bind_leaves_states(device, how):
    session = iobind.Session(counter(), device=device)
    binding = session.bind({"x": floats(1), "state": floats(0), "past.0.key": floats(7)}, carry={"next": "state"})
    for _ in range(2):
        binding.run()
    wrong = {"a second carry": dict(carry={"present.0.key": "past.0.key", "next": "past.0.key"}),
             "an input behind the carry": dict(inputs={"past.0.key": floats(1), "x": floats(1, 2)}, carry={"present.0.key": "past.0.key"}),
             "an output behind the carry": dict(outputs={"present.0.key": numpy.zeros((1, 1), f32)}, carry={"next": "state"}, carry_mode="move")}[how]
    with pytest.raises(iobind.Error):
        binding.bind(**wrong)
    out = binding.run()
    assert out["next"].numpy().tolist() == [3] and out["present.0.key"].numpy().tolist() == [7, 1]
    assert binding.run()["present.0.key"].numpy().tolist() == [7, 1]  # it is not carried


def test_a_first_bind_that_is_refused():
    binding = iobind.Session(add()).bind()
    with pytest.raises(iobind.ShapeError):
        binding.bind({"x": floats(1), "y": numpy.zeros((1, 1), f32)})
    with pytest.raises(iobind.InvalidState, match="'x' is not bound"):
        binding.run()


def test_a_bind_that_memory_does_not_suffice_for():
    """The copy of the second array fails: the first one was made before anything was bound."""
    assert child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
binding = iobind.Session(add(), device=PLACE).bind({"x": x, "y": x})
before = binding.run()["z"].numpy().tolist()
assert setting(0, b"fail_alloc", b"2") == 0
try:
    binding.bind({"x": 3 * x, "y": 3 * x})
except iobind.OutOfMemory:
    assert setting(0, b"fail_alloc", b"0") == 0
    print(before == binding.run()["z"].numpy().tolist())
""") == "True\n"


def test_a_bind_during_a_run_is_refused_as_a_whole():
    stream = iobind.Stream("vdev")
    binding = iobind.Session(add(), device="vdev").bind({"x": floats(1, 2), "y": floats(3, 4)})
    out = binding.run(stream=stream)
    with pytest.raises(iobind.InvalidState, match="in flight|in flight"):
        binding.bind({"x": floats(9, 9), "y": floats(9, 9)}, outputs={"z": "cpu"})
    assert out["z"].numpy().tolist() == [4, 6] and binding.run()["z"].numpy().tolist() == [4, 6]


def test_a_bind_with_graphs():
    needs_graphs()
    binding = iobind.Session(add(), device="vdev", graphs=1).bind({"x": floats(1, 2), "y": floats(3, 4)})
    for _ in range(2):
        with pytest.raises(iobind.ShapeError):
            binding.bind({"x": floats(9, 9), "y": numpy.zeros((2, 2), f32)})
        assert binding.run()["z"].numpy().tolist() == [4, 6]


def test_memory_that_is_replaced_by_a_bind_is_freed():
    """What is known of a binding for the next bind() holds nothing that the binding does not."""
    held = [numpy.zeros(2, f32) for _ in range(3)]
    gone = [weakref.ref(one) for one in held]
    binding = iobind.Session(add()).bind({"x": iobind.live(held[0]), "y": iobind.wrap(held[1])}, outputs={"z": held[2]})
    binding.run()
    del held
    assert all(one() is not None for one in gone)
    binding.bind({"x": floats(1, 2), "y": floats(3, 4)}, outputs={"z": "cpu"})
    assert [one() for one in gone] == [None] * 3 and binding.run()["z"].numpy().tolist() == [4, 6]


# ---- other libraries' tensors ----

@pytest.mark.parametrize("bind", [lambda binding, value: binding.bind({"x": value}), lambda binding, value: binding.__setitem__("x", value),
                                  lambda binding, value: binding.bind({"x": value}, outputs={"y": "cpu"}),
                                  lambda binding, value: binding.set_input("x", value)], ids=["bind", "[]", "bind of two", "set_input"])
@pytest.mark.parametrize("where", ["cpu", "vdev"])
def test_a_tensor_of_another_library_is_copied(device, where, bind):
    """Wherever it is, and wherever the session wants it."""
    if {device, where} == {"webgpu", "vdev"}:
        pytest.skip("one at a time")
    theirs = iobind.tensor(floats(1, 2), where)
    binding = iobind.Session(twice(), device=device).bind()
    bind(binding, foreign(theirs) if where != "cpu" else Torch(theirs.numpy()))
    theirs.write(floats(7, 7))
    assert [binding.run()["y"].numpy().tolist() for _ in range(2)] == [[2, 4]] * 2


class Bare:
    """A tensor on the host that has DLPack and nothing of NumPy's."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **keywords):
        keywords.pop("stream", None)
        return self.tensor.__dlpack__(**keywords)


def test_a_tensor_that_has_only_dlpack(device):
    theirs = iobind.tensor(floats(1, 2))
    session = iobind.Session(twice(), device=device)
    binding, live = session.bind({"x": Bare(theirs)}), session.bind({"x": iobind.live(Bare(theirs))})
    assert session.run(None, {"x": Bare(theirs)})[0].tolist() == [2, 4] and iobind.tensor(Bare(theirs), device).tolist() == [1, 2]
    theirs.write(floats(7, 7))
    assert binding.run()["y"].tolist() == [2, 4] and live.run()["y"].tolist() == [14, 14]
    binding["x"] = Bare(theirs)
    assert binding.run()["y"].tolist() == [14, 14]
    binding.update("x", Bare(iobind.tensor(floats(3, 3))))
    assert binding.run()["y"].tolist() == [6, 6]
    with pytest.raises(iobind.DTypeError, match="'x': expected float32, got int32"):
        binding["x"] = Bare(iobind.tensor([1, 2], dtype="int32"))


@pytest.mark.parametrize("where", ["cpu", "vdev"])
def test_a_live_tensor_of_another_library_is_read_by_each_run(device, where):
    if {device, where} == {"webgpu", "vdev"}:
        pytest.skip("one at a time")
    theirs = iobind.tensor(floats(1, 2), where)
    binding = iobind.Session(twice(), device=device).bind({"x": iobind.live(foreign(theirs) if where != "cpu" else Torch(theirs.numpy()))})
    seen = [binding.run()["y"].numpy().tolist()]
    theirs.write(floats(7, 7))
    assert [*seen, binding.run()["y"].numpy().tolist()] == [[2, 4], [14, 14]]


def test_a_snapshot_comes_behind_its_producer():
    """Which still writes it when it is bound, and writes it again at once: the copy is done by then. Nothing races."""
    assert child(SMALL + "ORDERED, PLACE = True, 'vdev'\n" + DEVICE + """
assert setting(0, b"race", b"count") == 0
stream, tensor, pinned = iobind.Stream(PLACE), iobind.empty(4, device=PLACE), iobind.empty(4, device=PLACE + "/pinned")

class Other:
    def __dlpack_device__(self):
        return tensor.__dlpack_device__()
    def __dlpack__(self, **keywords):
        return tensor.__dlpack__(**keywords)

binding, right = iobind.Session(twice(), device=PLACE).bind(), 0
for step in range(12):
    pinned.numpy()[:] = step
    setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
    tensor.copy_from(pinned, stream=stream)
    setting(0, b"delay_copy", b"0")
    binding["x"] = Other()
    tensor.write(numpy.full(4, -1, "f4"))
    right += binding.run()["y"].numpy().tolist() == [2 * step] * 4
print(right, get(0, b"races"))
""") == "12 0\n"


class Torch:
    """A tensor as PyTorch's on the CPU: NumPy takes it, by __array__, unless it has no such type; DLPack always."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array.dtype.name == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **keywords):
        keywords.pop("stream", None)
        return iobind.wrap(self.array).__dlpack__(**keywords)


def half():
    import onnx

    return model([("Identity", ["x"], ["y"])], [("x", onnx.TensorProto.BFLOAT16, ["n"])], [("y", onnx.TensorProto.BFLOAT16, ["n"])])


def test_bfloat16_of_pytorch(device):
    import ml_dtypes

    x = Torch(numpy.array([1, 2.5], ml_dtypes.bfloat16))
    if device == "webgpu":
        pytest.skip("no bfloat16")
    session = iobind.Session(half(), device=device)
    binding = session.bind()
    for bind in (lambda: binding.__setitem__("x", x), lambda: binding.bind({"x": x}), lambda: binding.update("x", x)):
        bind()
        assert binding.run()["y"].tolist() == [1, 2.5]
    assert session.run(None, {"x": x})[0].tolist() == [1, 2.5] and iobind.tensor(x).dtype_name == "bfloat16"
    with pytest.raises(iobind.DTypeError, match="'x': expected bfloat16, got float32"):
        binding["x"] = Torch(numpy.ones(2, f32))
    with pytest.raises(iobind.DTypeError, match="'x': expected float32, got bfloat16"):
        iobind.Session(twice()).bind({"x": x})


def test_bfloat16_without_ml_dtypes():
    """An index assignment needs nothing of NumPy's."""
    assert child(SMALL + """
import sys
import ml_dtypes
from test_bind import Torch, half
x = Torch(numpy.array([1, 2.5], ml_dtypes.bfloat16))
held = iobind.wrap(x.array)
sys.modules["ml_dtypes"] = None
iobind._dtypes.numpy_dtype.cache_clear()
x.__class__.__dlpack__ = lambda self, **keywords: held.__dlpack__(max_version=(1, 0))
binding = iobind.Session(half()).bind()
binding["x"] = x
print(binding.run()["y"].view("uint16", [2]).numpy().tolist())
""") == "[16256, 16416]\n"
