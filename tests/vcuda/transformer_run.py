"""Runs one case on CUDA's EP, bound on the device, and on the CPU EP."""
import ctypes

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16}
TOLERANCE = {TensorProto.FLOAT: 1e-4, TensorProto.FLOAT16: 4e-3, TensorProto.BFLOAT16: 3e-2}
RUNS = 3


def onnx_type(array, type):
    return type if array.dtype == np.float32 else helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(case, type):
    """The case's model with floats of type `type`."""
    inputs = [helper.make_tensor_value_info(name, onnx_type(array, type), array.shape) for name, array in case.inputs.items()]
    outputs = [helper.make_tensor_value_info(name, case.output_types.get(name, type), None) for name in case.outputs]
    weights = [onnx.numpy_helper.from_array(rounded(array, type), name) if onnx_type(array, type) != TensorProto.BFLOAT16 else
               helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, rounded(array, type).tobytes(), raw=True)
               for name, array in case.weights.items()]
    graph = helper.make_graph(case.nodes(type), "g", inputs, outputs, initializer=weights)
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def rounded(array, type):
    return array.astype(NUMPY[type]) if array.dtype == np.float32 else array


def session_of(model, cuda, provider=None, config=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    if not cuda:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return onnxruntime.InferenceSession(model, options, providers=[("CUDAExecutionProvider", provider or {})], enable_fallback=False)


CASTS = {}


def cast(value, start, end):
    """Convert a value on the device to another type on the device: numpy has no bfloat16 that ORT accepts."""
    key = start, end
    if key not in CASTS:
        graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=end)], "g", [helper.make_tensor_value_info("x", start, None)],
                                  [helper.make_tensor_value_info("y", end, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        CASTS[key] = session_of(model.SerializeToString(), True)
    binding = CASTS[key].io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cuda")
    CASTS[key].run_with_iobinding(binding)
    return binding.get_outputs()[0]


def to_device(array, type):
    if array.dtype != np.float32 or type != TensorProto.BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy(rounded(array, type), "cuda", 0)
    return cast(onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0), TensorProto.FLOAT, type)


def to_host(value):
    if value.data_type() == "tensor(bfloat16)":
        value = cast(value, TensorProto.BFLOAT16, TensorProto.FLOAT)
    array = value.numpy()
    return array.astype(np.float32) if array.dtype == np.float16 else array


def on_cuda(case, type):
    """The outputs of each run, by name."""
    session = session_of(model_of(case, type), True, case.provider)
    binding = session.io_binding()
    values = {}
    for name, array in case.inputs.items():
        if name in case.on_host:
            binding.bind_cpu_input(name, array)
        else:
            values[name] = to_device(array, type)
            binding.bind_ortvalue_input(name, values[name])
    for _ in range(RUNS):
        for name in case.outputs:
            if name in case.in_place:
                binding.bind_ortvalue_output(name, values[case.in_place[name]])
            else:
                binding.bind_output(name, "cuda")
        session.run_with_iobinding(binding)
        yield dict(zip(case.outputs, map(to_host, binding.get_outputs())))


def in_a_graph(case, type, inputs):
    """The outputs of a captured run and of its replays, one for each of `inputs`, which are written into the same memory."""
    session = session_of(model_of(case, type), True, {**case.provider, "enable_cuda_graph": "1"})
    binding = session.io_binding()
    values = {name: to_device(array, type) for name, array in case.inputs.items()}
    results = {name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, NUMPY[type], "cuda", 0)
               for name, array in on_cpu(case, type).items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in results.items():
        binding.bind_ortvalue_output(name, value)
    for given in inputs:
        for name, array in given.items():
            values[name].update_inplace(rounded(array, type))
        session.run_with_iobinding(binding)
        yield {name: to_host(value) for name, value in results.items()}


def on_cpu(case, type):
    feeds = {name: rounded(array, type).astype(array.dtype) for name, array in case.inputs.items()}
    if case.reference is not None:
        return case.reference(feeds)
    weights = {name: rounded(array, type).astype(array.dtype) for name, array in case.weights.items()}
    plain = case._replace(inputs=feeds, weights=weights)
    return dict(zip(case.outputs, session_of(model_of(plain, TensorProto.FLOAT), False).run(case.outputs, feeds)))


def meaningful(array, rows):
    """The valid rows of a cache."""
    if rows is None:
        return array
    return np.concatenate([sequence[:, :length].reshape(-1) for sequence, length in zip(array, rows)])


def difference(expected, got, tolerance):
    if expected.shape != got.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if not np.issubdtype(expected.dtype, np.floating):
        return "" if np.array_equal(expected, got) else "other whole numbers"
    if not np.isfinite(got).all():
        return "not finite"
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    error = float(np.abs(expected - got).max(initial=0)) / largest
    return "" if error <= tolerance else f"off by {error:.3g}, tolerance {tolerance:.3g}"


def has_cudnn():
    try:
        ctypes.CDLL("libcudnn.so.9")
    except OSError:
        return False
    return True


def judge_replays(case, type):
    """A description of the failure, or an empty text. A case with an input on the host has no replays."""
    if case.on_host:
        return ""
    other = {name: array[::-1].copy() if len(array) > 1 else -array for name, array in case.inputs.items()}
    inputs = [case.inputs, other, other, case.inputs]
    for number, (given, got) in enumerate(zip(inputs, in_a_graph(case, type, inputs)), 1):
        for output, expected in on_cpu(case._replace(inputs=given), type).items():
            wrong = difference(expected, got[output], TOLERANCE[type] * case.slack)
            if wrong:
                return f"in a graph, run {number}: {output}: {wrong}"
    return ""


def judge(case):
    """A description of the failure, or an empty text."""
    for type in case.types:
        name = TensorProto.DataType.Name(type).lower()
        try:
            expected = on_cpu(case, type)
            for number, got in enumerate(on_cuda(case, type)):
                for output in case.outputs:
                    rows = case.rows.get(output)
                    wrong = difference(meaningful(expected[output], rows), meaningful(got[output], rows), TOLERANCE[type] * case.slack)
                    if wrong:
                        return f"{name}, run {number + 1}: {output}: {wrong}"
        except Exception as error:  # of any class: ORT has many
            return f"{name}: {str(error).splitlines()[0][:600]}"
    return ""
