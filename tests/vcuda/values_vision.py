"""Kernels of CUDA's EP for vision and sequences, compared with the CPU EP in the same type or, if it lacks the type, in float32: pooling with
indices, sampling, resizing, suppression, reversal.

usage: values_vision.py [--list] [CASE...]        under with-cuda

Every node must run on CUDA: a fallback to the CPU is an error. A case has three runs, the third with other values."""

import argparse
import collections
import ctypes
import os
import sys
import tempfile

import gpu_python

SKIPPED = 77


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"values_vision: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


directory = tempfile.TemporaryDirectory()
if gpu_python.unpack(directory.name) is None:
    leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
sys.path.insert(0, directory.name)
LOG = os.environ["VCUDA_LOG"] = os.path.join(directory.name, "vcuda.log")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

onnxruntime.set_default_logger_severity(4)
TYPES = {"f": (TensorProto.FLOAT, np.float32, 1e-5), "h": (TensorProto.FLOAT16, np.float16, 4e-3), "d": (TensorProto.DOUBLE, np.float64, 1e-5),
         "b": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 3e-2), "i": (TensorProto.INT32, np.int32, 0), "l": (TensorProto.INT64, np.int64, 0),
         "u": (TensorProto.UINT8, np.uint8, 0), "c": (TensorProto.INT8, np.int8, 0)}

# values: a function of a random generator that returns the inputs
Case = collections.namedtuple("Case", "name op kind values constants attributes outputs opset domain")


def case(op, kind, values, *constants, note="", outputs=1, opset=18, domain="", **attributes):
    words = [op, kind, note, *(f"{key}={value}".replace(" ", "") for key, value in attributes.items())]
    return Case("-".join(filter(None, words)), op, kind, values, constants, attributes, outputs, opset, domain)


def uniform(*dims, low=-1, high=1):
    return lambda random: [random.uniform(low, high, dims)]


def whole(*dims, low=0, high=100):
    return lambda random: [random.integers(low, high, dims)]


def values_for(kind, *dims):
    return {"u": whole(*dims, low=0, high=256), "i": whole(*dims, low=-100), "l": whole(*dims, low=-100), "c": whole(*dims, low=-100)}.get(kind, uniform(*dims))


# ---- the cases ----


def distinct(kind, *dims):
    """Values without ties, which CUDA and CPU break in different orders. ORT's kernel also needs numbers x with x - 1 < x."""
    count = int(np.prod(dims))
    if kind in "uc":
        return lambda random: [random.permutation(np.linspace(1 if kind == "u" else -127, 254 if kind == "u" else 126, count).astype(np.int64)).reshape(dims)]
    return lambda random: [(random.permutation(count) / 8 - 3).reshape(dims)]


def pooling():
    for kind in "fhdcu":
        for note, dims, more in [("line", (2, 3, 11), {"kernel_shape": [3], "strides": [2]}),
                                 ("plane", (1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
                                 ("columns", (1, 2, 6, 5), {"kernel_shape": [2, 2], "storage_order": 1}),
                                 ("dilated", (2, 2, 7, 8), {"kernel_shape": [2, 3], "dilations": [2, 2]}),
                                 ("ceil", (1, 1, 7, 8), {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1}),
                                 ("space", (1, 2, 4, 5, 4), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 1]})]:
            yield case("MaxPool", kind, distinct(kind, *dims), note=note, outputs=2, **more)
        yield case("MaxPool", kind, distinct(kind, 1, 2, 9, 8), note="values", kernel_shape=[3, 2], dilations=[2, 3])
    for kind in "fhdb":
        for note, dims, more in [("same", (1, 2, 7, 8), {"kernel_shape": [4, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
                                 ("uneven", (2, 2, 7, 8), {"kernel_shape": [3, 3], "pads": [0, 1, 2, 0]}),
                                 ("counted", (2, 2, 7, 8), {"kernel_shape": [3, 3], "pads": [0, 1, 2, 0], "count_include_pad": 1}),
                                 ("dilated", (2, 2, 9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]}),
                                 ("line", (2, 2, 9), {"kernel_shape": [4], "pads": [2, 1], "strides": [2]}),
                                 ("space", (1, 2, 4, 5, 6), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 0, 0, 1, 1]})]:
            yield case("AveragePool", kind, uniform(*dims), note=note, opset=22, **more)


