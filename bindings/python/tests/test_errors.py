"""The exceptions: what they are in Python, and messages in Python's words."""

import pathlib
import pickle
import re

import numpy
import pytest
from onnx import helper

import iobind
from iobind import _errors
from support import FLOAT, INT64, SMALL, add, child, model, slow, twice

PROJECT = pathlib.Path(__file__).resolve().parents[3]

# status -> what an exception of it is, too
KINDS = {
    "INVALID_ARGUMENT": ValueError, "INVALID_STATE": RuntimeError, "NOT_FOUND": LookupError, "NOT_SUPPORTED": NotImplementedError,
    "OUT_OF_MEMORY": MemoryError, "IO": OSError, "VERSION": RuntimeError, "RUNTIME": RuntimeError, "WRONG_DEVICE": RuntimeError, "DEVICE_LOST": RuntimeError, "SHAPE": ValueError,
    "DTYPE": TypeError, "TIMEOUT": TimeoutError, "CANCELLED": iobind.Error, "INTERNAL": RuntimeError, "RESULT": ArithmeticError}


def test_each_status_is_an_exception_of_python_s():
    assert {cls.status for cls in _errors.BY_STATUS.values()} == set(KINDS)
    for cls in _errors.BY_STATUS.values():
        assert issubclass(cls, KINDS[cls.status]) and issubclass(cls, iobind.Error) and getattr(iobind, cls.__name__) is cls
    assert issubclass(iobind.NameNotFound, (KeyError,)) and iobind.NameNotFound.status == iobind.FileNotFound.status == "NOT_FOUND"
    assert not issubclass(iobind.NameNotFound, OSError) and not issubclass(iobind.FileNotFound, KeyError)


@pytest.mark.parametrize("cls", _errors.CLASSES, ids=lambda cls: cls.__name__)
def test_what_an_exception_says(cls):
    made = cls("session: 'x': a \N{GREEK SMALL LETTER MU}", 3)
    assert str(made) == "session: 'x': a \N{GREEK SMALL LETTER MU}" and made.ort_code == 3  # a KeyError's own would be quoted
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is cls and str(again) == str(made)


@pytest.mark.parametrize("spec", ["cpu", "vdev"])
def test_a_failure_in_nested_branches_names_its_node(spec):
    def branch(name, op, inputs, **attributes):
        node = helper.make_node(op, inputs, [name], name="node_of_" + name, **attributes)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, FLOAT, None)])

    then = branch("innermost", "Reshape", ["x", "dims"])
    for depth in range(4):
        then = branch(f"branch_{depth}", "If", ["condition"], then_branch=then, else_branch=branch(f"other_{depth}", "Identity", ["x"]))
    nodes = [("If", ["condition"], ["y"], {"then_branch": then, "else_branch": branch("other", "Identity", ["x"])})]
    inputs = [("condition", helper.TensorProto.BOOL, []), ("x", FLOAT, ["n"]), ("dims", INT64, [2])]
    session = iobind.Session(model(nodes, inputs, [("y", FLOAT, None)]), device=spec)
    with pytest.raises(iobind.Error, match=r"\.\.\. .*Name:'node_of_innermost' .*Input shape:\{6\}, requested shape:\{4,2\}"):
        session.run(None, {"condition": numpy.array(True), "x": numpy.ones(6, numpy.float32), "dims": numpy.array([4, 2])})


def test_files(tmp_path):
    for use in (lambda: iobind.Session(tmp_path / "m.onnx"), lambda: iobind.Session(str(tmp_path / "m.onnx").encode().decode()),
                lambda: iobind.register_ep(tmp_path / "lib.so"), lambda: iobind.preload(tmp_path / "cuda")):
        with pytest.raises(FileNotFoundError, match="no such file or directory: .*/") as caught:
            use()
        assert isinstance(caught.value, iobind.NotFound) and caught.value.status == "NOT_FOUND"
    with pytest.raises(OSError):
        iobind.Session(tmp_path)  # a directory
    assert child(f"""
import iobind
iobind.configure(ort_library={str(tmp_path / "libonnxruntime.so")!r})
try:
    iobind.devices()
except FileNotFoundError as reason:
    print(reason)
""").startswith("configure: ort_library: no such file or directory")


def test_names():
    session = iobind.Session(add())
    binding = session.bind({"x": [1], "y": [2]})
    out = binding.run()
    for use in (lambda: binding.__setitem__("q", [1]), lambda: out["q"], lambda: session.run(["q"], {"x": [1], "y": [2]}), lambda: session.empty("q"),
                lambda: session.empty("x", q=1), lambda: binding.take("q"), lambda: binding.carry("q", "x"), lambda: binding.carry("z", "q"),
                lambda: binding.update("q", [1]), lambda: binding.set_output("q", "cpu"), lambda: binding.fresh("q"),
                lambda: session.map([], outputs={"q": "cpu"}), lambda: session.map([], constants={"q": [1]})):
        with pytest.raises(KeyError, match="'q'") as caught:
            use()
        assert isinstance(caught.value, iobind.NotFound) and not str(caught.value).startswith(('"', "'"))
    with pytest.raises(LookupError):
        iobind.device("cuda:77")


def test_types_and_shapes():
    binding = iobind.Session(add()).bind()
    with pytest.raises(TypeError):
        binding["x"] = numpy.zeros(2)
    with pytest.raises(ValueError):
        binding["x"] = numpy.zeros((2, 2), "f4")
    with pytest.raises(TimeoutError):
        stream, binding = iobind.Stream("cpu"), iobind.Session(slow(0.5)).bind({"x": numpy.zeros((64, 64), "f4")})
        binding.run(stream=stream)
        stream.record().wait(timeout=1e-6)
    with pytest.raises(NotImplementedError):
        iobind.tensor([1, 2])[::2]


