"""What only CUDA has, over vcuda: its options, streams and graphs as the documents of ONNX Runtime show them in Python, and two copies."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest

import iobind
from support import CONSUMER, ITEMS, LENT, PRODUCER, SMALL, child, twice

PROJECT = pathlib.Path(__file__).resolve().parents[3]


def test_cuda_in_a_second_copy_is_refused(tmp_path):
    """Its provider finds its host by one global: with two copies of ONNX Runtime it would serve the wrong one."""
    folder = os.path.dirname(os.path.realpath(iobind.info()["ort_library"]))
    for name in os.listdir(folder):
        if "providers" in name:
            os.symlink(os.path.join(folder, name), tmp_path / name)
        elif name.startswith("libonnxruntime.so"):
            shutil.copy(os.path.join(folder, name), tmp_path / name)
    refused = child(SMALL + f"""
from iobind import _core
print(iobind.Session(twice(), device="cuda").run(None, {{"x": x}})[0].tolist())
second = _core.Runtime(library={str(tmp_path)!r}, api_base=0, ep_libraries=[], flags=0, log_level=4)
try:
    second.find("cuda")
except iobind.Error as reason:
    print("refused:", [entry["message"] for entry in second.eps() if "CUDA" in entry["name"]] or reason)
else:
    print("found")
""")
    assert refused.startswith("[2.0, 2.0]\nrefused:") and "copy" in refused, refused


def test_each_run_comes_behind_the_producer():
    assert child(SMALL + "ORDERED, PLACE = True, 'cuda'\n" + PRODUCER) == "20 0\n"
    right, races = child(SMALL + "ORDERED, PLACE = False, 'cuda'\n" + PRODUCER).split()
    assert int(races) > 0, (right, races)


def test_a_consumer_comes_behind_our_streams():
    """By the array API's numbers: a stream, the legacy default stream (1), that of the thread (2), which CUDA's own calls read on."""
    assert child(SMALL + "PLACE = 'cuda'\n" + CONSUMER + """
target, stream = iobind.empty(4, "float32", "cuda/pinned"), ctypes.c_void_p()
assert native.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0

def read_on(number):
    def read(taken, target):
        where = ctypes.c_void_p(number)
        assert native.cudaMemcpyAsync(ctypes.c_void_p(target.address), ctypes.c_void_p(taken.address), ctypes.c_size_t(16), 4, where) == 0
        assert native.cudaStreamSynchronize(where) == 0
    return read

numbers = [stream.value, 1, 2]
print([read_all(number, read_on(number), target) for number in numbers], read_all(None, read_on(stream.value), target))
print(read_all(consumer.native, read_by_ours, target), get(0, b"races"))
read_all(-1, read_on(stream.value), target)
print(get(0, b"races") > 0)
try:
    iobind.empty(1, device="cuda").__dlpack__(stream=0)
except iobind.InvalidArgument as reason:
    assert "legacy" in str(reason)
else:
    raise SystemExit("0 means two streams")
""") == "[20, 20, 20] 20\n20 0\nTrue\n"


def test_items_of_map_are_read_behind_their_producers():
    assert child(SMALL + "PLACE = 'cuda'\n" + ITEMS) == "12 12 12 12 0\nTrue\n"


def test_an_output_is_fetched_without_a_wait():
    code = SMALL + "PLACE = 'cuda'\n" + LENT + """
copied(fetch(1))
taken = fetch(2) # it writes pinned memory on the host, after the copy from there
syncs = get(0, b"syncs")
for _ in range(10):
    taken = binding.run(stream=writer)["y"]
    iobind.from_dlpack(taken.__dlpack__(stream=other.native, max_version=(1, 1)))
    target.copy_from(taken, stream=other)
