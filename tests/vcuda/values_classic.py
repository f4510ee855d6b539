"""Operators that CUDA's EP computes with cuDNN's older interface, compared with the CPU EP: pooling, normalisation, reductions, recurrent networks.

usage: values_classic.py [--list] [--least N] [--graphs] [--models FOLDER] [CASE...]        under with-cuda
  --graphs         CUDA graphs instead of plain runs: captured in the first run, and replayed with other values in the same memory
  --models FOLDER  also Silero's speech models, which scripts/get-models fetches: several steps of a stream with its state

Each case is one operator in one type with one shape. Every node must run on CUDA: a fallback to the CPU is an error. A case runs three times, the
third time with other values. Inputs and outputs are always float32, with casts to and from other types, and the CPU EP computes in float32. A case
whose kernel vcuda lacks is skipped, and the kernel is named at the end. With --least the test fails if fewer than N cases pass."""

import argparse
import collections
import os
import re
import sys
import tempfile

import gpu_python

SKIPPED = 77


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"values_classic: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


folder = tempfile.TemporaryDirectory()
if gpu_python.unpack(folder.name) is None:
    leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
sys.path.insert(0, folder.name)
LOG = os.environ["VCUDA_LOG"] = os.path.join(folder.name, "vcuda.log")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

onnxruntime.set_default_logger_severity(4)
FLOATS = "f", "h", "d"
TYPES = {"f": (TensorProto.FLOAT, np.float32), "h": (TensorProto.FLOAT16, np.float16), "d": (TensorProto.DOUBLE, np.float64),
         "b": (TensorProto.BFLOAT16, ml_dtypes.bfloat16), "i": (TensorProto.INT32, np.int32), "l": (TensorProto.INT64, np.int64),
         "c": (TensorProto.INT8, np.int8), "u": (TensorProto.UINT8, np.uint8)}
TOLERANCE = {"h": 1e-2, "b": 5e-2}
IN_INT64 = ("ArgMax", "ArgMin")

# kind: a letter of TYPES; dims: of each input, None for an omitted one; constants: by the index of the input; outputs: their number
Case = collections.namedtuple("Case", "name op kind dims attributes constants outputs opset domain")


def case(op, kind, *dims, constants=None, outputs=1, opset=17, domain="", note="", **attributes):
    shape = "x".join(map(str, dims[0]))
    words = [op, kind, shape, *(f"{key}={value}".replace(" ", "") for key, value in attributes.items()), note]
    name = "-".join(word for word in words if word)
    return Case(name, op, kind, dims, attributes, constants or {}, outputs, opset, domain)


# ---- the cases ----


def pooling():
    for kind in FLOATS:
        for op in "MaxPool", "AveragePool":
            yield case(op, kind, (2, 3, 17), kernel_shape=[3])
            yield case(op, kind, (2, 3, 17), kernel_shape=[3], strides=[2], pads=[1, 1])
            yield case(op, kind, (2, 3, 9, 8), kernel_shape=[2, 3])
            yield case(op, kind, (1, 4, 9, 8), kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1])
            yield case(op, kind, (1, 2, 7, 10), kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)
            yield case(op, kind, (1, 2, 5, 6, 7), kernel_shape=[2, 3, 2], strides=[1, 2, 3])
            yield case(op, kind, (2, 2, 5, 6, 7), kernel_shape=[3, 3, 3], pads=[1] * 6)
        yield case("AveragePool", kind, (1, 4, 9, 8), kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1], count_include_pad=1)
        yield case("MaxPool", kind, (1, 2, 6, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1], note="nan")
        for op in "GlobalMaxPool", "GlobalAveragePool":
            yield case(op, kind, (2, 3, 11))
            yield case(op, kind, (2, 3, 5, 7))
            yield case(op, kind, (1, 2, 3, 4, 5))
    for kind in "cu":
        yield case("MaxPool", kind, (1, 2, 7, 9), kernel_shape=[3, 2], strides=[2, 1])
    yield case("AveragePool", "b", (1, 2, 7, 9), kernel_shape=[3, 2], opset=22)