MODES = "half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric", "tf_crop_and_resize"
NO_ROI, NO_SCALES = np.array([], np.float32), np.array([], np.float32)


def resize(mode, kind, dims, scales=None, sizes=None, opset=19, roi=NO_ROI, note="", **more):
    """The region is an input, because CUDA's EP of 1.31.1 reads a region that is an initializer as zeros."""
    constants = [roi] if roi is NO_ROI else []
    constants.append(NO_SCALES if scales is None else np.array(scales, np.float32))
    if sizes is not None:
        constants.append(np.array(sizes, np.int64))
    note = "-".join([note, "x".join(map(str, sizes if sizes is not None else scales))]).strip("-")
    values = values_for(kind, *dims)
    with_roi = (lambda random: [*values(random), roi]) if roi is not NO_ROI else values
    return case("Resize", kind, with_roi, *constants, note=note, opset=opset, mode=mode, **more)


def resizing():
    for coordinates in MODES:
        roi = np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.3], np.float32) if coordinates.startswith("tf") else NO_ROI
        more = {"coordinate_transformation_mode": coordinates, "roi": roi}
        if coordinates.startswith("tf"):
            more["extrapolation_value"] = 7.0
        shrunk = (1, 1, 0.7, 0.45) if coordinates.endswith("symmetric") else (1, 1, 0.6, 0.45)  # no coordinate halfway between two elements
        for scales in [(1, 1, 2.5, 1.6), shrunk]:
            for rounding in "round_prefer_floor", "round_prefer_ceil", "floor", "ceil":
                yield resize("nearest", "f", (1, 2, 7, 8), scales, nearest_mode=rounding, **more)
            yield resize("linear", "f", (1, 2, 7, 8), scales, **more)
            yield resize("cubic", "f", (1, 2, 7, 8), scales, **more)
            yield resize("cubic", "f", (1, 2, 7, 8), scales, cubic_coeff_a=-0.5, exclude_outside=1, **more)
        if not coordinates.startswith("tf"):
            yield resize("linear", "f", (1, 2, 7, 8), (1, 1, 0.6, 0.45), antialias=1, **more)
            yield resize("cubic", "f", (1, 2, 7, 8), (1, 1, 0.6, 0.45), antialias=1, **more)
            yield resize("linear", "f", (1, 2, 3, 4, 5), (1, 1, 1.5, 2, 1.2), **more)
    for kind in "hiu":
        yield resize("nearest", kind, (1, 2, 5, 6), (1, 1, 2, 1.5))
        yield resize("nearest", kind, (2, 5, 6), (2, 1, 1.5))
        yield resize("nearest", kind, (1, 2, 3, 5, 6), (1, 1, 2, 1, 1.5))
    for mode in "linear", "cubic":
        yield resize(mode, "h", (1, 2, 5, 6), sizes=(1, 2, 9, 4))
        yield resize(mode, "f", (5, 6), sizes=(9, 4))
        yield resize(mode, "f", (1, 2, 5, 6), sizes=(1, 2, 1, 1))
        yield resize(mode, "u", (1, 2, 12, 10), sizes=(1, 2, 5, 4), antialias=1)
        yield resize(mode, "h", (1, 2, 12, 10), sizes=(1, 2, 5, 4), antialias=1)
        yield resize(mode, "i", (1, 2, 12, 10), sizes=(1, 2, 5, 4), antialias=1)
        yield resize(mode, "f", (1, 2, 12, 10), sizes=(1, 2, 12, 4), antialias=1, exclude_outside=1)
        yield resize(mode, "f", (1, 3, 12, 10), sizes=(1, 3, 20, 15), antialias=1)
    yield resize("linear", "f", (3, 4, 5), sizes=(2, 6, 9))
    yield resize("linear", "f", (1, 1, 6, 8, 9), sizes=(1, 1, 3, 4, 5), antialias=1)
    yield resize("nearest", "f", (2, 3, 4, 5), sizes=(2, 6, 4, 10))
    for kind in "fhiu":
        factors = np.array([1, 1, 2, 3], np.float32)
        yield case("Upsample", kind, values_for(kind, 2, 2, 3, 4), factors, note="plane", opset=9, mode="nearest")
        yield case("Upsample", kind, values_for(kind, 3, 4), np.array([3, 2], np.float32), note="2d", opset=9, mode="nearest")
    for kind in "fh":
        yield case("Upsample", kind, values_for(kind, 2, 2, 3, 4), factors, note="plane", opset=9, mode="linear")
        yield case("Upsample", kind, values_for(kind, 3, 4), np.array([3, 2], np.float32), note="2d", opset=9, mode="linear")


