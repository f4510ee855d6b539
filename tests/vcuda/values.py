"""Convolutions and transforms of CUDA's EP over vcuda's cuDNN and cuFFT, compared with the CPU EP and numpy.

usage: values.py [--all] [--models FOLDER] [--graphs] [--list] [CASE...]        under with-cuda
  --all            every combination of search, workspace, padding, layout and fusion, instead of one option at a time
  --models FOLDER  PP-OCR's three models, which scripts/get-models fetches, instead of single operators
  --graphs         convolutions in CUDA graphs, instead of single operators

Every node must run on CUDA: a fallback to the CPU is an error. Each session has six runs with two shapes. The first, second and third run of a
shape, and its first run after another shape, are different paths of the EP."""

import argparse
import collections
import itertools
import os
import pathlib
import sys
import tempfile

import gpu_python

SKIPPED = 77


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"values: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


folder = tempfile.TemporaryDirectory()
if gpu_python.unpack(folder.name) is None:
    leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
sys.path.insert(0, folder.name)

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

onnxruntime.set_default_logger_severity(4)
TYPES = {"f": (TensorProto.FLOAT, np.float32, 1e-5), "d": (TensorProto.DOUBLE, np.float64, 1e-5),
         "h": (TensorProto.FLOAT16, np.float16, 4e-3), "b": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 3e-2)}
RUNS = 0, 0, 0, 1, 1, 0
NHWC, FUSED = {"prefer_nhwc": "1"}, {"prefer_nhwc": "1", "fuse_conv_bias": "1"}
SINGLY = [{}, {"cudnn_conv_algo_search": "HEURISTIC"}, {"cudnn_conv_algo_search": "DEFAULT"}, {"cudnn_conv_use_max_workspace": "0"},
          {"cudnn_conv1d_pad_to_nc1d": "1"}, {"use_tf32": "0"}, NHWC, FUSED]
ALL = [{"cudnn_conv_algo_search": search, "cudnn_conv_use_max_workspace": workspace, "cudnn_conv1d_pad_to_nc1d": pad, **layout}
       for search, workspace, pad, layout in itertools.product(["EXHAUSTIVE", "HEURISTIC", "DEFAULT"], "01", "01", [{}, NHWC, FUSED])]


def options_of(one, every):
    """With channels last the EP has kernels only for float and half."""
    chosen = [{}] if one.op.endswith("fft") else ALL if every else SINGLY
    return [options for options in chosen if one.kind in "fh" or "prefer_nhwc" not in options]


def refusal_of(one, options):
    """A part of the EP's error message: it cannot fuse the bias of a transposed convolution. None: no error is expected."""
    fails = one.op.startswith("ConvTranspose") and len(one.constants) > 1 and "fuse_conv_bias" in options
    return "Failed to initialize CUDNN Frontend" if fails else None


# kind: a letter of TYPES; shapes: two shapes of the input; constants: the other inputs
Case = collections.namedtuple("Case", "name op kind shapes constants attributes domain opset")


