"""What a run gives: its names, how long it is kept, what is there when the binding is gone."""

import numpy
import pytest
from onnx import numpy_helper

import iobind
from support import FLOAT, counter, model, needs_graphs, twice

f32 = numpy.float32


def floats(*values):
    return numpy.array(values, f32)


def count(device, kind):
    """A binding whose run number N gives N: as a carried state, or from an input that goes up before each run."""
    session = iobind.Session(counter(), device=device)
    inputs = {"x": floats(1), "state": floats(0), "past.0.key": floats(7)}
    if kind in ("move", "swap", "in_place"):
        return session.bind(inputs, outputs={"present.0.key": None}, carry={"next": "state"}, carry_mode=kind)
    tensor = iobind.empty(1, device=session.outputs[0].device)
    modes = {"FRESH": tensor.device, "cpu": "cpu", "REUSE": iobind.REUSE, "a tensor": tensor, "in_place()": iobind.in_place(tensor)}
    return session.bind(inputs, outputs={"next": modes[kind], "present.0.key": None})


def run(binding, number, stream=None):
    if not binding._carried:
        binding["state"] = floats(number - 1)
    return binding.run(stream)


# What run 1 gave, looked at behind 0 to 3 further runs: a tensor that was fetched, that was taken; and whether its Outputs still have it.
KEPT = {
    "FRESH": ([1, 1, 1, 1], [1, 1, 1, 1], True),
    "cpu": ([1, 1, 1, 1], [1, 1, 1, 1], True),
    "move": ([1, 1, 1, 1], [1, 1, 1, 1], True),
    "swap": ([1, 1, 3, 3], [1, 1, 1, 1], False),
    "REUSE": ([1, 2, 3, 4], [1, 1, 1, 1], False),
    "in_place": ([1, 2, 3, 4], [1, 2, 3, 4], False),
    "a tensor": ([1, 2, 3, 4], [1, 2, 3, 4], False),
    "in_place()": ([1, 2, 3, 4], [1, 2, 3, 4], False),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_later_runs_overwrite(device, kind):
    fetched, taken, stays = KEPT[kind]
    for get, expected in ((lambda binding, out: out["next"], fetched), (lambda binding, out: binding.take("next"), taken),
                          (lambda binding, out: out["next"].copy(), [1, 1, 1, 1])):
        seen = []
        for further in range(4):
            binding = count(device, kind)
            tensor = get(binding, run(binding, 1))
            for number in range(further):
                run(binding, 2 + number)
            seen.append(tensor.numpy().tolist()[0])
        assert seen == expected
    binding = count(device, kind)
    out = run(binding, 1)
    run(binding, 2)
    if stays:
        assert out["next"].numpy().tolist() == [1]
    else:
        with pytest.raises(iobind.InvalidState, match="'next' was replaced by a later run"):
            out["next"]


def test_a_swapped_state_that_is_bound_again(device):
    binding = count(device, "swap")
    state = run(binding, 1)["next"]
    binding["state"] = floats(50)
    assert state.numpy().tolist() == [1]
    run(binding, 2)
    assert state.numpy().tolist() == [51]


STATE_DIMS = {"fixed": [1], "named": ["n"], "open": [None], "of other names": (["n"], ["m"])}


def step(dims, device):
    """A binding whose run number N gives N, with a state that is carried without a mode."""
    given, made = dims if isinstance(dims, tuple) else (dims, dims)
    one = numpy_helper.from_array(floats(1), "one")
    session = iobind.Session(model([("Add", ["s", "one"], ["s2"])], [("s", FLOAT, given)], [("s2", FLOAT, made)], [one]), device=device)
    return session.bind({"s": floats(0)}, carry={"s2": "s"})


@pytest.mark.parametrize("dims", STATE_DIMS)
def test_states_that_are_held_are_not_overwritten(device, dims):
    """Without a mode the same program gives the same results, however the model declares its dims."""
    binding = step(STATE_DIMS[dims], device)
    states = [binding.run()["s2"] for _ in range(6)]
    assert [state.numpy().tolist() for state in states] == [[1], [2], [3], [4], [5], [6]]


@pytest.mark.parametrize("fetch", [False, True], ids=["dropped", "fetched and dropped"])
def test_states_that_nobody_holds_allocate_nothing(device, fetch):
    binding, counters = step([1], device), iobind.device(device).counters

    def loop(runs):
        for _ in range(runs):
            out = binding.run()
            if fetch:
                out["s2"]

    loop(4)
    before = counters()["allocation_count"]
    loop(10)
    assert counters()["allocation_count"] == before
    assert binding.run()["s2"].numpy().tolist() == [15]


@pytest.mark.parametrize("on_stream", [False, True], ids=["at once", "on a stream"])
@pytest.mark.parametrize("kind", KEPT)
def test_outputs_outlive_their_binding(device, kind, on_stream):
    stream = iobind.Stream(device) if on_stream else None
    for _ in range(3):
        out = run(count(device, kind), 1, stream)
        assert out["next"].numpy().tolist() == [1] and dict(out).keys() == {"next"}
    binding = count(device, kind)
    run(binding, 1, stream)
    if on_stream:
        stream.synchronize()
    out = run(binding, 2, stream)
    del binding
    assert out["next"].numpy().tolist() == [2]


def test_an_output_that_is_an_array_outlives_its_binding():
    array = numpy.zeros(1, f32)
    out = iobind.Session(twice()).bind({"x": floats(3)}, outputs={"y": array}).run()
    assert out["y"].numpy().tolist() == array.tolist() == [6]


def test_a_binding_that_does_not_fetch_as_it_goes():
    class Careless(iobind.Binding):
        def __del__(self):
            pass

    binding = Careless(iobind.Session(twice()))
    binding["x"] = floats(3)
    out = binding.run()
    del binding
    with pytest.raises(iobind.InvalidState, match="'y' was lost with its binding"):
        out["y"]


def two():
    return model([("Add", ["x", "x"], ["y"]), ("Neg", ["x"], ["z"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"]), ("z", FLOAT, ["n"])])


def test_a_bound_tensor_is_taken_itself(device):
    """What a later run on a stream writes into it, whoever takes it over by DLPack comes behind."""
    tensor = iobind.empty(1, device=device)
    binding = iobind.Session(two(), device=device).bind({"x": floats(3)}, outputs={"y": tensor})
    binding.run()
    assert binding.take("y") is tensor and tensor.numpy().tolist() == [6]


@pytest.mark.parametrize("key, error", [("q", iobind.NotFound), ("y\0", KeyError), ("\udc80", iobind.NameNotFound), (0, TypeError), ([], TypeError)])
def test_what_is_not_the_name_of_an_output(key, error):
    with pytest.raises(error):
        iobind.Session(two()).bind({"x": floats(3)}).run()[key]


def test_an_output_that_is_not_bound_is_not_there(device):
    binding = iobind.Session(two(), device=device).bind({"x": floats(3)}, outputs={"z": None})
    outs = [binding.run()]
    outs[0]["y"]
    for change in (binding.run, lambda: binding.fresh("z"), binding.clear):
        change()
        out = outs[-1]
        assert out.keys() == {"y"} and list(out) == ["y"] and len(out) == 1 and "z" not in out and repr(out) == "<iobind.Outputs y>"
        assert [value.numpy().tolist() for value in out.values()] == [[6]] and dict(out).keys() == {"y"} and [name for name, _ in out.items()] == ["y"]
        with pytest.raises(iobind.InvalidState, match="'z' is not bound"):
            out["z"]
        binding.bind({"x": floats(3)}, outputs={"z": None})
        outs.append(binding.run())
    with pytest.raises(iobind.InvalidState, match="'z' is not bound"):
        outs[-1]["z"]
    binding.fresh("z")
    assert dict(binding.run()).keys() == {"y", "z"} and [value.numpy().tolist() for value in binding.run().values()] == [[6], [-3]]
    binding.set_output("z", None)
    binding.clear()
    binding["x"] = floats(1)
    out = binding.run()
    assert "z" in out and len(out) == 2


def test_a_carried_output_is_bound():
    binding = iobind.Session(two()).bind({"x": floats(1)}, outputs={"z": None, "y": None})
    binding.carry("z", "x")
    assert {name: value.numpy().tolist() for name, value in binding.run().items()} == {"z": [-1]}


def test_outputs_of_graphs_end_with_the_next_run():
    """A replay writes where the one before it wrote."""
    needs_graphs()
    binding = iobind.Session(twice(), device="vdev", graphs=1).bind({"x": iobind.tensor(floats(1, 2), "vdev")})
    out = binding.run()
    binding.run()
    with pytest.raises(iobind.InvalidState, match="was replaced by a later run"):
        out["y"]
    binding.clear()
    binding["x"] = iobind.tensor(floats(1, 2), "vdev")
    out = binding.run()
    taken = binding.take("y")
    binding.run()
    assert taken.numpy().tolist() == [2, 4]
