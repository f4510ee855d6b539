"""Whole processes: one ONNX Runtime with Python's own, exits in every order, misuse that must not crash."""

import os

import pytest

from iobind import _runtime
from support import CONSUMER, DEVICE, ITEMS, LENT, PRODUCER, SMALL, child

VDEV = os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so")


def test_onnxruntime_is_found_without_importing_it():
    out = child(SMALL + "s = iobind.Session(twice())\nimport sys\n"
                "print('onnxruntime' in sys.modules)\nprint(iobind.info()['ort_library'])\nprint(iobind.info()['found_by'])",
                environment={"ORT_NATIVE_LIB_PATH": ""})
    imported, path, found_by = out.splitlines()
    assert imported == "False" and "/onnxruntime/capi/" in path and found_by == "the Python package onnxruntime"
    code = f"import iobind\niobind.configure(ort_library={path!r})\nprint(iobind.info()['found_by'])"
    assert child(code, environment={"ORT_NATIVE_LIB_PATH": ""}).strip() == "the given path"
    assert child("import iobind\nprint(iobind.info()['found_by'])", environment={"ORT_NATIVE_LIB_PATH": path}).strip() == "ORT_NATIVE_LIB_PATH"


def test_a_missing_onnxruntime():
    assert child("""
import iobind
try:
    iobind.devices()
except iobind.NotFound as reason:
    print(reason)
""", environment={"ORT_NATIVE_LIB_PATH": "/none"}).startswith("onnxruntime: no ONNX Runtime found (`pip install onnxruntime`, or onnxruntime-gpu, "
                                                             "installs one). Tried: ORT_NATIVE_LIB_PATH: /none")


@pytest.mark.parametrize("order", ["iobind first", "onnxruntime first", "neither"])
def test_attached_to_pythons_onnxruntime(order):
    out = child(SMALL + f"""
import onnxruntime
iobind.attach(onnxruntime)
iobind.attach(onnxruntime)  # once more does nothing
assert iobind.attached() and iobind.info()["ort_library"].endswith(".so"), iobind.info()
assert not any("libonnxruntime.so" in line for line in open("/proc/self/maps")), "a second copy was loaded"
session = iobind.Session(add(), device="vdev")
binding = session.bind({{"x": x, "y": x}}, outputs={{"z": "cpu"}})
print(binding.run()["z"].numpy().tolist())
names = [device.ep_name for device in onnxruntime.get_ep_devices()]
assert "VirtualDeviceExecutionProvider" in names, names
own = onnxruntime.InferenceSession(add())
print(own.run(None, {{"x": x, "y": x}})[0].tolist())
order = {order!r}
if order == "iobind first":
    del binding, session
elif order == "onnxruntime first":
    del own
""")
    assert out.split("\n")[:2] == ["[2.0, 2.0]", "[2.0, 2.0]"]


def test_what_attach_refuses():
    child(SMALL + """
import onnxruntime
iobind.Session(twice())
try:
    iobind.attach(onnxruntime)
except iobind.InvalidState as reason:
    assert "before anything else" in str(reason)
else:
    raise SystemExit(1)
try:
    iobind.configure(log_level="info")
except iobind.InvalidState:
    pass
else:
    raise SystemExit(2)
""")
    child(SMALL + """
import onnxruntime
iobind.configure(log_level="info")
try:
    iobind.attach(onnxruntime)
except iobind.InvalidState as reason:
    assert "host program" in str(reason)
else:
    raise SystemExit(1)
""")
    child(SMALL + """
class Old:
    __version__ = "1.23.2"
try:
    iobind.attach(Old)
except iobind.VersionError as reason:
    assert "1.24" in str(reason)
else:
    raise SystemExit(1)
""")


@pytest.mark.parametrize("wrong", [["/nowhere/x.so"], [VDEV, "/nowhere/x.so"]], ids=["alone", "behind one that is good"])
def test_attach_can_be_repeated(wrong):
    assert child(SMALL + f"WRONG, VDEV = {wrong!r}, {VDEV!r}\n" + """
import onnxruntime
for _ in range(2):
    try:
        iobind.attach(onnxruntime, ep_libraries=WRONG)
    except iobind.NotFound as reason:
        assert "/nowhere/x.so" in str(reason)
    assert not iobind.attached()
iobind.attach(onnxruntime, ep_libraries=[VDEV])
assert iobind.attached() and not any("libonnxruntime.so" in line for line in open("/proc/self/maps")), "a second copy was loaded"
print(iobind.Session(twice(), device="vdev").run(None, {"x": x})[0].tolist())
""") == "[2.0, 2.0]\n"


