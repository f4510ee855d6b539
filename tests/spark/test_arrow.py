"""map_arrow over Arrow's batches, without a cluster: what columns become, where they are read, what is refused."""

import numpy
import pyarrow
import pytest
from onnx import TensorProto, helper

import iobind
from iobind import spark


@pytest.fixture(autouse=True)
def released():
    yield
    spark.release()


def twice(*dims, kind=TensorProto.FLOAT):
    value = [helper.make_tensor_value_info(name, kind, ["n", *dims]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "test", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def run(model, batches, **options):
    predictor = spark.predictor(spark.SessionSpec(model), **options)
    return pyarrow.Table.from_batches(predictor.map_arrow(iter(batches)))


def batch(column, kind=None):
    return pyarrow.RecordBatch.from_pydict({"id": pyarrow.array(range(len(column))), "x": pyarrow.array(column, kind)})


def test_numbers_arrays_and_bytes():
    numbers = run(twice(), [batch([1, 2, 3], pyarrow.float32()), batch([4], pyarrow.float32())], keep=["id"], batch_size=2)
    assert numbers.to_pydict() == {"id": [0, 1, 2, 0], "y": [2, 4, 6, 8]}
    rows = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    arrays = run(twice(2), [batch(rows, pyarrow.list_(pyarrow.float32())).slice(1)], batch_size=3, outputs={"scores": "y"})
    assert arrays.to_pydict() == {"scores": [[6, 8], [10, 12], [14, 16], [18, 20]]}
    assert arrays.schema.field("scores").type == pyarrow.list_(pyarrow.float32())
    floats = [numpy.float32(row).tobytes() for row in rows]
    assert run(twice(2), [batch(floats, pyarrow.binary())], batch_size=2).to_pydict() == {"y": [[2 * a, 2 * b] for a, b in rows]}
    pixels = run(twice("w", kind=TensorProto.UINT8), [batch([b"\1\2", b"\3\4"], pyarrow.large_binary())])
    assert pixels.to_pydict() == {"y": [[2, 4], [6, 8]]}


def test_columns_are_read_in_place():
    for column, wide in ((pyarrow.array([b"ab", b"cd", b"ef"]), 1), (pyarrow.array([[1.0, 2], [3, 4], [5, 6]], pyarrow.list_(pyarrow.float32())), 4)):
        part = column.slice(1)
        rows = spark._rows(part, "x")
        data = (column.values if wide == 4 else column).buffers()[-1]
        assert rows.shape == (2, 2) and rows.ctypes.data == data.address + 2 * wide and not rows.flags.writeable
    seen = []
    run(twice(2), [batch([b"12345678"], pyarrow.binary())], prepare={"x": lambda rows: seen.append(rows) or rows.reshape(-1).view("f4").reshape(-1, 2)})
    assert seen[0].shape == (1, 8)


@pytest.mark.parametrize("model, column, kind, error, said", [
    (twice(2), [b"12345678", None, None], pyarrow.binary(), iobind.ShapeError, "column 'x': row 1 is null"),
    (twice(), [1, 2, None], pyarrow.float32(), iobind.ShapeError, "column 'x': row 2 is null"),
    (twice(2), [[1, 2], [3, None]], pyarrow.list_(pyarrow.float32()), iobind.ShapeError, "column 'x': row 1: value 1 is null"),
    (twice(2), [b"12345678", b"1234"], pyarrow.binary(), iobind.ShapeError, "row 0 has 8 values, row 1 has 4"),
    (twice(2), [b"1234567"], pyarrow.binary(), iobind.ShapeError, "expected a multiple of 4 bytes for float32, got 7"),
    (twice(3), [b"12345678"], pyarrow.binary(), iobind.ShapeError, r"expected rows for 'x', \['n', 3\], got 2 values in a row"),
    (twice("h", "w"), [b"12345678"], pyarrow.binary(), iobind.ShapeError, "expected one open dim at most: make the input by `prepare`"),
    (twice(), ["1"], pyarrow.string(), iobind.DTypeError, "expected binary, numbers or an array of numbers, got string"),
    (twice(), [1], pyarrow.int64(), iobind.DTypeError, "expected float32, got int64"),
])
def test_what_is_wrong_is_said(model, column, kind, error, said):
    with pytest.raises(error, match=said):
        run(model, [batch(column, kind)])


def test_rows_are_numbered_in_the_partition():
    lists = pyarrow.list_(pyarrow.float32())
    good = batch([[1, 2]] * 5, lists)
    for bad, said in ((batch([[0, 0], None], lists), "column 'x': row 11 is null"),
                      (batch([[0, 0], [0, 0], [None, 0]], lists).slice(1), "column 'x': row 11: value 0 is null"),
                      (batch([[0, 0], [0]], lists), "row 10 has 2 values, row 11 has 1")):
        with pytest.raises(iobind.ShapeError, match=said):
            run(twice(2), [good, good, bad], batch_size=3)


def test_names_that_are_not_there():
    good = [batch([1.0], pyarrow.float32())]
    with pytest.raises(iobind.NotFound, match="no column 'picture'; there are id, x"):
        run(twice(), good, columns={"x": "picture"})
    with pytest.raises(iobind.NotFound, match="column 'a': no output 'z'; there are y"):
        run(twice(), good, outputs={"a": "z"})
    with pytest.raises(iobind.InvalidArgument, match="batch_size: expected 1 or more, got 0"):
        run(twice(), good, batch_size=0)
