"""Bindings on every device: what is bound, run, kept, carried, refused."""

import gc
import threading
import weakref

import numpy
import onnx
import pytest

import iobind
from support import FLOAT, INT64, UINT8, add, broadcast, counter, model, needs_graphs, same, slow, twice

f32 = numpy.float32


def floats(*values):
    return numpy.array(values, f32)


def test_the_example_of_the_module(device):
    session = iobind.Session(add(), device=device)
    binding = session.bind({"x": floats(1, 2), "y": floats(3, 4)}, outputs={"z": "cpu"})
    assert binding.run()["z"].numpy().tolist() == [4, 6]
    binding["x"] = floats(5, 6)
    assert binding.run()["z"].numpy().tolist() == [8, 10]
    binding["x"], binding["y"] = floats(1, 1, 1), floats(2, 2, 2)  # another dim
    assert binding.run()["z"].numpy().tolist() == [3, 3, 3]


def test_run_has_onnxruntimes_signature(device):
    session = iobind.Session(add(), device=device)
    z, = session.run(None, {"x": floats(1), "y": floats(2)})
    assert z.tolist() == [3] and z.dtype == f32
    assert session.run(["z", "z"], {"x": floats(1), "y": floats(2)})[1].tolist() == [3]
    assert session.run(None, {"x": floats(1), "y": floats(2)}, None)[0].tolist() == [3]
    with pytest.raises(iobind.NotSupported, match="set_run_options"):
        session.run(None, {"x": floats(1), "y": floats(2)}, object())
    with pytest.raises(iobind.NotFound, match="'q'"):
        session.run(["q"], {"x": floats(1), "y": floats(2)})
    with pytest.raises(iobind.InvalidArgument, match="'y' is missing"):
        session.run(None, {"x": floats(1)})
    with pytest.raises(iobind.NotFound, match="'w'"):
        session.run(None, {"x": floats(1), "y": floats(2), "w": floats(1)})
    with pytest.raises(iobind.ShapeError, match="^run: .*'[xy]'"):
        session.run(None, {"x": floats(1), "y": floats(2, 3, 4).reshape(1, 3)})
    with pytest.raises(iobind.Error, match="^run: "):
        session.run(None, {"x": floats(1, 2), "y": floats(2, 3, 4)})
    assert session.run(None, {"x": iobind.tensor(floats(1)), "y": floats(2)})[0].tolist() == [3]
    if device != "cpu":  # where it is read
        there = iobind.tensor(floats(1), device)
        assert session.run(None, {"x": there, "y": floats(2)})[0].tolist() == [3]
        with pytest.raises(iobind.DeviceError, match="^run: 'x'"):
            iobind.Session(add()).run(None, {"x": there, "y": floats(2)})


@pytest.mark.parametrize("where", ["here", "in a thread"])
def test_a_run_takes_dims_that_the_model_broadcasts(device, where):
    """They have one name in the model, and differ: onnxruntime takes that, see test_process."""
    session, results = iobind.Session(broadcast(), device=device), []

    def run():
        results.extend(session.run(None, {"x": floats(1), "y": floats(2, 3, 4)}))

    if where == "here":
        run()
    else:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert [z.tolist() for z in results] == [[3, 4, 5]]


def test_a_conversion_changes_no_number():
    whole, real = (iobind.Session(model([("Identity", ["x"], ["y"])], [("x", dtype, None)], [("y", dtype, None)])) for dtype in (INT64, FLOAT))
    for session, value in ((whole, 1.5), (whole, [1, 2.5]), (whole, None), (real, None), (real, [1, None]), (real, "1"), (real, ["a"])):
        with pytest.raises(iobind.DTypeError, match="'x': expected numbers"):
            session.bind({"x": value})
        with pytest.raises(iobind.DTypeError, match="'x': expected numbers"):
            session.run(None, {"x": value})
    with pytest.raises(iobind.DTypeError):
        iobind.tensor([1.5], dtype="int64")
    for session, value in ((whole, 3), (whole, [[1, True]]), (whole, []), (real, [1, 2.5]), (real, 7)):
        assert session.run(None, {"x": value})[0].tolist() == value


