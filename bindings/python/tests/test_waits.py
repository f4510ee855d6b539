"""Calls that wait: Ctrl-C ends them, and other threads of Python go on meanwhile."""

import os
import signal
import subprocess
import sys
import time

import pytest

import iobind
from support import DEVICE, SMALL, child


def interrupted(code):
    """A child that gets Ctrl-C 0.3 s after it has printed a line, which is in a try: on a busy machine it may not have come further by then.
    Gives what it printed."""
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(iobind.__file__)), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen([sys.executable, "-c", SMALL + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(0.3)
    for _ in range(6):  # a busy system may not have let the thread that listens come so far: then again, as a user would
        process.send_signal(signal.SIGINT)
        try:
            out, errors = process.communicate(timeout=10)
            break
        except subprocess.TimeoutExpired:
            pass
    else:
        process.kill()
        raise AssertionError("Ctrl-C has not ended it")
    return out, errors


@pytest.mark.parametrize("run", ["session.bind(inputs).run()", "session.run(None, inputs)"])
def test_ctrl_c_ends_a_run(run):
    out, errors = interrupted("""
session, inputs = iobind.Session(slow(1000), threads=1), {"x": numpy.zeros((64, 64), "f4")}
try:
    print("ready", flush=True)
    """ + run + """
except KeyboardInterrupt:
    print("interrupted", flush=True)
session = iobind.Session(twice())
print(session.bind({"x": x}).run()["y"].numpy().tolist(), session.run(None, {"x": x})[0].tolist())
""")
    assert out == "interrupted\n[2.0, 2.0] [2.0, 2.0]\n", errors


# Sessions whose state is on the device, or on the host beside a run on the device; and uses that wait for it.
SAVED = {"a device's": ("iobind.Session(device_model, PLACE)", "state['s'].numpy()"),
         "a device's that is restored": ("iobind.Session(device_model, PLACE)", "branch.run()"),
         "the host's": ("iobind.Session(mixed_model, PLACE)", "state['s']")}


@pytest.mark.parametrize("of", SAVED)
def test_ctrl_c_ends_a_wait_for_a_saved_state(of):
    session, use = SAVED[of]
    out, errors = interrupted("PLACE = 'vdev'\n" + DEVICE + """
from support import FLOAT, model
device_model = model([("Mul", ["s", "x"], ["s2"])], [("s", FLOAT, [1]), ("x", FLOAT, [1])], [("s2", FLOAT, [1])])
mixed_model = model([("Add", ["s", "s"], ["s2"]), ("Mul", ["x", "x"], ["y"])], [("s", FLOAT, [1]), ("x", FLOAT, [1])],
                    [("s2", FLOAT, [1]), ("y", FLOAT, [1])])
setting(0, b"deny", b"Add")
session, stream = """ + session + """, iobind.Stream(PLACE)
binding, branch = (session.bind({"s": x[:1], "x": x[:1]}, carry={"s2": "s"}) for _ in range(2))
setting(0, b"delay_compute", b"every:1,us:1000000000")
binding.run(stream=stream)
state = binding.save()
branch.restore(state)
try:
    print("ready", flush=True)
    """ + use + """
except KeyboardInterrupt:
    print("interrupted", session.inputs[0].device, flush=True)
os._exit(0)
""")
    assert out == f"interrupted {'cpu' if 'mixed' in session else 'vdev:0'}\n", errors


def test_ctrl_c_ends_a_wait():
    out, errors = interrupted("""
binding = iobind.Session(slow(1000), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
stream = iobind.Stream("cpu")
binding.run(stream=stream)
try:
    stream.record().wait(timeout=0.01)
except iobind.Timeout as reason:
    assert isinstance(reason, TimeoutError)
else:
    raise SystemExit("it has not waited")
try:
    print("ready", flush=True)
    stream.synchronize()
except KeyboardInterrupt:
    print("interrupted", flush=True)
while True:
    binding.cancel()
    try:
        if stream.record().query():
            break
    except iobind.Cancelled:
        break
try:
    stream.synchronize()
except iobind.Cancelled:
    print("cancelled")
""")
    assert out.split()[0] == "interrupted", errors


BUSY = """
import os
binding = iobind.Session(slow(1000), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
stream = iobind.Stream("cpu")
out = binding.run(stream=stream)
event = stream.record()

def behind():
    waiting = iobind.Session(twice()).bind()
    waiting.set_input("x", iobind.tensor(x), event=event)
    return waiting
"""
INTERRUPTED = """
try:
    print("ready", flush=True)
    wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)  # to let go of the stream, or of map's items, is to wait for the run
"""


@pytest.mark.parametrize("wait", [
    "event.wait", "lambda: event.wait(timeout=1000)", "lambda: out['y']", "lambda: binding.take('y')", "behind().run", "iobind.Session(twice()).map([{'x': (iobind.tensor(x), event)}]).__next__",
    "iobind.Session(slow(1000), threads=1).map([{'x': numpy.zeros((64, 64), 'f4')}]).__next__"],
    ids=["event.wait", "event.wait with a timeout", "an output", "take", "run behind an event", "next before the item is there", "next while the item runs"])
def test_ctrl_c_ends_every_wait(wait):
    out, errors = interrupted(BUSY + f"wait = {wait}\n" + INTERRUPTED)
    assert out.split() == ["interrupted"], errors


def test_a_run_whose_wait_ctrl_c_ended_goes_on():
    """The next call that asks gets its output. Whether the signal or the end of the run comes first does not matter here."""
    out, errors = interrupted("""
import time
binding = iobind.Session(slow(1), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
stream = iobind.Stream("cpu")
out = binding.run(stream=stream)
try:
    print("ready", flush=True)
    out["y"]
    time.sleep(1000)
except KeyboardInterrupt:
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on a busy machine it comes again
print(out["y"].numpy().sum(), binding.take("y").shape)
binding["x"] = numpy.zeros((64, 64), "f4")
print(binding.run(stream=stream)["y"].numpy().sum())
""".replace("binding =", "import time\nbinding =", 1))
    assert out == "0.0 (64, 64)\n0.0\n", errors


@pytest.mark.parametrize("by", ["threading.Thread(target=drop).start()", "signal.setitimer(signal.ITIMER_REAL, 0.1)"], ids=["a thread", "a signal"])
def test_the_binding_goes_during_the_wait_for_an_output(by):
    assert child(SMALL + """
import signal, threading, time
binding = iobind.Session(slow(0.5), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
stream = iobind.Stream("cpu")
out = binding.run(stream=stream)

def drop(*_):
    global binding
    time.sleep(0.1)
    del binding

signal.signal(signal.SIGALRM, drop)
""" + by + """
try:
    print(out["y"].numpy().sum())
except iobind.InvalidState:
    print("0.0")  # it went before the wait began
""") == "0.0\n"


def test_the_gil_is_released_in_a_run():
    """It ends only when another thread of Python's has made its steps and cancels it."""
    assert child(SMALL + """
import threading, time
binding = iobind.Session(slow(1000), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
begun, over = threading.Event(), threading.Event()

def make_steps():
    begun.wait()
    for _ in range(20):
        time.sleep(0.001)
    while not over.is_set():
        binding.cancel()
        time.sleep(0.001)

other = threading.Thread(target=make_steps)
other.start()
begun.set()
try:
    binding.run()
except iobind.Cancelled:
    print("cancelled")
over.set()
other.join()
""") == "cancelled\n"


@pytest.mark.parametrize("where", ["here", "in a thread"])
@pytest.mark.parametrize("wait", ["event.wait()", "event.wait(timeout=1000)", "stream.synchronize()", "out['y']",
                                  "next(iobind.Session(twice()).map([{'x': (iobind.tensor(x), event)}]))"])
def test_the_gil_is_released_in_a_wait(wait, where):
    """What is waited for ends only when another thread of Python's has made its steps and cancels it."""
    assert child(SMALL + f"WAIT, WHERE = {wait!r}, {where!r}\n" + """
import threading, time
binding = iobind.Session(slow(1000), threads=1).bind({"x": numpy.zeros((64, 64), "f4")})
stream, begun, over = iobind.Stream("cpu"), threading.Event(), threading.Event()
out = binding.run(stream=stream)
event = stream.record()

def make_steps():
    begun.wait()
    for _ in range(20):
        time.sleep(0.001)
    while not over.is_set():
        binding.cancel()
        time.sleep(0.001)

def wait():
    begun.set()
    try:
        eval(WAIT)
    except iobind.Cancelled:
        print("cancelled")

other = threading.Thread(target=make_steps)
other.start()
if WHERE == "here":
    wait()
else:
    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join()
over.set()
other.join()
""") == "cancelled\n"


@pytest.mark.parametrize("copy", ["device.write(array)", "device.read()", "device.read(array)", "device.to('cpu')", "device.copy_from(host)",
                                  "host.copy_from(device)", "iobind.copy([host], [device])", "device.numpy()", "host.to('vdev')", "next(results)",
                                  "device.copy_from(pinned, stream=stream), iobind.empty(750, device='vdev/pinned')"])
def test_the_gil_is_released_in_a_copy(copy):
    """A copy over a link that takes 0.3 s for it, and a thread that counts meanwhile; if the system did not let that thread run, another copy.
    To free pinned memory is to wait for the device, too."""
    assert child(SMALL + f"COPY = compile({copy!r}, 'copy', 'eval')\n" + """
import ctypes, itertools, os, threading, time
from iobind import _runtime
array = numpy.zeros(750, "f4")
host, device = iobind.tensor(array), iobind.tensor(array, "vdev")
results = iobind.Session(twice(), device="vdev").map(itertools.repeat({"x": array}))
pinned, stream = iobind.empty(750, device="vdev/pinned"), iobind.Stream("vdev")
native = ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so"))
for name in (b"h2d_gbps", b"d2h_gbps"):
    assert native.vdev_set(0, name, b"0.00001") == 0
steps, over = 0, False

def count():
    global steps
    while not over:
        steps += 1
        time.sleep(0.001)

thread = threading.Thread(target=count)
thread.start()
after = before = 0
while after - before <= 10:
    before = steps
    eval(COPY)
    after = steps
over = True
thread.join()
print("released")
""") == "released\n"


def test_ctrl_c_while_a_binding_goes():
    """The wait for its outputs goes on, and the signal is not lost."""
    assert child(SMALL + """
import signal, threading
stream = iobind.Stream("cpu")
binding = iobind.Session(slow(1)).bind({"x": numpy.zeros((64, 64), "f4")})
out = binding.run(stream=stream)
timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
try:
    timer.start()
    del binding
    timer.join()  # by now the signal has come, and behind a call Python looks for signals
    print("lost")
except KeyboardInterrupt:
    print(out["y"].numpy().sum())
""") == "0.0\n"
