"""Session.run: what it takes, as onnxruntime's own does, and what it gives."""

import threading

import numpy
import pytest

import iobind
from support import FLOAT, SMALL, add, child, model, same, twice

f32 = numpy.float32


def two():
    return model([("Add", ["x", "x"], ["y"]), ("Neg", ["x"], ["z"])], [("x", FLOAT, None)], [("y", FLOAT, None), ("z", FLOAT, None)])


def matrix():
    return numpy.arange(12, dtype=f32).reshape(3, 4)


ARRAYS = {
    "dense": lambda: matrix(), "transposed": lambda: matrix().T, "a column": lambda: matrix()[:, 1], "with a step": lambda: matrix()[::2],
    "backwards": lambda: matrix()[::-1], "Fortran's order": lambda: numpy.asfortranarray(matrix()),
    "one element for all": lambda: numpy.broadcast_to(f32(2), (2, 3)), "no elements": lambda: matrix()[:0], "a scalar": lambda: numpy.array(3, f32),
    "a number of NumPy's": lambda: f32(3), "of 16 dims": lambda: numpy.ones([1] * 15 + [2], f32), "a buffer": lambda: memoryview(matrix()),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_any_layout(device, kind):
    x = ARRAYS[kind]()
    y, z = iobind.Session(two(), device=device).run(None, {"x": x})
    assert y.tolist() == (2 * numpy.asarray(x)).tolist() and z.tolist() == (-numpy.asarray(x)).tolist()
    assert y.dtype == f32 and y.shape == numpy.shape(x) and y.flags.writeable


def test_read_only_arrays():
    x = matrix()
    x.flags.writeable = False
    assert iobind.Session(twice()).run(None, {"x": x[0]})[0].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64", "uint32",
                                   "uint64"])
def test_every_type(dtype):
    import onnx

    x = numpy.array([[0, 1], [1, 0]], dtype)
    y, = iobind.Session(same(onnx.helper.np_dtype_to_tensor_dtype(x.dtype))).run(None, {"x": x})
    assert y.dtype == x.dtype and y.tolist() == x.tolist()


def test_layouts_that_onnxruntime_takes():
    """The same arrays, the same results."""
    assert child(SMALL + """
import onnxruntime
from test_run import ARRAYS, two
own, ours = onnxruntime.InferenceSession(two(), providers=["CPUExecutionProvider"]), iobind.Session(two())
for kind in ("dense", "transposed", "a column", "with a step", "backwards", "Fortran's order", "one element for all"):
    feeds = {"x": ARRAYS[kind]()}
    assert all((a == b).all() and a.shape == b.shape for a, b in zip(own.run(None, feeds), ours.run(None, feeds))), kind
print("same")
""") == "same\n"


def test_names_of_outputs():
    session = iobind.Session(two())
    feeds = {"x": matrix()}
    for names, expected in ((None, "yz"), ([], "yz"), (["z"], "z"), (("z", "y", "z"), "zyz")):
        assert [got.tolist() for got in session.run(names, feeds)] == [{"y": 2 * feeds["x"], "z": -feeds["x"]}[name].tolist() for name in expected]
    with pytest.raises(KeyError, match="run: no output 'q'; there are y, z"):
        session.run(["z", "q"], feeds)


def test_inputs_by_name():
    session = iobind.Session(add())
    x = numpy.ones(2, f32)

    class Feeds(dict):
        pass

    assert session.run(None, Feeds(y=x, x=x))[0].tolist() == [2, 2]
    with pytest.raises(iobind.InvalidArgument, match="run: input 'y' is missing"):
        session.run(None, {"x": x})
    with pytest.raises(iobind.NameNotFound, match="run: no input 'w'; there are x, y"):
        session.run(None, {"x": x, "y": x, "w": x})
    with pytest.raises(iobind.NameNotFound):
        session.run(None, {"x": x, "y": x, 3: x})
    with pytest.raises(iobind.DTypeError, match="run: 'y': expected float32, got float64"):
        session.run(None, {"x": x, "y": numpy.ones(2)})
    with pytest.raises(iobind.ShapeError, match="^run: 'y': expected float32.n., got float32.1,2."):
        session.run(None, {"x": x, "y": x.reshape(1, 2)})


def test_memory_is_let_go_of():
    """Also where the run is refused, or an input behind it."""
    session = iobind.Session(model([("Add", ["x", "y"], ["z"])], [("x", 2, ["n"]), ("y", 2, ["n"])], [("z", 2, ["n"])]))
    for y, error in ((bytearray(4), None), (bytearray(3), iobind.Error), ("text", iobind.Error)):
        x = bytearray(b"abcd")
        if error is None:
            assert session.run(None, {"x": x, "y": y})[0].tobytes() == b"abcd"
        else:
            with pytest.raises(error):
                session.run(None, {"x": x, "y": y})
        x.append(1)  # a bytearray whose memory is in use cannot grow


def test_results_are_the_caller_s(device):
    session = iobind.Session(same(FLOAT), device=device)
    x = numpy.ones(3, f32)
    first, = session.run(None, {"x": x})
    x[:] = 2
    second, = session.run(None, {"x": x})
    x[:] = 3
    del session
    assert first.tolist() == [1, 1, 1] and second.tolist() == [2, 2, 2]


def test_runs_of_threads(device):
    session, wrong = iobind.Session(two(), device=device), []

    def work(number):
        for step in range(20):
            x = numpy.full((2, 3), number + step, f32)
            y, z = session.run(None, {"x": x.T if step % 2 else x})
            if (y != 2 * (number + step)).any() or (z != -(number + step)).any():
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_tensor_that_a_stream_still_writes_is_waited_for():
    session, stream = iobind.Session(twice(), device="vdev"), iobind.Stream("vdev")
    out = session.bind({"x": numpy.ones(2, f32)}).run(stream=stream)
    assert session.run(None, {"x": out["y"]})[0].tolist() == [4, 4]