def test_an_update_has_the_dims_of_what_is_bound(device):
    session = iobind.Session(model([("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", "m"])], [("y", FLOAT, ["n", "m"])]), device=device)
    there = iobind.tensor(numpy.zeros((2, 3), f32), session.inputs[0].device)
    for value in (numpy.zeros((2, 3), f32), there, iobind.live(numpy.zeros((2, 3), f32))):
        binding = session.bind({"x": value})
        with pytest.raises(iobind.ShapeError, match=r"^update: 'x': expected \[2, 3\], got \[3, 2\]"):
            binding.update("x", numpy.ones((3, 2), f32))
        with pytest.raises(iobind.InvalidArgument, match="expected 24 bytes, got 16"):
            binding.update("x", numpy.ones((2, 2), f32))
        binding.update("x", numpy.ones((2, 3), f32))
        assert binding.run()["y"].numpy().tolist() == [[1, 1, 1]] * 2
    binding.clear()
    with pytest.raises(iobind.InvalidState, match="'x' is not bound"):
        binding.update("x", numpy.ones((3, 2), f32))


def test_an_update_of_a_state_that_grew():
    binding = iobind.Session(counter()).bind({"x": floats(1), "state": floats(0), "past.0.key": floats(5)}, carry={"present.0.key": "past.0.key"})
    binding.run()
    binding.update("past.0.key", floats(6, 7))
    assert binding.run()["present.0.key"].numpy().tolist() == [6, 7, 1]


def test_dims_of_any_name():
    session = iobind.Session(model([("Relu", ["name"], ["y"])], [("name", FLOAT, ["self", "name"])], [("y", FLOAT, ["self", "name"])]))
    assert session.empty("name", self=2, name=3).shape == (2, 3)


@pytest.mark.parametrize("how", ["a sequence", "graphs"])
def test_a_single_run_of_what_a_binding_does_not_take(how):
    if how == "a sequence":
        sequence = onnx.helper.make_tensor_sequence_value_info("s", FLOAT, None)
        made = onnx.load_from_string(model([("SequenceConstruct", ["x"], ["s"]), ("Add", ["x", "x"], ["y"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])]))
        made.graph.output.append(sequence)
        assert [None if one is None else one.tolist() for one in iobind.Session(made.SerializeToString()).run(None, {"x": floats(1)})] == [[2], None]
    else:
        needs_graphs()
        session = iobind.Session(twice(), device="vdev", graphs=1)
        assert [session.run(None, {"x": floats(number)})[0].tolist() for number in range(3)] == [[0], [2], [4]]


def test_a_result_that_is_kept_is_not_overwritten(device):
    binding = iobind.Session(twice(), device=device).bind({"x": floats(1)})
    first = binding.run()
    binding["x"] = floats(2)
    second = binding.run()
    kept = second["y"]
    binding["x"] = floats(3)
    third = binding.run()
    assert [out["y"].numpy().tolist() for out in (first, second, third)] == [[2], [4], [6]]
    del binding
    assert kept.numpy().tolist() == [4] and third["y"].numpy().tolist() == [6]


def test_outputs_of_every_kind(device):
    session = iobind.Session(twice(), device=device)
    binding = session.bind({"x": floats(1, 2)}, outputs={"y": iobind.REUSE("cpu")})
    first = binding.run()["y"]
    taken = binding.take("y")
    binding["x"] = floats(3, 4)
    assert binding.run()["y"].numpy().tolist() == [6, 8]
    assert taken.numpy().tolist() == first.numpy().tolist() == [2, 4]
    target = numpy.zeros(2, f32)
    if device == "cpu":
        binding.set_output("y", target)
        assert binding.run()["y"].numpy().tolist() == target.tolist() == [6, 8]
    fixed = iobind.empty(2, device=session.outputs[0].device)
    binding.set_output("y", fixed)
    assert binding.run()["y"] is fixed and fixed.numpy().tolist() == [6, 8]
    binding.fresh("y")
    assert binding.run()["y"] is not fixed
    binding.set_output("y", None)
    with pytest.raises(iobind.InvalidState):
        binding.run()


def test_live_and_resident(device):
    session = iobind.Session(add(), device=device)
    shown, place = floats(1, 1), session.inputs[1].device
    resident = iobind.tensor(floats(5, 5), place)
    binding = session.bind({"x": iobind.live(shown), "y": resident}, outputs={"z": "cpu"})
    assert binding.run()["z"].numpy().tolist() == [6, 6]
    shown[:] = 7
    resident.write(floats(1, 2))
    assert binding.run()["z"].numpy().tolist() == [8, 9]


