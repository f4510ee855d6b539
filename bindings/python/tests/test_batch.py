"""Live batches: rows of one run that join and leave at any time, each to the bit what it is alone."""

import asyncio
import gc
import random
import threading
import time
import weakref

import numpy
import onnx
import pytest

import iobind
from support import FLOAT, add, child, model, needs_graphs
from test_states import floats

STATES = {"h2": "h", "c2": "c"}


def constant(name, value, dtype="f4"):
    return onnx.numpy_helper.from_array(numpy.array(value, dtype), name)


def recurrent(batch="n", width=3):
    """h2 = h / 2 + x gain, c2 = c / 2 + h2, y = h2 h2, z = h2 transposed: exact, so that no order of the rows rounds differently. The state c has
    its rows on axis 1, the output z too."""
    return model([("Mul", ["h", "half"], ["less"]), ("Mul", ["x", "gain"], ["more"]), ("Add", ["less", "more"], ["h2"]),
                  ("Mul", ["c", "half"], ["rest"]), ("Add", ["rest", "h2"], ["c2"]), ("Mul", ["h2", "h2"], ["y"]),
                  ("Transpose", ["h2"], ["z"], {"perm": [1, 0]})],
                 [("x", FLOAT, [batch, width]), ("h", FLOAT, [batch, 3]), ("gain", FLOAT, []), ("c", FLOAT, [2, batch, 3])],
                 [("y", FLOAT, [batch, 3]), ("h2", FLOAT, [batch, 3]), ("c2", FLOAT, [2, batch, 3]), ("z", FLOAT, [3, batch])], [constant("half", 0.5)])


def counter(dims=("n", 1)):
    """s2 = s + x, y = s2: what a row has counted."""
    return model([("Add", ["s", "x"], ["s2"]), ("Identity", ["s2"], ["y"])], [("s", FLOAT, dims), ("x", FLOAT, dims)],
                 [("s2", FLOAT, dims), ("y", FLOAT, dims)])


def mixer():
    """y = x minus the mean of all rows."""
    return model([("ReduceMean", ["x"], ["mean"], {"axes": [0]}), ("Sub", ["x", "mean"], ["y"])], [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])])


def one(value):
    return floats(value).reshape(1, 1)


def counting(device="cpu", most_rows=8, **options):
    return iobind.Session(counter(), device=device).batch(most_rows, states={"s2": "s"}, **options)


def value(row):
    return row.get("y").numpy().ravel().tolist()


# ---- rows

class Alone:
    """A row by itself, in a binding of the session."""

    def __init__(self, session, state=None):
        self.binding = session.bind({"gain": 3, "h": numpy.zeros((1, 3), "f4"), "c": numpy.zeros((2, 1, 3), "f4")}, carry=STATES)
        if state is not None:
            self.binding.restore(state)

    def step(self, x):
        self.binding["x"] = x
        out = self.binding.run()
        return {name: out[name].numpy() for name in ("y", "z")}


def is_same(outputs, expected):
    return list(outputs) == list(expected) and all(outputs[name].numpy().tobytes() == array.tobytes() for name, array in expected.items())


@pytest.mark.parametrize("on_device", [False, True])
def test_rows_that_join_and_leave_at_random(device, on_device):
    """Each is to the bit what it is alone, also one that goes on from another's state."""
    session = iobind.Session(recurrent(), device=device)
    batch = session.batch(6, states=STATES, on_device=on_device)
    batch.set({"gain": 3})
    draw = random.Random(5)
    numbers = numpy.random.default_rng(5)
    rows = {}
    for _ in range(80):
        if len(rows) < 6 and draw.random() < 0.4:
            row = batch.join()
            rows[row] = Alone(session)
        elif len(rows) > 1 and draw.random() < 0.3:
            row = draw.choice(list(rows))
            del rows[row]
            state = row.leave_saved()
            again = batch.join(state)
            rows[again] = Alone(session, state)
        elif len(rows) > 2 and draw.random() < 0.2:
            row = draw.choice(list(rows))
            del rows[row]
            row.leave()
        some = draw.sample(list(rows), draw.randint(1, len(rows))) if rows else []
        if some:
            given = [{"x": numbers.standard_normal((1, 3)).astype("f4")} for _ in some]
            batch.run(some, given)
            assert all(is_same(row.outputs, rows[row].step(inputs["x"])) for row, inputs in zip(some, given))
    info = batch.info()
    assert info["row_count"] == len(rows) and info["steps"] > 60 and info["moved_rows"] > 0 and info["nbytes"] > 0 and 1 <= info["width"] <= 6