def test_without_attach_after_it_failed():
    assert child(SMALL + """
import onnxruntime
try:
    iobind.attach(onnxruntime, ep_libraries=["/nowhere/x.so"])
except iobind.NotFound:
    pass
print(iobind.Session(twice()).run(None, {"x": x})[0].tolist(), iobind.attached())
try:
    iobind.attach(onnxruntime)
except iobind.InvalidState as reason:
    assert "of its own" in str(reason)
    print("refused")
""") == "[2.0, 2.0] False\nrefused\n"


def test_two_copies_live_together():
    out = child(SMALL + """
import onnxruntime
own = onnxruntime.InferenceSession(add())
session = iobind.Session(add())
print(session.run(None, {"x": x, "y": x})[0].tolist(), own.run(None, {"x": x, "y": x})[0].tolist())
""")
    assert out.strip() == "[2.0, 2.0] [2.0, 2.0]"


@pytest.mark.parametrize("order", ["tensor session binding", "binding tensor session", "session binding tensor", "nothing"])
@pytest.mark.parametrize("place", ["cpu", "vdev"])
def test_exit_in_any_order(place, order):
    child(SMALL + f"""
session = iobind.Session(twice(), device={place!r})
stream = iobind.Stream({place!r})
binding = session.bind({{"x": x}})
tensor = binding.run(stream=stream)["y"]
held = [binding.run(stream=stream), numpy.from_dlpack(iobind.wrap(x)), iobind.live(x)]
for name in {order!r}.split():
    if name in globals():
        del globals()[name]
cycle = [held]
cycle.append(cycle)
""")


def test_a_run_takes_what_onnxruntimes_takes():
    """Dims of one name in the model, which broadcasts them."""
    assert child(SMALL + """
import onnxruntime
from support import broadcast
own, ours = onnxruntime.InferenceSession(broadcast(), providers=["CPUExecutionProvider"]), iobind.Session(broadcast())
for sizes in ((1, 3), (3, 1), (3, 3)):
    feeds = {name: numpy.arange(size, dtype="f4") + size for name, size in zip("xy", sizes)}
    print(own.run(None, feeds)[0].tolist() == ours.run(None, feeds)[0].tolist())
""") == "True\nTrue\nTrue\n"


def test_the_log_comes_to_logging():
    out = child("""
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
""" + SMALL + """
iobind.configure(log_level="verbose")
iobind.Session(twice(), device="vdev").run(None, {"x": x})
for _ in range(1000):
    pass
""")
    assert out.startswith("iobind ") and "DEBUG" in out


def test_a_child_of_fork_is_refused():
    child(SMALL + """
import os
session, tensor = iobind.Session(twice()), iobind.tensor(x)
binding = session.bind({"x": x})
binding.run()
pid = os.fork()
if pid == 0:
    for name, run in [("run", binding.run), ("numpy", lambda: session.run(None, {"x": tensor}))]:
        try:
            run()
            os._exit(1)
        except iobind.InvalidState as reason:
            if not str(reason).startswith(name + ": ") or "fork" not in str(reason):
                print(reason, flush=True)
                os._exit(2)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
binding.run()
""")