def test_what_is_read_in_place_is_not_written_if_it_must_not_be(device):
    locked = floats(1, 2)
    locked.flags.writeable = False
    for dtype, source, new in ((FLOAT, locked, floats(7, 7)), (UINT8, b"ab", b"zz")):
        binding = iobind.Session(same(dtype), device=device).bind({"x": iobind.live(source)})
        assert binding.run()["y"].numpy().tolist() == list(source)
        with pytest.raises(iobind.InvalidArgument, match="read-only"):
            binding.update("x", new)
        assert list(source) == binding.run()["y"].numpy().tolist() != list(new)


def test_a_snapshot_does_not_follow_its_array(device):
    source = floats(1)
    binding = iobind.Session(twice(), device=device).bind({"x": source}, outputs={"y": "cpu"})
    source[:] = 9
    assert binding.run()["y"].numpy().tolist() == [2]


def test_carry(device):
    session = iobind.Session(counter(), device=device)
    past = session.empty("past.0.key", past=0)
    binding = session.bind({"x": floats(1), "state": floats(0), "past.0.key": past}, outputs={"next": "cpu"},
                           carry={"present.0.key": "past.0.key"})
    for step in range(5):
        binding["x"] = floats(step)
        out = binding.run()
    assert out["present.0.key"].numpy().tolist() == [0, 1, 2, 3, 4]
    assert out["next"].numpy().tolist() == [4]
    binding["past.0.key"] = numpy.zeros(0, f32)  # it starts again
    assert binding.run()["present.0.key"].numpy().tolist() == [4]
    binding["past.0.key"] = floats(7, 8)
    assert binding.run()["present.0.key"].numpy().tolist() == [7, 8, 4]


@pytest.mark.parametrize("where", ["cpu", iobind.REUSE, None], ids=["cpu", "REUSE", "None"])
def test_a_carried_output_goes_nowhere_else(where):
    binding = iobind.Session(twice()).bind()
    with pytest.raises(iobind.InvalidArgument, match="'y' is in carry and in outputs"):
        binding.bind({"x": floats(1)}, carry={"y": "x"}, outputs={"y": where})
    binding.bind({"x": floats(1)}, carry={"y": "x"})
    assert [binding.run()["y"].numpy().tolist() for _ in range(3)] == [[2], [4], [8]]


@pytest.mark.parametrize("mode", ["swap", "move", "in_place"])
def test_carry_modes(device, mode):
    session = iobind.Session(counter(), device=device)
    binding = session.bind({"x": floats(2), "past.0.key": floats(1)}, outputs={"present.0.key": None})
    binding.carry("next", "state", mode)
    binding["state"] = floats(10)
    for _ in range(3):
        out = binding.run()
    assert out["next"].numpy().tolist() == [16]
    binding["state"] = floats(0)
    assert binding.run()["next"].numpy().tolist() == [2]


def test_a_swap_that_is_asked_for_is_no_move(device):
    binding = iobind.Session(counter(), device=device).bind({"x": floats(1), "state": floats(0), "past.0.key": floats(5)},
                                                            carry={"present.0.key": "past.0.key"}, carry_mode="swap")
    for _ in range(2):
        with pytest.raises(iobind.ShapeError, match="present.0.key"):
            binding.run()
    binding.carry("present.0.key", "past.0.key")  # by itself it takes what fits the model
    for _ in range(2):
        out = binding.run()
    assert out["present.0.key"].numpy().tolist() == [5, 1, 1]


@pytest.mark.parametrize("dims", [[None], ["?"], ["p"], None], ids=str)
def test_a_state_whose_dims_nobody_names_may_grow(dims):
    grow = model([("Concat", ["past", "x"], ["present"], {"axis": 0})], [("x", FLOAT, [1]), ("past", FLOAT, dims)],
                 [("present", FLOAT, [None] if dims == ["p"] else dims)])
    binding = iobind.Session(grow).bind({"x": floats(1), "past": floats(5)}, carry={"present": "past"})
    for _ in range(2):
        out = binding.run()
    assert out["present"].numpy().tolist() == [5, 1, 1]