def test_only_the_rows_of_a_step_advance(device):
    batch = counting(device)
    rows = [batch.join() for _ in range(4)]
    batch.run(rows, [{"x": one(number)} for number in (1, 2, 3, 4)])
    batch.run([rows[3], rows[1]], [{"x": one(10)}] * 2)
    batch.run([rows[2]], [{"x": one(100)}])
    assert [value(row) for row in rows] == [[1], [12], [103], [14]]
    assert [row.save()["s"].numpy().tolist() for row in rows] == [[[1]], [[12]], [[103]], [[14]]]


def test_outputs_stay_as_they_are(device):
    """No later step overwrites them, also if their row has left, or the batch is closed."""
    batch = counting(device)
    rows = [batch.join() for _ in range(3)]
    held = []
    for step in range(4):
        batch.run(rows, [{"x": one(number)} for number in (1, 10, 100)])
        held.append([row.outputs["y"] for row in rows])
    rows[1].leave()
    batch.close()
    assert [[tensor.numpy().item() for tensor in step] for step in held] == [[step, 10 * step, 100 * step] for step in (1, 2, 3, 4)]


def test_where_outputs_go():
    for on_device, place in ((False, "cpu"), (True, "vdev:0")):
        batch = iobind.Session(recurrent(), device="vdev").batch(2, states=STATES, on_device=on_device)
        batch.set({"gain": 1})
        row = batch.join()
        with row:
            row["x"] = numpy.ones((1, 3), "f4")
            batch.run([row])
            assert list(row.outputs) == ["y", "z"] and {str(tensor.device) for tensor in row.outputs.values()} == {place}
            assert row.get("z").shape == (3, 1) and row.get("y").shape == (1, 3)


def test_inputs_of_other_kinds():
    batch = counting()
    row = batch.join()
    strided = numpy.ones((1, 2), "f4")[:, ::2]
    for given in (one(1), [[1]], memoryview(one(1)), iobind.tensor(one(1)), strided):
        row.set({"x": given})
        batch.run([row])
    assert value(row) == [5]
    changed = one(1)
    row["x"] = changed
    changed[:] = 100  # it was copied
    batch.run([row])
    assert value(row) == [6]


def test_a_shared_input_holds_until_it_is_set_again():
    batch = iobind.Session(recurrent()).batch(2, states=STATES)
    row = batch.join()
    x = numpy.ones((1, 3), "f4")
    row["x"] = x
    with pytest.raises(iobind.InvalidState, match="^run: 'gain', which all rows share, is not set: Batch.set$"):
        batch.run([row])
    got = []
    for gain in (1, None, 4):
        if gain is not None:
            batch.set({"gain": gain})
        row["x"] = x
        batch.run([row])
        got.append(row.save()["h"].numpy()[0, 0])
    assert got == [1, 1.5, 4.75]


# ---- states

def test_what_a_row_begins_with():
    session = iobind.Session(counter())
    binding = session.bind({"s": one(40), "x": one(1)}, carry={"s2": "s"})
    binding.run()
    state = binding.save()
    batch = session.batch(3, states={"s2": "s"}, first=state)
    rows = [batch.join(), batch.join(session.bind({"s": one(7)}, carry={"s2": "s"}).save()), batch.join(state)]
    batch.run(rows, [{"x": one(1)}] * 3)
    assert [value(row) for row in rows] == [[42], [8], [42]]
    binding.restore(rows[1].save())
    assert binding.run()["s2"].numpy().tolist() == [[9]]


def test_a_state_of_a_run_in_flight():
    session = iobind.Session(counter(), device="vdev")
    binding = session.bind({"s": one(0), "x": one(1)}, carry={"s2": "s"})
    stream = iobind.Stream("vdev")
    batch = session.batch(2, states={"s2": "s"})
    for count in range(1, 20):
        binding.run(stream=stream)
        with batch.join(binding.save()) as row:
            batch.run([row], [{"x": one(100)}])
            assert value(row) == [100 + count]