def places(images, *dims):
    """Values, and positions, some of which are outside, on a border, or NaN."""
    def values(random):
        grid = random.uniform(-1.4, 1.4, (images, *dims[1], len(dims[1])))
        grid.flat[0:6] = [-1, 1, 0, 1, 5.3, -7.7]  # also farther outside than one reflection
        return [random.uniform(-1, 1, (images, *dims[0])), grid.astype(np.float32)]
    return values


def sampling():
    for padding in "zeros", "border", "reflection":
        for corners in 0, 1:
            for mode in "linear", "nearest", "cubic":
                yield case("GridSample", "f", places(2, (3, 5, 6), (4, 7)), note="plane", opset=20, mode=mode, padding_mode=padding,
                           align_corners=corners)
                if mode != "cubic":
                    yield case("GridSample", "f", places(2, (2, 3, 4, 5), (3, 2, 4)), note="space", opset=20, mode=mode,
                               padding_mode=padding, align_corners=corners)

    def regions(random):
        corners = np.sort(random.uniform(-1, 14, (5, 2, 2)), axis=1).reshape(5, 4)
        corners[0] = 3, 3, 3, 3
        return [random.uniform(-1, 1, (2, 3, 9, 11)), corners]

    images = np.array([0, 1, 1, 0, 1], np.int64)
    for kind in "fdh":
        for mode in "avg", "max":
            for ratio in 0, 2:
                for pixel in "half_pixel", "output_half_pixel":
                    yield case("RoiAlign", kind, regions, images, opset=22 if kind == "h" else 16, mode=mode, output_height=3, output_width=2,
                               sampling_ratio=ratio, spatial_scale=0.75, coordinate_transformation_mode=pixel)


def boxes(batch, count, classes, dtype=np.float32, ties=False):
    def values(random):
        corner = random.uniform(0, 10, (batch, count, 2))
        size = random.uniform(0.5, 5, (batch, count, 2))
        scores = random.uniform(0, 1, (batch, classes, count))
        if ties:
            scores = np.round(scores, 1)
        return [np.concatenate([corner, corner + size], -1), scores.astype(np.float32)]
    return values


def suppression():
    for batch, count, classes in [(1, 1, 1), (1, 6, 1), (2, 40, 3), (1, 300, 2), (1, 7000, 1)]:
        for center in 0, 1:
            limits = [np.array([most], np.int64) for most in (3, 1000)]
            for most in limits:
                yield case("NonMaxSuppression", "f", boxes(batch, count, classes), most, np.array([0.4], np.float32), np.array([0.3], np.float32),
                           note=f"{batch}-{count}-{most[0]}", center_point_box=center)
    yield case("NonMaxSuppression", "f", boxes(1, 50, 2, ties=True), np.array([20], np.int64), np.array([0.5], np.float32), note="ties")
    zeros = np.array([[[-0.0, 0.0, -0.0, 0.0, 1]]], np.float32)  # both zeros are the same score
    yield case("NonMaxSuppression", "f", lambda random: [boxes(1, 5, 1)(random)[0] + 20 * np.arange(5).reshape(1, 5, 1), zeros],
               np.array([20], np.int64), np.array([0.5], np.float32), note="zeros")
    bound = np.array([[[0.25, 0.5, 0.25, 0, 1]]], np.float32)  # a score equal to the threshold is not above it
    yield case("NonMaxSuppression", "f", lambda random: [boxes(1, 5, 1)(random)[0] + 20 * np.arange(5).reshape(1, 5, 1), bound],
               np.array([20], np.int64), np.array([0.5], np.float32), np.array([0.25], np.float32), note="bound")
    yield case("NonMaxSuppression", "f", boxes(1, 20, 1), np.array([20], np.int64), np.array([0.5], np.float32), np.array([2], np.float32),
               note="none")
    yield case("NonMaxSuppression", "f", boxes(1, 20, 1), np.array([0], np.int64), note="zero")


