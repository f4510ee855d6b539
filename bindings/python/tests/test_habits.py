"""What users of NumPy, PyTorch and onnxruntime try first: devices and types of other libraries, with, comparisons, a session of theirs."""

import inspect
from collections.abc import Mapping

import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, SMALL, STRING, add, child, model, same, slow, twice

f32 = numpy.float32


def floats(*values):
    return numpy.array(values, f32)


# ---- devices and types ----

class Device:
    """As torch.device."""

    def __init__(self, type, index=None):
        self.type, self.index = type, index


class Float16:
    """As torch.float16."""

    __module__ = "torch"

    def __init__(self, name="float16"):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


def test_a_device_of_pytorch():
    there = Device("vdev", 0)
    session = iobind.Session(twice(), device=there)
    assert iobind.device(there) == iobind.device(Device("vdev")) == iobind.device("vdev") == session.inputs[0].device
    assert iobind.empty(2, device=there).device == iobind.tensor([1.0], there).to(there).device == iobind.device("vdev")
    assert iobind.Stream(there).device == iobind.device("vdev") and repr(iobind.Event(there)) == "<iobind.Event on vdev:0>"
    binding = session.bind({"x": floats(1)}, outputs={"y": Device("cpu")})
    assert binding.run()["y"].device == iobind.device("cpu")
    binding.set_output("y", iobind.REUSE(Device("cpu")))
    assert iobind.Session(twice(), device=[there, Device("cpu")]).outputs[0].device == iobind.device("vdev")
    assert next(session.map([{"x": floats(1)}], outputs={"y": there}))["y"].device == iobind.device("vdev")
    assert iobind.from_dlpack(floats(1), device=there, copy=True).device == iobind.device("vdev")
    with pytest.raises(iobind.InvalidArgument, match="'mps'"):
        iobind.device(Device("mps"))


def test_no_device_is_the_cpu():
    assert iobind.empty(1, device=None).device == iobind.tensor([1], None).device == iobind.device("cpu")
    assert iobind.Session(twice(), None).inputs[0].device == iobind.Session(twice(), device=None).inputs[0].device == iobind.device("cpu")
    assert iobind.from_dlpack(floats(1), device=None).device == iobind.device("cpu")


def test_a_type_of_pytorch():
    assert iobind.empty(1, Float16()).dtype_name == iobind.tensor([1.5], dtype=Float16()).dtype_name == "float16"
    assert iobind.empty(4).view(Float16("bfloat16"), [8]).dtype_name == "bfloat16" and iobind.empty(1, Float16("int64")).dtype_name == "int64"
    with pytest.raises(iobind.DTypeError, match="no tensors of torch.qint8"):
        iobind.empty(1, Float16("qint8"))


# ---- tensors as numbers ----

def test_numbers_of_a_tensor(device):
    tensor = iobind.tensor([[1.5, 2.0]], device, "float32")
    assert tensor.tolist() == [[1.5, 2.0]] and tensor.reshape(2).tolist() == [1.5, 2.0]
    one = iobind.tensor([[2.5]], device, "float32").item()
    assert one == 2.5 and type(one) is float
    with pytest.raises(ValueError, match=r"item: expected a tensor of one element, got \[1, 2\]"):
        tensor.item()
    assert iobind.tensor(3, "cpu", "int64").item() == 3 and iobind.tensor(["a"]).item() == "a" and iobind.tensor(["a"]).tolist() == ["a"]
    assert iobind.tensor([1], dtype="bfloat16").item() == 1.0 and iobind.tensor([True]).tolist() == [True]


def test_a_comparison_is_not_silently_false(device):
    tensor = iobind.tensor([1.0], device, "float32")
    assert tensor == tensor and not tensor != tensor and tensor != None and not tensor == "x"  # noqa: E711
    for other in (iobind.tensor([1.0], device, "float32"), 1.0, [1.0], iobind.device("cpu")):
        for compare in (lambda a, b: a == b, lambda a, b: a != b, lambda a, b: b == a):
            with pytest.raises(TypeError, match="numpy"):
                compare(tensor, other)
    assert {tensor: 1}[tensor] == 1 and tensor in {tensor} and tensor in [tensor]


def test_a_comparison_with_an_array_is_numpy_s(device):
    tensor = iobind.tensor([1.0, 2.0], device, "float32")
    with pytest.raises(TypeError, match="numpy"):
        assert tensor == numpy.array([1, 2], f32)
    assert (tensor.numpy() == numpy.array([1, 2], f32)).all()


# ---- Outputs ----