MISUSE = [
    "iobind._core.Binding(3)", "iobind._core.Session()", "iobind._core.Tensor()", "iobind._core.Outputs()", "iobind._core.Device()",
    "iobind._core.use_classes(iobind.Tensor, iobind.Outputs, type('Other', (), {}), {})",
    "iobind._core.use_classes(type('Other', (), {}), iobind.Outputs, iobind.Binding, {})",
    "iobind.Session(None)", "iobind.Session(b'')", "iobind.Session(b'x' * 10000)", "iobind.Session('\\0')", "iobind.Session(twice(), device=3)",
    "iobind.Session(twice(), ep_options={'a': None, 'b': 'c'})", "iobind.Session(twice(), dims={'n': -5})", "iobind.Session(twice(), threads=-1)",
    "iobind.empty([2**40, 2**40])", "iobind.empty([2**62], 'float64')", "iobind.empty(['a'])", "iobind.empty([1.5])", "iobind.empty([1], 999)",
    "iobind.empty([2**70])", "iobind.tensor([[1], [1, 2]])", "iobind.wrap('text')", "iobind.wrap_address(0, [4], 'float32', 'cpu')",
    "iobind.from_dlpack(object())", "b._set_input(99, 0, None, None)", "b._set_input(-1, 0, None, None)", "b._set_input(0, 0, None, None)",
    "b._set_input(0, 77, t, None)", "b._set_output(-1, t, 0)", "b._set_output(0, None, 0)", "b._set_output(0, t, 99)",
    "b._place_output(-1, 0, None, 0)", "b._place_output(0, 9, None, 0)", "b._place_output(0, 0, None, 9)",
    "b._carry(9, 9, 0, True)", "b._carry(-1, -1, 0, False)", "b._spares(9)", "b._spares(-1)", "b._spares(None)", "b._take(-1)", "b._take(99)", "b._update_input(0, b'123', None)", "b._update_input(9, x, None)",
    "b.run(stream=iobind.Stream('vdev'))", "b.run(stream=iobind.Stream('cpu'), event=iobind.Event('vdev'))", "b['x'] = None", "b['x'] = object()", "b[3] = x", "b[None] = x",
    "b['x'] = iobind.empty(3, 'int32')", "b['x'] = iobind.empty(2, device='vdev')", "b['x'] = iobind.live(3j)", "b['x'] = numpy.array(['a'])",
    "t._read_bytes(bytearray(99), 0, None)", "t._read_bytes(b'1', 0, None)", "t._write_bytes(x, 2**62, None)", "t._write_bytes(x, -1, None)",
    "t._view(-1, 1, [1])", "t._view(0, 8, [1])", "t._slice(-1, 1)", "t._slice(0, 99)", "t._get_string(0)", "t._set_string(0, 'a')",
    "iobind.copy([t], [])", "iobind.copy([None], [None])", "iobind.copy([t], [t])", "t.to('nowhere')", "t['a']", "t[None]", "t[1, 2]",
    "o['y'].write(None)", "o[None]", "list(iobind.Session(twice()).map([{'x': None}]))", "list(iobind.Session(twice()).map([{}]))",
    "list(iobind.Session(twice()).map([{'x': x}], slots=-1))", "iobind._core.Pipeline(3, 1, 0, None)",
    "iobind._core.Pipeline(s, 1, 0, None, [1, 2])", "iobind._core.Pipeline(s, 1, 0, None, ['a'])", "iobind._core.Pipeline(s, 1, 0, None).submit([t], [3])",
    "iobind._core.Pipeline(s, 1, 0, None).submit([t], [])",
    "iobind._core.Pipeline(s, 1, 0, None, None, 3)", "iobind._core.Pipeline(s, 1, 0, None, None, (0, None, ['a'], []))",
    "iobind._core.Pipeline(s, 1, 0, None, None, (0, None, ['a'], 3))", "s.map([], run_config={'a\\0': 'b'})", "s.map([], run_tag=3)",
    "iobind._core.Pipeline(s, 1, 0, None).submit(3)", "iobind.Event('cpu').record(None)",
    "iobind.Stream('vdev').wait_native(12345)", "iobind.Stream('vdev').signal_native(12345)", "iobind.Stream('vdev').wait_native(0)",
    "iobind.Event('cpu').record(iobind.Stream('vdev'))", "iobind.Stream('cpu').wait(None)", "iobind.Stream('cpu', {'a': 'b'})",
    "iobind._core.from_dlpack(iobind._runtime.runtime(), 3, False)", "iobind._core.wrap_read_only(iobind._runtime.runtime(), 3)",
    "iobind._core.wrap_read_only(3, x)", "t._add_writer(3)", "t.__dlpack__(stream=7)", "iobind._core.copy(3, 4, 5)", "iobind._core.create(3, 4, 5, 6)",
    "iobind.Session.adopt(0)", "iobind._core.dtype_bytes(1, [-1])", "b.set_run_options({'a\\0': 'b'})", "b._set_run_options(0, None, ['a'], [])",
    "iobind.register_ep('/nowhere/lib.so')", "iobind.attach(None)", "iobind.preload('/nowhere')", "iobind.configure(log_level='loud')",
]