def drawing():
    for kind in "fhd":  # certain outcomes; otherwise the drawn numbers differ from the CPU's
        yield case("Bernoulli", kind, whole(3, 50, high=2), opset=15)


def sequences():
    lengths = np.array([4, 1, 3], np.int64)
    for kind in "fhdilcu":
        yield case("ReverseSequence", kind, values_for(kind, 3, 5, 7), lengths, note="batch", batch_axis=0, time_axis=1)
        yield case("ReverseSequence", kind, values_for(kind, 5, 3), lengths, note="time", batch_axis=1, time_axis=0)
    for kind in "fhdilcu":
        yield case("Shrink", kind, whole(3, 50, low=3, high=256) if kind == "u" else values_for(kind, 3, 50), lambd=0.25,
                   bias=0.125 if kind in "fhd" else 2.0)
    for kind in "fhd":
        yield case("DepthToSpace", kind, values_for(kind, 1, 8, 2, 3), blocksize=2, mode="DCR")
        yield case("DepthToSpace", kind, values_for(kind, 1, 8, 2, 3), blocksize=2, mode="CRD")
        yield case("SpaceToDepth", kind, values_for(kind, 1, 2, 4, 6), blocksize=2)
        yield case("Einsum", kind, uniform(3, 3), note="diagonal", equation="ii->i")
        yield case("Einsum", kind, uniform(2, 3, 3, 4), note="inner", equation="aiib->abi")
        yield case("Einsum", kind, lambda random: [random.uniform(-1, 1, (2, 3, 4)), random.uniform(-1, 1, (2, 4, 5))], note="product",
                   equation="bij,bjk->bik")


def moved(image, window, out, groups=1, masked=False, filters=4, bias=False, weight_channels=None):
    """DeformConv's inputs, with offsets that also lead outside."""
    images, channels = image[:2]
    taps = int(np.prod(window))

    def values(random):
        given = [random.uniform(-1, 1, image), random.uniform(-1, 1, (filters, weight_channels or channels, *window)),
                 random.uniform(-2.5, 2.5, (images, 2 * groups * taps, *out))]
        given += [random.uniform(-1, 1, filters)] if bias or masked else []  # a mask needs the bias before it
        return given + ([random.uniform(0, 1, (images, groups * taps, *out))] if masked else [])
    return values


def deforming():
    for kind in "fhdb":
        for note, image, window, out, how, more in [
                ("plain", (2, 2, 6, 7), (3, 3), (4, 5), {}, {}),
                ("point", (1, 3, 4, 5), (1, 1), (4, 5), {"bias": True}, {}),
                ("mask", (2, 4, 6, 7), (3, 3), (6, 7), {"groups": 2, "masked": True}, {"pads": [1, 1, 1, 1], "offset_group": 2}),
                ("strides", (1, 2, 9, 8), (2, 3), (5, 3), {}, {"strides": [2, 2], "pads": [1, 0, 1, 1], "dilations": [1, 2]}),
                ("groups", (1, 4, 5, 5), (3, 3), (3, 3), {"weight_channels": 2}, {"group": 2})]:
            yield case("DeformConv", kind, moved(image, window, out, **how), note=note, opset=22, kernel_shape=list(window), **more)


