"""What is wrong with an argument: which one, what was expected, what came."""

import os
import pathlib

import numpy
import onnx
import pytest

import iobind
from support import add, twice



class Foreign:
    """A stream of another library."""

    ptr = 1


x = numpy.ones(2, "f4")
t = iobind.tensor(x)
WRONG = {
    "iobind.device(5)": 'expected a spec such as "cpu", or an iobind.Device, got 5',
    "iobind.device(None)": "got None",
    "iobind.device('cpu\\0,nope')": "expected a spec without a NUL character, got 'cpu.x00,nope'",
    "iobind.Stream(None)": "expected a spec.*got None",
    "iobind.Event(3)": "expected a spec.*got 3",
    "iobind.Session(None)": "session: model: expected a file, or the bytes of one, got NoneType",
    "iobind.Session(onnx.load_model_from_string(twice()))": "session: model: .* got ModelProto; its SerializeToString",
    "s.run('z', {'x': x, 'y': x})": "run: output_names: expected a list of names or None, got 'z'",
    "iobind.Session(twice(), 5)": "session: device: expected a spec.*got 5",
    "iobind.Session(twice(), 'vdev', stream=5)": "session: stream: expected a stream, got int",
    "iobind.Session(twice(), stream=Foreign())": "session: stream: expected one device in device=, the stream's, got 0",
    "iobind.Session(twice(), [None])": "expected a spec.*got None",
    "iobind.Session(twice(), config={1: 1})": "session: config: expected a dict by name, got 1 for a name",
    "iobind.Session(twice(), config='a')": "session: config: expected a dict by name, got 'a'",
    "iobind.Session(twice(), ep_options=[1])": "session: ep_options: .*got",
    "iobind.Session(twice(), dims={None: 1})": "session: dims: .*got None",
    "iobind.Session(twice(), profile=5)": "session: profile: expected a path, got 5",
    "iobind.Session('\\ud800')": "session: model: expected a path, got '.ud800'",
    "iobind.Session(twice(), threads=2**32 + 1)": "session: threads: expected a number of 32 bits, got 4294967297",
    "iobind.Session(twice(), threads=2**64)": "session: threads: .*got 18446744073709551616",
    "iobind.Session(twice(), inter_threads=-2**31 - 1)": "session: inter_threads: .*got -2147483649",
    "iobind.Session(twice(), threads='2')": "session: threads: .*got '2'",
    "iobind.Session(twice(), graphs=2**32)": "session: graphs: .*got 4294967296",
    "b.set_run_options({1: 2})": "run options: config: expected a dict by name, got 1 for a name",
    "b.set_run_options('a')": "run options: config: .*got 'a'",
    "s.map([], run_config={1: 2})": "run options: config: .*got 1",
    "s.map([], constants=[x])": "map: constants: expected a dict by name, got .array",
    "s.map([], outputs=['z'])": "map: outputs: expected a dict by name, got .'z'",
    "s.bind(numpy.ones((2, 2)))": r"bind: inputs: expected a dict by name, got array\(\[\[1., 1.\], \[1., 1.\]\]\)$",
    "s.run(None, [x])": "run: input_feed: expected a dict by name, got .array",
    "s.run(None, x)": "run: input_feed: expected a dict by name, got array",
    "s.bind([1])": "bind: inputs: expected a dict by name, got .1.",
    "s.bind(outputs=['z'])": "bind: outputs: expected a dict by name, got .'z'",
    "s.bind(outputs='cpu')": "bind: outputs: expected a dict by name, got 'cpu'",
    "s.bind(carry=['z'])": "bind: carry: expected a dict by name, got .'z'",
    "s.bind(outputs={'z': iobind.REUSE(5)})": "expected a spec.*got 5",
    "iobind.wrap_address(t.address, [2], 'float32', 'cpu', nbytes=-1)": "wrap_address: nbytes: expected 0 or more, got -1",
    "iobind.wrap_address(-1, [2], 'float32', 'cpu')": "address or handle: expected .* got -1",
    "iobind.wrap_address(2**64, [2], 'float32', 'cpu')": "address or handle: expected .* got 18446744073709551616",
    "iobind.wrap_address('a', [2], 'float32', 'cpu')": "address or handle: expected .* got 'a'",
    "iobind.Session.adopt(-1)": "address or handle: expected .* got -1",
    "iobind.Stream.wrap('vdev', -1)": "address or handle: expected .* got -1",
    "iobind.Stream('vdev').wait_native(-1)": "address or handle: expected .* got -1",
}


@pytest.mark.parametrize("code", WRONG)
def test_what_is_wrong_with_an_argument(code):
    s = iobind.Session(add())
    with pytest.raises(iobind.InvalidArgument, match=WRONG[code]):
        eval(code, globals(), {"s": s, "b": s.bind()})


def test_arguments_of_run():
    binding = iobind.Session(twice()).bind({"x": x})
    for given, expected in (({"strem": 1}, "no argument 'strem'"), ({"event": None, "strem": 1}, "no argument 'strem'")):
        with pytest.raises(TypeError, match=expected):
            binding.run(**given)
    with pytest.raises(TypeError, match="a second 'stream'"):
        binding.run(None, stream=None)
    with pytest.raises(TypeError, match="got 3 arguments"):
        binding.run(None, None, None)


def test_a_path_may_be_any(tmp_path):
    """Also one whose bytes are not UTF-8, in the three ways that Python has for a path."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    path = pathlib.Path(os.fsdecode(folder)) / "m.onnx"
    path.write_bytes(twice())

    class Bytes:
        def __fspath__(self):
            return os.fsencode(path)

    for way in (path, str(path), Bytes()):
        session = iobind.Session(way, profile=path.parent / "run")
        assert session.run(None, {"x": x})[0].tolist() == [2, 2]
        assert os.path.dirname(session.end_profile()) == str(path.parent)
    with pytest.raises(iobind.NotFound):
        iobind.Session(path.parent / "other.onnx")


@pytest.mark.parametrize("shape", [3, numpy.int64(3), numpy.array(3), [3], (numpy.int64(3),), numpy.array([3]), iter([3])], ids=repr)
def test_shapes_of_empty(shape):
    assert iobind.empty(shape).shape == (3,)


def test_addresses():
    for address in (t.address, numpy.uint64(t.address)):
        assert iobind.wrap_address(address, [2], "float32", "cpu", owner=t).numpy().tolist() == [1, 1]
