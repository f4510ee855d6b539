"""Saved states: gone back to, branched from, kept in a file. None of them ever changes, and no result that a program holds does."""

import collections.abc
import gc
import pathlib
import threading
import weakref

import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, SMALL, add, child, model, needs_graphs
from test_states import DIMS, HELD, count, floats

MODES = [None, "move", "swap", "in_place"]


def value(tensor):
    return tensor.numpy().ravel().tolist()[0]


def run(binding, times=1, stream=None):
    for _ in range(times):
        out = binding.run(stream=stream)
    return value(out["s2"])


def counter_model(dims=(1,)):
    return model([("Add", ["s", "x"], ["s2"])], [("s", FLOAT, dims), ("x", FLOAT, [1])], [("s2", FLOAT, dims)])


def bind(session, mode=None, first=0):
    return session.bind({"s": floats(first), "x": floats(1)}, carry={"s2": "s"}, carry_mode=mode)


# ---- saved and restored

@pytest.mark.parametrize("mode", MODES)
def test_a_binding_goes_back_any_number_of_times(device, mode):
    binding = count(device, mode=mode)
    first = binding.save()
    run(binding, 2)
    second = binding.save()
    assert run(binding, 3) == 5
    for state, number in ((second, 2), (first, 0), (first, 0), (second, 2)):
        binding.restore(state)
        assert run(binding) == number + 1 and run(binding, 3) == number + 4
    assert value(first["s"]) == 0 and value(second["s"]) == 2


@pytest.mark.parametrize("to", MODES)
@pytest.mark.parametrize("mode", MODES)
def test_a_branch_in_another_mode(mode, to):
    binding = count("vdev", mode=mode)
    run(binding, 2)
    state = binding.save()
    branches = [bind(binding.session, to, first=100) for _ in range(3)]
    for branch in branches:
        branch.restore(state)
    branches[1].update("x", floats(10))
    assert [run(branch, 2) for branch in branches] == [4, 22, 4] and run(binding) == 3 and value(state["s"]) == 2


def test_a_beam_search():
    """Each step saves the best two and lets all four go on from there: with a cache that grows."""
    session = iobind.Session(model([("Concat", ["past", "x"], ["present"], {"axis": 0})], [("past", FLOAT, ["n"]), ("x", FLOAT, [1])],
                                   [("present", FLOAT, ["m"])]), device="vdev")
    beams = [session.bind({"past": session.empty("past", n=0), "x": floats(0)}, carry={"present": "past"}) for _ in range(4)]
    kept = [beams[0].save()]
    for step in range(3):
        for number, beam in enumerate(beams):
            beam.restore(kept[number % len(kept)])
            beam["x"] = floats(10 * step + number)
            beam.run()
        kept = [beams[number].save() for number in (1, 3)]
    assert [state["past"].numpy().tolist() for state in kept] == [[3, 13, 21], [3, 13, 23]]


def test_what_a_state_is():
    binding = count("vdev")
    run(binding, 4)
    state = binding.save()
    assert isinstance(state, collections.abc.Mapping) and list(state) == ["s"] and len(state) == 1 and state.nbytes == 4
    assert "s" in state and "x" not in state and state.get("x") is None and [value(one) for one in state.values()] == [4]
    assert repr(state) == "<iobind.State of s, 4 bytes>"
    assert state["s"].shape == (1,) and state["s"].read_only and state["s"].device == iobind.device("vdev")
    with pytest.raises(iobind.NameNotFound, match="^state: no carried input 'x'; there are s$"):
        state["x"]
    assert state == state and state != binding.save() and {state: 1}[state] == 1
    with pytest.raises(TypeError):
        iobind.State()


def test_the_arrays_of_a_state_are_not_written():
    """Where NumPy sees its memory, and wherever a tensor would be written."""
    binding = count("cpu")
    run(binding)
    state = binding.save()
    array = state["s"].numpy()
    assert array.ctypes.data == state["s"].address and not array.flags.writeable and not numpy.asarray(state["s"]).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7
    for write in (lambda: state["s"].write(floats(7)), lambda: state["s"].copy_from(iobind.tensor(floats(7)))):
        with pytest.raises(iobind.InvalidArgument, match="read-only"):
            write()
    with pytest.raises(iobind.InvalidArgument, match="read-only"):
        binding.session.bind(outputs={"s2": state["s"]})
    assert value(state["s"]) == 1


