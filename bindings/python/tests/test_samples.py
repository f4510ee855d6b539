"""The samples, and what the documents of ONNX Runtime show in Python, on the virtual accelerator."""

import asyncio
import pathlib
import re
import subprocess
import sys

import numpy
import onnxruntime
import pytest

import iobind
from support import add, child, needs_graphs, twice

PROJECT = pathlib.Path(__file__).resolve().parents[3]


def test_boxes_of_text(tmp_path):
    model = PROJECT / ".runtime/models/pp-ocr-det.onnx"
    if not model.exists():
        pytest.skip("no pp-ocr-det.onnx: scripts/get-models fetches it")
    sys.path.insert(0, str(PROJECT / "tests/models_real"))
    import page

    picture, lines = page.draw()
    picture.save(tmp_path / "page.png")
    done = subprocess.run([sys.executable, PROJECT / "bindings/python/samples/ocr.py", model, tmp_path / "page.png", tmp_path / "boxes.png", "cpu"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(lines)} lines of text on cpu\n"
    red = (numpy.asarray(page.Image.open(tmp_path / "boxes.png")) == (220, 30, 30)).all(-1)
    for left, top, right, bottom in lines:  # a box around each line, and none through it
        assert red[top - 25:top + 5, (left + right) // 2].any() and not red[(top + bottom) // 2, left + 20:right - 20].any()


def test_the_piece_in_the_readme(monkeypatch):
    """As it stands, in a directory with the model."""
    if not (PROJECT / ".runtime/models/pp-ocr-cls.onnx").exists():
        pytest.skip("no pp-ocr-cls.onnx: scripts/get-models fetches it")
    monkeypatch.chdir(PROJECT / ".runtime/models")
    pieces = re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    names = {}
    assert len(pieces) == 1
    exec(pieces[0], names)
    expected = iobind.Session("pp-ocr-cls.onnx", device="gpu,cpu").run(None, {"x": names["pictures"][-1]})[0]
    assert (names["scores"]["save_infer_model/scale_0.tmp_1"].numpy() == expected).all()

def test_the_piece_in_states(monkeypatch, tmp_path):
    model = PROJECT / ".runtime/models/silero-vad.onnx"
    if not model.exists():
        pytest.skip("no silero-vad.onnx: scripts/get-models fetches it")
    monkeypatch.chdir(tmp_path)
    pieces = re.findall(r"```python\n(.*?)```", (PROJECT / "docs/states.md").read_text(encoding="utf-8"), flags=re.S)
    session = iobind.Session(model, device="vdev")
    window = numpy.sin(numpy.arange(576, dtype=numpy.float32)).reshape(1, 576)
    names = {"session": session, "window": window, "zeros": numpy.zeros((2, 1, 128), numpy.float32)}
    assert len(pieces) == 1
    exec(pieces[0], names)
    scores = [names[binding].run()["output"].numpy() for binding in ("ear", "branch")]
    assert (scores[0] == scores[1]).all()  # the second window of each, after the same state
    assert (scores[0] != session.bind({"input": window, "sr": 16000, "state": names["zeros"]}).run()["output"].numpy()).any()


class Caller:
    """Sends what it says, and hears what was found."""

    def __init__(self, frames):
        self.frames, self.heard = frames, []

    async def __aiter__(self):
        for frame in self.frames:
            yield frame

    async def send(self, speech):
        self.heard.append(speech)


def test_the_pieces_of_many_streams():
    """Each caller hears to the bit what it hears alone."""
    model = PROJECT / ".runtime/models/silero-vad.onnx"
    if not model.exists():
        pytest.skip("no silero-vad.onnx: scripts/get-models fetches it")
    section = (PROJECT / "docs/python.md").read_text(encoding="utf-8").split("## Many sequences")[1].split("\n## ")[0]
    first, tasks, loop = re.findall(r"```python\n(.*?)```", section, flags=re.S)
    session = iobind.Session(model)
    sounds = numpy.random.default_rng(3).standard_normal((6, 12, 1, 576)).astype("f4")
    names = {"s": session, "iobind": iobind, "first": sounds[0, 0], "second": sounds[1, 0]}
    exec(first, names)
    exec(tasks, names)
    alone = []
    for frames in sounds:
        binding = session.bind({"sr": 16000, "state": numpy.zeros((2, 1, 128), "f4")}, carry={"stateN": "state"}, outputs={"output": "cpu"})
        alone.append([])
        for frame in frames:
            binding["input"] = frame
            alone[-1].append(binding.run()["output"].item())
    assert names["speech"].tolist() == [[alone[0][0]]]
    callers = [Caller(frames) for frames in sounds]

    async def serve_all():
        await asyncio.gather(*(names["serve"](caller) for caller in callers))

    asyncio.run(serve_all())
    assert [caller.heard for caller in callers] == alone and names["batch"].info()["row_count"] == 1
    names["rows"][0].submit({"input": sounds[0, 1]})
    names["serving"] = iter([True, True, False]).__next__
    handed = []
    names["reply"] = lambda row, outputs: handed.append((row, outputs["output"].item()))
    exec(loop, names)
    assert handed == [(names["rows"][0], alone[0][1])]


def test_the_samples_of_the_io_binding_page():
    """Data on the device, outputs of an unknown size there, a device tensor by its address: as shown, or shorter."""
    x, y = numpy.float32([1, 2, 3]), numpy.float32([4, 5, 6])
    session = iobind.Session(add(), device="vdev")
    x_value = iobind.tensor(x, "vdev")  # OrtValue.ortvalue_from_numpy(x, 'cuda', 0)
    binding = session.bind({"x": x_value, "y": y})  # bind_input, bind_cpu_input; the output stays on the device, of any size
    z = binding.run()["z"]
    assert str(z.device) == "vdev:0" and z.numpy().tolist() == [5, 7, 9]
    binding["y"] = iobind.wrap_address(x_value.address, x_value.shape, "float32", "vdev", owner=x_value)  # x_tensor.data_ptr()
    into = iobind.empty(3, device="vdev")
    binding.set_output("z", into)
    binding.run()
    assert into.numpy().tolist() == [2, 4, 6]
    own = onnxruntime.InferenceSession(twice(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert own.tolist() == [2, 4, 6]


def test_the_sample_of_cuda_graphs():
    """Captured by the first run; new data are written into the bound input, and the next runs replay."""
    needs_graphs()
    child("""
import numpy, iobind
from support import twice
x = iobind.tensor(numpy.float32([1, 2]), "vdev")
binding = iobind.Session(twice(), device="vdev", graphs=1).bind({"x": x}, outputs={"y": iobind.empty(2, device="vdev")})
assert binding.run()["y"].numpy().tolist() == [2, 4]
x.write(numpy.float32([10, 20]))
assert binding.run()["y"].numpy().tolist() == [20, 40]
""")