def normalization():
    for kind in FLOATS:
        for dims in (4, 5), (2, 3, 7), (2, 3, 5, 4), (1, 2, 3, 4, 5):
            yield case("BatchNormalization", kind, dims, *[(dims[1],)] * 4)
        yield case("BatchNormalization", kind, (2, 3, 5, 4), *[(3,)] * 4, epsilon=0.25)
        for dims in (1, 3, 7), (1, 3, 5, 4), (1, 2, 3, 4, 5), (3, 2, 5, 4), (2, 3, 9):
            yield case("InstanceNormalization", kind, dims, (dims[1],), (dims[1],))
        for size in 1, 3, 5:
            yield case("LRN", kind, (2, 6, 3, 4), size=size, alpha=0.5, beta=0.75, bias=1.5)
        yield case("BiasSoftmax", kind, (3, 2000), (1, 2000), axis=1, is_inner_broadcast=0, domain="com.microsoft")
        yield case("BiasSoftmax", kind, (2, 3, 1500), (2, 1, 1500), axis=2, is_inner_broadcast=1, domain="com.microsoft")


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceSumSquare",
              "ReduceLogSum", "ReduceLogSumExp")
WHOLE = {"i": ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
         "l": ("ReduceSum", "ReduceMax", "ReduceMin"), "c": ("ReduceMax", "ReduceMin"), "u": ("ReduceMax", "ReduceMin")}
AXES = ((3, 4, 5), [1]), ((3, 4, 5), [0, 2]), ((3, 4, 5), [2]), ((3, 4, 5), None), ((2, 3, 4, 5), [1, 3]), ((6, 7), [0])


def reduction(op, kind, dims, axes, **more):
    """Axes are an attribute up to opset 17, except for ReduceSum, where they are an input."""
    if axes is None:
        return case(op, kind, dims, note="all", **more)
    if op != "ReduceSum":
        return case(op, kind, dims, axes=axes, **more)
    return case(op, kind, dims, None, constants={1: np.array(axes, np.int64)}, note="axes=" + str(axes).replace(" ", ""), **more)


