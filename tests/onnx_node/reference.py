"""Python's ONNX Runtime on the CPU: what it makes of a case."""

import ctypes

import numpy as np
import onnxruntime

import element


class Refused(Exception):
    """ONNX Runtime does not run this model."""


def value_of(array):
    """An OrtValue of any type but text: its bytes are the packed ones of the file's form."""
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), element.number_of(array), "cpu")
    content = element.to_file(array).tobytes()
    if len(content) != value.tensor_size_in_bytes():
        raise Refused(f"a tensor of {value.tensor_size_in_bytes()} bytes, {len(content)} in the case")
    ctypes.memmove(value.data_ptr(), content, len(content))
    return value


def array_of(value):
    if value.data_type() == "tensor(string)":
        return value.numpy()
    name = value.data_type()[len("tensor("):-1]
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return element.from_bytes(content, {"float": "float32", "double": "float64"}.get(name, name), list(value.shape()))


def run(model, inputs, names):
    """The outputs in the order of `names`; raises Refused with ONNX Runtime's words."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        if any(array.dtype == object for array in inputs.values()):
            return [np.asarray(output) for output in session.run(names, inputs)]
        values = session.run_with_ort_values(names, {name: value_of(array) for name, array in inputs.items()})
        return [array_of(value) for value in values]
    except Refused:
        raise
    except Exception as refused:  # ONNX Runtime raises a class of its own for each of its error codes
        raise Refused(str(refused)) from None
