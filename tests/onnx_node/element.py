"""Values of ONNX's cases, and the forms in which the tool reads and writes them as numpy files: bfloat16 as <u2, 8-bit floats
as u1, types below 8 bits as packed u1 in one dim, strings as <U."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

# The tool's names are ONNX's in lower case, but for these two.
NAMES = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}
TYPES = {NAMES.get(number, name.lower()): number for name, number in TensorProto.DataType.items()}
FORMS = {"bfloat16": "<u2", "string": "<U"}
PACKED = ("int4", "uint4", "float4e2m1", "int2", "uint2")


def plain(value):
    """A case's value as an array; numpy's own types, ml_dtypes' for the others, objects for strings."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def name_of(array):
    number = number_of(array)
    return NAMES.get(number, TensorProto.DataType.Name(number).lower())


def number_of(array):
    """ONNX's number of the element type."""
    return TensorProto.STRING if array.dtype == object else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def to_file(array):
    """The array that goes into the file."""
    name = name_of(array)
    if name == "string":
        return np.array([text(value) for value in array.flat], dtype=str).reshape(array.shape)
    if name in PACKED:
        return np.frombuffer(numpy_helper.from_array(array).raw_data, "u1")
    if name == "bfloat16":
        return array.view("<u2")
    return array.view("u1") if name.startswith("float8") else array


def from_bytes(content, name, dims):
    return numpy_helper.to_array(TensorProto(data_type=TYPES[name], dims=dims, raw_data=content))


def from_file(array, name, dims):
    """What the file's array stands for, whose type and dims the tool reported."""
    form = "|u1" if name in PACKED or name.startswith("float8") else FORMS.get(name) or np.dtype(name).str
    if not array.dtype.str.startswith(form):
        raise ValueError(f"{name} is written as {array.dtype.str}, expected {form}")
    if name not in PACKED and list(array.shape) != dims:
        raise ValueError(f"the file has the dims {list(array.shape)}, the report {dims}")
    return array.astype(object) if name == "string" else from_bytes(array.tobytes(), name, dims)


def same_kind(one, other):
    return one.dtype == other.dtype and one.shape == other.shape


def identical(one, other):
    """Bit for bit; strings as texts."""
    if not same_kind(one, other):
        return False
    if one.dtype == object:
        return [text(value) for value in one.flat] == [text(value) for value in other.flat]
    return one.tobytes() == other.tobytes()


def close(one, other, rtol, atol):
    """Within the tolerance that ONNX's own runner allows a backend."""
    if not same_kind(one, other) or one.dtype == object or one.dtype == bool:
        return identical(one, other)
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    return np.allclose(other.astype(wide), one.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