def weights(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def case(name, op, kind, shapes, *constants, domain="", opset=None, **attributes):
    opset = opset or (22 if kind == "b" else 17)
    return Case(f"{name}-{kind}", op, kind, shapes, [c if c.dtype == np.int64 else c.astype(TYPES[kind][1]) for c in constants],
                attributes, domain, opset)


def convolutions():
    plane, line, space = [(2, 8, 20, 24), (1, 8, 33, 17)], [(2, 8, 50), (3, 8, 77)], [(2, 4, 6, 9, 8), (1, 4, 5, 5, 7)]
    w, b = weights((16, 8, 3, 3), 1), weights((16,), 2)
    for kind in "fdhb":
        yield case("conv", "Conv", kind, plane, w, pads=[1, 1, 1, 1])
        yield case("conv-bias", "Conv", kind, plane, w, b, strides=[2, 1])
        yield case("conv-1d", "Conv", kind, line, weights((16, 8, 3), 3), b, pads=[1, 1])
        if kind == "b":
            continue
        yield case("conv-groups", "Conv", kind, plane, weights((16, 2, 3, 3), 4), b, group=4)
        yield case("conv-depthwise", "Conv", kind, plane, weights((8, 1, 5, 5), 5), weights((8,), 6), group=8, pads=[2, 2, 2, 2])
        yield case("conv-uneven", "Conv", kind, plane, w, b, dilations=[2, 2], pads=[2, 0, 1, 3])
        yield case("conv-point", "Conv", kind, plane, weights((12, 8, 1, 1), 7), weights((12,), 8))
        yield case("conv-3d", "Conv", kind, space, weights((6, 4, 3, 2, 3), 9), weights((6,), 10), pads=[1, 0, 1, 1, 1, 0])
        yield case("transpose", "ConvTranspose", kind, plane, weights((8, 6, 3, 3), 11), weights((6,), 12), strides=[2, 2])
        yield case("transpose-groups", "ConvTranspose", kind, plane, weights((8, 3, 3, 2), 13), weights((6,), 12), group=2,
                   strides=[1, 3], dilations=[2, 1], pads=[1, 0, 1, 0], output_padding=[0, 1])
        yield case("transpose-1d", "ConvTranspose", kind, line, weights((8, 6, 4), 14), strides=[2])
    yield case("transpose-pads", "ConvTransposeWithDynamicPads", "f", plane, weights((8, 6, 3, 3), 11), np.array([1, 0, 1, 0]),
               weights((6,), 12), domain="com.microsoft", strides=[2, 2])
    for name, constants in {"fused": (w,), "fused-bias": (w, b), "fused-sum": (w, b, np.zeros(1))}.items():
        sum_of = [(2, 16, 20, 24), (1, 16, 33, 17)] if len(constants) == 3 else None
        yield case(name, "FusedConv", "f", plane if sum_of is None else [plane, sum_of], *constants[:2], domain="com.microsoft",
                   activation="Relu", pads=[1, 1, 1, 1])
    for kind in "fh":
        yield case("nhwc", "NhwcConv", kind, [(2, 20, 24, 8), (1, 33, 17, 8)], np.moveaxis(w, 1, -1), b, domain="com.microsoft",
                   pads=[1, 1, 1, 1])


def transforms():
    for kind in "fdh":
        for op, shapes in {"Rfft": [(3, 16), (2, 15)], "Irfft": [(3, 9, 2), (2, 6, 2)]}.items():
            yield case(op.lower(), op, kind, shapes, domain="com.microsoft", signal_ndim=1, onesided=1, normalized=0)
        for op, shapes in {"Rfft": [(3, 6, 8), (2, 5, 4)], "Irfft": [(3, 6, 5, 2), (2, 5, 3, 2)]}.items():
            yield case(op.lower() + "-2d", op, kind, shapes, domain="com.microsoft", signal_ndim=2, onesided=1, normalized=0)


# ---- a case's model, and its expected outputs ----


def names_of(one):
    return ["x", "z"] if isinstance(one.shapes[0], list) else ["x"]


def shape_of(one, which):
    """The dims of each input."""
    return [shapes[which] for shapes in one.shapes] if isinstance(one.shapes[0], list) else [one.shapes[which]]


def model_of(one, kind=None):
    """Inputs and outputs are float32, with casts to and from the operator's type."""
    number, dtype, _ = TYPES[kind or one.kind]
    names = names_of(one)
    constants = {f"c{i}": c if c.dtype == np.int64 else c.astype(dtype) for i, c in enumerate(one.constants)}
    inputs = [f"{names[0]}_cast", *constants, *[f"{name}_cast" for name in names[1:]]]
    nodes = [helper.make_node("Cast", [name], [f"{name}_cast"], to=number) for name in names]
    nodes.append(helper.make_node(one.op, inputs, ["y_cast"], domain=one.domain, **one.attributes))
    nodes.append(helper.make_node("Cast", ["y_cast"], ["y"], to=TensorProto.FLOAT))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(dims)) for name, dims in zip(names, shape_of(one, 0))]
    graph = helper.make_graph(nodes, one.name, values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    opsets = [helper.make_opsetid("", one.opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def inputs_of(one, which):
    random = np.random.default_rng(20 + which)
    inputs = {name: random.standard_normal(dims) for name, dims in zip(names_of(one), shape_of(one, which))}
    return {name: array.astype(TYPES[one.kind][1]).astype(np.float32) for name, array in inputs.items()}


def on_the_cpu(one, inputs):
    """In float32, because the CPU EP has no convolution of the other types. The constants are rounded to the case's type."""
    return onnxruntime.InferenceSession(model_of(one, "f"), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def expect(one, which):
    inputs = inputs_of(one, which)
    x = inputs["x"]
    if one.op == "Rfft":
        y = np.fft.rfftn(x, axes=range(1, x.ndim))
        return np.stack([y.real, y.imag], -1)
    if one.op == "Irfft":
        return np.fft.irfftn(x[..., 0] + 1j * x[..., 1], axes=range(1, x.ndim - 1))
    if one.op == "NhwcConv":
        like = one._replace(op="Conv", domain="", constants=[np.moveaxis(one.constants[0], -1, 1), one.constants[1]])
        like = like._replace(shapes=[(dims[0], dims[3], dims[1], dims[2]) for dims in one.shapes])
        return np.moveaxis(on_the_cpu(like, {"x": np.moveaxis(x, -1, 1)}), 1, -1)
    return on_the_cpu(one, inputs)


def difference(got, expected):
    """The largest error relative to the largest value; infinite if the dims differ or a value is NaN."""
    if got.shape != expected.shape:
        return np.inf
    largest = np.abs(got.astype(np.float64) - expected).max() / max(np.abs(expected).max(), 0.1)
    return largest if np.isfinite(largest) else np.inf


def open_session(model, options):
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model, settings, providers=[("CUDAExecutionProvider", options)])
    session.disable_fallback()
    return session


class Check:
    def __init__(self):
        self.wrong, self.sessions, self.runs, self.refused = [], 0, 0, 0

    def compare(self, name, number, got, expected, limit):
        self.runs += 1
        worst = difference(got, expected)
        if worst > limit:
            self.wrong.append(f"{name}, run {number}: differs by {worst:.3g}, {limit:g} is allowed")

    def session(self, name, model, options, inputs, expected, limit, refusal):
        try:
            session = open_session(model, options)
            for number, which in enumerate(RUNS, 1):
                self.compare(name, number, session.run(None, inputs[which])[0], expected[which], limit)
            self.sessions += 1
            if refusal:
                self.wrong.append(f"{name}: expected an error with '{refusal}'")
        except Exception as error:  # of any class: ONNX Runtime's binding has many
            if refusal and refusal in str(error):
                self.refused += 1
            else:
                self.wrong.append(f"{name}: {str(error).splitlines()[0][:300]}")

    def operators(self, cases, every):
        for one in cases:
            model, inputs, expected = model_of(one), [inputs_of(one, i) for i in range(2)], [expect(one, i) for i in range(2)]
            for options in options_of(one, every):
                self.session(f"{one.name} {options}", model, options, inputs, expected, TYPES[one.kind][2], refusal_of(one, options))

    def models(self, folder, every):
        sizes = {"cls": [(1, 3, 48, 192), (2, 3, 48, 96)], "det": [(1, 3, 64, 96), (1, 3, 96, 64)], "rec": [(1, 3, 48, 96), (2, 3, 48, 64)]}
        for name, shapes in sizes.items():
            file = pathlib.Path(folder, f"pp-ocr-{name}.onnx")
            if not file.exists():
                leave(f"no {file.name}: scripts/get-models fetches it")
            inputs = [{"x": np.random.default_rng(i).standard_normal(shape).astype(np.float32)} for i, shape in enumerate(shapes)]
            reference = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
            expected = [reference.run(None, one)[0] for one in inputs]
            for options in ALL if every else [{}, {"cudnn_conv_algo_search": "HEURISTIC"}, {"cudnn_conv_algo_search": "DEFAULT"}, NHWC]:
                # the models' nodes for shapes run on the CPU
                session = onnxruntime.InferenceSession(file.read_bytes(), providers=[("CUDAExecutionProvider", options)])
                session.disable_fallback()
                for number, which in enumerate(RUNS, 1):
                    self.compare(f"{name} {options}", number, session.run(None, inputs[which])[0], expected[which], 1e-4)
                self.sessions += 1

    def graphs(self, cases):
        """The first run captures a graph, which later runs replay with other values in the same memory."""
        for one in cases:
            options = {"enable_cuda_graph": "1"}
            inputs, expected = [inputs_of(one, 0)], [expect(one, 0)]
            inputs.append({name: -2 * array for name, array in inputs[0].items()})
            expected.append(on_the_cpu(one, inputs[1]))
            session = open_session(model_of(one), options)
            binding = session.io_binding()
            values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for name, array in inputs[0].items()}
            result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(expected[0].shape, np.float32, "cuda", 0)
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output("y", result)
            for number, which in enumerate([0, 0, 1, 1, 0], 1):
                for name, value in values.items():
                    value.update_inplace(inputs[which][name])
                session.run_with_iobinding(binding)
                self.compare(f"{one.name} in a graph", number, result.numpy(), expected[which], TYPES[one.kind][2])
            self.sessions += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--models")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("chosen", nargs="*")
    arguments = parser.parse_args()
    cases = [one for one in [*convolutions(), *transforms()] if not arguments.chosen or one.name in arguments.chosen]
    if arguments.list:
        print("\n".join(one.name for one in cases))
        return 0
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        leave("this onnxruntime has no CUDA EP")
    check = Check()
    if arguments.models:
        check.models(arguments.models, arguments.all)
    elif arguments.graphs:
        check.graphs([one for one in cases if one.op in ("Conv", "ConvTranspose", "FusedConv")])
    else:
        check.operators(cases, arguments.all)
    print("\n".join(check.wrong), end="\n" if check.wrong else "")
    print(f"{check.sessions} sessions, {check.runs} runs, {check.refused} refused as expected, {len(check.wrong)} wrong")
    return 1 if check.wrong or check.sessions == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