@pytest.mark.parametrize("mode", [None, "move", "swap"])
def test_a_state_that_nobody_references_is_not_copied(mode):
    """Nor is one that was fetched and dropped. What a program holds is copied, and stays its own."""
    binding = count("cpu", mode=mode)
    address = binding.run()["s2"].address
    state = binding.save()
    assert state["s"].address == address
    held = binding.run()["s2"]
    state = binding.save()
    held.write(floats(50))
    assert state["s"].address != held.address and value(state["s"]) == 2


# ---- results that a program holds

@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("how", HELD)
def test_a_restored_binding_leaves_results(how, dims):
    """In a mode that was left open: the runs after it write no memory of a result that is still referenced."""
    hold, look = HELD[how]
    for ran_before in (1, 2, 3):
        for ran_again in (1, 2, 3):
            binding, held = count("cpu", dims), []

            def keep(times, step):
                binding.update("x", floats(step))
                for _ in range(times):
                    out = binding.run()
                    held.append(binding.take("s2") if how == "taken" else hold(out))

            state = binding.save()
            keep(ran_before, 1)
            binding.restore(state)
            keep(ran_again, 10)
            binding.restore(state)
            keep(2, 100)
            numbers = [look(one).ravel().tolist()[0] for one in held]
            expected = [*range(1, ran_before + 1), *range(10, 10 * ran_again + 1, 10), 100, 200]
            assert numbers == expected and value(state["s"]) == 0


def test_outputs_of_the_last_run_after_a_restore(device):
    binding = count(device)
    state, out = binding.save(), binding.run()
    binding.restore(state)
    assert out["s2"].numpy().tolist() == [1]  # it is kept, as before a run
    binding = count(device, mode="swap")
    state, out = binding.save(), binding.run()
    with pytest.raises(iobind.InvalidArgument, match="^restore: the state is of another session"):
        binding.restore(count(device).save())
    assert out["s2"].numpy().tolist() == [1]
    out = binding.run()
    binding.restore(state)
    with pytest.raises(iobind.InvalidState, match="'s2' was replaced"):
        out["s2"]
    with pytest.raises(iobind.InvalidState, match="^take: "):
        binding.take("s2")
    assert run(binding) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_state_that_is_updated_or_bound(device, mode):
    for change in (lambda: binding.update("s", floats(10)), lambda: binding.bind({"s": floats(10)})):
        binding = count(device, mode=mode)
        run(binding, 2)
        state = binding.save()
        run(binding)
        binding.restore(state)
        change()
        assert run(binding) == 11 and value(state["s"]) == 2
        binding.restore(state)
        assert run(binding) == 3


def test_a_state_in_place_is_written_over_the_tensor_that_is_bound():
    """Which stays bound: streams that write it later are known to whom it is handed to. One of another shape leaves it."""
    session = iobind.Session(counter_model([None]), device="vdev")
    x, stream = iobind.tensor(floats(1), "vdev"), iobind.Stream("vdev")
    binding = session.bind({"s": x, "x": floats(1)}, carry={"s2": "s"}, carry_mode="in_place")
    state = binding.save()
    binding.run()
    binding.restore(state)
    assert value(x) == 1
    binding.run(stream=stream)
    stream.synchronize()
    assert x._writers() == [stream] and value(x) == 2
    x._forget_writers()
    other = session.bind({"s": floats(5, 6), "x": floats(1)}, carry={"s2": "s"}, carry_mode="in_place")
    binding.restore(other.save())
    out = binding.run(stream=stream)
    assert out["s2"].numpy().tolist() == [6, 7] and x._writers() == [] and value(x) == 2
    binding.update("s", floats(8, 9))
    with pytest.raises(iobind.ShapeError, match=r"expected \[2\]"):
        binding.update("s", floats(8, 9).reshape(1, 2))
    assert binding.run()["s2"].numpy().tolist() == [9, 10]


