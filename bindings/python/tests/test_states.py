"""States that are carried in a mode that was left open: what a program still references is never overwritten, and what it drops costs nothing."""

import gc
import threading
import weakref

import numpy
import pytest

import iobind
from support import DEVICE, FLOAT, SMALL, child, foreign, model, needs_graphs

# The same program over models that say different things of the state's dims: a swap, a move, a swap.
DIMS = {"fixed": ([1], [1]), "open": ([None], [None]), "two names": (["n"], ["m"]), "one name": (["n"], ["n"]), "no shape": (None, None)}


def floats(*values):
    return numpy.array(values, numpy.float32)


def count(device, dims="fixed", mode=None):
    """A binding whose run number N leaves N as its state."""
    before, after = DIMS[dims]
    session = iobind.Session(model([("Add", ["s", "x"], ["s2"])], [("s", FLOAT, before), ("x", FLOAT, [1])], [("s2", FLOAT, after)]), device=device)
    return session.bind({"s": floats(0), "x": floats(1)}, carry={"s2": "s"}, carry_mode=mode)


def parted(tensor):
    return tensor.reshape(1, 1) if tensor.device.spec.startswith("webgpu") else tensor[:1]


def through_another_binding(tensor):
    """Which reads it when it runs."""
    session = iobind.Session(model([("Identity", ["x"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1])]), device=str(tensor.device).partition(":")[0])
    binding = session.bind({"x": tensor})
    return lambda: binding.run()["y"]


# How a program holds the state of a run, and how it gets the number out of that.
HELD = {
    "outputs": (lambda out: out, lambda out: out["s2"].numpy()),
    "tensor": (lambda out: out["s2"], lambda tensor: tensor.numpy()),
    "array": (lambda out: out["s2"].numpy(), lambda array: array),
    "part": (lambda out: parted(out["s2"]), lambda part: part.numpy()),
    "DLPack": (lambda out: iobind.from_dlpack(out["s2"]), lambda tensor: tensor.numpy()),
    "DLPack of another library": (lambda out: iobind.from_dlpack(foreign(out["s2"])), lambda tensor: tensor.numpy()),
    "another binding": (lambda out: through_another_binding(out["s2"]), lambda run: run().numpy()),
    "taken": (lambda out: out["s2"], lambda tensor: tensor.numpy()),
}


def hold_all(binding, how):
    hold, look = HELD[how]
    held = []
    for _ in range(6):
        out = binding.run()
        held.append(binding.take("s2") if how == "taken" else hold(out))
        del out
        gc.collect()
    return [look(one).ravel().tolist() for one in held]


@pytest.mark.parametrize("how", HELD)
def test_what_is_referenced_is_not_overwritten(device, how):
    assert hold_all(count(device), how) == [[1], [2], [3], [4], [5], [6]]


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("how", ["outputs", "tensor"])
def test_whatever_dims_the_model_declares(how, dims):
    assert hold_all(count("vdev", dims), how) == [[1], [2], [3], [4], [5], [6]]


def test_a_mode_that_is_asked_for_overwrites(device):
    binding = count(device, mode="swap")
    assert [tensor.numpy().tolist() for tensor in [binding.run()["s2"] for _ in range(4)]] == [[3], [4], [3], [4]]


@pytest.mark.parametrize("kept", [[0], [1], [2, 3], [0, 5]], ids=str)
def test_some_results_are_kept(device, kept):
    """The rest are dropped at once; the runs go on from the right state either way."""
    binding, held = count(device), {}
    for number in range(8):
        out = binding.run()
        state = out["s2"]
        if number in kept:
            held[number] = state
    assert [held[number].numpy().tolist() for number in kept] == [[number + 1] for number in kept] and state.numpy().tolist() == [8]


@pytest.mark.parametrize("dims", ["fixed", "open"])
def test_an_input_that_is_bound_again_or_updated_leaves_results(device, dims):
    for change in (lambda binding: binding.bind({"s": floats(10)}), lambda binding: binding.update("s", floats(10)),
                   lambda binding: binding.set_input("s", iobind.tensor(floats(10), binding.session.inputs[0].device))):
        for ran_before in (0, 1, 2):
            binding = count(device, dims)
            held = [binding.run()["s2"] for _ in range(ran_before)]
            last = binding.run()
            change(binding)
            held += [binding.run()["s2"] for _ in range(3)]
            assert last["s2"].numpy().tolist() == [ran_before + 1]
            assert [one.numpy().tolist() for one in held] == [[n] for n in [*range(1, ran_before + 1), 11, 12, 13]]


def test_an_update_of_a_state_that_nobody_references_writes_in_place():
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_states import count, floats
binding = count(PLACE)
binding.run()["s2"]
before = get(0, b"allocations")
for number in range(4):
    binding.update("s", floats(10))
    binding.run()
