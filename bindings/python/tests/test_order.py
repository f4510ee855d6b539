"""Access to a tensor that work in flight uses, without a stream, comes after that work: a read after what writes it, a write after what reads or
writes it."""

import asyncio
import ctypes
import os
import weakref

import numpy
import pytest

import iobind
from iobind import _runtime
from support import FLOAT, INT64, model, slow, twice

f32 = numpy.float32
COUNT, HELD_US, SECONDS = 4, 300_000, 0.6


def filled(value, device, count=COUNT):
    return iobind.tensor(numpy.full(count, value, f32), device)


def setting(device, name, value):
    """A setting of the virtual accelerator's, or of the virtual CUDA's."""
    path = os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so") if device == "vdev" else "libcudart.so.13"
    change = getattr(ctypes.CDLL(path), "vdev_set" if device == "vdev" else "vcuda_set")
    assert change(0, name, value) == 0


class Held:
    """A stream that is busy for a while: what is submitted to it now is in flight. And a run on it, y = 2 x, of which `x` is 3 and `y` was 0."""

    def __init__(self, device):
        if device == "webgpu":
            pytest.skip("no work of its streams can be held back")
        self.device = device
        self.stream = iobind.Stream(device)
        self.x, self.y = filled(3, device), filled(0, device)
        self.binding = iobind.Session(twice(), device=device).bind({"x": self.x}, outputs={"y": self.y})

    def hold(self):
        if self.device == "cpu":
            self.busy = iobind.Session(slow(HELD_US / 2e6), threads=1).bind({"x": numpy.zeros((64, 64), f32)})
            self.busy.run(stream=self.stream)
            return
        self.pinned, self.target = iobind.empty(1, "float32", self.device + "/pinned"), iobind.empty(1, "float32", self.device)
        setting(self.device, b"delay_copy", b"1,max:4,us:%d" % HELD_US)  # this copy, and none that is made meanwhile
        self.target.copy_from(self.pinned, stream=self.stream)

    def run(self):
        self.hold()
        self.binding.run(stream=self.stream)

    def result(self):
        self.stream.synchronize()
        return self.y.numpy().tolist()


def copied_from(y):
    target = filled(0, y.device)
    target.copy_from(y)
    return target.numpy()


READS = {
    "numpy": lambda y: y.numpy(),
    "numpy of a part": lambda y: y[1:].numpy(),
    "read": lambda y: y.read(),
    "read into an array": lambda y: y.read(numpy.empty(COUNT, f32)),
    "to": lambda y: y.to("cpu").numpy(),
    "copy": lambda y: y.copy().numpy(),
    "copy_from": copied_from,
}


@pytest.mark.parametrize("read", READS)
def test_a_read_comes_after_the_run_that_writes(device, read):
    held = Held(device)
    held.run()
    got = READS[read](held.y).tolist()
    held.stream.synchronize()
    assert got == [6] * len(got)


def test_a_read_comes_after_the_copy_that_writes(device):
    held = Held(device)
    target = filled(0, device)
    held.run()
    target.copy_from(held.y, stream=held.stream)
    got = target.numpy().tolist()
    held.stream.synchronize()
    assert got == [6] * COUNT


