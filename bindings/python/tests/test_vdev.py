"""The virtual accelerator as a pytest plugin, over plain onnxruntime. Each in a process of its own: iobind's own tests have another ORT."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from support import FLOAT, model


@pytest.fixture
def run_pytest(tmp_path):
    (tmp_path / "add.onnx").write_bytes(model([("Add", ["x", "x"], ["y"]), ("Mul", ["y", "y"], ["z"])], [("x", FLOAT, ["n"])], [("z", FLOAT, ["n"])]))
    (tmp_path / "app.py").write_text("""
import numpy
import onnxruntime

class Service:
    def __init__(self):
        self.session = onnxruntime.InferenceSession("add.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.x = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones(4, "f4"), "cuda", 0)
        self.binding.bind_ortvalue_input("x", self.x)
    def step(self, where="cuda"):
        self.binding.bind_output("z", where)
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[0]
""")

    def run(code, status=0, *arguments, **environment):
        (tmp_path / "test_it.py").write_text("import numpy, pytest, app\n" + code)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "iobind._pytest", "-p", "no:cacheprovider", *arguments],
                              capture_output=True, text=True, cwd=tmp_path, timeout=200, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run


def test_plain_code_goes_to_vdev(run_pytest):
    run_pytest("""
@pytest.mark.vdev(race="fail")
def test_service(vdev):
    with vdev.redirect():
        service = app.Service()
        service.step()
        with vdev.expect(d2h_bytes=0, races=0, h2d_bytes=0, kernels=range(1, 9)):
            result = service.step()
    assert service.session.get_providers()[0] == "VirtualDeviceExecutionProvider"
    assert result.device_name() != "cpu"
    with vdev.expect(d2h_bytes=16):
        assert result.numpy().tolist() == [4] * 4

def test_it_ends_with_the_block(vdev):
    with vdev.redirect():
        pass
    import onnxruntime
    assert onnxruntime.InferenceSession("add.onnx", providers=["CPUExecutionProvider"]).get_providers() == ["CPUExecutionProvider"]
""")


def test_a_service_goes_on_behind_the_block(run_pytest):
    """Devices that it names are still the virtual one, and its session stays there; with the test that ends."""
    run_pytest("""
import onnxruntime
from iobind.vdev import Vdev
MAKE = onnxruntime.OrtDevice.make

def test_service(vdev):
    with vdev.redirect():
        service = app.Service()
    service.session.set_providers(["CPUExecutionProvider"])
    with vdev.expect(d2h_bytes=0, kernels=range(1, 9)):
        service.step()

def test_reset_within_the_block(vdev):
    assert onnxruntime.OrtDevice.make is MAKE
    with vdev.redirect():
        vdev.reset()
        app.Service().step()

def test_two(vdev):
    other = Vdev()
    with vdev.redirect(), other.redirect():
        service = app.Service()
    other.reset()
    service.step()

def test_it_ends_with_the_test():
    assert onnxruntime.OrtDevice.make is MAKE
""")


def test_blocks_that_overlap(run_pytest):
    """As those of two threads do. A session goes to the device of one that is open; behind all of them onnxruntime's methods are its own."""
    run_pytest("""
import onnxruntime
METHODS = [(onnxruntime.InferenceSession, "__init__"), (onnxruntime.SessionOptions, "add_provider"),
           (onnxruntime.SessionOptions, "add_provider_for_devices"), (onnxruntime.OrtDevice, "make")]

def own():
    return [vars(owner)[name] for owner, name in METHODS]

OWN = own()

@pytest.mark.parametrize("ends_first", [0, 1])
def test_two(vdev, ends_first):
    assert len(vdev.devices) == 2
    blocks = [vdev.redirect(device) for device in range(2)]
    for block in blocks:
        block.__enter__()
    blocks[ends_first].__exit__(None, None, None)
    with vdev.expect(device=1 - ends_first, kernels=1):
        onnxruntime.InferenceSession("add.onnx").run(None, {"x": numpy.ones(4, "f4")})
    create = onnxruntime.InferenceSession.__init__
    blocks[1 - ends_first].__exit__(None, None, None)
    assert own()[:3] == OWN[:3]
    late = object.__new__(onnxruntime.InferenceSession)
    create(late, "add.onnx", providers=["CPUExecutionProvider"])  # which another thread began to call within the block
    assert late.get_providers() == ["CPUExecutionProvider"]

def test_it_is_over():
    assert own() == OWN
""", 0, VDEV_DEVICES="2")


def test_providers_of_session_options(run_pytest):
    """Those that are added within the block are not; one from before would come first, and the counters would count nothing."""
    run_pytest("""
import onnxruntime

def cpu():
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == "CPUExecutionProvider"]

@pytest.mark.parametrize("add", [
    lambda options: options.add_provider("CUDAExecutionProvider", {"device_id": "0"}),
    lambda options: options.add_provider("CPUExecutionProvider", {}),
    lambda options: options.add_provider_for_devices(cpu(), {}),
    lambda options: options.set_provider_selection_policy(onnxruntime.OrtExecutionProviderDevicePolicy.PREFER_CPU),
])
def test_within(vdev, add):
    with vdev.redirect(), vdev.redirect():
        options = onnxruntime.SessionOptions()
        add(options)
        session = onnxruntime.InferenceSession("add.onnx", options)
        with vdev.expect(kernels=1):
            session.run(None, {"x": numpy.ones(4, "f4")})

@pytest.mark.parametrize("add", [
    lambda options: options.add_provider("CPUExecutionProvider", {}),
    lambda options: options.add_provider_for_devices(cpu(), {}),
])
def test_before(vdev, add):
    options = onnxruntime.SessionOptions()
    add(options)
    assert options.has_providers()
    with vdev.redirect():
        for _ in range(2):
            with pytest.raises(ValueError, match="CPUExecutionProvider before vdev.* within redirect"):
                onnxruntime.InferenceSession("add.onnx", options)

def test_a_policy_from_before(vdev):
    options = onnxruntime.SessionOptions()
    options.set_provider_selection_policy(onnxruntime.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    with vdev.redirect():
        session = onnxruntime.InferenceSession("add.onnx", options)
    with vdev.expect(kernels=1):
        session.run(None, {"x": numpy.ones(4, "f4")})
""")


def test_options_that_are_kept_and_providers_that_are_chosen_later(run_pytest):
    """A service's own SessionOptions serve test after test; set_providers cannot take a session away."""
    run_pytest("""
import onnxruntime
OPTIONS = onnxruntime.SessionOptions()

@pytest.mark.parametrize("turn", range(2))
def test_service(vdev, turn):
    before = onnxruntime.InferenceSession("add.onnx")
    with vdev.redirect():
        session = onnxruntime.InferenceSession("add.onnx", OPTIONS, providers=["CPUExecutionProvider"])
        session.set_providers(["CPUExecutionProvider"])
        with vdev.expect(kernels=1):
            session.run(None, {"x": numpy.ones(4, "f4")})
        before.set_providers(["CPUExecutionProvider"])
        with vdev.expect(kernels=0):
            before.run(None, {"x": numpy.ones(4, "f4")})

def test_another_device(vdev):
    with vdev.redirect(device=1), pytest.raises(ValueError, match="device 0"):
        onnxruntime.InferenceSession("add.onnx", OPTIONS)
""")


def test_the_example_of_the_document(run_pytest, tmp_path):
    with open(tmp_path / "app.py", "a", encoding="utf-8") as app:
        app.write("load = Service\n")
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs/vdev.md").read_text(encoding="utf-8")
    run_pytest(re.search(r"```python\n(# test_service.py\n.*?)```", page, flags=re.S)[1])


BESIDE_IOBIND = ["""
import iobind

def test_iobind():
    iobind.Session("add.onnx", device="vdev").run(None, {"x": numpy.ones(4, "f4")})
""", """
def test_vdev(vdev):
    with vdev.redirect():
        app.Service().step()
"""]


@pytest.mark.parametrize("order", [1, -1])
def test_beside_iobind(run_pytest, tmp_path, order):
    """Each has an ONNX Runtime of its own, and is told what to do; with the document's conftest.py they have one."""
    code = "".join(BESIDE_IOBIND[::order])
    assert "call iobind.attach(onnxruntime) before" in run_pytest(code, 1).replace("\nE ", "")
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs/vdev.md").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(re.search(r"```python\n(# conftest.py\n.*?)```", page, flags=re.S)[1])
    run_pytest(code)


def test_the_last_race(run_pytest, tmp_path):
    (tmp_path / "conftest.py").write_text("import iobind, onnxruntime\niobind.attach(onnxruntime)\n")
    run_pytest("""
import iobind

@pytest.mark.vdev(race="count")
def test_two_streams(vdev):
    assert vdev.last_race == ""
    tensor, pinned = iobind.empty(4, device="vdev"), iobind.empty(4, device="vdev/pinned")
    streams = [iobind.Stream("vdev") for _ in range(2)]
    with pytest.raises(AssertionError, match="races: expected 0, got 1: unordered access"), vdev.expect(races=0):
        for stream in streams:
            tensor.copy_from(pinned, stream=stream)
    assert "unordered access" in vdev.last_race
""")


def test_bind_output_by_name_downloads(run_pytest):
    out = run_pytest("""
def test_download(vdev):
    with vdev.redirect():
        service = app.Service()
        with vdev.expect(d2h_bytes=0):
            service.step("cpu")
""", 1)
    assert "d2h_bytes: expected 0, got 16" in out


def test_settings_last_for_a_test(run_pytest):
    run_pytest("""
@pytest.mark.vdev(mem_limit=8)
def test_small(vdev):
    with vdev.redirect(), pytest.raises(Exception, match="out of device memory|mem_limit|memory"):
        app.Service().step()

def test_large(vdev):
    assert vdev.get("allocations") == 0
    with vdev.redirect():
        app.Service().step()

@pytest.mark.vdev(clock="virtual", h2d_gbps=1, latency_us=100)
def test_time(vdev):
    import onnxruntime
    before = vdev.get("time_ns")
    with vdev.redirect():
        onnxruntime.OrtValue.ortvalue_from_numpy(numpy.zeros(2_000_000, "u1"), "cuda", 0)
    assert vdev.get("time_ns") - before == 2_100_000
""")


def test_settings_of_the_environment_hold_for_every_test(run_pytest):
    run_pytest("""
import onnxruntime
from iobind.vdev import Vdev

@pytest.mark.vdev(h2d_gbps=1, latency_us=0, fail_copy=0)
def test_another(vdev):
    vdev.set("latency_us", 3)
    nested = Vdev(latency_us=5)
    nested.reset()
    before = vdev.get("time_ns")
    with vdev.redirect():
        onnxruntime.OrtValue.ortvalue_from_numpy(numpy.zeros(2_000_000, "u1"), "cuda", 0)
    assert vdev.get("time_ns") - before == 2_003_000

@pytest.mark.vdev(fail_copy=0)
def test_time(vdev):
    before = vdev.get("time_ns")
    with vdev.redirect():
        onnxruntime.OrtValue.ortvalue_from_numpy(numpy.zeros(2_000_000, "u1"), "cuda", 0)
    assert vdev.get("time_ns") - before == 1_100_000

def test_each_fault(vdev):
    def upload():
        onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones(4, "f4"), "cuda", 0)
    with vdev.redirect():
        assert len(vdev.each_fault(upload, kinds=("copy",))) == 1

def test_the_fault_is_there_again(vdev):
    with vdev.redirect(), pytest.raises(Exception, match="fail_copy"):
        onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones(4, "f4"), "cuda", 0)
""", VDEV_CLOCK="virtual", VDEV_H2D_GBPS="2", VDEV_LATENCY_US="100", VDEV_FAIL_COPY="every:1")


@pytest.mark.parametrize("mark, words", [("devices=2", "VDEV_DEVICES"), ("race='fial'", "fial"), ("nothing=1", "nothing"), ("'race'", "by name")])
def test_a_wrong_mark_is_an_error(run_pytest, mark, words):
    out = run_pytest(f"""
@pytest.mark.vdev({mark})
def test_it(vdev):
    pass
""", 1)
    assert words in out


def test_each_fault(run_pytest):
    run_pytest("""
def test_faults(vdev):
    def step(service):
        assert service.step("cpu").numpy().tolist() == [4] * 4
    with vdev.redirect():
        results = vdev.each_fault(step, setup=app.Service)
    kinds = {result.kind for result in results}
    assert kinds == {"alloc", "copy", "compute"}, results
    assert all(result.error is not None for result in results if result.kind == "compute")

def test_a_wrong_result_is_told(vdev):
    def careless(service):
        try:
            value = service.step("cpu").numpy().tolist()
        except Exception:
            value = [0] * 4
        assert value == [4] * 4
    with vdev.redirect(), pytest.raises(AssertionError, match="with alloc 1 failing|with copy 1 failing|with compute 1 failing"):
        vdev.each_fault(careless, setup=app.Service)

def fail(service):
    pytest.fail("the service was not careful")

def expect_another_error(service):
    with pytest.raises(KeyError):
        return service.step("cpu").numpy() is None

def say_nothing(service):
    raise AssertionError

@pytest.mark.parametrize("wrong, words", [(fail, "the service was not careful"), (expect_another_error, "DID NOT RAISE"),
                                          (say_nothing, "a wrong result")])
def test_wrong_results_of_pytest_are_told(vdev, wrong, words):
    def careless(service):
        try:
            service.step("cpu").numpy()
        except Exception:
            wrong(service)
    with vdev.redirect():
        service = app.Service()
        with pytest.raises(AssertionError, match=f"with compute 1 failing: .*{words}"):
            vdev.each_fault(careless, setup=lambda: service, kinds=("compute",))

@pytest.mark.parametrize("kinds", ["copy", ("nope",), ("copy", "nope")])
def test_kinds_that_do_not_exist(vdev, kinds):
    with pytest.raises(ValueError, match="kinds: expected a tuple of 'alloc', 'copy', 'compute', got .*(nope|copy)"):
        vdev.each_fault(lambda: None, kinds=kinds)
""")


def test_the_plugin_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", "import sys, iobind._pytest; print([name for name in ('numpy', 'onnxruntime') if name in sys.modules])"],
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