RIGHT_ON_VDEV = ["b.run(stream=iobind.Stream('vdev'))", "b['x'] = iobind.empty(2, device='vdev')",
                 "t.__dlpack__(stream=7)"]


@pytest.mark.parametrize("place", ["cpu", "vdev"])
def test_misuse_is_an_exception(place):
    """Each in the same process, and afterwards everything works."""
    out = child(SMALL + f"""
misuse = {[code for code in MISUSE if place == "cpu" or code not in RIGHT_ON_VDEV]!r}
s = iobind.Session(twice(), device={place!r})
b = s.bind({{"x": x}})
t = iobind.tensor(x, {place!r})
o = b.run()
for code in misuse:
    try:
        exec(code)
    except Exception as reason:
        assert not isinstance(reason, (SystemError, iobind.InternalError)), (code, reason)
        assert str(reason), code
    else:
        print("no exception:", code)
b["x"] = x
assert b.run()["y"].numpy().tolist() == [2, 2]
""")
    assert out == ""


def test_each_run_comes_behind_the_producer():
    assert child(SMALL + "ORDERED, PLACE = True, 'vdev'\n" + PRODUCER) == "20 0\n"
    right, races = child(SMALL + "ORDERED, PLACE = False, 'vdev'\n" + PRODUCER).split()
    assert int(races) > 0, (right, races)


def test_a_consumer_comes_behind_our_streams():
    """It names its stream, or None, and reads what was written; with -1 it has to see to that itself, and does not here."""
    assert child(SMALL + "PLACE = 'vdev'\n" + CONSUMER + """
target = iobind.empty(4, "float32", "vdev/pinned")
print(read_all(consumer.native, read_by_ours, target), read_all(None, read_by_ours, target), get(0, b"races"))
read_all(-1, read_by_ours, target)
print(get(0, b"races") > 0)
""") == "20 20 0\nTrue\n"


@pytest.mark.parametrize("place", ["vdev", "cpu"])
def test_what_a_consumer_may_say_of_its_stream(place):
    child(SMALL + f"PLACE = {place!r}\n" + """
tensor = iobind.tensor(x, PLACE)
for wrong in (0, 1, 2, -2, 1.5, "1", 3 if PLACE == "cpu" else object()):
    try:
        tensor.__dlpack__(stream=wrong, max_version=(1, 1))
    except iobind.InvalidArgument as reason:
        assert "stream" in str(reason), reason
    else:
        raise SystemExit(f"{wrong!r} was taken")
for right in (None, -1):
    assert iobind.from_dlpack(tensor.__dlpack__(stream=right)).numpy().tolist() == [1, 1]
if PLACE == "vdev":  # a handle of another kind
    tensor.copy_from(iobind.tensor(x), stream=iobind.Stream(PLACE))
    try:
        tensor.__dlpack__(stream=4096)
    except iobind.InvalidArgument as reason:
        assert "not a stream" in str(reason), reason
    else:
        raise SystemExit("a stream that is none was taken")
""")


def test_the_host_does_not_wait_for_a_consumer():
    """A run is in flight until the host has asked: a consumer that names its stream is ordered without that, one that does not is not."""
    child(SMALL + """
tensor, writer, consumer = iobind.empty(2, device="vdev"), iobind.Stream("vdev"), iobind.Stream("vdev")
binding = iobind.Session(twice(), device="vdev").bind({"x": x}, outputs={"y": tensor})
binding.run(stream=writer)
for stream in (-1, consumer.native):
    tensor.__dlpack__(stream=stream)
    try:
        binding.clear()
    except iobind.InvalidState as reason:
        assert "in flight" in str(reason) or "in flight" in str(reason)
    else:
        raise SystemExit("the host has waited")
tensor.__dlpack__()
binding.clear()
assert tensor._writers() == []
""")