def test_streams(device):
    session = iobind.Session(twice(), device=device)
    stream = iobind.Stream(device)
    done = iobind.Event(device)
    binding = session.bind({"x": floats(1, 2)})
    out = binding.run(stream=stream, event=done)
    done.wait(timeout=60)
    done.wait()
    assert done.query() and out["y"].numpy().tolist() == [2, 4]
    binding["x"] = floats(3, 4)
    out = binding.run(stream)
    stream.synchronize()
    assert out["y"].numpy().tolist() == [6, 8]
    other = iobind.Stream(device)
    event = stream.record()
    other.wait(event)
    other.synchronize()
    target = numpy.zeros(2, f32)
    out["y"].read(target, stream=other)
    other.synchronize()
    assert target.tolist() == [6, 8]


def test_runs_that_are_queued(device):
    session = iobind.Session(counter(), device=device)
    stream = iobind.Stream(device)
    binding = session.bind({"x": floats(1), "state": floats(0), "past.0.key": floats(0)}, outputs={"present.0.key": None},
                           carry={"next": "state"})
    for _ in range(4):
        out = binding.run(stream=stream)
    assert out["next"].numpy().tolist() == [4]


def test_a_run_whose_event_is_of_another_device_is_refused():
    """As a whole: the state is that of the run before."""
    stream = iobind.Stream("vdev")
    binding = iobind.Session(counter(), device="vdev").bind({"x": floats(1), "state": floats(0), "past.0.key": floats(0)},
                                                            outputs={"present.0.key": None}, carry={"next": "state"})
    first = binding.run(stream=stream)["next"]
    with pytest.raises(iobind.DeviceError, match="^run: event: expected one of 'vdev:0', the stream's device, got one of 'cpu'"):
        binding.run(stream=stream, event=iobind.Event("cpu"))
    assert [first.tolist(), binding.run(stream=stream)["next"].tolist()] == [[1], [2]]


def test_what_is_refused(device):
    session = iobind.Session(add(), device=device)
    binding = session.bind()
    with pytest.raises(iobind.InvalidState, match="'x' is not bound"):
        binding.run()
    with pytest.raises(iobind.NotFound, match="'device'.*x, y"):
        binding["device"] = floats(1)
    with pytest.raises(iobind.DTypeError, match="float32.*float64"):
        binding["x"] = numpy.zeros(2)
    with pytest.raises(iobind.ShapeError):
        binding["x"] = numpy.zeros((2, 2), f32)
    with pytest.raises(iobind.ShapeError, match="ascontiguousarray"):
        binding["x"] = numpy.zeros(4, f32)[::2]
    with pytest.raises(TypeError):
        del binding["x"]
    binding["x"], binding["y"] = floats(1, 2), floats(1)
    with pytest.raises(iobind.ShapeError, match="n"):
        binding.check()
    with pytest.raises(iobind.ShapeError):
        binding.run()
    binding["y"] = [1, 2]  # Python's numbers become what the input is
    assert binding.run()["z"].numpy().tolist() == [2, 4]
    with pytest.raises(iobind.NotFound, match="'q'.*z"):
        binding.run()["q"]
    with pytest.raises(TypeError):
        binding.run()[0]
    with pytest.raises(iobind.InvalidArgument, match="expected a stream"):
        binding.run(stream=3)
    with pytest.raises(TypeError, match="stream and event"):
        binding.run(streem=None)
    with pytest.raises(TypeError):
        binding.run(None, None, None)
    with pytest.raises(iobind.NotFound):
        session.bind({"x": floats(1)}, outputs={"q": "cpu"})
    assert binding.run()["z"].numpy().tolist() == [2, 4]  # nothing of this has spoilt it


CHANGES = {"set_input": lambda binding: binding.set_input("x", iobind.empty(3, device="vdev")),
           "snapshot": lambda binding: binding._assign("x", floats(1, 2, 3)), "set_output": lambda binding: binding.set_output("y", "cpu"),
           "fresh": lambda binding: binding.fresh("y"), "carry": lambda binding: binding.carry("y", "x"),
           "clear": lambda binding: binding.clear(), "run": lambda binding: binding.run()}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_a_run_refuses_leaves_its_outputs(change):
    """On a stream of vdev's a run is in flight until the host has asked, however fast it is."""
    session = iobind.Session(twice(), device="vdev")
    binding = session.bind({"x": floats(1, 2)})
    stream = iobind.Stream("vdev")
    out = binding.run(stream=stream)
    for _ in range(2):
        with pytest.raises(iobind.InvalidState, match="in flight|in flight"):
            CHANGES[change](binding)
    assert out["y"].numpy().tolist() == [2, 4]
    binding["x"] = floats(3, 4)
    assert binding.run()["y"].numpy().tolist() == [6, 8]