# Literals of the library's sources that are no messages to a caller of Python: other languages', the environment's, or the build's.
OTHERS = re.compile(r"IOBIND_EP_LIBRARIES|IOBIND_VERIFY|IOBIND_ORT_LIBRARY|iobind_catalogue_get_ep|IOBIND_NATIVE|iobind_runtime_adopt_device|IOBIND__|iobind__|^iobind_vdev$")


MODES_OF_C = r"\b(SNAPSHOT|RESIDENT|LIVE|FIXED|IN_PLACE|SWAP|MOVE|HOST_ACCESSIBLE)\b"


def messages():
    for file in sorted((PROJECT / "src").glob("*/*.c")):
        whole = re.sub(r'(?<!\\)"\s*\n\s*"', "", file.read_text(encoding="utf-8"))  # literals of one message on several lines
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', whole):
            if not OTHERS.search(literal):
                yield file.name, literal


def test_no_message_names_a_call_of_c():
    """Those of the library's sources that have one, in Python's words. A new one needs an entry in _errors.py."""
    found = [(file, text) for file, text in messages()
             if re.match(r"[a-z]+_[a-z_]+: ", text) or re.search(r"\biobind_[a-z]|IOBIND_[A-Z]|" + MODES_OF_C, text)]
    assert len(found) > 100
    # what only C's own part of a program is told
    only_c = r"tensor_(copy_rows|wrap_ort|to_ort|get_native|get_info)|runtime_(get_ort|get_ep)"
    said = {(file, _errors.in_python(text)) for file, text in found if not re.match(only_c, text)}
    assert {(file, text) for file, text in said if re.match(r"(session|binding|tensor|stream|event|runtime|pipeline|device|dtype|audit|external_memory|semaphore)_[a-z_]+: ", text)} == set()
    assert {(file, text) for file, text in said if re.search(r"\biobind_[a-z]|IOBIND_[A-Z]|" + MODES_OF_C, text)} == set()


def test_messages_of_calls():
    session = iobind.Session(add(), device="vdev")
    binding = session.bind({"x": [1, 2], "y": [1, 2]})
    for use, said in ((lambda: binding.__setitem__("x", iobind.empty((2, 2), device="vdev")), "bind: 'x': expected "),
                      (lambda: binding.__setitem__("x", iobind.tensor(numpy.ones(2, "f4"))), "bind: 'x': .* tensor.to.device."),
                      (lambda: binding.set_output("z", iobind.empty((2, 2), device="vdev")), "bind: 'z'"),
                      (lambda: iobind.Session(b"x"), "session: "), (lambda: iobind.device("nothing"), "device: "),
                      (lambda: iobind.empty([-1]), "empty: "), (lambda: binding.take("z"), "take: "), (lambda: iobind.Session(add()).bind().run(), "run: "),
                      (lambda: iobind.Session(add()).bind().check(), "check: "), (lambda: iobind.copy([iobind.empty(1)], [iobind.empty(2)]), "copy: "),
                      (lambda: iobind.empty(1).copy_from(iobind.empty(1, "int32")), "copy: "), (lambda: iobind.empty(2).view("float32", [9]), "view: ")):
        with pytest.raises(iobind.Error, match=f"^{said}"):
            use()
    state = iobind.Session(twice()).bind({"x": [1]}, carry={"y": "x"}, carry_mode="in_place")
    state.run()
    assert child(SMALL + """
try:
    iobind.Session(slow(1000), threads=1).bind({"x": numpy.zeros((64, 64), "f4")}).cancel()
except iobind.Cancelled as reason:
    pass
""") == ""


def test_an_audit_names_nothing_of_c():
    session = iobind.Session(add(), device="vdev")
    audit = session.bind({"x": [1, 2], "y": iobind.live(numpy.ones(2, "f4"))}).audit()
    assert not re.search(r"IOBIND_|iobind_|" + MODES_OF_C, str(audit)) and "live(): copied before each run from 'cpu'" in str(audit)


# ---- advice ----

def test_advice_keeps_results():
    """A dense copy of an array with gaps would get them, and nobody would see it."""
    target = numpy.zeros((2, 4), "f4")[:, ::2]
    with pytest.raises(iobind.ShapeError, match=r"bind: 'y': .*results written to a copy do not reach it: bind \"cpu\"") as caught:
        iobind.Session(twice()).bind(outputs={"y": target[0]})
    assert "ascontiguousarray" not in str(caught.value)
    for use in (lambda: iobind.wrap(target), lambda: iobind.Session(twice()).bind({"x": iobind.live(target[0])})):
        with pytest.raises(iobind.ShapeError, match="its memory is shared, and a dense copy is other memory"):
            use()
    with pytest.raises(iobind.ShapeError, match="ascontiguousarray copies it"):
        iobind.Session(twice()).bind({"x": target[0]})
    with pytest.raises(iobind.InvalidArgument, match=r"out\[...\] = tensor.read\(\)"):
        iobind.empty((2, 2)).read(target)


def test_advice_keeps_parts_of_numbers():
    session = iobind.Session(twice())
    with pytest.raises(iobind.DTypeError, match="expected float32, got complex64: a complex number has two parts, and astype drops one") as caught:
        session.bind({"x": numpy.ones(2, "c8")})
    assert "array.astype('float32')" not in str(caught.value)
    whole = iobind.tensor([1, 2], dtype="int64")
    with pytest.raises(iobind.DTypeError, match=r"numpy.rint\(array\).astype\('int64'\) rounds it, astype alone truncates fractions"):
        whole.write(numpy.ones(2))
    with pytest.raises(iobind.DTypeError, match=r"convert it, array.astype\('float32'\)"):
        session.bind({"x": numpy.ones(2)})
