"""Session.map on every device: the order, where items and outputs are, what fails, what is the same for all."""

import time

import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, INT64, SMALL, add, child, counter, foreign, model, twice

f32 = numpy.float32


def floats(*values):
    return numpy.array(values, f32)


def test_map_keeps_the_order(device):
    session = iobind.Session(add(), device=device)
    items = ({"x": floats(number, number)} for number in range(10))
    running = session.map(items, slots=3, constants={"y": floats(100, 100)})
    assert isinstance(running, iobind.Map)
    results = [out["z"].numpy().tolist() for out in running]
    assert results == [[100 + number] * 2 for number in range(10)]
    with pytest.raises(iobind.ShapeError, match="2"):
        list(session.map([{"x": floats(1), "y": floats(1)}, {"x": floats(1), "y": floats(1)}, {"x": numpy.zeros((1, 2), f32), "y": floats(1)}]))
    with pytest.raises(iobind.InvalidArgument, match="item 1: input 'y' is missing"):
        list(session.map([{"x": floats(1), "y": floats(1)}, {"x": floats(1)}]))
    with pytest.raises(iobind.NotFound, match="item 0: 'w'"):
        list(session.map([{"w": floats(1)}]))


def test_items_that_are_on_the_device_are_read_there():
    session = iobind.Session(add(), device="vdev")
    items = [{"x": iobind.tensor(floats(number, number), "vdev"), "y": floats(1, 1)} for number in range(5)]
    before = iobind.device("vdev").counters()["upload_bytes"]
    assert [out["z"].numpy().tolist() for out in session.map(items)] == [[number + 1] * 2 for number in range(5)]
    assert iobind.device("vdev").counters()["upload_bytes"] - before == 5 * 8  # of y


def test_map_goes_on_behind_an_item_that_fails(device):
    """Each failure comes at its turn, with its number and tag: what does not fit, what a run refuses, what the caller's iterator raises."""
    def items():
        yield "first", {"x": floats(1), "y": floats(2)}
        yield "short", {"x": floats(1)}
        yield {"x": floats(3), "y": floats(4)}
        yield "rank", {"x": numpy.zeros((1, 2), f32), "y": floats(4)}
        yield "shape", {"x": floats(1, 2), "y": floats(1, 2, 3)}
        yield ("last", "pair"), {"x": floats(5), "y": floats(6)}
        raise ZeroDivisionError("of the caller")

    results = iobind.Session(add(), device=device).map(items(), slots=3)
    tag, out = next(results)
    assert tag == "first" and out["z"].numpy().tolist() == [3]
    with pytest.raises(iobind.InvalidArgument, match="item 1.*'y' is missing") as caught:
        next(results)
    assert (caught.value.item, caught.value.tag) == (1, "short")
    assert next(results)["z"].numpy().tolist() == [7]
    for number, tag in ((3, "rank"), (4, "shape")):
        with pytest.raises(iobind.ShapeError) as caught:
            next(results)
        assert (caught.value.item, caught.value.tag) == (number, tag)
    tag, out = next(results)
    assert tag == ("last", "pair") and out["z"].numpy().tolist() == [11]
    with pytest.raises(ZeroDivisionError):
        next(results)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(results)


def test_where_map_leaves_outputs(device):
    session = iobind.Session(counter(), device=device)
    place = session.outputs[1].device
    items = ({"x": floats(number), "state": floats(1), "past.0.key": floats(7)} for number in range(6))
    kept = list(session.map(items, outputs={"present.0.key": place.spec, "next": None}))
    assert [set(out) for out in kept] == [{"present.0.key"}] * 6 and {out["present.0.key"].device for out in kept} == {place}
    assert [out["present.0.key"].numpy().tolist() for out in kept] == [[7, number] for number in range(6)]
    with pytest.raises(iobind.NotFound, match="'q'"):
        session.map([], outputs={"q": "cpu"})
    with pytest.raises(iobind.Error):
        session.map([], outputs={"next": None, "present.0.key": None})
    if device != "vdev":
        with pytest.raises(iobind.DeviceError, match="next"):
            session.map([], outputs={"next": "vdev"})


def gather():
    """Fails in the run of an item whose index is too large."""
    return model([("Gather", ["x", "i"], ["y"])], [("x", FLOAT, ["n"]), ("i", INT64, ["m"])], [("y", FLOAT, ["m"])])