print(get(0, b"allocations") - before, binding.run()["s2"].numpy().tolist())
"""
    assert child(code) == "1 [12.0]\n"  # the second of the two buffers


LOOPS = {
    "nothing is fetched": "binding.run()",
    "outputs in a variable": "out = binding.run()",
    "a tensor in a variable": "out = binding.run(); state = out['s2']",
    "an array in a variable": "out = binding.run(); array = out['s2'].numpy()",
    "an array of a result that is dropped": "array = binding.run()['s2'].numpy()",
    "on a stream": "out = binding.run(stream=stream); state = out['s2']",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_drops_its_results_allocates_nothing(loop):
    """Counted by the device."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + f"""
from test_states import count
binding, stream = count(PLACE), iobind.Stream(PLACE)
for _ in range(3):
    {LOOPS[loop]}
before = get(0, b"allocations")
for _ in range(10):
    {LOOPS[loop]}
stream.synchronize()
print(get(0, b"allocations") - before, binding.run()["s2"].numpy().tolist())
"""
    assert child(code) == "0 [14.0]\n"


def test_states_of_runs_on_a_stream():
    """Held while later runs are queued, with delays: each use comes behind its run, and nothing races."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_states import count
assert setting(0, b"race", b"count") == 0
right = 0
for keeps in (1, 2, 3):
    binding, stream, held = count(PLACE), iobind.Stream(PLACE), []
    for number in range(8):
        setting(0, b"delay_compute", b"every:1,us:%d" % random.randrange(1, 1000))
        held.append(binding.run(stream=stream)["s2"])
        if number % keeps:
            held[-1] = None
    setting(0, b"delay_compute", b"0")
    right += all(one is None or one.numpy().tolist() == [number + 1] for number, one in enumerate(held))
    stream.synchronize()
print(right, get(0, b"races"))
"""
    assert child(code) == "3 0\n"


def test_a_copy_on_a_stream_reads_the_state_that_it_was_given():
    """The tensor is dropped, and the copy is still to come."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_states import count
assert setting(0, b"race", b"count") == 0
binding, stream, other = count(PLACE), iobind.Stream(PLACE), iobind.Stream(PLACE)
targets = [iobind.empty(1, device=PLACE + "/pinned") for _ in range(6)]
for target in targets:
    out = binding.run()
    setting(0, b"delay_copy", b"every:1,us:3000")
    target.copy_from(out["s2"], stream=other)
    setting(0, b"delay_copy", b"0")
    del out
other.synchronize()
print([target.numpy().tolist()[0] for target in targets], get(0, b"races"))
"""
    assert child(code) == "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] 0\n"


def test_a_run_that_fails_between():
    """The next one begins with the same state again, and no result that is held has changed."""
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_states import count
for on_stream in (False, True):
    binding, stream, held, failed = count(PLACE), iobind.Stream(PLACE) if on_stream else None, [], 0
    for number in range(9):
        if number in (1, 4, 5):
            assert setting(0, b"fail_compute", b"1") == 0
        try:
            out = binding.run(stream=stream)
            state = out["s2"]
            state.numpy()
            held.append(state)
        except iobind.Error:
            failed += 1
            setting(0, b"fail_compute", b"0")
            if stream is not None:
                try:
                    stream.synchronize()
                except iobind.Error:
                    pass
    print(failed, [one.numpy().tolist()[0] for one in held])
"""
    assert child(code) == "3 [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n" * 2


def test_threads_each_with_a_binding(device):
    wrong = []

    def work():
        binding = count(device)
        held = [binding.run()["s2"] for _ in range(20)]
        if [one.numpy().tolist()[0] for one in held] != list(range(1, 21)):
            wrong.append(held)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_with_graphs_memory_is_that_of_the_capture():
    """As REUSE, which is the mode of all outputs then: the page says so."""
    needs_graphs()
    session = iobind.Session(model([("Add", ["s", "x"], ["s2"])], [("s", FLOAT, [1]), ("x", FLOAT, [1])], [("s2", FLOAT, [1])]),
                             device="vdev", graphs=2)
    binding = session.bind({"s": floats(0), "x": floats(1)}, carry={"s2": "s"})
    for _ in range(6):
        state = binding.run()["s2"]
    assert state.numpy().tolist() == [6]


def test_what_holds_a_state_is_collected():
    """The binding knows the last two states, which a program's attributes may lead back from."""
    binding = count("cpu")
    for _ in range(3):
        binding.run()["s2"]
    binding.session.back = binding
    gone = weakref.ref(binding)
    del binding
    gc.collect()
    gc.collect()
    assert gone() is None