def test_a_change_that_does_not_fit_leaves_the_outputs(device):
    session = iobind.Session(add(), device=device)
    binding = session.bind({"x": floats(1, 2), "y": floats(3, 4)}, outputs={"z": iobind.REUSE})
    out = binding.run()
    for wrong in (lambda: binding.set_output("z", numpy.zeros((2, 2), f32)), lambda: binding.set_output("z", iobind.empty(2, "int32")),
                  lambda: binding.carry("z", "x", "sideways"), lambda: binding._carry(0, 99, 0, False), lambda: binding._place_output(0, 9, None, 0),
                  lambda: binding.set_input("x", iobind.empty((2, 2), device=session.inputs[0].device))):
        with pytest.raises(iobind.Error):
            wrong()
    assert out["z"].numpy().tolist() == [4, 6]


REFUSED = {
    "an input behind an input": lambda b: b.bind({"x": floats(10, 20), "y": numpy.zeros(2)}),
    "an input of another name": lambda b: b.bind({"x": floats(10, 20), "q": floats(1)}),
    "an output behind an input": lambda b: b.bind({"x": floats(10, 20)}, outputs={"z": numpy.zeros((2, 2), f32)}),
    "an output of another name": lambda b: b.bind({"x": floats(10, 20)}, outputs={"q": None}),
    "an input behind an output": lambda b: b.bind({"x": numpy.zeros(2)}, outputs={"z": None}),
    "an input behind a state": lambda b: b.bind({"y": numpy.zeros(2)}, carry={"z": "x"}),
    "a state behind an input": lambda b: b.bind({"x": floats(10, 20)}, carry={"q": "x"}),
    "dims of other inputs": lambda b: b.bind({"x": floats(10, 20, 30), "y": numpy.zeros(3)}),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_bind_changes_nothing(device, refused):
    """All of a call, or nothing: inputs, outputs, carried states, and what the last run gave."""
    binding = iobind.Session(add(), device=device).bind({"x": floats(1, 2), "y": floats(3, 4)}, outputs={"z": iobind.REUSE})
    out = binding.run()
    with pytest.raises(iobind.Error):
        REFUSED[refused](binding)
    assert out["z"].numpy().tolist() == [4, 6]
    for _ in range(2):
        assert binding.run()["z"].numpy().tolist() == [4, 6]


def test_outputs_that_are_held_outlive_changes(device):
    """Another input, of other dims too, ends nothing; what is FRESH and held is fetched before a change of an output."""
    session = iobind.Session(twice(), device=device)
    binding = session.bind({"x": floats(1, 2)})
    out = binding.run()
    binding["x"] = floats(1, 2, 3)
    assert out["y"].numpy().tolist() == [2, 4]
    for change in (lambda: binding.set_output("y", "cpu"), binding.clear, lambda: binding.carry("y", "x")):
        binding["x"] = floats(5, 6)
        out = binding.run()
        change()
        assert out["y"].numpy().tolist() == [10, 12]
    binding.clear()
    binding.set_output("y", iobind.REUSE)
    binding["x"] = floats(5, 6)
    out = binding.run()
    binding.fresh("y")
    with pytest.raises(iobind.InvalidState, match="was replaced"):
        out["y"]


def test_a_refused_input_keeps_its_producer():
    """The tensor that stays bound is still ordered behind its producer; one that is replaced, or cleared, is let go."""
    class Producer:
        asked = 0

        def __init__(self):
            self.tensor = iobind.tensor(floats(1, 2), "vdev")

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, *, stream=None, **keywords):
            self.asked += 1
            return self.tensor.__dlpack__(**keywords)

    binding = iobind.Session(twice(), device="vdev").bind()
    producer = Producer()
    binding["x"] = iobind.live(producer)
    with pytest.raises(iobind.ShapeError):
        binding["x"] = numpy.zeros((2, 2), f32)
    before = producer.asked
    binding.run()
    assert producer.asked == before + 1
    for let_go in (lambda: binding.set_input("x", iobind.tensor(floats(3, 4), "vdev"), event=iobind.Event("vdev")), binding.clear):
        binding["x"] = iobind.live(producer)
        let_go()
        binding["x"] = iobind.tensor(floats(3, 4), "vdev")
        before = producer.asked
        assert binding.run()["y"].numpy().tolist() == [6, 8] and producer.asked == before and not binding._orders