@pytest.mark.parametrize("wrong", [{"x": floats(1), "i": numpy.array([9])}, {"x": floats(1)}], ids=["run", "submit"])
def test_map_stops_at_an_item_that_fails(wrong):
    good, taken = {"x": floats(1, 2), "i": numpy.array([1])}, []

    def items():
        for number in range(50):
            taken.append(number)
            yield number, wrong if number == 2 else good

    results = iobind.Session(gather()).map(items(), slots=3, stop=True)
    assert [next(results)[0], next(results)[0]] == [0, 1]
    with pytest.raises(iobind.Error) as caught:
        next(results)
    assert (caught.value.item, caught.value.tag) == (2, 2)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(results)
    assert len(taken) <= (5 if "i" in wrong else 3) and results.times is None
    if "i" in wrong:  # those that were submitted are not run either
        with pytest.raises(iobind.InvalidState, match="stops at a failure"):
            results._pipeline.submit([iobind.tensor(good["x"]), iobind.tensor(good["i"])])


@pytest.mark.parametrize("times", [True, False])
def test_map_says_when_the_stages_of_an_item_ended(times):
    session = iobind.Session(twice(), device="vdev")
    before = time.monotonic_ns()
    results = session.map([{"x": floats(1)}, {"x": floats(2)}, {}], times=times)
    assert results.times is None
    ends = [results.times for _ in range(2) if next(results)]
    for end in ends:
        assert before <= end.submit_ns <= time.monotonic_ns()
        if times:
            assert end.submit_ns <= end.upload_ns <= end.run_ns <= end.download_ns <= time.monotonic_ns()
        else:
            assert end[1:] == (0, 0, 0)
    assert ends[0].submit_ns < ends[1].submit_ns
    with pytest.raises(iobind.InvalidArgument, match="missing"):
        next(results)
    assert results.times is None


def test_run_options_of_map():
    session = iobind.Session(twice())
    shrunk = session.map([{"x": floats(1)}], run_config={"memory.enable_memory_arena_shrinkage": "cpu:0"}, run_tag="mine", run_log_level=4)
    assert next(shrunk)["y"].numpy().tolist() == [2]
    with pytest.raises(iobind.Error, match="shrink"):  # ONNX Runtime reads it in the run
        next(session.map([{"x": floats(1)}], run_config={"memory.enable_memory_arena_shrinkage": "nonsense:0"}))
    with pytest.raises(iobind.InvalidArgument):
        session.map([], run_config={"disable_synchronize_execution_providers": 1})


def test_map_refuses_what_it_cannot_read():
    session = iobind.Session(twice(), device="vdev")
    for wrong in (3, {"x": (floats(1), iobind.Event("vdev"))}, {"x": iobind.Event("vdev")}, ("tag", 3)):
        with pytest.raises((iobind.Error, TypeError, ValueError)):
            next(session.map([wrong]))
    with pytest.raises(iobind.InvalidArgument):
        session.map([], slots=-1)
    results = session.map({"x": next(results)["y"]} for _ in range(1))
    with pytest.raises(iobind.InvalidState, match="in progress"):
        next(results)


class Failing(dict):
    """An item that raises when it is read."""

    def __getitem__(self, name):
        raise dict.__getitem__(self, name)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("wrong, kind", [
    ({"x": [[1], [1, 2]]}, ValueError), (Failing(x=OverflowError("of the item")), OverflowError), (Failing(x=TypeError("of the item")), TypeError),
    (Failing(x=StopIteration()), RuntimeError), ({"x": object()}, iobind.DTypeError), (3, iobind.InvalidArgument)],
    ids=["a ragged list", "OverflowError", "TypeError", "StopIteration", "not numbers", "not a dict"])
def test_an_item_fails_by_itself(wrong, kind, stop):
    """Whatever its exception is, it has the item's number and tag, and only stop=True ends the whole."""
    results = iobind.Session(twice()).map([("a", {"x": floats(1)}), ("b", wrong), ("c", {"x": floats(3)})], stop=stop)
    assert next(results)[1]["y"].numpy().tolist() == [2]
    with pytest.raises(kind) as caught:
        next(results)
    assert (caught.value.item, caught.value.tag) == (1, "b")
    assert "item 1" in str(caught.value) or "map: item 1" in caught.value.__notes__
    assert [(tag, out["y"].numpy().tolist()) for tag, out in results] == ([] if stop else [("c", [6])])


