"""What the tests stand on: models, children."""

import os
import pathlib
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper

import iobind


def model(nodes, inputs, outputs, initializers=(), ir_version=9, opset=17):
    """A model of ONNX as bytes: nodes (op, inputs, outputs[, attributes]), values (name, type, dims)."""
    made = [helper.make_node(op, ins, outs, **(rest[0] if rest else {})) for op, ins, outs, *rest in nodes]
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    graph = helper.make_graph(made, "test", *values, initializer=list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version).SerializeToString()


FLOAT, INT64, STRING, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.UINT8


def add():
    return model([("Add", ["x", "y"], ["z"])], [("x", FLOAT, ["n"]), ("y", FLOAT, ["n"])], [("z", FLOAT, ["n"])])


def broadcast():
    return model([("Add", ["x", "y"], ["z"])], [("x", FLOAT, ["n"]), ("y", FLOAT, ["n"])], [("z", FLOAT, ["sum"])])


def twice(dtype=FLOAT):
    return model([("Add", ["x", "x"], ["y"])], [("x", dtype, ["n"])], [("y", dtype, ["n"])])


def same(dtype):
    return model([("Identity", ["x"], ["y"])], [("x", dtype, None)], [("y", dtype, None)])


def counter():
    """state and a growing list: next = state + x, joined = past ++ x; the names are not words of Python's."""
    return model([("Add", ["state", "x"], ["next"]), ("Concat", ["past.0.key", "x"], ["present.0.key"], {"axis": 0})],
                 [("x", FLOAT, [1]), ("state", FLOAT, [1]), ("past.0.key", FLOAT, ["past"])],
                 [("next", FLOAT, [1]), ("present.0.key", FLOAT, ["total"])])


def slow(seconds=3):
    """A loop that takes about so long on the CPU, and can be cancelled between its rounds."""
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["again"]), helper.make_node("MatMul", ["a", "weights"], ["b"])], "body",
                             [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("a", FLOAT, [64, 64])],
                             [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_tensor_value_info("b", FLOAT, [64, 64])])
    weights = onnx.numpy_helper.from_array(numpy.zeros((64, 64), numpy.float32), "weights")
    rounds = onnx.numpy_helper.from_array(numpy.array(int(seconds * 200_000)), "rounds")
    go = onnx.numpy_helper.from_array(numpy.array(True), "start")
    return model([("Loop", ["rounds", "start", "x"], ["y"], {"body": body})], [("x", FLOAT, [64, 64])], [("y", FLOAT, [64, 64])],
                 [weights, rounds, go])


def foreign(tensor):
    """The tensor as one of another library, which knows nothing but DLPack."""
    class Foreign:
        def __dlpack_device__(self):
            return tensor.__dlpack_device__()

        def __dlpack__(self, **keywords):
            return tensor.__dlpack__(**keywords)

    return Foreign()


SMALL = "import numpy, iobind\nfrom support import add, twice, slow\nx = numpy.ones(2, 'f4')\n"

# The device PLACE, and the calls that set and read the virtual accelerator, or the virtual CUDA.
DEVICE = """
import ctypes, os, random
from iobind import _runtime
iobind.device(PLACE)
if PLACE == "vdev":
    native = ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so"))
else:
    native = ctypes.CDLL("libcudart.so.13")
name = {"vdev": "vdev", "cuda": "vcuda"}[PLACE]
setting, get = getattr(native, name + "_set"), getattr(native, name + "_get")
get.restype = ctypes.c_int64
random.seed(1)
"""