@pytest.mark.parametrize("protocol", ["cuda_stream = theirs.native", "ptr = theirs.native", "__cuda_stream__ = lambda self: (0, theirs.native)"])
def test_a_run_on_a_stream_of_another_library_returns_at_once(protocol):
    child(SMALL + f"""
theirs = iobind.Stream("vdev")

class Foreign:
    {protocol}
""" + """

binding = iobind.Session(twice(), device="vdev").bind({"x": x})
for _ in range(3):
    out = binding.run(stream=Foreign())
    try:
        binding.clear()
    except iobind.InvalidState as reason:
        assert "in flight" in str(reason) or "in flight" in str(reason)
    else:
        raise SystemExit("the host has waited")
assert out["y"].numpy().tolist() == [2, 2]
binding.clear()
""")


WAYS_TO_THE_HOST = {  # what is bound, what is called behind the run, where the result is
    "an output there": ("iobind.REUSE('vdev/pinned')", "pass", "out['y'].numpy()"),
    "copy_from": ("y", "host.copy_from(y, stream=stream)", "host.numpy()"),
    "copy_from to memory that the device cannot reach": ("y", "plain.copy_from(y, stream=stream)", "plain.numpy()"),
    "to": ("y", "host = y.to('cpu', stream=stream)", "host.numpy()"),
    "read": ("y", "y.read(array, stream=stream)", "array"),
}


@pytest.mark.parametrize("way", WAYS_TO_THE_HOST)
def test_an_output_comes_to_the_host_without_a_wait(way):
    """Over a link that takes days for it the calls return all the same."""
    output, call, result = WAYS_TO_THE_HOST[way]
    assert child(SMALL + f"""
import ctypes, os
from iobind import _runtime
y, host, plain, array = iobind.empty(2, device="vdev"), iobind.empty(2, device="vdev/pinned"), iobind.empty(2), numpy.zeros(2, "f4")
binding = iobind.Session(twice(), device="vdev").bind({{"x": x}}, outputs={{"y": {output}}})
stream = iobind.Stream("vdev")
native = ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so"))
for latency in (b"0", b"100000000000"):
    assert native.vdev_set(0, b"latency_us", latency) == 0
    out = binding.run(stream=stream)
    {call}
    event = stream.record()
    if latency == b"0":
        event.wait()
        assert {result}.tolist() == [2, 2]
print(event.query(), flush=True)
os._exit(0)
""") == "False\n"


def test_items_of_map_are_read_behind_their_producers():
    assert child(SMALL + "PLACE = 'vdev'\n" + ITEMS) == "12 12 12 12 0\nTrue\n"


def test_an_output_is_fetched_while_the_run_is_under_way():
    assert child(SMALL + "PLACE = 'vdev'\n" + LENT) == "True 0\n"


def test_an_output_that_cannot_be_lent_leaves_nothing_to_the_next_run():
    """The first output of a run that was asked for is not bound, or has failed: those of the next run come behind that one."""
    assert child(SMALL + "PLACE = 'vdev'\n" + LENT + """
from support import FLOAT, model
both = model([("Add", ["x", "x"], ["y"]), ("Neg", ["x"], ["z"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"]), ("z", FLOAT, ["n"])])
binding = iobind.Session(both, device=PLACE).bind({"x": x}, outputs={"z": None})
for step in range(1, 6):
    try:
        binding.run(stream=writer)["z"]
    except iobind.InvalidState as refused:
        assert "not bound" in str(refused)
    writer.synchronize()
    assert fetch(step).numpy().tolist() == [2 * step] * 4
print(get(0, b"races"))
""") == "True 0\n0\n"


def test_a_lent_state_stays():
    """The outputs of runs in a row, each the next one's input: what was lent of each is that of its run."""
    assert child(SMALL + "PLACE = 'vdev'\n" + LENT + """
from support import counter
session = iobind.Session(counter(), device=PLACE)
one, zero = iobind.tensor(numpy.ones(1, "f4"), PLACE), iobind.tensor(numpy.zeros(1, "f4"), PLACE)
for turn in range(3):
    binding = session.bind({"x": one, "state": zero, "past.0.key": iobind.tensor(numpy.zeros(0, "f4"), PLACE)},
                           carry={"next": "state", "present.0.key": "past.0.key"}, carry_mode="move")
    lent = []
    setting(0, b"compute_us", b"500")
    for step in range(6):
        out = binding.run(stream=writer)
        lent.append((out["next"], out["present.0.key"]))
    del out, binding
    setting(0, b"compute_us", b"0")
    for step, (state, past) in enumerate(lent):
        assert state.numpy().tolist() == [step + 1] and past.numpy().tolist() == [1] * (step + 1), (step, state.numpy(), past.numpy())
print(get(0, b"races"))
""") == "True 0\n0\n"