def collect():
    cases = [*pooling(), *resizing(), *sampling(), *suppression(), *drawing(), *sequences(), *deforming()]
    names = [one.name for one in cases]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return cases


# ---- a case's model and values ----


def values_of(one, seed):
    """The inputs' values. Those that are not float32 are converted to the case's type."""
    return {f"x{i}": value if value.dtype == np.float32 else value.astype(TYPES[one.kind][1])
            for i, value in enumerate(one.values(np.random.default_rng(seed)))}


def element(value):
    return next(number for number, dtype, _ in TYPES.values() if dtype == value.dtype)


def model_of(one, kind):
    """bfloat16 has casts around it, because numpy lacks it."""
    nodes, given, inputs = [], [], []
    for name, value in values_of(one._replace(kind=kind), 1).items():
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT if kind == "b" else element(value), value.shape))
        if kind == "b":
            nodes.append(helper.make_node("Cast", [name], [f"cast_{name}"], to=TensorProto.BFLOAT16))
        given.append(f"cast_{name}" if kind == "b" else name)
    constants = [numpy_helper.from_array(value, f"c{i}") for i, value in enumerate(one.constants)]
    given += [constant.name for constant in constants]
    outputs = [f"y{i}" for i in range(one.outputs)]
    raw = [f"raw_{name}" if kind == "b" else name for name in outputs]
    nodes.append(helper.make_node(one.op, given, raw, domain=one.domain, **one.attributes))
    if kind == "b":
        nodes += [helper.make_node("Cast", [f"raw_{name}"], [name], to=TensorProto.FLOAT) for name in outputs]
    integers = one.op == "NonMaxSuppression"
    types = [TensorProto.INT64 if i == 1 or integers else TensorProto.FLOAT if kind == "b" else TYPES[kind][0] for i in range(one.outputs)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(name, number, None) for name, number in zip(outputs, types)],
                              constants)
    opsets = [helper.make_opsetid("", one.opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def make_session(model, provider):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    session.disable_fallback()
    return session


def run(session, one, values):
    return session.run(None, {name: value.astype(np.float32) if one.kind == "b" else value for name, value in values.items()})


class Reference:
    """Outputs of the CPU EP in the case's type, or else in float32."""

    def __init__(self, one):
        self.one, self.kind = one, one.kind
        try:
            self.session = make_session(model_of(one, one.kind), "CPUExecutionProvider")
        except Exception:  # of any class: ONNX Runtime's binding has many
            self.kind = "f"
            self.session = make_session(model_of(one._replace(opset=min(one.opset, 16 if one.op == "RoiAlign" else 22)), "f"), "CPUExecutionProvider")

    def run(self, values):
        if self.kind == self.one.kind:
            return run(self.session, self.one, values)
        return self.session.run(None, {name: value.astype(np.float32) for name, value in values.items()})


def differs(one, got, expected):
    limit = TYPES[one.kind][2]
    if got.shape != expected.shape:
        return f"dims {got.shape}, expected {expected.shape}"
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    if np.allclose(got, expected, limit, limit, equal_nan=True):
        return None
    return f"{np.nanmax(np.abs(got - expected)):.3g} off in {np.count_nonzero(~np.isclose(got, expected, limit, limit, equal_nan=True))} of {got.size}"


kept = []  # releasing a session after a failed run may end the process: a defect of ORT


def judge(one):
    """None, or a description of the failure."""
    session = make_session(model_of(one, one.kind), "CUDAExecutionProvider")
    kept.append(session)
    reference = Reference(one)
    for number, seed in enumerate((1, 1, 2), 1):
        values = values_of(one, seed)
        for i, (got, expected) in enumerate(zip(run(session, one, values), reference.run(values))):
            if (wrong := differs(one, got, expected)) is not None:
                return f"run {number}, output {i}: {wrong}"
    kept.pop()
    return None


def logged():
    if not os.path.exists(LOG):
        return ""
    with open(LOG) as file:
        text = file.read()
    os.remove(LOG)
    return text.strip()


# ---- defects of ORT's kernels, which docs/vcuda.md lists ----


def refusals():
    """Cases in which a kernel would read outside its input, and words of vcuda's log."""
    before = "would read before its input"
    for note, kind, value in ("nan", "f", np.nan), ("infinite", "f", -np.inf), ("large", "h", 4096), ("zero", "u", 0), ("least", "c", -128):
        yield case("MaxPool", kind, lambda random, value=value: [np.full((1, 1, 4, 4), value)], note=note, outputs=2, kernel_shape=[2, 2]), before
    for depth in 3, 9:
        yield resize("linear", "f", (1, 2, 6, 8, 9), sizes=(1, 2, depth, 4, 5), antialias=1), "ORT counts 120 elements of an image"
    empty = case("ReverseSequence", "f", uniform(3, 0, 2), np.zeros(3, np.int64), note="empty", batch_axis=0, time_axis=1)
    yield empty, "impossible grid"


def refused(one, words):
    """None, or a description of the failure."""
    session = make_session(model_of(one, one.kind), "CUDAExecutionProvider")
    kept.append(session)
    try:
        run(session, one, values_of(one, 1))
    except Exception as error:  # of any class: ONNX Runtime's binding has many
        text = f"{error} {logged()}"
        return None if words in text else f"expected '{words}', got {text[-300:]}"
    finally:
        runtime = ctypes.CDLL("libcudart.so.13")
        runtime.vcuda_recover(0)
        runtime.cudaGetLastError()
    return "it runs"


def ignores_region():
    """None, or a description of the failure."""
    region, zeros = np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.3], np.float32), np.zeros(8, np.float32)
    one = case("Resize", "f", uniform(1, 2, 7, 8), region, np.array([1, 1, 2.5, 1.6], np.float32), opset=19, mode="linear",
               coordinate_transformation_mode="tf_crop_and_resize")
    values = values_of(one, 1)
    got, = run(make_session(model_of(one, "f"), "CUDAExecutionProvider"), one, values)
    expected, = Reference(one._replace(constants=(zeros, one.constants[1]))).run(values)
    return differs(one, got, expected)