WRITES = {
    "write": lambda x: x.write(numpy.full(COUNT, 9, f32)),
    "write to a part": lambda x: x[1:].write(numpy.full(COUNT - 1, 9, f32)),
    "copy_from": lambda x: x.copy_from(filled(9, x.device)),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_comes_after_the_run_that_reads(device, write):
    held = Held(device)
    held.run()
    WRITES[write](held.x)
    assert held.result() == [6] * COUNT


@pytest.mark.parametrize("write", WRITES)
def test_a_write_comes_after_the_run_that_writes(device, write):
    held = Held(device)
    held.run()
    WRITES[write](held.y)
    got = held.result()
    assert got == ([6] + [9] * (COUNT - 1) if "part" in write else [9] * COUNT)


def test_a_write_comes_after_the_copy_that_reads(device):
    held = Held(device)
    target = filled(0, device)
    held.hold()
    target.copy_from(held.x, stream=held.stream)
    held.x.write(numpy.full(COUNT, 9, f32))
    held.stream.synchronize()
    assert target.numpy().tolist() == [3] * COUNT


def test_a_live_tensor_is_written_after_the_run_that_reads(device):
    held = Held(device)
    live = iobind.tensor(numpy.full(COUNT, 3, f32), device if device == "cpu" else device + "/pinned")
    held.binding["x"] = iobind.live(live)
    held.run()
    live.write(numpy.full(COUNT, 9, f32))
    assert held.result() == [6] * COUNT


def test_the_event_of_a_run_without_a_stream_has_passed(device):
    """Whatever it was recorded behind before."""
    held = Held(device)
    held.hold()
    event = held.stream.record()
    other = iobind.Session(twice(), device=device).bind({"x": numpy.ones(COUNT, f32)})
    other.run(event=event)
    assert event.query()
    held.stream.synchronize()


# ---- runs in a thread ----


def early_and_late():
    """y = x at the beginning of a run, z = x at its end, a while later."""
    import onnx
    from onnx import TensorProto, helper

    body = helper.make_graph([helper.make_node("Identity", ["go"], ["again"]), helper.make_node("MatMul", ["a", "zeros"], ["b"])], "body",
                             [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("a", FLOAT, [64, 64])],
                             [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_tensor_value_info("b", FLOAT, [64, 64])])
    constants = {"zeros": numpy.zeros((64, 64), f32), "rounds": numpy.array(int(SECONDS * 200_000)), "start": numpy.array(True), "nothing": numpy.zeros(1, f32)}
    return model([("Add", ["x", "nothing"], ["y"]), ("Loop", ["rounds", "start", "y"], ["looped"], {"body": body}), ("Add", ["x", "looped"], ["z"])],
                 [("x", FLOAT, [64, 64])], [("y", FLOAT, [64, 64]), ("z", FLOAT, [64, 64])],
                 [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])


def within_a_run(binding, call):
    """What a call gives while a run of run_async() is in flight, and the outputs."""
    y = numpy.zeros((64, 64), f32)
    binding.set_output("y", y)

    async def main():
        running = asyncio.create_task(binding.run_async())
        while y[-1, -1] != 3 and not running.done():  # it has not begun; it ends a while later
            await asyncio.sleep(0.001)
        return call(), await running

    return asyncio.run(main())


def change_within_a_run(bound, change):
    """What both outputs show of an input that is changed while a run is in flight."""
    _, out = within_a_run(iobind.Session(early_and_late(), threads=1).bind({"x": bound}), change)
    return {float(value) for name in ("y", "z") for value in numpy.unique(out[name].numpy())}


def test_a_tensor_is_written_after_a_run_in_a_thread():
    x = iobind.tensor(numpy.full((64, 64), 3, f32))
    assert change_within_a_run(x, lambda: x.write(numpy.full((64, 64), 9, f32))) == {3}


def test_a_tensor_is_copied_to_after_a_run_in_a_thread():
    x, other = (iobind.tensor(numpy.full((64, 64), value, f32)) for value in (3, 9))
    assert change_within_a_run(x, lambda: x.copy_from(other)) == {3}


def test_a_live_tensor_is_written_after_a_run_in_a_thread():
    """Each run sees one content of the tensor. Of a NumPy array's own writes iobind knows nothing: docs/python.md."""
    x = iobind.tensor(numpy.full((64, 64), 3, f32))
    assert change_within_a_run(iobind.live(x), lambda: x.write(numpy.full((64, 64), 9, f32))) == {3}


CONSUMERS = {"numpy": numpy.asarray, "DLPack": numpy.from_dlpack, "buffer": lambda z: numpy.frombuffer(z, f32), "a part": lambda z: z[:].numpy()}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_view_is_given_after_a_run_in_a_thread(consumer):
    z = iobind.tensor(numpy.zeros((64, 64), f32))
    binding = iobind.Session(early_and_late(), threads=1).bind({"x": numpy.full((64, 64), 3, f32)}, outputs={"z": z})
    seen, _ = within_a_run(binding, lambda: CONSUMERS[consumer](z).copy())
    assert numpy.unique(seen).tolist() == [3]



def test_arrays_that_are_dropped_after_calls_on_a_stream(device):
    """Other arrays may get their memory at once: work in flight neither reads those nor writes into them."""
    held = Held(device)
    target, results, written = filled(0, device), [filled(0, "cpu") for _ in range(6)], []
    held.hold()
    for i, result in enumerate(results):
        array = numpy.full(COUNT, i, f32)
        written.append(weakref.ref(array))
        if i % 2:
            target.write(array, stream=held.stream)
        else:
            held.binding.update("x", array, stream=held.stream)
            held.binding.run(stream=held.stream)
        del array
        result.copy_from(target if i % 2 else held.y, stream=held.stream)
    for offset in (0, 4):
        held.y.read(numpy.empty(COUNT - offset // 4, f32), offset=offset, stream=held.stream)
    others = [numpy.full(COUNT - i % 2, 7, f32) for i in range(16)]
    held.stream.synchronize()
    assert [result.numpy().tolist() for result in results] == [[i if i % 2 else 2 * i] * COUNT for i in range(6)]
    assert [set(other.tolist()) for other in others] == [{7}] * 16
    assert [array() for array in written] == [None] * 6


def chained(held):
    """y = 2 x by the run that is held, then z = 2 y by another binding."""
    return iobind.Session(twice(), device=held.device).bind({"x": held.y})


NEXT_RUNS = {
    "bind and run": lambda held: chained(held).run()["y"].numpy(),
    "bind live and run": lambda held: iobind.Session(twice(), device=held.device).bind({"x": iobind.live(held.y)}).run()["y"].numpy(),
    "bind a part": lambda held: iobind.Session(twice(), device=held.device).bind({"x": held.y[1:]}).run()["y"].numpy(),
    "bind and run on another stream": lambda held: chained(held).run(stream=iobind.Stream(held.device))["y"].numpy(),
    "Session.run": lambda held: iobind.Session(twice(), device=held.device).run(None, {"x": held.y})[0],
}


@pytest.mark.parametrize("consume", NEXT_RUNS)
def test_a_run_comes_after_the_run_on_a_stream_that_writes_what_is_bound(device, consume):
    held = Held(device)
    held.run()
    got = NEXT_RUNS[consume](held).tolist()
    held.stream.synchronize()
    assert got == [12] * len(got)


def test_a_run_comes_after_the_run_on_a_stream_that_writes_what_was_bound_before(device):
    held = Held(device)
    other = chained(held)
    for _ in range(3):
        other.run()
    held.run()
    assert other.run()["y"].numpy().tolist() == [12] * COUNT


def test_a_run_that_overwrites_comes_after_the_run_on_a_stream_that_reads(device):
    held = Held(device)
    other = iobind.Session(twice(), device=device).bind({"x": filled(9, device)}, outputs={"y": held.x})
    for _ in range(3):
        other.run()
    held.x.write(numpy.full(COUNT, 3, f32))
    held.run()
    other.run()
    assert held.result() == [6] * COUNT and held.x.numpy().tolist() == [18] * COUNT