def test_a_run_that_fails_after_its_output_was_lent():
    """Whoever uses the output is told, each time; another run is not."""
    child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from support import FLOAT, INT64, model
import onnx, threading
table = onnx.numpy_helper.from_array(numpy.arange(4, dtype="f4"), "table")
session = iobind.Session(model([("Gather", ["table", "i"], ["y"])], [("i", INT64, [1])], [("y", FLOAT, [1])], [table]), device=PLACE)
good, bad = (iobind.tensor(numpy.array([index]), PLACE) for index in (2, 99999))
stream, other = iobind.Stream(PLACE), iobind.Stream(PLACE)
target = iobind.empty(1, device=PLACE)
for turn in range(4):
    setting(0, b"compute_us", b"20000")
    binding = session.bind({"i": bad})
    out = binding.run(stream=stream)
    y = out["y"]
    setting(0, b"compute_us", b"0")
    if turn == 1:
        del out, binding
    failures = 0
    for use in (y.numpy, y.copy, y[:1].numpy, lambda: y.to("cpu"), lambda: y.write(numpy.ones(1, "f4")), y.numpy, y.__dlpack__):
        try:
            use()
        except iobind.OrtError:
            failures += 1
    assert failures == 7, failures
    try:
        stream.synchronize()
    except iobind.OrtError:
        pass
    try:
        y.numpy()
        raise SystemExit("no failure")
    except iobind.OrtError:
        pass
    def use_the_first():
        setting(0, b"compute_us", b"20000")
        bindings = [session.bind({"i": index}) for index in (good, bad)]
        out, failed = [binding.run(stream=stream) for binding in bindings]
        setting(0, b"compute_us", b"0")
        results.append(out["y"].numpy().tolist())
    results = []
    use_the_first()
    stream = iobind.Stream(PLACE)
    thread = threading.Thread(target=use_the_first)
    thread.start()
    thread.join()
    stream = iobind.Stream(PLACE)
    assert results == [[2], [2]], results
""")


def test_a_lent_output_goes_to_a_second_device():
    child(SMALL + """
stream, second = iobind.Stream("vdev:0"), iobind.Stream("vdev:1")
binding = iobind.Session(twice(), device="vdev:0").bind({"x": x})
for value in range(10):
    binding["x"] = numpy.full(2, value, "f4")
    y = binding.run(stream=stream)["y"].to("vdev:1", stream=second)
    second.synchronize()
    assert y.numpy().tolist() == [2 * value] * 2
    stream.synchronize()
""", environment={"VDEV_DEVICES": "2"})


def test_a_binding_goes_while_another_thread_fetches():
    """The outputs that a caller has are fetched when their binding goes, which waits: another thread asks for one meanwhile."""
    child(SMALL + """
import threading, time
stream = iobind.Stream("cpu")
for turn in range(3):
    held = [iobind.Session(slow(0.3)).bind({"x": numpy.zeros((64, 64), "f4")})]
    out = held[0].run(stream=stream)
    thread = threading.Thread(target=held.clear)
    thread.start()
    while thread.is_alive():
        try:
            out["y"]
        except iobind.InvalidState:
            pass
        time.sleep(0.01)
    assert out["y"].numpy().sum() == 0
""")


def test_threads_share_a_stream():
    """Each call is whole: what one thread copies does not come to another."""
    child(SMALL + """
import sys, threading
stream = iobind.Stream("vdev")
sys.setswitchinterval(1e-5)
rounds = []

def work(number):
    tensor = iobind.empty(64, device="vdev")
    for step in range(500):
        arrays = [numpy.full(64, number * 10000 + step * 4 + part, "f4") for part in range(4)]
        copies = [numpy.zeros(64, "f4") for _ in arrays]
        for array, copy in zip(arrays, copies):
            tensor.write(array, stream=stream)
            tensor.read(copy, stream=stream)
        stream.record().wait()
        assert all((array == copy).all() for array, copy in zip(arrays, copies)), (number, step)
    rounds.append(number)

