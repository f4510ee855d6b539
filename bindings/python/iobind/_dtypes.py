"""Element types: ONNX Runtime's numbers and NumPy's dtypes. NumPy is imported on first use."""

from __future__ import annotations

import functools
from typing import Any

from . import _core
from ._errors import DTypeError

STRING = 8
# number -> NumPy's name; those with a module are ml_dtypes'
NAMES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "object", 9: "bool", 10: "float16",
         11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
ML_NAMES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 26: "float8_e8m0fnu"}
PACKED = {21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "uint2", 25: "int2"}


@functools.cache
def numpy_dtype(code: int) -> Any:
    """The NumPy dtype of an element type: of a packed type, one byte, which holds two or four elements."""
    import numpy

    if code in NAMES:
        return numpy.dtype(NAMES[code])
    if code in PACKED:
        return numpy.dtype(numpy.uint8)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"tensors of {_core.dtype_name(code)} in NumPy need the package ml_dtypes: pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, ML_NAMES[code]))


BY_NAME = {**{_core.dtype_name(code): code for code in range(1, 27)}, **{name: code for code, name in ML_NAMES.items()},
           **{name: code for code, name in PACKED.items()}, "bool": 9, "string": 8, "str": 8, "object": 8}


def code_of(dtype: Any, what: str = "dtype") -> int:
    """The number of an element type: from iobind's or NumPy's name, a dtype of NumPy or PyTorch, a NumPy scalar type, or the number
    itself. `what` is the beginning of error messages."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return dtype
    if type(dtype).__module__ == "torch":
        dtype = str(dtype).rpartition(".")[2]
        if dtype not in BY_NAME:
            raise DTypeError(f"{what}: ONNX Runtime has no tensors of torch.{dtype}")
    if isinstance(dtype, str) and dtype in BY_NAME:
        return BY_NAME[dtype]
    import numpy

    made = numpy.dtype(dtype)
    if made.kind in "OUST":
        return STRING
    if made.name not in BY_NAME:
        raise DTypeError(f"{what}: ONNX Runtime has no tensors of {made.name}")
    if not made.isnative:
        raise DTypeError(f"{what}: expected {made.name} in this machine's byte order, got {made.str}: convert it, "
                         "array.astype(array.dtype.newbyteorder('='))")
    return BY_NAME[made.name]