def ignores_first_place():
    """None, or a description of the failure."""
    one = case("MaxPool", "f", uniform(1, 1, 7, 8), kernel_shape=[2, 2], pads=[1] * 4, dilations=[2, 2])
    values = values_of(one, 1)
    got, = run(make_session(model_of(one, "f"), "CUDAExecutionProvider"), one, values)
    return None if got[0, 0, 0, 0] == values["x0"][0, 0, 0, 0] else f"expected the corner's element, got {got[0, 0, 0, 0]}"


def cuts_weights():
    """None, or a description of the failure. An output element at the position of an input element must equal it, except in the last row and column."""
    one = case("Resize", "i", whole(1, 1, 2, 3, low=1), np.array([], np.float32), np.array([1, 1, 2, 2], np.float32), opset=19, mode="linear",
               coordinate_transformation_mode="asymmetric")
    values = values_of(one, 1)
    got, = run(make_session(model_of(one, "i"), "CUDAExecutionProvider"), one, values)
    expected = np.zeros((1, 1, 4, 6), np.int32)
    expected[:, :, 0:2:2, 0:4:2] = values["x0"][:, :, :1, :2]
    return differs(one, got, expected)


def leaves_odd_element():
    """None, or a description of the failure. Gelu by tanh in float16 counts pairs, so the last one of an odd number of elements is not written."""
    one = case("Gelu", "h", uniform(2, 5), opset=20, approximate="tanh")
    odd = one._replace(values=uniform(3, 5))
    for each, count in (one, 10), (odd, 14):
        values = values_of(each, 1)
        got, = run(make_session(model_of(each, "h"), "CUDAExecutionProvider"), each, values)
        wrong = differs(each, got.flat[:count], Reference(each).run(values)[0].flat[:count])
        if wrong is not None:
            return wrong
    return None if got.flat[14].tobytes() == b"\xcd\xcd" else f"the last element is {got.flat[14]}, which nothing should have written"


# ---- random numbers ----