def test_errors_have_a_status(tmp_path):
    with pytest.raises(iobind.FileError, match="a directory"):
        iobind.Session(tmp_path)
    with pytest.raises(iobind.NotFound) as caught:
        iobind.Session("/nowhere/m.onnx")
    assert caught.value.status == "NOT_FOUND" and isinstance(caught.value, LookupError) and isinstance(caught.value, iobind.Error)
    with pytest.raises(iobind.OrtError) as caught:
        iobind.Session(b"not a model")
    assert caught.value.ort_code != 0
    assert {cls.status for cls in [*iobind.Error.__subclasses__(), iobind.DeviceLost]} == {
        "INVALID_ARGUMENT", "INVALID_STATE", "NOT_FOUND", "NOT_SUPPORTED", "OUT_OF_MEMORY", "IO", "VERSION", "RUNTIME", "WRONG_DEVICE", "SHAPE",
        "DTYPE", "TIMEOUT", "CANCELLED", "INTERNAL", "DEVICE_LOST", "RESULT"}


def test_the_audit_says_what_crosses(device):
    session = iobind.Session(add(), device=device, placement=True)
    binding = session.bind({"x": iobind.live(floats(1, 2)), "y": floats(1, 2)}, outputs={"z": "cpu"})
    binding.run()
    audit = binding.audit()
    expected = 0 if device == "cpu" else 16
    assert audit.crossing_bytes == expected and [entry.name for entry in audit.entries[:3]] == ["x", "y", "z"]
    assert f"{expected} bytes" in str(audit) and "<table>" in audit._repr_html_() and str(audit) == repr(audit)
    listed = device == "cpu" or iobind.info()["ort_api_version"] > 24  # 1.24 leaves out what an EP plugin runs
    assert len(session.nodes()) >= (1 if listed else 0)


def test_counters(device):
    if device == "cpu":
        pytest.skip("nothing crosses a link")
    there = iobind.device(device)
    binding = iobind.Session(twice(), device=device).bind({"x": floats(1, 2)})
    before = there.counters()
    for _ in range(10):
        binding.run()
    assert there.counters()["upload_bytes"] == before["upload_bytes"]
    binding["x"] = floats(3, 4)
    assert there.counters()["upload_bytes"] == before["upload_bytes"] + 8


def test_one_thread_at_a_time():
    binding = iobind.Session(slow(1), threads=1).bind({"x": numpy.zeros((64, 64), f32)})
    caught = []

    def run():
        while not caught:
            try:
                binding.run()
            except iobind.InvalidState:  # the main thread was in check()
                continue
            except iobind.Cancelled as reason:
                caught.append(reason)

    thread = threading.Thread(target=run)
    thread.start()
    refused = 0
    while thread.is_alive() and not refused:
        try:
            binding.check()
        except iobind.InvalidState as reason:
            assert "another thread" in str(reason)
            refused += 1
    while thread.is_alive():
        binding.cancel()
        thread.join(0.01)
    assert refused and len(caught) == 1


class Owner:
    """Of memory, or of a stream: when that is freed, it calls the binding, whose call that frees it is not over."""

    def __init__(self, call, refused):
        self.call, self.refused = call, refused

    def __del__(self):
        try:
            self.call()
        except iobind.InvalidState as reason:
            self.refused.append(str(reason))


@pytest.mark.parametrize("change", [lambda binding: binding.set_output("y", "cpu"), lambda binding: binding.carry("y", "x"), iobind.Binding.clear])
def test_no_call_comes_in_while_a_change_is_half_done(change):
    memory, refused = floats(0, 0), []
    binding = iobind.Session(twice()).bind({"x": iobind.tensor(floats(1, 2))})
    owner = Owner(lambda: binding.set_output("y", None), refused)
    binding._set_output(0, iobind.wrap_address(memory.ctypes.data, [2], "float32", "cpu", owner=owner), 0)  # only C holds it
    del owner
    change(binding)
    assert len(refused) == 1 and "another thread" in refused[0]


def test_no_call_comes_in_before_a_run_is_over():
    refused, theirs = [], iobind.Stream("vdev")
    binding = iobind.Session(twice(), device="vdev").bind({"x": floats(1, 2)})
    ours = iobind.Stream.wrap("vdev", theirs.native, Owner(binding.check, refused))
    binding.run(stream=ours)
    ours.synchronize()
    del ours
    assert refused == []
    out = binding.run(stream=theirs)
    assert len(refused) == 1 and "another thread" in refused[0]
    assert out["y"].numpy().tolist() == [2, 4]