def test_outputs_are_a_mapping():
    session = iobind.Session(model([("Add", ["x", "x"], ["y"]), ("Neg", ["x"], ["z"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"]), ("z", FLOAT, ["n"])]))
    out = session.bind({"x": floats(1)}, outputs={"z": None}).run()
    assert isinstance(out, Mapping) and out.keys() == {"y"} and "z" not in out and out.get("z") is None and out.get("z", 5) == 5
    assert out.get("y") is out["y"] and [*out.items()] == [("y", out["y"])] and {**out} == dict(out) == out
    assert (lambda y: y)(**out) is out["y"] and out.keys() - {"y"} == set()
    match out:
        case {"y": tensor}:
            assert tensor is out["y"]
    with pytest.raises(KeyError):
        out["q"]
    with pytest.raises(TypeError):
        iobind.Outputs()


# ---- with ----

def test_a_session_that_is_closed(device):
    with iobind.Session(add(), device=device) as session:
        binding = session.bind({"x": floats(1), "y": floats(2)}, outputs={"z": "cpu"})
        results = session.map(({"x": floats(number), "y": floats(1)} for number in range(4)))
        first = next(results)
    assert repr(session) == "<iobind.Session closed>"
    for use in (session.bind, lambda: session.run(None, {"x": floats(1), "y": floats(2)}), lambda: session.map([]), session.info, session.metadata,
                session.nodes, session.end_profile, lambda: session.inputs, lambda: session.outputs, lambda: session.empty("x", n=1),
                lambda: session.run(None, {"x": floats(1), "y": [2]}), lambda: iobind.Binding(session)):
        with pytest.raises(iobind.InvalidState, match="session: it is closed"):
            use()
    session.close()
    # what was made of it goes on
    assert first["z"].tolist() == [1] and [out["z"].tolist() for out in results] == [[2], [3], [4]]
    out = binding.run()
    binding["x"] = floats(5)
    assert binding.run()["z"].tolist() == [7] and out["z"].tolist() == [3] and binding.take("z").tolist() == [7]
    binding.bind({"x": floats(1, 2), "y": floats(1, 1)}, outputs={"z": iobind.REUSE("cpu")})
    assert binding.run()["z"].tolist() == [2, 3]
    with pytest.raises(KeyError):
        out["q"]
    binding.clear()
    with pytest.raises(iobind.InvalidState, match="'x' is not bound"):
        binding.run()


def test_a_closed_session_gives_its_memory_back():
    assert child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from support import FLOAT, model
import onnx
weights = onnx.numpy_helper.from_array(numpy.ones(1000, "f4"), "weights")
made = model([("Add", ["x", "weights"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1000])], [weights])
before = get(0, b"live_bytes")
session = iobind.Session(made, device=PLACE)
held = get(0, b"live_bytes") - before
session.close()
print(held >= 4000, get(0, b"live_bytes") - before)
""") == "True 0\n"


def test_a_session_is_not_closed_during_a_run_of_another_thread():
    assert child(SMALL + """
import threading
session = iobind.Session(slow(2), threads=1)
thread = threading.Thread(target=session.run, args=[None, {"x": numpy.zeros((64, 64), "f4")}])
thread.start()
refused = 0
while thread.is_alive() and not refused:
    try:
        session.close()
        session = None
        break
    except iobind.InvalidState as reason:
        assert "another thread" in str(reason)
        refused += 1
thread.join()
print(refused, session is not None)
""") in ("1 True\n", "0 False\n")  # the thread may begin after all


def test_a_binding_that_is_closed(device):
    session, stream = iobind.Session(twice(), device=device), iobind.Stream(device)
    with session.bind({"x": floats(1)}, outputs={"y": "cpu"}) as binding:
        kept = binding.run()["y"]
        binding.run(stream=stream)
    with pytest.raises(iobind.InvalidState, match="'x' is not bound"):
        binding.run()
    assert kept.tolist() == [2]
    with pytest.raises(ZeroDivisionError), session.bind({"x": floats(1)}):
        1 / 0


def test_a_block_of_a_stream_waits():
    assert child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
target, pinned = iobind.empty(4, device=PLACE), iobind.empty(4, device=PLACE + "/pinned")
pinned.numpy()[:] = 5
setting(0, b"delay_copy", b"every:1,us:3000")
with iobind.Stream(PLACE) as stream:
    target.copy_from(pinned, stream=stream)
    event = stream.record()
print(event.query())
""") == "True\n"


def test_a_block_of_a_stream_raises_what_failed_there():
    """Unless the block itself has raised."""
    class Failed(iobind.Stream):
        def synchronize(self):
            raise iobind.OrtError("late")

    with pytest.raises(iobind.OrtError, match="late"), Failed("vdev"):
        pass
    with pytest.raises(ZeroDivisionError), Failed("vdev"):
        1 / 0


def test_a_map_that_is_closed(device):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield {"x": floats(number)}

    with iobind.Session(twice(), device=device).map(items(), slots=3) as results:
        assert next(results)["y"].tolist() == [0]
    assert len(taken) < 10 and list(results) == []
    results.close()


# ---- onnxruntime's ----

ADOPT = """
import numpy, onnxruntime, iobind
from support import add
x = numpy.ones(2, "f4")
own = onnxruntime.InferenceSession(add(), providers=["CPUExecutionProvider"])
"""


def test_a_session_of_onnxruntime_is_adopted():
    assert child(ADOPT + """
iobind.attach(onnxruntime)
session = iobind.Session.adopt(own)
print(repr(session), session.run(None, {"x": x, "y": x})[0].tolist())
binding = session.bind({"x": x, "y": x})
own.set_providers(["CPUExecutionProvider"])  # makes another session inside
del own, session
print(binding.run()["z"].tolist())
""") == "<iobind.Session (x, y) -> (z) on cpu:0> [2.0, 2.0]\n[2.0, 2.0]\n".replace("cpu:0", "cpu")


def test_what_adopt_refuses():
    assert child(ADOPT + """
class Other:
    _sess = object()

for given in (own, Other(), 0):
    try:
        iobind.Session.adopt(given)
    except (iobind.NotSupported, iobind.InvalidArgument) as reason:
        print(type(reason).__name__, str(reason)[:30])
""") == ("NotSupported adopt: expected a session of t\n"
         "NotSupported adopt: no OrtSession was found\nInvalidArgument adopt: ort_session is NULL\n")


# ---- the session's stream, preload ----

def test_a_session_computes_on_a_stream():
    """Runs of its bindings follow one another there, and what the host asks for comes behind them. Nothing races."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
class Foreign:  # as torch.cuda.Stream
    def __init__(self, stream):
        self.stream, self.cuda_stream = stream, stream.native
assert setting(0, b"race", b"count") == 0
stream, pinned, tensor = iobind.Stream(PLACE), iobind.empty(2, device=PLACE + "/pinned"), iobind.empty(2, device=PLACE)
for given in (stream, Foreign(stream)):
    session = iobind.Session(twice(), device=PLACE, stream=given)
    binding, right = session.bind({"x": tensor}), 0
    for step in range(8):
        pinned.numpy()[:] = step
        setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 2000))
        tensor.copy_from(pinned, stream=stream)
        setting(0, b"delay_copy", b"0")
        for out in (binding.run(stream=given)["y"].numpy(), binding.run()["y"].numpy()):
            right += out.tolist() == [2 * step] * 2
        stream.synchronize()
    print(right, get(0, b"races"))
kept = iobind.Session(twice(), device=PLACE, stream=iobind.Stream(PLACE))  # which nobody else holds
print(kept.run(None, {"x": x})[0].tolist())
"""
    assert child(code) == "16 0\n16 0\n[2.0, 2.0]\n"


def test_a_stream_of_another_device_is_refused():
    with pytest.raises(iobind.Error, match="session: the stream is of 'vdev:0'"):
        iobind.Session(twice(), stream=iobind.Stream("vdev"))
    with pytest.raises(iobind.NotSupported, match="^session: "):
        iobind.Session(twice(), device="cpu", stream=iobind.Stream("cpu"))


def test_threads_share_a_session_s_stream():
    assert child(SMALL + """
import threading
stream = iobind.Stream("vdev")
session, wrong = iobind.Session(twice(), device="vdev", stream=stream), []
def work(number):
    binding = session.bind({"x": numpy.full(2, number, "f4")})
    for step in range(20):
        out = binding.run(stream=stream) if step % 2 else binding.run()
        if out["y"].numpy().tolist() != [2 * number] * 2:
            wrong.append(number)
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong)
""") == "[]\n"


def test_preload_has_c_s_flags(monkeypatch):
    given = []
    monkeypatch.setattr(iobind._core, "preload", lambda folder, flags, cuda: given.append((folder, flags, cuda)))
    iobind.preload("", msvc=False)
    iobind.preload("", cuda=False, cudnn=False, version=13)
    assert given == [("", 4, 0), ("", 3, 13)]
    assert [name for name in inspect.signature(iobind.preload).parameters] == ["folder", "cuda", "cudnn", "msvc", "version"]
