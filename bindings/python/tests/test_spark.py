"""iobind.spark without Spark: what a Python worker of it does. With Spark: make test-spark."""

import contextlib
import fcntl
import os
import pickle
import sys
import tempfile
import types

import numpy
import pytest

import iobind
from iobind import spark
from support import STRING, add, same, twice


@contextlib.contextmanager
def task(**resources):
    """Within a task of Spark's with resources: gpu=["1"]."""
    context = types.SimpleNamespace(resources=lambda: {name: types.SimpleNamespace(addresses=list(found)) for name, found in resources.items()})
    sys.modules["pyspark"] = types.SimpleNamespace(TaskContext=types.SimpleNamespace(get=lambda: context))
    try:
        yield
    finally:
        del sys.modules["pyspark"]


@pytest.fixture(autouse=True)
def released():
    yield
    spark.release()


def test_what_predict_batch_udf_gets(device):
    made = pickle.loads(pickle.dumps(spark.predictor(spark.SessionSpec(twice(), device))))
    predict = made()
    for rows in (3, 1, 4):
        x = numpy.arange(rows, dtype=numpy.float32)
        assert predict(x).tolist() == (2 * x).tolist()
    with pytest.raises(iobind.InvalidArgument, match=r"1 inputs \(x\), got 2 columns"):
        predict(x, x)
    with pytest.raises(iobind.DTypeError, match="expected float32, got float64"):
        predict(numpy.ones(2))


def test_what_cannot_be_read_in_place_is_copied():
    assert spark.hold(spark.SessionSpec(same(STRING))).run({"x": numpy.array(["a", "b"], object)})["y"].tolist() == ["a", "b"]
    assert spark.hold(spark.SessionSpec(twice())).run({"x": [1, 2]})["y"].tolist() == [2, 4]


def test_one_session_for_a_spec_and_only_so_many():
    specs = [spark.SessionSpec(add(), config={"session.number": number}) for number in range(spark.KEPT + 1)]
    first = spark.hold(specs[0])
    assert spark.hold(spark.SessionSpec(add(), config={"session.number": 0})) is first
    for spec in specs[1:]:
        spark.hold(spec)
    assert len(spark._held) == spark.KEPT and spark.hold(specs[0]) is not first


def test_the_device_is_the_tasks():
    spec = spark.SessionSpec(twice(), "vdev:{gpu}")
    predict = spark.predictor(spec)()
    with task(gpu=["0"]):
        assert predict(numpy.float32([4])).tolist() == [8]
        assert spark.hold(spec).inputs[0].device.spec == "vdev:0"
    with task(fpga=["0"]), pytest.raises(iobind.NotFound, match="the task has no resource 'gpu', only fpga: set spark.task.resource.gpu.amount"):
        predict(numpy.float32([4]))
    with task(gpu=["7"]), pytest.raises(iobind.NotFound, match="vdev:7"):  # of the task, but not of this machine
        predict(numpy.float32([4]))


def test_sessions_of_a_machine_are_capped(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spark, "WAIT", 0.3)
    spec = spark.SessionSpec(twice(), "vdev", sessions=1)
    spark.hold(spec)
    place, = tmp_path.iterdir()
    spark.release()
    with open(place) as other:  # another worker's
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(iobind.InvalidState, match="1 Python workers of .* have a session of this model on 'vdev' already"):
            spark.hold(spec)
        spark.hold(spark.SessionSpec(twice(), "cpu", sessions=1))
    spark.hold(spec)
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_a_session_that_fails_gives_its_place_back(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(iobind.Error):
        spark.hold(spark.SessionSpec(b"not a model", "vdev"))
    assert len(os.listdir("/proc/self/fd")) == open_files and not spark._held


class Column:
    """As a column of Arrow's of numbers, in which None is a null, or of lists of numbers."""

    def __init__(self, values, type="float"):
        self.given, self.type, self.offset = values, type, 0
        self.null_count = values.count(None)

    def __len__(self):
        return len(self.given)

    def is_null(self):
        return Column([value is None for value in self.given])

    def slice(self, first, count):
        return Column(self.given[first:first + count])

    def to_numpy(self, zero_copy_only=True):
        assert None not in self.given
        return numpy.array(self.given)

    @property
    def offsets(self):
        return Column(numpy.cumsum([0, *map(len, self.given)]).tolist())

    @property
    def values(self):
        return Column([number for row in self.given for number in row])


def test_a_null_names_its_column_and_row(monkeypatch):
    """By its number in the partition. What is Arrow's own is in tests/spark/test_arrow.py, which needs pyarrow."""
    kinds = {f"is_{kind}": (lambda kind: lambda type: type == kind)(kind) for kind in ("list", "large_list", "binary", "large_binary", "integer", "floating")}
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(types=types.SimpleNamespace(**kinds)))
    for column, said in ((Column([1, None, None]), "column 'x': row 11 is null"), (Column([[1, 2], None], "list"), "column 'x': row 11 is null"),
                         (Column([[1, 2], [3, 4], [5, None]], "list"), "column 'x': row 12: value 1 is null"),
                         (Column([[1, 2], [3]], "list"), "row 10 has 2 values, row 11 has 1")):
        with pytest.raises(iobind.ShapeError, match=said):
            spark._rows(column, "x", 10)
    assert spark._rows(Column([[1, 2], [3, 4]], "list"), "x").tolist() == [[1, 2], [3, 4]]