def test_what_is_dropped_is_freed(device):
    class Array(numpy.ndarray):
        pass

    session = iobind.Session(twice(), device=device)
    held = numpy.zeros(4, f32).view(Array)
    gone = weakref.ref(held)
    binding = session.bind({"x": iobind.live(held)})
    binding.run()
    binding["x"] = floats(1, 2, 3, 4)
    del held
    gc.collect()
    assert gone() is None


def test_cycles_are_collected():
    """A session that holds its binding, and a producer that holds the binding that it is an input of."""
    class Producer:
        def __init__(self):
            self.tensor = iobind.tensor(floats(1, 2), "vdev")

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, *, stream=None, **keywords):
            return self.tensor.__dlpack__(**keywords)

    session = iobind.Session(twice(), device="vdev")
    session.binding = session.bind()
    producer = Producer()
    producer.binding = session.binding
    session.binding["x"] = iobind.live(producer)
    kept = session.binding.run()
    gone = [weakref.ref(session), weakref.ref(session.binding), weakref.ref(producer)]
    del session, producer
    gc.collect()
    gc.collect()
    assert kept["y"].numpy().tolist() == [2, 4]  # before its binding went, what was held was fetched
    del kept
    gc.collect()
    assert [one() for one in gone] == [None] * 3


@pytest.mark.parametrize("held", ["by an input", "by a tensor", "by a part of a tensor"])
def test_cycles_through_streams_and_events_are_collected(held):
    """A program's attributes of the event or stream lead back to what holds it."""
    binding = iobind.Session(twice(), device="vdev").bind()
    stream, x = iobind.Stream("vdev"), iobind.tensor(floats(1, 2), "vdev")
    binding["x"] = x
    binding.run(stream=stream)
    assert any(isinstance(one, iobind._core.Event) for one in gc.get_referents(binding))  # what is recorded behind that run
    stream.synchronize()
    if held == "by an input":
        there = stream.record()
        there.back = binding
        binding.set_input("x", x, event=there)
    else:
        there = stream
        x.copy_from(iobind.tensor(floats(3, 4)), stream=stream)
        there.back = x if held == "by a tensor" else x[:1]
    gone = weakref.ref(there)
    del binding, stream, x, there
    gc.collect()
    assert gone() is None


def test_strings():
    session = iobind.Session(model([("Identity", ["x"], ["y"])], [("x", 8, ["n"])], [("y", 8, ["n"])]))
    words = numpy.array(["one", "", "zwei \u00e4"], object)
    assert session.run(None, {"x": words})[0].tolist() == words.tolist()
    binding = session.bind({"x": words})
    assert binding.run()["y"].numpy().tolist() == words.tolist()
    binding["x"] = ["three"]
    assert binding.run()["y"].numpy().tolist() == ["three"]


def test_what_a_session_says():
    session = iobind.Session(counter(), dims={"past": 3}, config={"session.intra_op.allow_spinning": False}, threads=1)
    assert [value.name for value in session.get_inputs()] == ["x", "state", "past.0.key"]
    assert session.inputs[2].shape == (3,) and session.inputs[0].dtype == "float32" and session.outputs[1].kind == "tensor"
    assert session.info()["opset"] == 17 and session.metadata() == {}
    labelled = onnx.load_from_string(counter())
    onnx.helper.set_model_props(labelled, {"labels": "cat,dog", "author": ""})
    assert iobind.Session(labelled.SerializeToString()).metadata() == {"author": "", "labels": "cat,dog"}
    with pytest.raises(iobind.InvalidArgument, match="policy"):
        iobind.Session(counter(), policy="fastest")
    with pytest.raises(iobind.NotFound, match="'pastt'"):
        iobind.Session(counter()).empty("past.0.key", pastt=0)
    with pytest.raises(iobind.ShapeError, match="past"):
        iobind.Session(counter()).empty("past.0.key")


def test_graphs():
    needs_graphs()
    session = iobind.Session(twice(), device="vdev", graphs=1)
    resident = iobind.tensor(floats(1, 2), "vdev")
    binding = session.bind({"x": resident}, outputs={"y": iobind.empty(2, device="vdev")})
    for step in range(4):
        resident.write(floats(step, step))
        assert binding.run()["y"].numpy().tolist() == [2 * step] * 2
    binding["x"] = iobind.tensor(floats(9, 9), "vdev")
    with pytest.raises(iobind.InvalidState):
        binding.run()
    binding.forget_graphs()
    assert binding.run()["y"].numpy().tolist() == [18, 18]