threads = [threading.Thread(target=work, args=[number]) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(rounds) == 3, rounds
""")


def test_a_child_of_fork_does_not_wait_for_a_thread_that_is_not_there():
    """The thread was in a call of the stream when the process forked."""
    assert child(SMALL + """
import os, threading, time
stream, other = iobind.Stream("vdev"), iobind.Stream("cpu")
binding = iobind.Session(slow(1), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
binding.run(stream=other)
thread = threading.Thread(target=stream.wait, args=[other.record()])  # the host waits for the CPU's streams
thread.start()
time.sleep(0.3)
if os.fork() == 0:
    try:
        stream.synchronize()
    except iobind.InvalidState:
        print("refused", flush=True)
    os._exit(0)
os.wait()
thread.join()
""") == "refused\n"


@pytest.mark.parametrize("call", [
    "session.run(None, {'x': Mock(spec=iobind.Tensor)})",
    "session.bind({'x': x}).run(stream=Mock(spec=iobind.Stream))",
    "session.bind({'x': x}).run(stream=weakref.proxy(stream))",
    "stream.wait(Mock(spec=iobind.Event))",
    "iobind.Session(twice(), device=Mock(spec=iobind.Device))",
])
def test_what_only_says_that_it_is_ours(call):
    """Its __class__ is a class of iobind's, and there is nothing behind."""
    child(SMALL + f"""
import weakref
from unittest.mock import Mock
session, stream = iobind.Session(twice(), device="vdev"), iobind.Stream("vdev")
try:
    {call}
except TypeError as error:
    assert "expected an iobind." in str(error)
else:
    raise SystemExit("taken")
""")


def test_a_stream_of_another_library():
    """vdev's own stream as another library has it: it orders the run and what comes behind, and the race detector is silent."""
    child(SMALL + """
import ctypes, os
from iobind import _runtime
session = iobind.Session(twice(), device="vdev")
native = ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so"))
theirs = iobind.Stream("vdev")

class Foreign:
    cuda_stream = theirs.native
    def synchronize(self):
        raise AssertionError("the host does not wait")

pinned, tensor = iobind.empty(4, "float32", "vdev/pinned"), iobind.empty(4, device="vdev")
assert native.vdev_set(0, b"race", b"fail") == 0
binding = session.bind({"x": tensor})
for step in range(5):
    pinned.numpy()[:] = step
    tensor.copy_from(pinned, stream=theirs)
    out = binding.run(stream=Foreign())
    assert out["y"].numpy().tolist() == [2 * step] * 4
    theirs.synchronize()
for wrong in (Foreign, 3, object()):
    try:
        iobind.Stream.wrap("cpu", 1)
    except iobind.NotSupported:
        pass
""")


def test_the_binding_is_used_by_its_own_callbacks():
    """Objects whose protocols come back to the binding that asks them."""
    child(SMALL + """
class Producer:
    def __init__(self):
        self.tensor = iobind.tensor(x, "vdev")
    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()
    def __dlpack__(self, **keywords):
        binding["y"] = x
        keywords.pop("stream", None)
        return self.tensor.__dlpack__(**keywords)
binding = iobind.Session(add(), device="vdev").bind()
binding["x"] = Producer()
for _ in range(3):
    assert binding.run()["z"].numpy().tolist() == [2, 2]
""")


@pytest.mark.parametrize("first", ["iobind", "json"])
def test_a_sub_interpreter_is_refused(first):
    """It would take over the main interpreter's exceptions and classes. Python does not call PyInit__core again if the main one was first."""
    assert child(f"import {first}" + """
import os
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
heard, told = os.pipe()
code = '''
import os
try:
    import iobind
except ImportError as refused:
    os.write(TOLD, str(refused).encode())
'''
interpreters.run_string(interpreters.create(), code.replace("TOLD", str(told)))
os.close(told)
print("interpreter" in os.read(heard, 500).decode())
import iobind
try:
    iobind.Session("/nowhere/m.onnx")
except iobind.NotFound:
    print("caught")
""") == "True\ncaught\n"