# A producer that rewrites its device tensor before each run, on a stream of its own, with delays: the detector of races, and what comes
# out, say whether the run has waited. Without the order both fail. ORDERED: whether the producer heeds the consumer's stream. It is a stream of
# iobind's, which a run without a stream waits for anyhow: so the run without the order is on another stream.
PRODUCER = DEVICE + """
class Producer:
    def __init__(self):
        self.stream = iobind.Stream(PLACE)
        self.tensor = iobind.tensor(numpy.zeros(4, "f4"), PLACE)
        self.pinned = iobind.empty(4, "float32", PLACE + "/pinned")
    def produce(self, value):
        self.pinned.numpy()[:] = value
        self.tensor.copy_from(self.pinned, stream=self.stream)  # returns at once, as only pinned memory lets it
    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()
    def __dlpack__(self, *, stream=None, **keywords):
        consumer = next(order.stream for order, _ in binding._orders.values()) if binding._orders else None
        if ORDERED and consumer is not None and stream == consumer.native:
            consumer.wait(self.stream.record())
        elif consumer is None:
            self.stream.synchronize()
        return self.tensor.__dlpack__(stream=-1, **keywords)  # the order is this class's part

binding = iobind.Session(twice(), device=PLACE).bind()
producer, elsewhere = Producer(), None if ORDERED else iobind.Stream(PLACE)
assert setting(0, b"race", b"count") == 0
binding["x"] = iobind.live(producer)
right = 0
for step in range(20):
    assert setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000)) == 0
    producer.produce(step)
    assert setting(0, b"delay_copy", b"0") == 0
    right += binding.run(stream=elsewhere)["y"].numpy().tolist() == [2 * step] * 4
    producer.stream.synchronize()
print(right, get(0, b"races"))
"""

# A consumer by DLPack that reads on a stream of its own what a stream of ours is still writing, with delays: by a copy, through a part, by a
# run into it, by a state in place. `order`: what it says to __dlpack__; `read` copies on its stream into `target`.
CONSUMER = DEVICE + """
writer, pinned, other = iobind.Stream(PLACE), iobind.empty(4, "float32", PLACE + "/pinned"), iobind.empty(4, device=PLACE)
session = iobind.Session(twice(), device=PLACE)

def by_a_copy(tensor):
    tensor.copy_from(pinned, stream=writer)

def by_parts(tensor):
    for part in (tensor[:2], tensor[2:]):
        part.copy_from(pinned[:2], stream=writer)

def by_a_run(tensor):
    other.copy_from(pinned, stream=writer)
    session.bind({"x": other}, outputs={"y": tensor}).run(stream=writer)

def by_a_state(tensor):
    tensor.copy_from(pinned, stream=writer)
    tensor._forget_writers()
    binding = session.bind({"x": tensor}, carry={"y": "x"}, carry_mode="in_place")
    binding.run(stream=writer)

def read_all(order, read, target):
    right = 0
    for write, factor in ((by_a_copy, 1), (by_parts, 1), (by_a_run, 2), (by_a_state, 2)):
        tensor = iobind.tensor(numpy.zeros(4, "f4"), PLACE)
        for step in range(1, 6):
            setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
            pinned.numpy()[:] = step
            write(tensor)
            setting(0, b"delay_copy", b"0")
            taken = iobind.from_dlpack(tensor.__dlpack__(stream=order, max_version=(1, 1)))
            read(taken, target)
            right += target.numpy().tolist() == [factor * step] * 4
            writer.synchronize()
    return right

assert setting(0, b"race", b"count") == 0
consumer = iobind.Stream(PLACE)

def read_by_ours(taken, target):
    target.copy_from(taken, stream=consumer)
    consumer.synchronize()
"""

