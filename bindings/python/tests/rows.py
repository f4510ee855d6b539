"""What the conformance rows need beside the package: the file's rows, the mirrors of tensors, and what the models compute.

tests/conformance/README.md says what columns, words and steps mean. Nothing here calls iobind.
"""

import itertools
import math
import pathlib
import re
import shlex
import subprocess
import tempfile
from typing import NamedTuple

import ml_dtypes
import numpy

STRING = "string"
# Element types by the names that the rows have; those of ml_dtypes that are only bytes here are not computed with.
PLAIN = {**{name: numpy.dtype(name) for name in ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64",
                                                 "uint32", "uint64")}, "bfloat16": numpy.dtype(ml_dtypes.bfloat16)}
OPAQUE = {"float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
          "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu"}
PACKED = {"uint4": 4, "int4": 4, "uint2": 2, "int2": 2, "float4e2m1": 4}
STEMS = ["s", "dr\u00e9i", "a text that is longer than what strings keep in themselves"]


class Row(NamedTuple):
    name: str
    needs: list
    model: str
    steps: str
    line: int


def read_rows(path):
    """The rows of a file, one for each value of a line's column `each`."""
    rows, lists, header = [], {}, False

    def values(words):
        return list(itertools.chain.from_iterable(values(lists[word]) if word.startswith("=") else [word] for word in words.split()))

    for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        columns = line.split("\t")
        if line.startswith("="):
            lists[columns[0]] = columns[1]
        elif not header:
            header = True
        else:
            for value in values(columns[1]) if columns[1] else [""]:
                name, needs, model, steps = (put_in(columns[at], value) for at in (0, 2, 3, 4))
                rows.append(Row(name, needs.split(), model, steps, number))
    return rows


def put_in(text, value):
    parts = value.split(":")

    def part(match):
        if match.group(1) is None:
            return value
        return parts[int(match.group(1)) - 1] if int(match.group(1)) <= len(parts) else ""

    return re.sub("@([1-9])?", part, text)


def words_of(step):
    """The words of a step: 'quotes' hold one with blanks together."""
    return shlex.split(step)


def parse_type(text):
    """"float32[2,3]" as a name and dims."""
    name, dims = text[:-1].split("[")
    return name, [int(dim) for dim in dims.split(",")] if dims else []


def text_of(number):
    return "" if number == 0 else f"{STEMS[number % 3]} {number}"


def byte_count(name, dims):
    count = math.prod(dims)
    return 4 * count if name == STRING else (count * PACKED[name] + 7) // 8 if name in PACKED else count * numpy_dtype(name).itemsize


def numpy_dtype(name):
    """What NumPy calls the type: bytes for what is packed."""
    return numpy.dtype(object) if name == STRING else numpy.dtype(numpy.uint8) if name in PACKED else PLAIN.get(name) or numpy.dtype(
        getattr(ml_dtypes, OPAQUE[name]))


