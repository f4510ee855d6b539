"""The blocks of Python in docs/python.md, docs/devices.md and docs/spark.md, as they stand, on models and data made here. "Many streams"
is in test_samples.py; docs/vdev.md, docs/states.md and docs/coming-from.md have tests of their own."""

import ctypes
import os
import pathlib
import re

import numpy
import pytest

import iobind
from support import FLOAT, INT64, child, helper, model, twice
from test_external import native  # noqa: F401

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(encoding="utf-8"), flags=re.S)
IN_SAMPLES = ("batch = ", "async def serve", "while serving")
X = numpy.arange(8, dtype="f4")


BEGINNINGS = {
    "first": "import iobind\n\ns = ",
    "state": "past = ",
    "items": "for out in s.map",
    "saved": 'b = s.bind({"ids": prompt, **past}',
    "times": "results = s.map",
    "renderer": "frames = iobind.ExternalMemory",
    "pinned": 'b = s.bind({"x": x}',
    "attach": "import onnxruntime\n",
}


def block(name):
    found, = (text for text in BLOCKS if text.startswith(BEGINNINGS[name]))
    return found


def decoder():
    """Each token is one more row of the cache; the next token is the count of rows modulo 3."""
    return model([("Cast", ["ids"], ["rows"], {"to": FLOAT}), ("Concat", ["past", "rows"], ["present"], {"axis": 1}),
                  ("Unsqueeze", ["present", "two"], ["columns"]), ("Mul", ["columns", "weights"], ["logits"])],
                 [("ids", INT64, [1, "new"]), ("past", FLOAT, [1, "past"])],
                 [("logits", FLOAT, [1, "total", 3]), ("present", FLOAT, [1, "total"])],
                 [helper.make_tensor("two", INT64, [1], [2]), helper.make_tensor("weights", FLOAT, [3], [1, 3, 2])])


@pytest.fixture
def session(tmp_path, monkeypatch):
    (tmp_path / "m.onnx").write_bytes(twice())
    monkeypatch.chdir(tmp_path)
    return iobind.Session("m.onnx", device="vdev")


def test_first_steps(session):
    names = {"x": X, "new": X[:3] + 1}
    exec(block("first"), names)
    assert (names["y"] == 2 * names["new"]).all()


def test_a_state_on_the_device():
    names = {"s": iobind.Session(decoder(), device="vdev"), "pasts": ["past"], "presents": ["present"], "prompt": numpy.ones((1, 4), "i8")}
    exec(block("state"), names)
    assert names["b"].run()["present"].shape == (1, 4 + 100)  # 100 runs in the block: the prompt, and 99 tokens


def test_saved_states(session):
    s = iobind.Session(decoder(), device="vdev", identify=True)
    scored = []
    names = {"s": s, "past": {"past": s.empty("past", past=0)}, "pasts": ["past"], "presents": ["present"], "prompt": numpy.ones((1, 4), "i8"),
             "candidates": [numpy.full((1, 1), token) for token in (5, 6)], "score": scored.append}
    exec(block("saved"), names)
    assert [logits[0, :, 0].tolist() for logits in scored] == [[1, 1, 1, 1, 5], [1, 1, 1, 1, 6]]
    assert pathlib.Path("prompt.state").exists() and s.load_state("prompt.state") is not None


def test_many_items(session, capsys):
    used = []
    names = {"s": session, "frames": [X, X + 1], "use": lambda y: used.append(y.numpy().copy())}
    exec(block("items"), names)
    assert [(y == 2 * frame).all() for y, frame in zip(used, names["frames"])] == [True, True]
    exec(block("times"), names)
    assert re.fullmatch(r"([\d.]+ ms\n){2}", capsys.readouterr().out)


def test_memory_of_a_renderer(native):  # noqa: F811
    shape = (1, 3, 480, 640)
    nbytes = int(numpy.prod(shape)) * 4
    memory_fd, semaphore_fd = os.memfd_create("frames"), native.vdev_semaphore_create(0)
    os.ftruncate(memory_fd, nbytes)
    assert native.vdev_semaphore_signal(semaphore_fd, ctypes.c_uint64(1)) == 0  # the renderer
    wide = model([("Add", ["x", "x"], ["y"])], [("x", FLOAT, shape)], [("y", FLOAT, shape)])
    names = {"iobind": iobind, "memory_fd": memory_fd, "semaphore_fd": semaphore_fd, "nbytes": nbytes, "n": 0, "st": iobind.Stream("vdev"),
             "s": iobind.Session(wide, device="vdev")}
    exec(block("renderer").replace('"cuda"', '"vdev"'), names)
    names["st"].synchronize()
    assert native.vdev_semaphore_wait(semaphore_fd, 2, 60 * 10**9) == 1


def test_an_output_in_pinned_memory():
    session = iobind.Session(twice(), device="vdev")
    names = {"iobind": iobind, "s": session, "x": X, "st": iobind.Stream("vdev")}
    exec(block("pinned").replace("cuda/pinned", "vdev/pinned"), names)
    assert (names["y"] == 2 * X).all()


def test_onnxruntime_beside_iobind(session):
    shown = child(block("attach") + "import numpy\nb['x'] = numpy.ones(2, 'f4')\nprint(b.run()['y'].numpy().tolist())")
    assert shown == "[2.0, 2.0]\n"


def test_memory_of_a_device(capsys):
    piece, = re.findall(r"```python\n(.*?)```", (DOCS / "devices.md").read_text(encoding="utf-8"), flags=re.S)
    kept = iobind.empty((1024,), "float32", "vdev")
    exec(piece, {"iobind": iobind})
    assert any(int(line.split()[-2]) >= kept.nbytes for line in capsys.readouterr().out.splitlines())


def test_the_program_for_spark(monkeypatch):
    """What Spark is given; tests/spark runs such programs on a cluster."""
    calls = []

    class Frame:
        def mapInArrow(self, function, schema, profile):  # noqa: N802
            calls.append((function, schema, profile))

    monkeypatch.setattr("iobind.spark.gpu_profile", lambda: "a profile")
    first, second = re.findall(r"```python\n(.*?)```", (DOCS / "spark.md").read_text(encoding="utf-8"), flags=re.S)
    names = {"df": Frame(), "to_floats": lambda column: column, "ArrayType": list, "FloatType": tuple,  # of pyspark
            
             "predict_batch_udf": lambda function, **options: calls.append((function, options))}
    exec(first, names)
    exec(second, names)
    assert calls == [(names["classify"].map_arrow, "id long, scores array<float>", "a profile"),
                     (names["classify"], {"return_type": [], "batch_size": 32, "input_tensor_shapes": [[3, 48, 192]]})]


def test_every_block_has_a_test():
    assert [text for text in BLOCKS if not text.startswith((*BEGINNINGS.values(), *IN_SAMPLES))] == []
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert [name for name in BEGINNINGS if f'block("{name}")' not in source] == []