# An output that is fetched while the run is in flight: whatever is done with it comes behind the run. The copy before the run takes a while.
LENT = DEVICE + """
writer, other = iobind.Stream(PLACE), iobind.Stream(PLACE)
x, pinned, target = iobind.empty(4, device=PLACE), iobind.empty(4, device=PLACE + "/pinned"), iobind.empty(4, device=PLACE)
session = iobind.Session(twice(), device=PLACE)
binding = session.bind({"x": x})
nines = iobind.tensor(numpy.full(4, 9, "f4"), PLACE)

def fetch(value):
    pinned.numpy()[:] = value
    setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
    x.copy_from(pinned, stream=writer)
    setting(0, b"delay_copy", b"0")
    return binding.run(stream=writer)["y"]

def on_other(take):
    taken = take()
    other.synchronize()
    return taken.numpy()

def copied(taken):
    target.copy_from(taken, stream=other)
    return target

def written(y):
    y.write(numpy.full(4, 7, "f4"))
    return y.numpy()

def overwritten(y):
    session.bind({"x": nines}, outputs={"y": y}).run()
    return y.numpy()

def updated(y, stream=None):
    binding = session.bind({"x": y})
    binding.update("x", numpy.full(4, 7, "f4"), stream=stream)
    other.synchronize()
    return binding.run()["y"].numpy()

def doubled(y, stream=None):
    return session.bind({"x": y}).run(stream=stream)["y"].numpy()

USES = [
    (lambda y: y.numpy(), lambda value: value),
    (lambda y: y.read(numpy.empty(4, "f4")), lambda value: value),
    (lambda y: y.copy().numpy(), lambda value: value),
    (lambda y: on_other(lambda: y.copy(stream=other)), lambda value: value),
    (lambda y: y.to("cpu").numpy(), lambda value: value),
    (lambda y: numpy.concatenate([y[:2].numpy(), y[2:].numpy()]), lambda value: value),
    (lambda y: iobind.from_dlpack(y).numpy(), lambda value: value),
    (lambda y: on_other(lambda: copied(iobind.from_dlpack(y.__dlpack__(stream=other.native, max_version=(1, 1))))), lambda value: value),
    (lambda y: next(iter(session.map([{"x": y}])))["y"].numpy(), lambda value: 2 * value),
    (lambda y: session.run(None, {"x": y})[0], lambda value: 2 * value),
    (doubled, lambda value: 2 * value),
    (lambda y: doubled(y, other), lambda value: 2 * value),
    (written, lambda value: 7),
    (overwritten, lambda value: 18),
    (updated, lambda value: 14),
    (lambda y: updated(y, other), lambda value: 14),
]
fetch(0).numpy()
assert setting(0, b"race", b"count") == 0
right = []
for use, expected in USES:
    right.append(0)
    for step in range(1, 6):
        y = fetch(step)
        right[-1] += use(y).tolist() == [expected(2 * step)] * 4
        writer.synchronize()
        other.synchronize()
print(right == [5] * len(USES) or right, get(0, b"races"))
"""

# Items of Session.map that a stream is still writing: HOW says what knows of it, a tensor by itself, an event, or another library's producer.
ITEMS = DEVICE + """
assert setting(0, b"race", b"count") == 0
writer = iobind.Stream(PLACE)

class Other:
    def __init__(self, tensor):
        self.tensor = tensor
    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()
    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

def items(how):
    for number in range(12):
        pinned, tensor = iobind.empty(4, "float32", PLACE + "/pinned"), iobind.empty(4, device=PLACE)
        pinned.numpy()[:] = number
        setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
        tensor.copy_from(pinned, stream=writer)
        setting(0, b"delay_copy", b"0")
        if how in ("event", "nothing"):
            tensor._forget_writers()
        given = {"event": lambda: (tensor, writer.record()), "other": lambda: iobind.live(Other(tensor)), "copied": lambda: Other(tensor)}
        yield {"x": given.get(how, lambda: tensor)()}
        if how == "copied":  # its producer writes it again at once
            tensor.write(numpy.zeros(4, "f4"))

def count(how):
    results = iobind.Session(twice(), device=PLACE).map(items(how))
    right = sum(out["y"].numpy().tolist() == [2 * number] * 4 for number, out in enumerate(results))
    writer.synchronize()
    return right

print(count("itself"), count("event"), count("other"), count("copied"), get(0, b"races"))
count("nothing")
print(get(0, b"races") > 0)
"""


def needs_graphs():
    """Skips where the device cannot capture graphs: ONNX Runtime before 1.26."""
    import pytest  # not for the children, which import this file too

    try:
        iobind.Session(twice(), device="vdev", graphs=1)
    except iobind.VersionError as error:
        pytest.skip(str(error))


def child(code, *arguments, status=0, environment=None, timeout=120):
    """Run Python in a process of its own; gives what it printed."""
    here = str(pathlib.Path(__file__).parent)
    paths = [here, str(pathlib.Path(iobind.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})})
    assert done.returncode == status, f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