def reductions():
    for op in REDUCTIONS:
        for kind in FLOATS:
            for dims, axes in AXES:
                yield reduction(op, kind, dims, axes)
        yield reduction(op, "f", (3, 4, 5), [1], keepdims=0)
        for rank in range(5, 9 if op == "ReduceLogSumExp" else 10):  # another kernel of this operator supports only rank 8
            yield reduction(op, "f", (2, 3) + (1, 2) * ((rank - 2) // 2) + (3,) * (rank % 2), [1, rank - 1])
    for op in "ReduceSum", "ReduceMean":
        yield reduction(op, "b", (3, 4, 5), [1])
    for kind, ops in WHOLE.items():
        for op in ops:
            yield reduction(op, kind, (3, 4, 5), [1])
            yield reduction(op, kind, (2, 3, 2, 2), [0, 2])
    for op in IN_INT64:
        for kind in FLOATS:
            yield case(op, kind, (3, 4, 5), axis=1)
            yield case(op, kind, (3, 4, 5), axis=0, keepdims=0)
            yield case(op, kind, (2, 3, 4, 5), axis=-2)
            yield case(op, kind, (6, 7), axis=0)
    yield case("Einsum", "f", (3, 4, 5), equation="abc->ac")
    yield case("Einsum", "f", (3, 4, 5), (4, 5), equation="abc,bc->ac")
    yield case("Einsum", "f", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik")


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def network(op, kind, direction, size, biased=True, lengths=None, states=True, **more):
    steps, batch, inputs, hidden = size
    gates, both = GATES[op], DIRECTIONS[direction]
    dims = [(steps, batch, inputs), (both, gates * hidden, inputs), (both, gates * hidden, hidden),
            (both, 2 * gates * hidden) if biased else None, None]
    dims += [(both, batch, hidden)] * (2 if op == "LSTM" else 1) if states else []
    constants = {} if lengths is None else {4: np.array(lengths, np.int32)}
    if op == "GRU":
        more["linear_before_reset"] = 1
    words = [direction, "" if biased else "unbiased", "" if lengths is None else "lengths", "" if states else "zero", f"h{hidden}"]
    return case(op, kind, *dims, constants=constants, outputs=3 if op == "LSTM" else 2, hidden_size=hidden,
                direction=direction, note="-".join(filter(None, words)), **more)


def networks():
    for op in GATES:
        for kind in FLOATS:
            for direction in DIRECTIONS:
                yield network(op, kind, direction, (5, 2, 3, 4))
        for direction in DIRECTIONS:
            yield network(op, "f", direction, (5, 3, 4, 6), lengths=[5, 2, 4])
            yield network(op, "f", direction, (4, 2, 3, 5), biased=False)
            yield network(op, "f", direction, (1, 1, 3, 2), states=False)
        yield network(op, "f", "forward", (7, 2, 64, 128))


def collect():
    cases = [*pooling(), *normalization(), *reductions(), *networks()]
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return cases


# ---- their models and values ----


def model_of(case, kind):
    """Constants are initializers, and every other input and output is float32."""
    number, named = TYPES[kind][0], [f"x{i}" for i in range(len(case.dims))]
    nodes, inputs, constants, given = [], [], [], []
    for i, dims in enumerate(case.dims):
        if i in case.constants:
            constants.append(numpy_helper.from_array(case.constants[i], named[i]))
            given.append(named[i])
        elif dims is None:
            given.append("")
        else:
            inputs.append(helper.make_tensor_value_info(named[i], TensorProto.FLOAT, dims))
            nodes.append(helper.make_node("Cast", [named[i]], [f"cast_{named[i]}"], to=number))
            given.append(f"cast_{named[i]}")
    outputs = [f"y{i}" for i in range(case.outputs)]
    nodes.append(helper.make_node(case.op, given, [f"raw_{name}" for name in outputs], domain=case.domain, **case.attributes))
    nodes += [helper.make_node("Cast", [f"raw_{name}"], [name], to=TensorProto.FLOAT) for name in outputs]
    graph = helper.make_graph(nodes, case.name, inputs, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                              constants)
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def values_of(case, seed):
    """Numbers that the case's type holds exactly: positive ones for variances and logarithms, small ones for weights."""
    generator, kind = np.random.default_rng(seed), TYPES[case.kind][1]
    positive, values = case.op in ("BatchNormalization", "ReduceLogSum", "ReduceProd"), {}
    for i, dims in enumerate(case.dims):
        if dims is None or i in case.constants:
            continue
        if case.kind in "ilcu":
            value = generator.integers(1 if case.kind == "u" else -4, 5, dims)
        else:
            value = generator.uniform(0.5 if positive else -1, 1.5 if positive else 1, dims)
        value = value.astype(kind).astype(np.float32)
        if case.name.endswith("-nan"):
            value.flat[7] = np.nan
        values[f"x{i}"] = value
    return values


CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def make_session(model, provider, whole=True, **chosen):
    """`whole`: on this provider alone, without optimizations. `chosen`: options of the provider."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if whole:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "0" if provider == CPU else "1")
    session = onnxruntime.InferenceSession(model, options, providers=[(provider, chosen)])
    session.disable_fallback()
    return session


# ---- the verdict ----


def reference(case, values):
    """On the CPU in float32. The CPU EP has no BiasSoftmax, and its MaxPool ignores NaN."""
    if case.name.endswith("-nan"):
        session, values = make_session(model_of(case, "f"), CPU), values["x0"]
        clean, = session.run(None, {"x0": np.where(np.isnan(values), -np.inf, values)})
        holds, = session.run(None, {"x0": np.isnan(values).astype(np.float32)})
        return [np.where(holds == 1, np.nan, clean)]
    if case.op == "BiasSoftmax":
        summed = (values["x0"] + values["x1"]).astype(TYPES[case.kind][1]).astype(np.float64)
        raised = np.exp(summed - summed.max(-1, keepdims=True))
        return [raised / raised.sum(-1, keepdims=True)]
    kind = case.kind if case.kind in "ilcu" and case.op not in ("ReduceL1", "ReduceL2", "ReduceProd") else "f"
    return make_session(model_of(case, kind), CPU).run(None, values)


def differs(case, got, expected):
    tolerance = TOLERANCE.get(case.kind, 1e-4 if case.op in GATES else 1e-5)
    if case.kind in "il" and case.op in ("ReduceL2", "ReduceMean"):
        expected = np.trunc(expected)
    if got.shape != expected.shape:
        return f"dims {got.shape}, expected {expected.shape}"
    if np.allclose(got, expected, tolerance, tolerance, equal_nan=True):
        return None
    return f"{np.nanmax(np.abs(got - expected)):.3g} off"


kept = []  # releasing a session after a failed run with pinned memory may end the process: a defect of ORT


def judge(case):
    """None, or a description of the failure."""
    session = make_session(model_of(case, case.kind), CUDA)
    kept.append(session)
    for run, seed in enumerate((1, 1, 2)):
        values = values_of(case, seed)
        for i, (got, expected) in enumerate(zip(session.run(None, values), reference(case, values))):
            if (wrong := differs(case, got, expected)) is not None:
                return f"run {run + 1}, output {i}: {wrong}"
    kept.pop()
    return None


def replay(case):
    """The case with CUDA graphs: None, or a description of the failure."""
    session = make_session(model_of(case, case.kind), CUDA, enable_cuda_graph="1")
    kept.append(session)
    binding, inputs, outputs = session.io_binding(), {}, []
    for name, array in values_of(case, 1).items():
        inputs[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        binding.bind_ortvalue_input(name, inputs[name])
    for i, expected in enumerate(reference(case, values_of(case, 1))):
        outputs.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type(expected.shape, np.float32, "cuda", 0))
        binding.bind_ortvalue_output(f"y{i}", outputs[i])
    for seed in 1, 2, 3:
        values = values_of(case, seed)
        for name, array in values.items():
            inputs[name].update_inplace(array)
        session.run_with_iobinding(binding)
        for i, expected in enumerate(reference(case, values)):
            if (wrong := differs(case, outputs[i].numpy(), expected)) is not None:
                return f"run {seed}, output {i}: {wrong}"
    kept.pop()
    return None


def speak(path, rate):
    """Steps of an audio stream through Silero's model, whose nodes for shapes run on the CPU. None, or a description of the failure."""
    on_cpu, on_cuda = make_session(path, CPU, whole=False), make_session(path, CUDA, whole=False)
    kept.append(on_cuda)
    states = [np.zeros((2, 1, 128), np.float32)] * 2
    generator = np.random.default_rng(rate)
    for step in range(4):
        sound = generator.uniform(-0.5, 0.5, (1, rate * 36 // 1000)).astype(np.float32)
        outputs = []
        for i, session in enumerate((on_cpu, on_cuda)):
            spoken, states[i] = session.run(None, {"input": sound, "sr": np.array(rate, np.int64), "state": states[i]})[:2]
            outputs.append(spoken)
        for one, other in (outputs, states):
            if not np.allclose(one, other, 1e-4, 1e-5):
                return f"step {step + 1}: {np.abs(one - other).max():.3g} off"
    kept.pop()
    return None


SPEECH = ("silero-vad", 16000), ("silero-vad", 8000), ("silero-vad-ifless", 16000)


def missing_kernel():
    """The kernel that vcuda lacks according to its log since the last query; None: no kernel."""
    if not os.path.exists(LOG):
        return None
    with open(LOG) as file:
        found = re.search(r"kernel not found: _ZN11onnxruntime4cuda(\d+)(\w+)", file.read())
    os.remove(LOG)
    return found[2][:int(found[1])] if found else None


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of all cases")
    parser.add_argument("--least", type=int, default=0, metavar="N")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--models", metavar="FOLDER")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these, or those with this prefix")
    return parser.parse_intermixed_args()


def find_work(chosen):
    """(name, function that runs and checks it) of each case."""
    judged_by = replay if chosen.graphs else judge
    work = [(case.name, lambda case=case: judged_by(case)) for case in collect()]
    if chosen.models is not None:
        paths = [(os.path.join(chosen.models, f"{name}.onnx"), rate) for name, rate in SPEECH]
        work += [(f"{os.path.basename(path)}-{rate}", lambda path=path, rate=rate: speak(path, rate)) for path, rate in paths]
    return [(name, judged) for name, judged in work if not chosen.cases or name.startswith(tuple(chosen.cases))]


def main():
    chosen = options()
    work = find_work(chosen)
    if chosen.list:
        print("\n".join(name for name, _ in work))
        return 0
    passed, failed, missing = 0, 0, collections.defaultdict(list)
    for name, judged in work:
        try:
            wrong = judged()
        except Exception as error:
            wrong = str(error).strip().splitlines()[-1][-400:]
        if wrong is None:
            passed += 1
        elif (kernel := missing_kernel()) is not None:
            missing[kernel].append(name)
        else:
            failed += 1
            print(f"{name}: {wrong}", flush=True)
    for kernel, names in sorted(missing.items()):
        print(f"skipped {len(names)}: vcuda does not have the kernel {kernel}: {' '.join(names[:4])}{' ...' if len(names) > 4 else ''}")
    print(f"{passed} passed, {failed} failed, {sum(map(len, missing.values()))} skipped")
    return 1 if failed or passed < chosen.least else 0


status = main()
sys.stdout.flush()
folder.cleanup()
os._exit(status)
