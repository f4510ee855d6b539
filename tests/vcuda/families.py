"""Small models with the operators of widely used families of models: on CUDA's EP over vcuda the results must be those of the CPU EP.

usage: families.py [--list] [FAMILY...]        under with-cuda

A family has a model in float32; most also have one in float16. Every node must run on CUDA. A model has five runs with two inputs; the second
input has other values for the model's open dims."""

import argparse
import os
import sys
import tempfile

import gpu_python

SKIPPED = 77


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"families: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


directory = tempfile.TemporaryDirectory()
if gpu_python.unpack(directory.name) is None:
    leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
sys.path.insert(0, directory.name)
LOG = os.environ["VCUDA_LOG"] = os.path.join(directory.name, "vcuda.log")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

onnxruntime.set_default_logger_severity(4)


class Graph:
    """A builder of models. Calling an operator returns the name of its output, or the names of its outputs."""

    def __init__(self, half=False):
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.random = np.random.default_rng(7)
        self.dtype = np.float16 if half else np.float32
        self.element = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self.count = 0

    def name(self, word):
        self.count += 1
        return f"{word}_{self.count}"

    def input(self, name, dims, element=None):
        self.inputs.append(helper.make_tensor_value_info(name, element or self.element, dims))
        return name

    def output(self, name, element=None):
        self.outputs.append(helper.make_tensor_value_info(name, element or self.element, None))

    def constant(self, value, dtype=None):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def whole(self, *values):
        return self.constant(values, np.int64)

    def weights(self, *dims):
        return self.constant(self.random.standard_normal(dims) / np.sqrt(max(1, np.prod(dims[1:]))))

    def __getattr__(self, op):
        def add(*inputs, outputs=1, **attributes):
            names = [self.name(op.lower()) for _ in range(outputs)]
            self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
            return names[0] if outputs == 1 else names
        return add

    def conv(self, x, inputs, outputs, size=3, stride=1, group=1, bias=True, **more):
        more.setdefault("pads", [size // 2] * 4)
        given = [x, self.weights(outputs, inputs // group, size, size)] + ([self.weights(outputs)] if bias else [])
        return self.Conv(*given, kernel_shape=[size, size], strides=[stride, stride], group=group, **more)

    def norm(self, x, channels):
        values = [self.constant(self.random.uniform(0.5, 1.5, channels)) for _ in range(2)]
        return self.BatchNormalization(x, values[0], self.weights(channels), self.weights(channels), values[1])

    def swish(self, x):
        return self.Mul(x, self.Sigmoid(x))

    def model(self, opset=17):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def image(g, *shapes):
    """An input with values for each shape. Dims in which the shapes differ are open in the model."""
    dims = [one if one == other else None for one, other in zip(shapes[0], shapes[-1])]
    return g.input("x", dims), [{"x": np.random.default_rng(i).standard_normal(shape).astype(g.dtype)} for i, shape in enumerate(shapes)]


# ---- the families: each returns a model and two sets of inputs ----


def resnet(half):
    g = Graph(half)
    x, feeds = image(g, (1, 3, 32, 32), (2, 3, 40, 32))
    x = g.MaxPool(g.Relu(g.norm(g.conv(x, 3, 8, 7, 2, bias=False), 8)), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for inputs, outputs, stride in (8, 8, 1), (8, 16, 2):
        y = g.norm(g.conv(g.Relu(g.norm(g.conv(x, inputs, outputs, 3, stride), outputs)), outputs, outputs), outputs)
        short = x if stride == 1 else g.norm(g.conv(x, inputs, outputs, 1, stride), outputs)
        x = g.Relu(g.Add(y, short))
    x = g.Gemm(g.Flatten(g.GlobalAveragePool(x)), g.weights(10, 16), g.weights(10), transB=1)
    g.output(g.Softmax(x))
    return g.model(), feeds


def mobilenet(half):
    g = Graph(half)
    x, feeds = image(g, (1, 3, 32, 32), (1, 3, 24, 40))
    x = g.HardSwish(g.norm(g.conv(x, 3, 8, 3, 2), 8))
    for stride in 1, 2:
        y = g.Clip(g.conv(x, 8, 24, 1), g.constant(0), g.constant(6))
        y = g.Clip(g.norm(g.conv(y, 24, 24, 3, stride, group=24), 24), g.constant(0), g.constant(6))
        squeezed = g.HardSigmoid(g.conv(g.Relu(g.conv(g.GlobalAveragePool(y), 24, 8, 1)), 8, 24, 1), alpha=1 / 6, beta=0.5)
        y = g.conv(g.Mul(y, squeezed), 24, 8, 1)
        x = g.Add(x, y) if stride == 1 else y
    x = g.ReduceMean(x, axes=[2, 3], keepdims=0)
    g.output(g.MatMul(x, g.weights(8, 5)))
    return g.model(), feeds


def detections(g, boxes, scores, limit):
    """The selected boxes: their indices, and the coordinates gathered by these."""
    chosen = g.NonMaxSuppression(boxes, scores, g.whole(limit), g.constant([0.45], np.float32), g.constant([0.25], np.float32))
    g.output(chosen, TensorProto.INT64)
    numbers = g.Gather(chosen, g.whole(0, 2), axis=1)
    g.output(g.GatherND(boxes, numbers), TensorProto.FLOAT)


def yolo(half):
    g = Graph(half)
    x, feeds = image(g, (1, 3, 64, 64), (1, 3, 64, 64))
    x = g.swish(g.conv(g.swish(g.conv(x, 3, 8, 3, 2)), 8, 16, 3, 2))
    one, other = g.Split(x, outputs=2, axis=1)
    other = g.Add(other, g.swish(g.conv(g.swish(g.conv(other, 8, 8)), 8, 8)))
    large = g.swish(g.conv(g.Concat(one, other, axis=1), 16, 16, 1))
    small = g.swish(g.conv(large, 16, 16, 3, 2))
    pools = [small]
    for _ in range(3):
        pools.append(g.MaxPool(pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    small = g.swish(g.conv(g.Concat(*pools, axis=1), 64, 16, 1))
    up = g.Resize(small, "", g.constant([1, 1, 2, 2], np.float32), mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")
    large = g.swish(g.conv(g.Concat(up, large, axis=1), 32, 16))
    heads = [g.Reshape(g.conv(level, 16, 4 * 8 + 3, 1), g.whole(1, 35, -1)) for level in (large, small)]
    distances, classes = g.Split(g.Concat(*heads, axis=2), g.whole(32, 3), outputs=2, axis=1)
    count = 16 * 16 + 8 * 8
    spread = g.Softmax(g.Transpose(g.Reshape(distances, g.whole(1, 4, 8, count)), perm=[0, 2, 1, 3]), axis=1)
    edges = g.Reshape(g.Conv(spread, g.constant(np.arange(8).reshape(1, 8, 1, 1)), kernel_shape=[1, 1]), g.whole(1, 4, count))
    first, last = g.Split(edges, outputs=2, axis=1)
    places = g.constant(g.random.uniform(0, 64, (1, 2, count)))
    boxes = g.Transpose(g.Concat(g.Sub(places, first), g.Add(places, last), axis=1), perm=[0, 2, 1])
    scores = g.Sigmoid(g.Mul(classes, g.constant(4)))
    if half:
        boxes, scores = (g.Cast(name, to=TensorProto.FLOAT) for name in (boxes, scores))
    best, classes = g.TopK(g.ReduceMax(scores, axes=[1], keepdims=0), g.whole(20), outputs=2)
    g.output(best, TensorProto.FLOAT)
    detections(g, boxes, scores, 10)
    return g.model(), feeds


def ssd(half):
    g = Graph(half)
    x, feeds = image(g, (1, 3, 48, 48), (1, 3, 48, 48))
    levels, boxes, scores, channels = [g.Relu(g.conv(x, 3, 8, 3, 2))], [], [], 8
    for _ in range(2):
        levels.append(g.Relu(g.conv(levels[-1], channels, channels * 2, 3, 2)))
        channels *= 2
    count = 0
    for i, level in enumerate(levels):
        places = 2 * (24 >> i) ** 2
        count += places
        boxes.append(g.Reshape(g.Transpose(g.conv(level, 8 << i, 8), perm=[0, 2, 3, 1]), g.whole(1, places, 4)))
        scores.append(g.Reshape(g.Transpose(g.conv(level, 8 << i, 8), perm=[0, 2, 3, 1]), g.whole(1, places, 4)))
    centers, sizes = g.Split(g.Concat(*boxes, axis=1), outputs=2, axis=2)
    priors = [g.constant(g.random.uniform(0.05, 0.95, (1, count, 2))) for _ in range(2)]
    centers = g.Add(g.Mul(g.Mul(centers, g.constant(0.1)), priors[1]), priors[0])
    sizes = g.Mul(g.Exp(g.Mul(sizes, g.constant(0.2))), priors[1])
    corners = g.Concat(g.Sub(centers, g.Div(sizes, g.constant(2))), g.Add(centers, g.Div(sizes, g.constant(2))), axis=2)
    chances = g.Transpose(g.Softmax(g.Mul(g.Concat(*scores, axis=1), g.constant(3)), axis=2), perm=[0, 2, 1])
    chances = g.Slice(chances, g.whole(1), g.whole(4), g.whole(1))
    if half:
        corners, chances = (g.Cast(name, to=TensorProto.FLOAT) for name in (corners, chances))
    detections(g, corners, chances, 20)
    return g.model(), feeds


def unet(half):
    g = Graph(half)
    x, feeds = image(g, (1, 1, 32, 32), (2, 1, 32, 48))

    def block(x, inputs, outputs):
        for channels in inputs, outputs:
            x = g.conv(x, channels, outputs)
            x = g.LeakyRelu(g.InstanceNormalization(x, g.constant(np.ones(outputs)), g.weights(outputs)), alpha=0.1)
        return x

    high = block(x, 1, 8)
    middle = block(g.MaxPool(high, kernel_shape=[2, 2], strides=[2, 2]), 8, 16)
    low = block(g.AveragePool(middle, kernel_shape=[2, 2], strides=[2, 2]), 16, 32)
    up = g.ConvTranspose(low, g.weights(32, 16, 2, 2), g.weights(16), kernel_shape=[2, 2], strides=[2, 2])
    middle = block(g.Concat(up, middle, axis=1), 32, 16)
    up = g.Resize(middle, "", g.constant([1, 1, 2, 2], np.float32), mode="linear", coordinate_transformation_mode="align_corners")
    up = g.Pad(g.conv(up, 16, 8, pads=[0] * 4), g.whole(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    x = block(g.Concat(up, high, axis=1), 16, 8)
    g.output(g.Sigmoid(g.conv(x, 8, 2, 1)))
    return g.model(), feeds


def silero(half):
    """A branch for each sample rate, which is a scalar; frames of a transform by a convolution; states of an LSTM that are carried."""
    g = Graph(half)
    branches = []
    for size in 64, 32:
        b = Graph(half)
        b.count, b.random = 1000 * size, np.random.default_rng(size)
        x = b.Unsqueeze(b.Pad("x", b.whole(0, 16, 0, 16), mode="reflect"), b.whole(1))
        x = b.Conv(x, b.weights(2 * 9, 1, size), kernel_shape=[size], strides=[16])
        real, other = b.Slice(x, b.whole(0), b.whole(9), b.whole(1)), b.Slice(x, b.whole(9), b.whole(18), b.whole(1))
        x = b.Sqrt(b.Add(b.Pow(real, b.constant(2)), b.Pow(other, b.constant(2))))
        x = b.Relu(b.Conv(b.Log(b.Add(x, b.constant(1))), b.weights(12, 9, 3), b.weights(12), kernel_shape=[3], pads=[1, 1], strides=[2]))
        x = b.Transpose(x, perm=[2, 0, 1])
        before, cells = (b.Squeeze(b.Slice("state", b.whole(i), b.whole(i + 1), b.whole(0)), b.whole(0)) for i in range(2))
        y, last, cell = b.LSTM(x, b.weights(1, 4 * 8, 12), b.weights(1, 4 * 8, 8), b.weights(1, 8 * 8), "", b.Unsqueeze(before, b.whole(0)),
                               b.Unsqueeze(cells, b.whole(0)), outputs=3, hidden_size=8)
        x = b.Relu(b.Transpose(b.Squeeze(y, b.whole(1)), perm=[1, 2, 0]))
        chance = b.ReduceMean(b.Sigmoid(b.Conv(x, b.weights(1, 8, 1), b.weights(1), kernel_shape=[1])), axes=[2], keepdims=0)
        for name in chance, b.Concat(last, cell, axis=0):
            b.output(name)
        branches.append(helper.make_graph(b.nodes, f"branch_{size}", [], b.outputs, b.constants))
    g.input("x", [1, None])
    g.input("state", [2, 1, 8])
    g.input("rate", [], TensorProto.INT64)
    is_wide = g.Equal("rate", g.constant(16000, np.int64))
    for name in g.If(is_wide, outputs=2, then_branch=branches[0], else_branch=branches[1]):
        g.output(name)
    feeds = [{"x": np.random.default_rng(i).standard_normal((1, 256 >> i)).astype(g.dtype),
              "state": np.random.default_rng(i).standard_normal((2, 1, 8)).astype(g.dtype), "rate": np.array(16000 >> i, np.int64)}
             for i in range(2)]
    return g.model(), feeds


def rvm(half):
    """A recurrent cell of convolutions with its state as an input; pooled and resized levels; a guided refinement."""
    g = Graph(half)
    x, feeds = image(g, (1, 3, 32, 48), (1, 3, 32, 48))
    g.input("state", [1, 4, 16, 24])
    for i, feed in enumerate(feeds):
        feed["state"] = np.random.default_rng(50 + i).standard_normal((1, 4, 16, 24)).astype(g.dtype)
    half_size = g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=0)
    deep = g.HardSwish(g.norm(g.conv(half_size, 3, 8, 3, 2), 8))
    wide = g.HardSwish(g.conv(deep, 8, 8, 3, 1, pads=[2] * 4, dilations=[2, 2]))
    deep = g.Mul(g.Relu(g.conv(wide, 8, 8, 1)), g.Sigmoid(g.conv(g.GlobalAveragePool(wide), 8, 8, 1)))
    up = g.Resize(deep, "", g.constant([1, 1, 2, 2], np.float32), mode="linear", coordinate_transformation_mode="half_pixel")
    x16 = g.Relu(g.norm(g.conv(g.Concat(up, half_size, axis=1), 11, 8), 8))
    kept, turned = g.Split(x16, outputs=2, axis=1)
    gates = g.Sigmoid(g.conv(g.Concat(turned, "state", axis=1), 8, 8))
    reset, update = g.Split(gates, outputs=2, axis=1)
    new = g.Tanh(g.conv(g.Concat(turned, g.Mul(reset, "state"), axis=1), 8, 4))
    state = g.Add(g.Mul(g.Sub(g.constant(1), update), "state"), g.Mul(update, new))
    g.output(state)
    fine = g.Resize(g.Concat(kept, state, axis=1), "", "", g.whole(1, 8, 32, 48), mode="linear",
                    coordinate_transformation_mode="pytorch_half_pixel")
    matte = g.conv(g.Relu(g.conv(g.Concat(fine, x, axis=1), 11, 8)), 8, 4)
    residual, alpha = g.Split(matte, g.whole(3, 1), outputs=2, axis=1)
    g.output(g.Clip(g.Add(residual, x), g.constant(0), g.constant(1)))
    g.output(g.Clip(alpha, g.constant(0), g.constant(1)))
    return g.model(), feeds


def vit(half):
    g = Graph(half)
    x, feeds = image(g, (1, 3, 32, 32), (3, 3, 32, 32))
    x = g.conv(x, 3, 16, 8, 8, pads=[0] * 4)
    x = g.Transpose(g.Reshape(x, g.whole(0, 16, 16)), perm=[0, 2, 1])
    x = g.Add(x, g.weights(1, 16, 16))
    y = g.LayerNormalization(x, g.constant(np.ones(16)), g.weights(16))
    query, key, value = g.Split(g.MatMul(y, g.weights(16, 48)), outputs=3, axis=2)
    query, key, value = (g.Transpose(g.Reshape(one, g.whole(0, 16, 2, 8)), perm=[0, 2, 1, 3]) for one in (query, key, value))
    chances = g.Softmax(g.Mul(g.MatMul(query, g.Transpose(key, perm=[0, 1, 3, 2])), g.constant(0.35)), axis=-1)
    y = g.Reshape(g.Transpose(g.MatMul(chances, value), perm=[0, 2, 1, 3]), g.whole(0, 16, 16))
    x = g.Add(x, g.MatMul(y, g.weights(16, 16)))
    y = g.MatMul(x, g.weights(16, 32))
    y = g.Mul(g.Mul(y, g.constant(0.5)), g.Add(g.Erf(g.Div(y, g.constant(1.41421356))), g.constant(1)))
    x = g.Add(x, g.MatMul(y, g.weights(32, 16)))
    g.output(g.Gemm(g.Gather(x, g.constant(0, np.int64), axis=1), g.weights(16, 5)))
    return g.model(), feeds


FAMILIES = {"resnet": resnet, "mobilenet": mobilenet, "yolo": yolo, "ssd": ssd, "unet": unet, "silero": silero, "rvm": rvm, "vit": vit}
# The CPU EP has no LSTM in float16, and the selection of boxes depends on the last bit.
FLOAT32_ONLY = "silero", "yolo", "ssd"


# ---- runs ----


def make_session(model, provider):
    """With CUDA's EP no node may fall back to the CPU."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    session.disable_fallback()
    return session


kept = []  # releasing a session after a failed run may end the process: a defect of ORT


def judge(name, half):
    """None, or a description of the failure."""
    model, feeds = FAMILIES[name](half)
    session = make_session(model, "CUDAExecutionProvider")
    kept.append(session)
    reference = make_session(model, "CPUExecutionProvider")
    limit = 2e-2 if half else 1e-4
    for number, which in enumerate((0, 0, 1, 1, 0), 1):
        for i, (got, expected) in enumerate(zip(session.run(None, feeds[which]), reference.run(None, feeds[which]))):
            if got.shape != expected.shape:
                return f"run {number}, output {i}: dims {got.shape}, expected {expected.shape}"
            worst = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max(initial=0)
            if not worst <= limit * max(1, np.abs(expected.astype(np.float64)).max(initial=0)):
                return f"run {number}, output {i}: {worst:.3g} off"
            if got.size == 0:
                return f"run {number}, output {i}: it is empty"
    kept.pop()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(FAMILIES))
        return 0
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        leave("this onnxruntime has no CUDA EP")
    passed = failed = 0
    for name in chosen.families or FAMILIES:
        for half in (False,) if name in FLOAT32_ONLY else (False, True):
            try:
                wrong = judge(name, half)
            except Exception as error:  # of any class: ONNX Runtime's binding has many
                wrong = str(error).strip().splitlines()[-1][-300:]
            if wrong is None:
                passed += 1
                continue
            failed += 1
            with open(LOG) if os.path.exists(LOG) else open(os.devnull) as log:
                print(f"{name}{' in float16' if half else ''}: {wrong} | {log.read()[-500:]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


status = main()
sys.stdout.flush()
directory.cleanup()
os._exit(status)