def test_states_in_files(device, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(counter())
    first, second = iobind.Session(path), iobind.Session(path, device=device)
    with first.batch(2, states={"s2": "s"}) as other:
        row = other.join()
        other.run([row], [{"x": one(6)}])
        row.leave_saved().save(tmp_path / "row.state")
    again = second.batch(1, states={"s2": "s"})
    row = again.join(second.load_state(tmp_path / "row.state"))
    again.run([row], [{"x": one(1)}])
    assert value(row) == [7]


# ---- what is refused

def rows_of_two():
    batch = counting()
    return batch, batch.join(), batch.join()


def test_a_row_that_has_left():
    batch, first, second = rows_of_two()
    first.leave()
    other = batch.join()  # gets its place, not its number
    assert other._slot != first._slot and repr(first).startswith("<iobind.Row") and "has left" in repr(first) and "has left" not in repr(other)
    for use in (first.leave, first.save, first.leave_saved, first.submit, first.result, lambda: first.set({"x": one(1)}), lambda: first.get("y"),
                lambda: batch.run([second, first], [{"x": one(1)}, {}])):
        with pytest.raises(iobind.NotFound, match="no row has the slot .*: it has left, or is of another batch$"):
            use()
    batch.run([second], [{"x": one(1)}])
    assert value(second) == [1]


def test_rows_of_a_step_that_are_refused():
    batch, first, second = rows_of_two()
    stranger = counting().join()
    for row in (first, second):
        row["x"] = one(1)
    with pytest.raises(iobind.InvalidArgument, match="^run: row 1 is given twice$"):
        batch.run([first, first])
    with pytest.raises(iobind.InvalidArgument, match="^run: expected rows of this batch, got <iobind.Row "):
        batch.run([first, stranger])
    with pytest.raises(iobind.InvalidArgument, match="^run: expected a list of rows of this batch, got <iobind.Row "):
        batch.run(first)
    with pytest.raises(iobind.InvalidArgument, match="^run: inputs: expected a list with a dict for each row, got dict$"):
        batch.run([first], {"x": one(1)})
    with pytest.raises(iobind.InvalidArgument, match="^run: expected rows of this batch, got 5"):
        batch.run([5])
    with pytest.raises(iobind.InvalidArgument, match="^run: expected 1 .. 8 rows, got 0$"):
        batch.run([])
    with pytest.raises(iobind.InvalidArgument, match="^run: inputs: expected one dict for each of the 2 rows, got 1$"):
        batch.run([first, second], [{}])
    batch.run([second, first])  # their inputs are set still
    assert value(first) == value(second) == [1]
    with pytest.raises(iobind.InvalidState, match="^run: row 0: 'x' is not set for this step: Row.set$"):
        batch.run([first])


def test_inputs_that_are_refused():
    batch, row, _ = rows_of_two()
    gained = iobind.Session(recurrent()).batch(2, states=STATES)
    for given, expected, words in (
            ({"x": numpy.ones((1, 1))}, iobind.DTypeError, "set: 'x': expected float32, got float64"),
            ({"x": iobind.tensor(numpy.ones((1, 1)))}, iobind.DTypeError, "set: .*'x'"),
            ({"x": floats(1, 2).reshape(2, 1)}, iobind.ShapeError, "set: 'x': expected 1 row on axis 0, got 2"),
            ({"x": floats(1)}, iobind.ShapeError, "set: .*'x'"),
            ({"x": numpy.ones((1, 2), "f4")}, iobind.ShapeError, "set: .*'x'"),
            ({"x": iobind.tensor(one(1), "vdev")}, iobind.DeviceError, "set: 'x': expected a host tensor of the session's runtime, or one on 'cpu', got one on 'vdev:0'"),
            ({"s": one(1)}, iobind.InvalidArgument, "set: 's' is a state, .*: Batch.join takes the first one"),
            ({"y": one(1)}, iobind.NameNotFound, "set: no input 'y'; there are s, x"),
            ([1], iobind.InvalidArgument, "set: expected a dict by name")):
        with pytest.raises(expected, match=f"^{words}"):
            row.set(given)
    with pytest.raises(iobind.InvalidArgument, match="^set: 'x' has a batch axis: set it for each row, by Row.set$"):
        batch.set({"x": one(1)})
    with pytest.raises(iobind.InvalidArgument, match="^set: 'gain' has no batch axis: set it once, by Batch.set$"):
        gained.join()["gain"] = 1
    with pytest.raises(iobind.InvalidState, match="^outputs: the row has made no step$"):
        row.outputs
    with pytest.raises(iobind.NameNotFound, match="^get: no output 'x'; there are s2, y$"):
        row.get("x")
    with pytest.raises(iobind.InvalidArgument, match="^outputs: 's2' is a state: Row.save$"):
        row.get("s2")
    with pytest.raises(TypeError, match="expected an iobind.State or None, got int"):
        batch.join(5)


def test_rows_of_other_dims():
    """They are not of one step; after it is refused all is as it was before."""
    session = iobind.Session(model([("ReduceSum", ["x"], ["y"], {"keepdims": 1, "noop_with_empty_axes": 1}), ("Add", ["s", "few"], ["s2"]),
                                    ("Slice", ["x", "from", "to", "axis"], ["few"])],
                                   [("s", FLOAT, ["n", 1]), ("x", FLOAT, ["n", "length"])], [("s2", FLOAT, ["n", 1]), ("y", FLOAT, ["n", "length"])],
                                   [constant("from", [0], "i8"), constant("to", [1], "i8"), constant("axis", [1], "i8")]))
    batch = session.batch(4, states={"s2": "s"})
    rows = [batch.join() for _ in range(3)]
    for row, length in zip(rows, (2, 3, 2)):
        row["x"] = numpy.full((1, length), 4, "f4")
    with pytest.raises(iobind.ShapeError, match=r"^run: row 1: 'x': expected float32\[1,2\] as in row 0, got float32\[1,3\]: make two steps$"):
        batch.run(rows)
    batch.run([rows[0], rows[2]])
    batch.run([rows[1]])
    assert [row.save()["s"].numpy().item() for row in rows] == [4, 4, 4] and rows[1].get("y").shape == (1, 3)


def test_a_model_that_mixes_rows():
    batch = iobind.Session(mixer()).batch(4)
    rows = [batch.join(), batch.join()]
    x = numpy.arange(4, dtype="f4").reshape(1, 4)
    for row in rows:
        row["x"] = x
    with pytest.raises(iobind.NotSupported, match="^run: .*'y'"):
        batch.run(rows)
    allowed = iobind.Session(mixer()).batch(4, tolerance=10)
    rows = [allowed.join(), allowed.join()]
    allowed.run(rows, [{"x": x}, {"x": -x}])
    assert rows[0].get("y").numpy().tolist() == x.tolist()


def test_batches_that_are_refused():
    session = iobind.Session(counter())
    binding = session.bind({"s": one(1), "x": one(1)}, carry={"s2": "s"})
    wide = iobind.Session(counter(("n", "m")))
    unnamed = iobind.Session(counter((None, 1)))
    for make, expected, words in (
            (lambda: session.batch(0), iobind.InvalidArgument, "batch: most_rows: expected a whole number, 1 or more, got 0"),
            (lambda: session.batch(-1), iobind.InvalidArgument, "batch: most_rows: expected a whole number, 1 or more, got -1"),
            (lambda: session.batch("2"), iobind.InvalidArgument, "batch: most_rows: expected a whole number, 1 or more, got '2'"),
            (lambda: session.batch(65537), iobind.InvalidArgument, "batch: most_rows: expected 1 .. 65536, got 65537"),
            (lambda: session.batch(2**70), iobind.InvalidArgument, "batch: most_rows: expected 1 .. 65536, got "),
            (lambda: session.batch(2, states={"nothing": "s"}), iobind.NameNotFound, "batch: no output 'nothing'; there are s2, y"),
            (lambda: session.batch(2, states={"s2": "y"}), iobind.NameNotFound, "batch: no input 'y'; there are s, x"),
            (lambda: session.batch(2, states=["s2"]), iobind.InvalidArgument, "batch: states: expected a dict by name"),
            (lambda: session.batch(2, states={"s2": "s", "y": "s"}), iobind.InvalidArgument, "batch: 'y' and 's': each can be in one pair"),
            (lambda: session.batch(2, axes={"s": 0}), iobind.InvalidArgument, "batch: axes: expected .*: 'x' is missing"),
            (lambda: session.batch(2, axes={"nothing": 0}), iobind.NameNotFound, "batch: axes: no input or output 'nothing'"),
            (lambda: session.batch(2, axes={"s": 0, "x": -1, "s2": 0, "y": 0}), iobind.InvalidArgument, "batch: axes: 'x': expected an axis of 0 or more"),
            (lambda: session.batch(2, axes={"s": 0, "x": "0", "s2": 0, "y": 0}), iobind.InvalidArgument, "batch: axes: 'x': expected an axis .*got '0'"),
            (lambda: session.batch(2, axes={"s": 0, "x": 2, "s2": 0, "y": 0}), iobind.ShapeError, "batch: 'x': expected an axis below its rank 2, or None"),
            (lambda: session.batch(2, states={"s2": "s"}, tolerance=-1), iobind.InvalidArgument, "batch: tolerance: expected a finite number, 0 or more"),
            (lambda: session.batch(2, rows=0), iobind.InvalidArgument, "batch: rows: expected a whole number, 1 or more, got 0"),
            (lambda: session.batch(2, rows=1.5), iobind.InvalidArgument, "batch: rows: expected a whole number, 1 or more, got 1.5"),
            (lambda: session.batch(2, longest="1"), iobind.InvalidArgument, "batch: longest: expected 0 or more seconds, or None, got '1'"),
            (lambda: session.batch(2, longest=-1), iobind.InvalidArgument, "batch: longest: expected 0 or more seconds"),
            (lambda: session.batch(2, states={"s2": "s"}, first=5), TypeError, "expected an iobind.State or None, got int"),
            (lambda: session.batch(2, first=binding.save()), iobind.InvalidArgument, "batch: expected a state of the batch's 0 pairs"),
            (lambda: unnamed.batch(2), iobind.ShapeError, "batch: expected one named dim .*: give axes"),
            (lambda: wide.batch(2), iobind.ShapeError, "batch: the batch axis may be any of the dims 'n', 'm': give axes"),
            (lambda: iobind.Session(counter((3, 1))).batch(2, axes={"s": 0, "x": 0, "s2": 0, "y": 0}), iobind.ShapeError, "batch: 's': the model fixes axis 0 to 3")):
        with pytest.raises(expected, match=f"^{words}"):
            make()
    given = unnamed.batch(2, states={"s2": "s"}, axes={"s": 0, "x": 0, "s2": 0, "y": 0})
    row = given.join()
    given.run([row], [{"x": one(2)}])
    assert value(row) == [2]


def test_more_rows_than_fit_and_states_of_others():
    batch = counting(most_rows=2)
    rows = [batch.join(), batch.join()]
    with pytest.raises(iobind.InvalidState, match="^join: the batch has its most rows, 2: let one leave$"):
        batch.join()
    rows[0].leave()
    stranger = counting().join().save()
    with pytest.raises(iobind.InvalidArgument, match="^join: the state is of another session"):
        batch.join(stranger)
    two = batch.session.bind({"s": floats(1, 2).reshape(2, 1), "x": floats(1, 2).reshape(2, 1)}, carry={"s2": "s"}).save()
    with pytest.raises(iobind.ShapeError, match="^join: the state of 's': expected one row"):
        batch.join(two)
    batch.join()


def test_captured_graphs():
    needs_graphs()
    batch = iobind.Session(counter(), device="vdev", graphs=4).batch(4, states={"s2": "s"})
    rows = [batch.join() for _ in range(3)]
    for count in range(1, 12):
        some = rows[:1 + count % 3]
        batch.run(some, [{"x": one(count)}] * len(some))
    assert [value(row) for row in rows] == [[66], [48], [26]]


# ---- streams

def test_steps_on_a_stream(device):
    """The next inputs are set while a step is in flight; what needs its end waits for it."""
    batch = counting(device)
    stream = iobind.Stream(device)
    rows = [batch.join() for _ in range(3)]
    batch.run(rows, [{"x": one(number)} for number in (1, 10, 100)], stream=stream)
    for _ in range(5):
        batch.run(rows[:2], [{"x": one(1)}, {"x": one(10)}], stream=stream)
    assert [value(row) for row in rows] == [[6], [60], [100]]
    batch.run(rows, [{"x": one(0)}] * 3)
    assert [value(row) for row in rows] == [[6], [60], [100]]
    with pytest.raises(TypeError, match="expected an iobind.Stream or None, got 5"):
        batch.run(rows, stream=5)


def test_a_batch_outlives_its_stream():
    batch = counting("vdev")
    row = batch.join()
    batch.run([row], [{"x": one(1)}], stream=iobind.Stream("vdev"))
    gc.collect()
    assert value(row) == [1]


# ---- a server's loop

def test_a_loop_of_threads():
    """Each caller in a thread of its own, one thread that makes the steps."""
    batch, counts = counting(), {}

    def serve():
        while not ended.is_set():
            try:
                batch.step(rows=4, longest=0.0005, timeout=0.01)
            except iobind.Timeout:
                pass

    def call(number):
        with batch.join() as row:
            for step in range(20):
                row.submit({"x": one(number)})
                counts[number] = row.result(60)["y"].numpy().item()

    ended = threading.Event()
    server, callers = threading.Thread(target=serve), [threading.Thread(target=call, args=(number,)) for number in range(1, 6)]
    server.start()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    ended.set()
    server.join()
    assert counts == {number: 20 * number for number in range(1, 6)} and batch.info()["row_count"] == 0 and batch.info()["steps"] <= 100


def test_a_step_of_what_is_submitted():
    batch, first, second = rows_of_two()
    with pytest.raises(iobind.Timeout, match="^step: timed out: no row was submitted$"):
        batch.step(timeout=0)
    with pytest.raises(iobind.InvalidState, match="^submit: 'x' is not set for this step: Row.set$"):
        first.submit()
    first.submit({"x": one(3)})
    with pytest.raises(iobind.InvalidState, match="^submit: the row is already submitted: await it by Row.result first$"):
        first.submit()
    with pytest.raises(iobind.InvalidState, match="^run: row 0 is submitted: Batch.step makes its step$"):
        batch.run([first])
    with pytest.raises(iobind.Timeout, match="^result: "):
        first.result(0)
    with pytest.raises(iobind.InvalidState, match="^result: the row was not submitted: submit it by Row.submit first$"):
        second.result()
    assert batch.step(1) == [first] and first.result()["y"].numpy().item() == 3
    second.submit({"x": one(4)})
    first.submit({"x": one(5)})
    assert set(batch.step(rows=100, longest=1000)) == {first, second}  # all that are there
    assert first.result(1e12)["y"].numpy().item() == 8 and second.result()["y"].numpy().item() == 4
    for wrong in ({"rows": 0}, {"longest": -1}, {"timeout": float("nan")}):
        with pytest.raises(iobind.InvalidArgument, match="^step: .*: expected"):
            batch.step(**wrong)


def test_each_row_of_a_step_reports_its_failure():
    batch = iobind.Session(mixer()).batch(4)
    rows = [batch.join(), batch.join()]
    for row in rows:
        row.submit({"x": numpy.ones((1, 4), "f4")})
    with pytest.raises(iobind.NotSupported, match="^step: .*'y'"):
        batch.step()
    for row in rows:
        with pytest.raises(iobind.NotSupported, match="'y'"):
            row.result()
        row.submit()  # its input is as it was


# ---- asyncio

def test_rows_of_tasks(device):
    async def call(batch, number, items):
        with batch.join() as row:
            return [outputs["y"].numpy().item() async for outputs in row.steps(items({"x": one(number)} for _ in range(10)))]

    async def slowly(items):
        for item in items:
            await asyncio.sleep(0)
            yield item

    async def all_of_them():
        with counting(device) as batch:
            return await asyncio.gather(*(call(batch, number, list if number % 2 else slowly) for number in range(1, 7))), batch.info()

    counted, info = asyncio.run(all_of_them())
    assert counted == [[number * step for step in range(1, 11)] for number in range(1, 7)] and 10 <= info["steps"] <= 60


def test_a_batch_serves_one_loop_after_the_other():
    batch = counting()
    row = batch.join()

    async def count():
        return (await row.step({"x": one(1)}))["y"].numpy().item()

    assert [asyncio.run(count()) for _ in range(3)] == [1, 2, 3]


def test_errors_of_awaited_steps():
    async def failed():
        mixed = iobind.Session(mixer()).batch(4)
        rows = [mixed.join() for _ in range(3)]
        ended = await asyncio.gather(*(row.step({"x": numpy.ones((1, 4), "f4")}) for row in rows), return_exceptions=True)
        assert [type(one) for one in ended] == [iobind.NotSupported] * 3
        row = rows[0]
        with pytest.raises(iobind.DTypeError):
            await row.step({"x": numpy.ones((1, 4))})
        row.leave()
        with pytest.raises(iobind.NotFound):
            await row.step({"x": numpy.ones((1, 4), "f4")})

    asyncio.run(failed())


def test_cancelling_a_task_leaves_the_row_whole():
    """It ends when the step has ended, so that the row can go on at once."""
    reported = []

    async def cancelled():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
        batch = counting(longest=0.05)
        row, _ = batch.join(), batch.join()  # the second one never comes, so that the step waits
        task = asyncio.create_task(row.step({"x": one(1)}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await row.step({"x": one(10)}))["y"].numpy().item()

    assert asyncio.run(cancelled()) == 11
    gc.collect()
    assert reported == []


def test_a_row_of_an_asynchronous_block():
    async def count(batch):
        async with batch.join() as row:
            return (await row.step({"x": one(3)}))["y"].numpy().item()

    with counting() as batch:
        assert asyncio.run(count(batch)) == 3 and batch.info()["row_count"] == 0


def test_no_memory_for_the_list_of_a_step(monkeypatch):
    """The step itself was made, and later rows are served."""
    step, failures = iobind.Batch._step, [MemoryError()]

    def fail_once(batch, *limits):
        made = step(batch, *limits)
        if failures:
            raise failures.pop()
        return made

    async def count(row):
        return [(await row.step({"x": one(1)}))["y"].numpy().item() for _ in range(2)]

    monkeypatch.setattr(iobind.Batch, "_step", fail_once)
    with counting() as batch:
        assert asyncio.run(asyncio.wait_for(count(batch.join()), 60)) == [1, 2]


def test_closing_ends_what_is_awaited():
    async def closed():
        batch = counting(longest=1000)
        rows = [batch.join() for _ in range(3)]
        tasks = [asyncio.create_task(row.step({"x": one(1)})) for row in rows[:2]]
        await asyncio.sleep(0.01)
        batch.close()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert type(ended) is iobind.InvalidState and str(ended) == "batch: it is closed"

    asyncio.run(closed())


# ---- closed

def test_a_closed_batch():
    with counting() as batch:
        row = batch.join()
        assert repr(batch) == "<iobind.Batch of 1 rows>"
        batch.run([row], [{"x": one(1)}])
        kept, state = row.outputs["y"], row.save()
    assert repr(batch) == "<iobind.Batch closed>"
    batch.close()
    for use in (batch.join, batch.info, batch.step, lambda: batch.run([row]), row.leave, row.save, row.submit, row.result,
                lambda: row.outputs, lambda: row.set({"x": one(1)})):
        with pytest.raises(iobind.InvalidState, match="^batch: it is closed$"):
            use()
    with row:
        pass
    assert "has left" in repr(row)
    assert kept.numpy().item() == 1 and state["s"].numpy().item() == 1


@pytest.mark.parametrize("wait", ["step", "result"])
def test_closing_ends_the_waits_of_other_threads(wait):
    batch = counting()
    row = batch.join()
    if wait == "result":
        row.submit({"x": one(1)})
    raised = []

    def block():
        try:
            batch.step() if wait == "step" else row.result()
        except iobind.InvalidState as error:
            raised.append(str(error))

    thread = threading.Thread(target=block)
    thread.start()
    batch.close()
    thread.join(60)
    assert not thread.is_alive() and raised == ["batch: it is closed"]


def test_ctrl_c_ends_waits():
    assert child("""
import os, signal, threading, iobind
from test_batch import counting, one
signal.signal(signal.SIGINT, signal.default_int_handler)
batch = counting()
row = batch.join()
row["x"] = one(1)
row.submit()
def interrupted(wait):
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait()
    except KeyboardInterrupt:
        return True
print(interrupted(row.result), batch.step() == [row], row.result()["y"].item(), interrupted(batch.step))
""") == "True True 1.0 True\n"


def test_what_is_dropped_goes():
    async def count(batch):
        row = batch.join()
        await row.step({"x": one(1)})

    batch = counting()
    asyncio.run(count(batch))
    session, gone = batch.session, weakref.ref(batch)
    row = batch.join()
    session.close()  # the batch goes on
    batch.run([row], [{"x": one(2)}])
    assert value(row) == [2]
    output = row.outputs["y"]
    del batch, row
    deadline = time.monotonic() + 60
    while gone() is not None and time.monotonic() < deadline:  # the pool's thread drops it a moment after the step has ended
        time.sleep(0.01)
        gc.collect()
    assert gone() is None and output.numpy().item() == 2


def test_a_session_that_has_no_states():
    batch = iobind.Session(add()).batch(2)
    row = batch.join()
    batch.run([row], [{"x": floats(1), "y": floats(2)}])
    assert row.outputs["z"].numpy().tolist() == [3]
    with pytest.raises(iobind.InvalidState, match="^save: the batch has no states$"):
        row.save()