@pytest.mark.parametrize("reason", [ValueError("of the caller"), iobind.ShapeError("of the caller")], ids=["ValueError", "ShapeError"])
def test_what_makes_the_items_fails(reason):
    """It ends the whole, and is not an item's."""
    class Items:
        taken = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.taken += 1
            if self.taken == 2:
                raise reason
            return {"x": floats(self.taken)}

    results = iobind.Session(twice()).map(Items())
    assert next(results)["y"].numpy().tolist() == [2]
    with pytest.raises(type(reason), match="of the caller") as caught:
        next(results)
    assert getattr(caught.value, "item", None) is None
    assert list(results) == []


def test_an_array_among_the_constants_is_copied(device):
    constant = floats(1)
    results = iobind.Session(add(), device=device).map(({"x": floats(0)} for _ in range(3)), slots=1, constants={"y": constant})
    seen = []
    for out in results:
        seen.append(out["z"].numpy().tolist())
        constant[0] += 1
    assert seen == [[1]] * 3


def test_strings_among_the_constants():
    session = iobind.Session(model([("Identity", ["s"], ["t"]), ("Add", ["x", "x"], ["y"])], [("s", 8, ["n"]), ("x", FLOAT, ["m"])],
                                   [("t", 8, ["n"]), ("y", FLOAT, ["m"])]))
    out, = session.map([{"x": floats(1)}], constants={"s": ["a", "b"]})
    assert out["t"].numpy().tolist() == ["a", "b"] and out["y"].numpy().tolist() == [2]


@pytest.mark.parametrize("how", ["iobind's", "another library's", "behind an event"])
def test_a_tensor_among_the_constants_is_read_in_place(how):
    constant = iobind.tensor(floats(5), "vdev")
    given = {"iobind's": constant, "another library's": iobind.live(foreign(constant)), "behind an event": (constant, iobind.Stream("vdev").record())}[how]
    results = iobind.Session(add(), device="vdev").map(({"x": floats(number)} for number in range(3)), slots=1, constants={"y": given})
    seen = [next(results)["z"].numpy().tolist()]
    constant.write(floats(7))
    assert seen + [out["z"].numpy().tolist() for out in results] == [[5], [8], [9]]


def test_a_constant_is_read_behind_what_writes_it():
    assert child(SMALL + "PLACE = 'vdev'\n" + DEVICE + """
assert setting(0, b"race", b"count") == 0
session, writer = iobind.Session(add(), device=PLACE), iobind.Stream(PLACE)
right = 0
for number in range(12):
    pinned, tensor = iobind.empty(4, "float32", PLACE + "/pinned"), iobind.empty(4, device=PLACE)
    pinned.numpy()[:] = number
    setting(0, b"delay_copy", b"every:1,us:%d" % random.randrange(1, 3000))
    tensor.copy_from(pinned, stream=writer)
    setting(0, b"delay_copy", b"0")
    out, = session.map([{"x": numpy.ones(4, "f4")}], constants={"y": tensor})
    right += out["z"].numpy().tolist() == [number + 1] * 4
    writer.synchronize()
print(right, get(0, b"races"))
""") == "12 0\n"


def test_what_constants_refuse():
    session = iobind.Session(add())
    for wrong, kind in ((None, iobind.DTypeError), (numpy.zeros(1), iobind.DTypeError), ((floats(1), iobind.Event("cpu")), iobind.InvalidArgument)):
        with pytest.raises(kind, match="map: constants: 'y'"):
            session.map([], constants={"y": wrong})
    with pytest.raises(iobind.NotFound, match="'w'"):
        session.map([], constants={"w": floats(1)})


def test_an_interrupted_item_is_not_lost():
    """Ctrl-C while an item is taken: next() raises it, and the results behind it keep their places."""

    class Interrupts:
        def __array__(self, dtype=None, copy=None):
            raise KeyboardInterrupt

    session = iobind.Session(twice())
    running = session.map([{"x": floats(0)}, {"x": Interrupts()}, {"x": floats(2)}], slots=1)
    results = []
    for _ in range(4):
        try:
            results.append(next(running)["y"].numpy().tolist())
        except (KeyboardInterrupt, iobind.InvalidState) as reason:
            results.append(type(reason).__name__)
    assert results.count("KeyboardInterrupt") == 1
    assert [result for result in results if result != "KeyboardInterrupt"] == [[0], "InvalidState", [4]]