def test_with_graphs_none_is_captured_again():
    needs_graphs()
    binding = bind(iobind.Session(counter_model(), device="vdev", graphs=2))
    run(binding, 4)
    state, captured = binding.save(), binding.session._info()["graph_count"]
    for _ in range(3):
        assert run(binding, 3) == 7
        binding.restore(state)
    assert binding.session._info()["graph_count"] == captured and value(state["s"]) == 4


# ---- rows in another order

ROWS = [("Add", ["s", "x"], ["s2"])], [("s", FLOAT, ["n"]), ("x", FLOAT, [1])], [("s2", FLOAT, ["n"])]


def rows_of(device, mode, first):
    return iobind.Session(model(*ROWS), device=device).bind({"s": first, "x": floats(10)}, carry={"s2": "s"}, carry_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_rows_in_another_order(device, mode):
    binding = rows_of(device, mode, floats(1, 2, 3))
    out = binding.run()
    state = binding.save()
    binding.reorder(numpy.array([2, 0, 0]))
    with pytest.raises(iobind.InvalidState, match="^take: "):
        binding.take("s2")
    if mode in (None, "move"):
        assert out["s2"].numpy().tolist() == [11, 12, 13]  # it is kept, as before a run
    else:
        with pytest.raises(iobind.InvalidState, match="'s2' was replaced"):
            out["s2"]
    assert state["s"].numpy().tolist() == [11, 12, 13]
    assert binding.run()["s2"].numpy().tolist() == [23, 21, 21]
    binding.reorder([1, 1, 0, 0], axis=0)
    binding.update("s", floats(5, 6, 7, 8))
    assert binding.run()["s2"].numpy().tolist() == [15, 16, 17, 18]


@pytest.mark.parametrize("how", HELD)
def test_reordered_rows_leave_results(how):
    hold, look = HELD[how]
    for ran_before in (1, 2, 3):
        binding, held = count("cpu"), []
        for number in range(ran_before + 3):
            out = binding.run()
            held.append(binding.take("s2") if how == "taken" else hold(out))
            if number == ran_before - 1:
                binding.reorder([0])
                binding.update("x", floats(10))
        expected = [*range(1, ran_before + 1), *(ran_before + 10 * further for further in (1, 2, 3))]
        assert [look(one).ravel().tolist()[0] for one in held] == expected


def test_rows_of_the_tensor_that_is_bound():
    """As many rows: in place, and it stays bound. Others: in memory of the binding's own."""
    x, stream = iobind.tensor(floats(1, 2), "vdev"), iobind.Stream("vdev")
    binding = rows_of("vdev", "in_place", x)
    binding.reorder([1, 0])
    assert x.numpy().tolist() == [2, 1]
    binding.run(stream=stream)
    stream.synchronize()
    assert x._writers() == [stream] and x.numpy().tolist() == [12, 11]
    x._forget_writers()
    binding.reorder([0, 0, 1])
    binding.run(stream=stream)
    stream.synchronize()
    assert x._writers() == [] and x.numpy().tolist() == [12, 11]
    with pytest.raises(iobind.ShapeError, match=r"expected \[3\]"):
        binding.update("s", floats(1, 2, 3).reshape(3, 1))


def test_rows_that_are_refused():
    binding = rows_of("cpu", None, floats(1, 2))
    out = binding.run()
    for rows, axis, error in (([0, 2], 0, iobind.InvalidArgument), ([-1, 0], 0, iobind.InvalidArgument), ([], 0, iobind.InvalidArgument),
                              ([0, 1], 1, iobind.ShapeError), ([0, 1], -1, iobind.ShapeError)):
        with pytest.raises(error, match="^reorder: "):
            binding.reorder(rows, axis=axis)
    for wrong in ([0.5, 1], ["0"], 3, [[0, 1]]):
        with pytest.raises(TypeError):
            binding.reorder(wrong)
    with pytest.raises(OverflowError):
        binding.reorder([1 << 70])
    with pytest.raises(iobind.InvalidState, match="^reorder: the binding carries nothing"):
        binding.session.bind({"s": floats(1), "x": floats(1)}).reorder([0])
    assert out["s2"].numpy().tolist() == [11, 12] and binding.run()["s2"].numpy().tolist() == [21, 22]


# ---- back to a shorter length

GROWS = [("Concat", ["s", "x"], ["s2"], {"axis": 1})], [("s", FLOAT, [1, "n"]), ("x", FLOAT, [1, 1])], [("s2", FLOAT, [1, "m"])]


def row(*numbers):
    return floats(*numbers).reshape(1, -1)


def grown(device, *first, **options):
    return iobind.Session(model(*GROWS), device=device, identify=True, **options).bind({"s": row(*first), "x": row(10)}, carry={"s2": "s"})


def test_back_to_a_shorter_length(device):
    binding = grown(device, 1, 2)
    out, state = binding.run(), binding.save()
    binding.rewind(2)
    assert out["s2"].numpy().tolist() == [[1, 2, 10]] == state["s"].numpy().tolist()  # it is kept, as before a run
    with pytest.raises(iobind.InvalidState, match="^take: "):
        binding.take("s2")
    binding.update("x", row(7))
    assert binding.run()["s2"].numpy().tolist() == [[1, 2, 7]]
    binding.rewind(1)
    binding.update("s", row(5))  # of its shape now
    assert binding.run()["s2"].numpy().tolist() == [[5, 7]]
    binding.rewind(0)
    assert binding.run()["s2"].numpy().tolist() == [[7]]
    binding.rewind(1)
    assert binding.run()["s2"].numpy().tolist() == [[7, 7]]
    binding.restore(state)
    binding.rewind(1)
    assert binding.run()["s2"].numpy().tolist() == [[1, 7]] and state["s"].numpy().tolist() == [[1, 2, 10]]


def test_lengths_that_are_refused():
    binding = grown("cpu", 1, 2)
    out = binding.run()
    for length in (-1, 4):
        with pytest.raises(iobind.InvalidArgument, match=f"^rewind: .*{length}$"):
            binding.rewind(length)
    for wrong in (0.5, "0", None):
        with pytest.raises(TypeError):
            binding.rewind(wrong)
    assert out["s2"].numpy().tolist() == [[1, 2, 10]]
    with pytest.raises(iobind.InvalidState, match="^rewind: the binding carries nothing"):
        binding.session.bind({"s": row(1), "x": row(1)}).rewind(0)
    counter = count("cpu")
    counter.run()
    with pytest.raises(iobind.NotSupported, match="^rewind: 's2' to 's': .*save a state earlier"):
        counter.rewind(0)
    unknown = iobind.Session(model(*GROWS)).bind({"s": row(1), "x": row(1)}, carry={"s2": "s"})
    with pytest.raises(iobind.NotSupported, match="identify=True"):
        unknown.rewind(0)


def test_kinds_of_states(tmp_path):
    session = iobind.Session(model(*GROWS), identify=True)
    assert session.state_kind("s2", "s") == iobind.StateKind("growing", 1) and session.state_kind("s2", "x") == ("unknown", None)
    assert iobind.Session(model(*GROWS)).state_kind("s2", "s") == ("unknown", None)
    for output, given, name in (("s", "s", "output 's'"), ("s2", "s2", "input 's2'")):
        with pytest.raises(iobind.NameNotFound, match=f"^state_kind: no {name}; there are s"):
            session.state_kind(output, given)
    path = tmp_path / "grows.onnx"
    path.write_bytes(model(*GROWS))
    kept, gone = iobind.Session(path), iobind.Session(path)
    assert kept.state_kind("s2", "s").kind == "growing"
    path.unlink()
    assert kept.state_kind("s2", "s").kind == "growing"
    with pytest.raises(iobind.FileError, match="^state_kind: .*cannot be read"):
        gone.state_kind("s2", "s")
    gone.close()
    with pytest.raises(iobind.InvalidState):
        gone.state_kind("s2", "s")


# ---- on streams

# Each use of a state that a queued run makes comes behind that run; delays make the run late.
IN_FLIGHT = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_saved import bind, counter_model, floats, value
assert setting(0, b"race", b"count") == 0
other, target = iobind.Stream(PLACE), iobind.empty(1, device=PLACE)

def copied(state):
    target.copy_from(state["s"], stream=other)
    return target

def restored(state, stream):
    branch = bind(binding.session, MODE)
    branch.restore(state)
    return branch.run(stream=stream)["s2"]

USES = [
    (lambda state: state["s"], 0),
    (copied, 0),
    (lambda state: iobind.from_dlpack(state["s"]), 0),
    (lambda state: restored(state, None), 1),
    (lambda state: restored(state, other), 1),
    (lambda state: binding.session.bind({"s": state["s"], "x": floats(1)}).run(stream=other)["s2"], 1),
    (lambda state: (state.save(FILE), binding.session.load_state(FILE))[1]["s"], 0),
]
right = []
for use, more in USES:
    right.append(0)
    for number in range(1, 4):
        binding, stream = bind(iobind.Session(counter_model(), PLACE, identify=True), MODE), iobind.Stream(PLACE)
        setting(0, b"delay_compute", b"every:1,us:2000")
        for _ in range(number):
            binding.run(stream=stream)
        state = binding.save()
        for _ in range(2):
            binding.run(stream=stream)
        setting(0, b"delay_compute", b"0")
        right[-1] += value(use(state)) == number + more
        stream.synchronize()
        other.synchronize()
        right[-1] += value(state["s"]) == number
print(right, get(0, b"races"))
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_state_of_runs_in_flight(tmp_path, mode):
    code = IN_FLIGHT.replace("MODE", repr(mode)).replace("FILE", repr(str(tmp_path / "state")))
    assert child(code) == f"{[6] * 7} 0\n"


def test_a_restore_in_place_comes_behind_what_writes_the_tensor():
    """The tensor is an output of another binding's run, which is in flight."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_saved import bind, floats, value
from test_states import count
assert setting(0, b"race", b"count") == 0
right = 0
for number in range(5):
    binding, stream = count(PLACE, mode="in_place"), iobind.Stream(PLACE)
    state = binding.save()
    setting(0, b"delay_compute", b"every:1,us:3000")
    out = binding.session.bind({"s": floats(5), "x": floats(2)}).run(stream=stream)["s2"]
    setting(0, b"delay_compute", b"0")
    binding.set_input("s", out)
    binding.restore(state)
    stream.synchronize()
    right += value(out) == 0 and value(binding.run()["s2"]) == 1
print(right, get(0, b"races"))
"""
    assert child(code) == "5 0\n"


def test_a_save_waits_for_no_stream():
    """The run would take longer than the test may."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_states import count
binding, stream = count(PLACE), iobind.Stream(PLACE)
setting(0, b"delay_compute", b"every:1,us:1000000000")
binding.run(stream=stream)
state = binding.save()
print(stream.record().query(), state, state["s"].shape, flush=True)
os._exit(0)
"""
    assert child(code) == "False <iobind.State of s, 4 bytes> (1,)\n"


def test_a_state_of_a_run_that_fails(tmp_path):
    """Whoever uses it receives the failure, each time, or the save if it has failed by then; the one before is there, to go back to."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_saved import bind, counter_model, run, value
FILE = sys.argv[1] + "/state"
for mode in (None, "move", "swap", "in_place"):
    binding, stream = bind(iobind.Session(counter_model(), PLACE, identify=True), mode), iobind.Stream(PLACE)
    run(binding, 2, stream)
    before = binding.save()
    assert setting(0, b"fail_compute", b"1,late") == 0
    binding.run(stream=stream)
    failed, branch = [], bind(binding.session, mode)
    try:
        state = binding.save()
    except iobind.OrtError as error:
        failed = 6 * ["fail_compute" in str(error)]
    for use in [] if failed else 2 * [lambda: state["s"].numpy(), lambda: state.save(FILE), lambda: (branch.restore(state), branch.run())]:
        try:
            use()
        except iobind.OrtError as error:
            failed.append("fail_compute" in str(error))
    try:
        stream.synchronize()
    except iobind.OrtError:
        pass
    binding.restore(before)
    print(failed, os.path.exists(FILE), run(binding))
"""
    assert child("import sys\n" + code, tmp_path) == f"{[True] * 6} False 3.0\n" * 4


# ---- in a file

@pytest.mark.parametrize("mode", MODES)
def test_a_state_in_a_file(device, tmp_path, mode):
    file = tmp_path / "model.onnx"
    file.write_bytes(counter_model())
    session = iobind.Session(file, device=device)
    binding = bind(session, mode)
    run(binding, 3)
    path = tmp_path / "\u00e4 state"
    binding.save().save(path)
    run(binding)
    binding.save().save(str(path))
    assert run(binding) == 5
    with session.load_state(path) as state:
        assert list(state) == ["s"] and value(state["s"]) == 4 and state["s"].read_only and state["s"].device == session.inputs[0].device
        binding.restore(state)
    assert run(binding) == 5
    other = bind(iobind.Session(str(file), device="cpu"), mode)
    loaded = other.session.load_state(str(path))
    assert (loaded.device_spec, loaded.ort_version) == (binding.save().device_spec, iobind.info()["ort_version"])
    other.restore(loaded)
    assert run(other) == 5
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.onnx", "\u00e4 state"]


def test_a_state_for_another_process(tmp_path):
    """A session of the same bytes is of the same model, in a file or in memory."""
    (tmp_path / "model.onnx").write_bytes(counter_model())
    binding = bind(iobind.Session(counter_model(), device="vdev", identify=True))
    run(binding, 6)
    binding.save().save(tmp_path / "state")
    code = SMALL + """
import sys
from test_saved import bind, run
binding = bind(iobind.Session(sys.argv[1] + "/model.onnx"))
binding.restore(binding.session.load_state(sys.argv[1] + "/state"))
print(run(binding))
"""
    assert child(code, tmp_path) == "7.0\n"


DAMAGE = {
    "a bit of the mark": lambda data: flipped(data, 3),
    "a bit of the header": lambda data: flipped(data, 60),
    "a bit of the last tensor": lambda data: flipped(data, len(data.rstrip(b"\0")) - 1),
    "the end": lambda data: data[:-1],
    "all but the mark": lambda data: data[:8],
    "everything": lambda data: b"",
    "more behind it": lambda data: data + b"more",
}


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file(tmp_path, damage):
    session = iobind.Session(counter_model(), identify=True)
    binding, path = bind(session), tmp_path / "state"
    run(binding)
    binding.save().save(path)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(iobind.FileError, match="^load_state: .*state") as caught:
        session.load_state(path)
    assert isinstance(caught.value, OSError) and str(path) in str(caught.value)


def test_files_that_are_refused(tmp_path):
    session = iobind.Session(counter_model(), identify=True)
    state, path = bind(session).save(), tmp_path / "state"
    state.save(path)
    with pytest.raises(iobind.FileError, match="^load_state: .* is the state of another model"):
        iobind.Session(add(), identify=True).load_state(path)
    with pytest.raises(iobind.FileNotFound, match="^load_state: no such file or directory") as caught:
        session.load_state(tmp_path / "missing")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(iobind.FileError, match="^save: .* cannot be written"):
        state.save(tmp_path / "no" / "state")
    unknown = iobind.Session(counter_model())
    for call, name in ((lambda: bind(unknown).save().save(path), "save"), (lambda: unknown.load_state(path), "load_state")):
        with pytest.raises(iobind.NotSupported, match=f"^{name}: .* with identify=True$"):
            call()
    for wrong in (None, 5):
        with pytest.raises(iobind.InvalidArgument, match="^save: path: expected a path, got"):
            state.save(wrong)
        with pytest.raises(iobind.InvalidArgument, match="^load_state: path: expected a path, got"):
            session.load_state(wrong)
    with pytest.raises(ValueError, match="null byte"):
        state.save("a\0b")
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


def test_a_model_s_file_that_has_changed(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(counter_model())
    state = bind(iobind.Session(file)).save()
    file.write_bytes(add())
    with pytest.raises(iobind.FileError, match="^save: .*model.onnx"):
        state.save(tmp_path / "state")


# ---- refused, closed, collected

def test_what_is_refused():
    binding = count("vdev")
    free = binding.session.bind({"s": floats(0), "x": floats(1)})
    with pytest.raises(iobind.InvalidState, match="^save: the binding carries nothing"):
        free.save()
    with pytest.raises(iobind.InvalidState, match="^save: 's' is not bound"):
        binding.session.bind(carry={"s2": "s"}).save()
    state = binding.save()
    with pytest.raises(iobind.InvalidArgument, match="^restore: the state has 1 carried inputs, the binding carries 0"):
        free.restore(state)
    for wrong in (None, "state", {"s": floats(1)}):
        with pytest.raises(iobind.InvalidArgument, match="^restore: expected an iobind.State, got "):
            binding.restore(wrong)
    for call in (lambda: iobind.State._save(state), lambda: state._restore_to(binding.session)):
        with pytest.raises(TypeError, match="expected an iobind.Binding"):
            call()
    assert run(binding) == 1


def test_a_closed_state():
    binding = count("vdev")
    run(binding, 2)
    with binding.save() as state:
        tensor = state["s"]
        binding.restore(state)
    assert repr(state) == "<iobind.State closed>" and list(state) == ["s"] and state.nbytes == 4
    for call in (lambda: state["s"], lambda: binding.restore(state), lambda: state.save("state")):
        with pytest.raises(iobind.InvalidState, match="^state: it is closed$"):
            call()
    state.close()
    assert value(tensor) == 2 and run(binding) == 3
    assert not pathlib.Path("state").exists()


def test_a_state_outlives_its_binding_and_session(tmp_path):
    with iobind.Session(counter_model(), device="vdev", identify=True) as session:
        binding = bind(session)
        run(binding, 2)
        state = binding.save()
        del binding
    gc.collect()
    state.save(tmp_path / "state")
    assert value(state["s"]) == 2
    with pytest.raises(iobind.InvalidState, match="^session: it is closed$"):
        session.load_state(tmp_path / "state")
    tensor = state["s"]
    del session, state
    gc.collect()
    assert value(tensor) == 2


def test_memory_of_states_is_freed():
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
import gc
from test_states import count
binding = count(PLACE)
for number in range(40):
    binding.run()
    state = binding.save()
    if number % 3 == 0:
        binding.restore(state)
    if number == 9:
        state = None
        before = get(0, b"live_bytes")
state = None
print(get(0, b"live_bytes") - before)
"""
    assert child(code) == "0\n"


def test_a_state_with_a_stream_is_collected():
    """The stream of runs in flight may have a program's attributes, which lead back."""
    stream = iobind.Stream("vdev")
    binding = count("vdev")
    binding.run(stream=stream)
    stream.back = binding.save(), Thing()
    gone = weakref.ref(stream.back[1])
    stream.synchronize()
    del stream, binding
    gc.collect()
    gc.collect()
    assert gone() is None


class Thing:
    pass


def test_a_closed_state_lets_its_stream_go():
    stream, binding = iobind.Stream("vdev"), count("vdev")
    binding.run(stream=stream)
    with binding.save() as state:
        stream.synchronize()
    gone = weakref.ref(stream)
    del stream, binding
    gc.collect()
    assert gone() is None and repr(state) == "<iobind.State closed>"


def test_threads_share_a_state():
    binding = count("vdev")
    run(binding, 3)
    state, numbers = binding.save(), []

    def work():
        branch = bind(binding.session)
        for _ in range(20):
            branch.restore(state)
            numbers.append((run(branch, 2), value(state["s"])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == [(5, 3)] * 80


def test_another_thread_s_run():
    code = SMALL + """
import threading
from support import model, FLOAT
binding = iobind.Session(slow(60)).bind({"x": numpy.zeros((64, 64), "f4")}, carry={"y": "x"})
state = binding.save()

def failure(call):
    try:
        call()
    except iobind.Error as error:
        return error

def run():
    while "another thread" in str(error := failure(binding.run)):  # the check below was in flight
        pass
    print(type(error).__name__)

thread = threading.Thread(target=run)
thread.start()
while failure(binding.check) is None:
    pass
print(str(failure(binding.save)) == str(failure(lambda: binding.restore(state))), "another thread" in str(failure(binding.save)))
while thread.is_alive():
    binding.cancel()
    thread.join(0.05)
"""
    assert child(code) == "True True\nCancelled\n"