def random_values(operator, kind, seed, runs=1):
    """The output of the last of several runs of a new session."""
    shape = {"shape": [40, 250]} if operator.startswith("Random") and not operator.endswith("Like") else {}
    span = {"mean": 2.0, "scale": 3.0} if "Normal" in operator else {"low": -1.0, "high": 4.0}
    given = ["x0"] if not shape else []
    model = helper.make_model(helper.make_graph(
        [helper.make_node(operator, given, ["y"], dtype=TYPES[kind][0], seed=seed, **shape, **span)], "g",
        [helper.make_tensor_value_info(name, TYPES[kind][0], [40, 250]) for name in given], [helper.make_tensor_value_info("y", TYPES[kind][0], None)]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    session = make_session(model.SerializeToString(), "CUDAExecutionProvider")
    for _ in range(runs):
        got, = session.run(None, {name: np.zeros((40, 250), TYPES[kind][1]) for name in given})
    return got


def distribution(operator, kind):
    """None, or a description of the failure. The seed is given, so the figures are the same each time."""
    got = random_values(operator, kind, 7.0)
    if got.shape != (40, 250) or got.dtype != TYPES[kind][1]:
        return f"{got.dtype}{got.shape}"
    real, normal = got.astype(np.float64), "Normal" in operator
    mean, deviation = (2, 3) if normal else (1.5, 5 / 12 ** 0.5)
    if abs(real.mean() - mean) > 0.1 or abs(real.std() - deviation) > 0.1:
        return f"mean {real.mean():.3f} and deviation {real.std():.3f}, expected {mean} and {deviation:.3f}"
    shares = [np.mean(real < mean + deviation * at) for at in (-1, 1)]
    expected = (0.1587, 0.8413) if normal else (0.2113, 0.7887)
    if np.abs(np.subtract(shares, expected)).max() > 0.02 or (not normal and (real.min() < -1 or real.max() > 4)):
        return f"{shares} are below, expected {expected}; from {real.min()} to {real.max()}"
    if got.tobytes() != random_values(operator, kind, 7.0).tobytes():
        return "other numbers from the same seed"
    if got.tobytes() == random_values(operator, kind, 8.0).tobytes() or got.tobytes() == random_values(operator, kind, 7.0, runs=2).tobytes():
        return "the same numbers from another seed, or in the second run"
    return None


def distributions():
    for operator in "RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike":
        for kind in "fhd":
            yield f"{operator}-{kind}", distribution(operator, kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these, or those with this prefix")
    chosen = parser.parse_args()
    cases = [one for one in collect() if not chosen.cases or one.name.startswith(tuple(chosen.cases))]
    if chosen.list:
        print("\n".join(one.name for one in cases))
        return 0
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        leave("this onnxruntime has no CUDA EP")
    passed = failed = skipped = 0
    for one in cases:
        try:
            wrong = judge(one)
        except Exception as error:  # of any class: ONNX Runtime's binding has many
            wrong = str(error).strip().splitlines()[-1][-300:]
        log = logged()
        if wrong is None:
            passed += 1
        elif "cuDNN is unavailable" in wrong:
            skipped += 1
        else:
            failed += 1
            print(f"{one.name}: {wrong}{log and ' | ' + log[:400]}", flush=True)
    defects = [] if chosen.cases else [(one.name, refused(one, words)) for one, words in refusals()]
    if not chosen.cases:
        defects += [("a region that is an initializer", ignores_region()), ("a dilated window in the padding", ignores_first_place()),
                    ("linear weights of whole numbers", cuts_weights()), ("an odd number of float16", leaves_odd_element()), *distributions()]
    for name, wrong in defects:
        if wrong is not None:
            failed += 1
            print(f"{name}: {wrong}", flush=True)
    passed += sum(wrong is None for _, wrong in defects)
    print(f"{passed} passed, {failed} failed, {skipped} skipped: there is no cuDNN for them")
    return 1 if failed or not passed else 0


status = main()
sys.stdout.flush()
directory.cleanup()
os._exit(status)
