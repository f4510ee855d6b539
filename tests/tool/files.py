"""Files for tests of the tool, written byte by byte, so that they can also lie: numpy's .npy and small ONNX models."""
import ast
import io
import struct
import zipfile


def npy_bytes(descr, shape, data, fortran=False, version=1, header=None):
    """A .npy file with any header, also one that lies."""
    text = header if header is not None else f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin-1") + data


def npz_bytes(members, method=zipfile.ZIP_STORED):
    """A .npz file of (name, content); a dict of them, or a list where a name stands twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, content)
    return file.getvalue()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_npy(path):
    """(descr, shape, data) of a file that the tool wrote."""
    content = read(path)
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    length = struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:10 + length].decode("latin-1").strip())
    assert header["fortran_order"] is False
    return header["descr"], header["shape"], content[10 + length:]


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, dims, dtype=1):
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def identity_model(inputs, pairs, dims=("n",), dtype=1):
    """Each pair (x, y) is a node y = Identity(x). Names may be anything."""
    graph = b"".join(field(1, field(1, x) + field(2, y) + field(4, "Identity")) for x, y in pairs) + field(2, "graph")
    graph += b"".join(field(11, value_info(name, dims, dtype)) for name in inputs)
    graph += b"".join(field(12, value_info(y, dims, dtype)) for _, y in pairs)
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)