print(get(0, b"syncs") - syncs)
other.synchronize()
print(target.numpy().tolist())
pipeline = session.map([])._pipeline
taken = fetch(3)
syncs = get(0, b"syncs")
pipeline.submit([taken], [None])
print(get(0, b"syncs") - syncs, pipeline.next()[2][0].numpy().tolist())
"""
    assert child(code) == "True 0\n0\n[4.0, 4.0, 4.0, 4.0]\n0 [12.0, 12.0, 12.0, 12.0]\n"


def test_the_samples_of_options_and_preload():
    """providers=[("CUDAExecutionProvider", {"device_id": 0, "gpu_mem_limit": ..., ...})] and onnxruntime.preload_dlls()."""
    child("""
import numpy, iobind
from support import twice
try:
    iobind.preload(cudnn=False)  # what this machine has
except iobind.NotFound as reason:
    assert "cublas" in str(reason) or "cuda" in str(reason), reason
session = iobind.Session(twice(), device="cuda:0", ep_options={"gpu_mem_limit": 2 << 30, "arena_extend_strategy": "kSameAsRequested",
                                                               "cudnn_conv_algo_search": "HEURISTIC", "do_copy_in_default_stream": True})
assert session.run(None, {"x": numpy.ones(2, "f4")})[0].tolist() == [2, 2]
try:
    iobind.Session(twice(), device="cuda", ep_options={"arena_extend_strategy": "kNothing"})
except iobind.Error as reason:
    assert "arena_extend_strategy" in str(reason)
else:
    raise SystemExit("an option's value was not judged")
""")


def test_the_sample_of_boxes(tmp_path):
    """The detector's convolutions: each run is compared with the CPU's, and the picture that is drawn is the same."""
    model = PROJECT / ".runtime/models/pp-ocr-det.onnx"
    if not model.exists():
        pytest.skip("no pp-ocr-det.onnx: scripts/get-models fetches it")
    sys.path.insert(0, str(PROJECT / "tests/models_real"))
    import page

    picture, lines = page.draw()
    picture.save(tmp_path / "page.png")
    for device in ("cpu", "cuda"):
        done = subprocess.run([sys.executable, PROJECT / "bindings/python/samples/ocr.py", model, tmp_path / "page.png", tmp_path / f"{device}.png", device],
                              capture_output=True, text=True, check=True, env={**os.environ, "IOBIND_VERIFY": "1"})
        assert done.stdout.startswith(f"{len(lines)} lines of text on {device}")
    one, other = (numpy.asarray(page.Image.open(tmp_path / f"{device}.png")) for device in ("cpu", "cuda"))
    assert (one == other).all()


def test_the_sample_of_user_compute_stream():
    """The sample makes a stream of PyTorch's the provider's; here each run says which stream it belongs to."""
    child("""
import numpy, iobind
from support import twice
theirs = iobind.Stream("cuda")

class Foreign:  # as torch.cuda.Stream has it
    cuda_stream = theirs.native
    def synchronize(self):
        raise AssertionError("the host does not wait")

session = iobind.Session(twice(), device="cuda")
pinned, tensor = iobind.empty(4, "float32", "cuda/pinned"), iobind.empty(4, device="cuda")
binding = session.bind({"x": tensor})
for step in range(5):
    pinned.numpy()[:] = step
    tensor.copy_from(pinned, stream=theirs)
    out = binding.run(stream=Foreign())
    assert out["y"].numpy().tolist() == [2 * step] * 4
    theirs.synchronize()
""", environment={"VCUDA_RACE": "fail"})


def test_the_sample_of_cuda_graphs():
    """enable_cuda_graph: the first run captures; new data are written into the bound input, and the next runs replay."""
    x = iobind.tensor(numpy.float32([1, 2]), "cuda")
    binding = iobind.Session(twice(), device="cuda", graphs=1).bind({"x": x}, outputs={"y": iobind.empty(2, device="cuda")})
    assert binding.run()["y"].numpy().tolist() == [2, 4]
    x.write(numpy.float32([10, 20]))
    assert binding.run()["y"].numpy().tolist() == [20, 40]