class Mirror:
    """What a tensor must hold, in bytes; tensors that share memory share the bytes. A string is its number, in four bytes."""

    def __init__(self, name, dims, memory=None, offset=0):
        self.name, self.dims, self.offset = name, list(dims), offset
        self.memory = numpy.full(byte_count(name, dims), 0 if name == STRING else 0xA5, numpy.uint8) if memory is None else memory

    @property
    def nbytes(self):
        return byte_count(self.name, self.dims)

    @property
    def bytes(self):
        return self.memory[self.offset:self.offset + self.nbytes]

    @property
    def text(self):
        return f"{self.name}[{','.join(map(str, self.dims))}]"

    def copy(self):
        return Mirror(self.name, self.dims, self.bytes.copy())

    def part(self, name, dims, offset=0):
        return Mirror(name, dims, self.memory, self.offset + offset)

    def array(self, content=None):
        """As the package takes it: by dtype and dims, a packed type's bytes in a row, strings as objects."""
        content = self.bytes if content is None else content
        if self.name == STRING:
            texts = numpy.empty(math.prod(self.dims), object)
            texts[:] = [text_of(int(number)) for number in content.view("<u4")]
            return texts.reshape(self.dims)
        return content.copy() if self.name in PACKED else content.copy().view(numpy_dtype(self.name)).reshape(self.dims)

    def numbers(self):
        """The elements, shaped: exact for the small numbers of the rows."""
        if self.name in PACKED:
            bits = PACKED[self.name]
            shifts = numpy.arange(0, 8, bits, dtype=numpy.uint8)
            flat = ((self.bytes[:, None] >> shifts) & (2**bits - 1)).reshape(-1)[:math.prod(self.dims)].astype(float)
            if self.name.startswith("int"):
                flat = numpy.where(flat >= 2 ** (bits - 1), flat - 2**bits, flat)
            return flat.reshape(self.dims)
        return self.bytes.copy().view(PLAIN[self.name]).reshape(self.dims).astype(float)

    @staticmethod
    def encode(name, numbers):
        """Numbers as the bytes of an element type; the first packed element is in the low bits."""
        flat = numpy.asarray(numbers).reshape(-1)
        if name not in PACKED:
            return flat.astype(PLAIN[name]).view(numpy.uint8) if flat.size else numpy.empty(0, numpy.uint8)
        bits, each = PACKED[name], 8 // PACKED[name]
        cells = numpy.zeros(-(-flat.size // each) * each, numpy.uint8)
        cells[:flat.size] = flat.astype(numpy.int64) & (2**bits - 1)
        return numpy.bitwise_or.reduce(cells.reshape(-1, each) << numpy.arange(0, 8, bits, dtype=numpy.uint8), axis=1).astype(numpy.uint8)

    @staticmethod
    def of(name, numbers):
        return Mirror(name, numpy.shape(numbers), Mirror.encode(name, numbers))

    def pattern(self, seed):
        """The bytes of a seed's pattern."""
        count = math.prod(self.dims)
        index = numpy.arange(seed, seed + count)
        if self.name == STRING:
            return index.astype("<u4").view(numpy.uint8)
        if self.name in OPAQUE or self.name == "float4e2m1":
            content = ((seed * 37 + numpy.arange(self.nbytes) * 11 + 1) & 0xFF).astype(numpy.uint8)
            if count % 2 and self.name in PACKED:
                content[-1] &= 0x0F
            return content
        ranges = {"bool": (2, 0), "uint2": (4, 0), "int2": (4, 2), "int4": (16, 8)}
        modulus, below = ranges.get(self.name, (11, 0))
        return self.encode(self.name, index % modulus - below)


# ---- models

def make_model(build, spec):
    """A model by its spec, such as "add dims=n,3", by the program of the C tests."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        done = subprocess.run([str(build / "bin" / "make-model"), *spec.split(), file.name], capture_output=True, text=True)
        if done.returncode != 0:
            raise ValueError(f"{spec}: {done.stdout}{done.stderr}")
        return pathlib.Path(file.name).read_bytes()


class Wrong(Exception):
    """What a step found to be wrong."""


def require(what, wanted, got):
    if wanted != got:
        raise Wrong(f"{what}: expected {wanted}, got {got}")


class Tensor:
    """A tensor of a row, what it must hold, and where it must be."""

    def __init__(self, handle, value, place):
        self.handle, self.value, self.place = handle, value, place


def reference(spec, inputs):
    """The outputs of a model, in NumPy. Numbers are doubles; the outputs' types round them."""
    model, *rest = spec.split()
    given = dict(word.split("=", 1) for word in rest)
    x, y = (inputs + [None, None])[:2]
    if model == "identity" or model == "passthrough":
        return [x.copy()] if model == "identity" else [x.copy(), Mirror.of(x.name, 2 * x.numbers())]
    if model == "reshape":
        return [Mirror(x.name, y.numbers().astype(int).tolist(), x.bytes.copy())]
    if model == "decoder":
        return decoder(*inputs, int(given.get("vocab", 16)), given.get("softmax"))
    a, b = (None if of is None else of.numbers() for of in (x, y))
    axis = int(given.get("axis", 0))
    computed = {
        "add": lambda: [a + b],
        "scale": lambda: [int(given.get("factor", 2)) * a],
        "unused": lambda: [2 * a],
        "multi": lambda: [2 * a, a * a, a],
        "matmul": lambda: [a @ b],
        "outer": lambda: [a * b],
        "reduce": lambda: [a.sum(axis)],
        "transpose": lambda: [a.transpose([int(number) for number in given.get("order", "1,0").split(",")])],
        "grow": lambda: [numpy.concatenate([a, inputs[2].numbers()]), numpy.concatenate([b, inputs[2].numbers().T], 1)],
        "concat": lambda: [numpy.concatenate([a, b], axis)],
        "expand": lambda: [a * numpy.ones(b.astype(int))],
    }
    if model in computed:
        return [Mirror.of(x.name, numbers) for numbers in computed[model]()]
    of_other_types = {
        "if": lambda: (y.name, 2 * b if a else b * b),
        "loop": lambda: (y.name, b + a),
        "cast": lambda: (given.get("to", "float16"), a),
        "lookup": lambda: ("float32", looked_up(a, int(given.get("columns", 4)))),
        "nonzero": lambda: ("int64", numpy.array(numpy.nonzero(a))),
        "shape": lambda: ("int64", numpy.array(x.dims)),
        "constant": lambda: (given.get("dtype", "float32"), counted(given.get("dims", "2,3"))),
    }
    if model not in of_other_types:
        raise ValueError(f"no reference for {model!r}")
    return [Mirror.of(*of_other_types[model]())]


def looked_up(rows, columns):
    return (rows.reshape(-1, 1) * columns + numpy.arange(columns)) % 8191


def counted(dims):
    shape = [int(dim) for dim in dims.split(",")]
    return numpy.arange(1, math.prod(shape) + 1).reshape(shape)


def decoder(tokens, past_keys, past_values, vocab, softmax):
    """Attention without a softmax over a table of eighths, so that each number is exact."""
    if softmax != "0":
        raise ValueError("no reference for a decoder with a softmax")

    def table(rows, width):
        return ((numpy.asarray(rows).reshape(-1, 1) * 7 + numpy.arange(width) * 5) % 13 - 6) / 8

    width = past_keys.dims[1]
    new = table(tokens.numbers(), width)
    keys = numpy.concatenate([past_keys.numbers(), new])
    values = numpy.concatenate([past_values.numbers(), new / 2])
    weights = new @ keys.T
    logits = weights @ values @ table(numpy.arange(1, vocab + 1), width).T
    return [Mirror.of(past_keys.name, numbers) for numbers in (logits, keys, values, weights)]
