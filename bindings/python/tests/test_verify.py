"""Sessions that verify their runs, and tensors that are compared."""

import ctypes
import pathlib

import numpy
import pytest

import iobind
from iobind import _runtime
from support import child, twice


def set_wrong(how):
    """Of the virtual accelerator's kernels."""
    library = ctypes.CDLL(str(pathlib.Path(_runtime.library_path()).with_name("libiobind_vdev.so")))
    assert library.vdev_set(0, b"wrong_compute", how.encode()) == 0


@pytest.fixture
def wrong():
    iobind.device("vdev")
    yield set_wrong
    set_wrong("0")


def test_a_wrong_kernel_is_found(wrong):
    session = iobind.Session(twice(), device="vdev", verify=2)
    binding = session.bind({"x": numpy.array([3, 4], numpy.float32)})
    wrong("every:1")
    with pytest.raises(iobind.ResultError, match=r"run: output 'y'\[0\]: expected 6, as on the CPU, got .* from the run") as caught:
        binding.run()
    assert caught.value.status == "RESULT" and isinstance(caught.value, ArithmeticError)
    wrong("0")
    for _ in range(2):
        assert binding.run()["y"].numpy().tolist() == [6, 8]
    wrong("every:1")
    binding.run()  # which nobody looks at


def test_limits_of_a_session(wrong):
    x = numpy.array([3, 4], numpy.float32)
    wrong("every:1")
    iobind.Session(twice(), device="vdev", verify=(1, 1e30, 0)).run(None, {"x": x})
    with pytest.raises(iobind.ResultError):
        iobind.Session(twice(), device="vdev", verify=(1, 0, 0)).run(None, {"x": x})


@pytest.mark.parametrize("verify", [-1, "1", 1.5, (1,), (1, 2, 3, 4), (1.5, 0, 0), (1, -1, 0), (1, float("nan"), 0)])
def test_what_is_no_verification(verify):
    with pytest.raises(iobind.InvalidArgument, match="verify"):
        iobind.Session(twice(), device="vdev", verify=verify)


def test_the_environment_switches_it_on():
    assert child("""
import os
os.environ["IOBIND_VERIFY"] = "1"
import iobind, numpy
from support import twice
from test_verify import set_wrong
session = iobind.Session(twice(), device="vdev")
set_wrong("every:1")
try:
    session.run(None, {"x": numpy.array([3], numpy.float32)})
except iobind.ResultError as reason:
    print("found")
""").strip() == "found"


def test_tensors_are_compared(device):
    right = iobind.tensor(numpy.array([1, 2, 4], numpy.float32), device)
    other = iobind.tensor(numpy.array([1, 2, 5], numpy.float32), device)
    assert right.compare(right) == (0, 0, 0, 0)
    assert other.compare(right) == iobind.Difference(1, 2, 1, 0.25)
    assert other.compare(right.numpy()) == other.compare(right) and other.compare(numpy.array(right.tolist(), numpy.float32)[::1]).beyond == 1
    with pytest.raises(iobind.InvalidArgument, match="compare: expected a Tensor or an array, got list"):
        other.compare([1, 2, 3])
    assert other.compare(right, absolute=1).beyond == other.compare(right, relative=0.25).beyond == 0
    assert other.compare(right, absolute=0.5, relative=0.1).beyond == 1
    with pytest.raises(iobind.ShapeError):
        right.compare(iobind.tensor(numpy.zeros(2, numpy.float32), device))
    with pytest.raises(iobind.DTypeError):
        right.compare(iobind.tensor(numpy.zeros(3, numpy.int32), device))
    with pytest.raises(iobind.InvalidArgument, match="compare: tolerance: absolute"):
        right.compare(right, absolute=-1)