def test_run_options():
    binding = iobind.Session(twice()).bind({"x": floats(1)})
    binding.set_run_options({"memory.enable_memory_arena_shrinkage": "cpu:0"}, tag="mine", log_level=4)
    assert binding.run()["y"].numpy().tolist() == [2]
    with pytest.raises(iobind.InvalidArgument):
        binding.set_run_options({"disable_synchronize_execution_providers": 1})


def test_memory_of_the_session(device):
    session = iobind.Session(twice(), device=device)
    tensor = session.allocate((2,), device=device)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((2,), "float32", iobind.device(device))
    tensor.write(floats(1, 2))
    session.close()
    assert tensor.to("cpu").numpy().tolist() == [1, 2]
    session = iobind.Session(twice(), device=device)
    assert session.bind({"x": tensor}).run()["y"].numpy().tolist() == [2, 4]
    for dims, advice in (([2, "n"], r"\[2, 'n'\]: give n$"), ([2, None], r"\[2, None\]: an open dim has no name: use iobind.empty\(shape, ")):
        with pytest.raises(iobind.ShapeError, match="empty: 'x' is " + advice):
            iobind.Session(model([("Add", ["x", "x"], ["y"])], [("x", FLOAT, dims)], [("y", FLOAT, dims)])).empty("x")
    with pytest.raises(iobind.NotSupported, match="allocate: a session has no memory for strings: use iobind.empty"):
        session.allocate(1, "string", device="cpu")


def test_a_profile(tmp_path):
    session = iobind.Session(twice(), profile=str(tmp_path / "run"))
    session.run(None, {"x": floats(1)})
    assert "Add" in open(session.end_profile(), encoding="utf-8").read()
    with pytest.raises(iobind.InvalidState):
        session.end_profile()


def test_several_threads_each_with_a_binding(device):
    session = iobind.Session(twice(), device=device)
    wrong = []

    def work(number):
        binding = session.bind({"x": floats(number)}, outputs={"y": "cpu"})
        for step in range(20):
            binding["x"] = floats(number + step)
            if binding.run()["y"].numpy().tolist() != [2 * (number + step)]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_float_dims_are_values(device):
    assert iobind.Session(model([("Relu", ["x"], ["y"])], [("x", FLOAT, [2, None])], [("y", FLOAT, [2, None])])).inputs[0].shape == (2, None)


def test_a_binding_takes_a_program_s_attributes():
    binding = iobind.Session(add()).bind()
    binding.customer = "a"
    assert vars(binding) == {"customer": "a"}
    assert weakref.ref(binding)() is binding


def test_an_output_holds_its_session(device):
    """The library's session goes with its last output: as an object's that gives the GIL up for it, not as a host tensor's."""
    session = iobind.Session(add(), device=device)
    out = session.bind({"x": floats(1), "y": floats(2)}, outputs={"z": "cpu"}).run()["z"]
    kept = weakref.ref(session)
    del session
    gc.collect()
    assert kept() is not None and out.numpy().tolist() == [3]
    kept().out = out  # a cycle
    del out
    gc.collect()
    assert kept() is None


def test_a_host_tensor_is_bound_itself_where_an_array_was_bound():
    binding = iobind.Session(twice()).bind({"x": floats(1, 1)})
    tensor = iobind.tensor(floats(2, 2))
    binding["x"] = tensor
    tensor.write(floats(3, 3))
    assert binding.run()["y"].numpy().tolist() == [6, 6]


def test_a_list_does_not_outlive_an_update_on_a_stream():
    """NumPy's array of it would be freed before the stream reads it."""
    binding = iobind.Session(twice()).bind({"x": floats(1, 1)})
    stream = iobind.Stream("cpu")
    with pytest.raises(iobind.InvalidArgument, match="got list"):
        binding.update("x", [2.0, 2.0], stream=stream)
    with pytest.raises(iobind.InvalidArgument, match="got list"):
        iobind.tensor(floats(1, 1)).write([2.0, 2.0], stream=stream)
    binding.update("x", floats(2, 2), stream=stream)
    stream.synchronize()
    assert binding.run()["y"].numpy().tolist() == [4, 4]
