"""Lengths of caches of fixed capacity: written, counted, rewound."""

import numpy
import onnx
import pytest

import iobind
from support import DEVICE, FLOAT, INT64, SMALL, child, model
from test_saved import MODES, value
from test_states import count

APPENDS = ([("TensorScatter", ["s", "x", "at"], ["s2"])],
           [("s", FLOAT, [1, 8, 2]), ("x", FLOAT, [1, "n", 2]), ("at", INT64, [1])], [("s2", FLOAT, [1, 8, 2])])


APPENDS_TO_TWO = ([("TensorScatter", ["s", "x", "at"], ["s2"])],
                  [("s", FLOAT, [2, 8, 2]), ("x", FLOAT, [2, "n", 2]), ("at", INT64, [2])], [("s2", FLOAT, [2, 8, 2])])


def cache(device, mode=None, **options):
    session = iobind.Session(model(*APPENDS, ir_version=12, opset=24), device=device, identify=True, **options)
    return session.bind({"s": numpy.zeros((1, 8, 2), numpy.float32), "x": numpy.full((1, 2, 2), 1, numpy.float32)}, carry={"s2": "s"}, carry_mode=mode)


def firsts(out):
    return out["s2"].numpy()[0, :, 0].tolist()


@pytest.mark.parametrize("mode", MODES)
def test_lengths_of_a_cache(device, mode):
    binding = cache(device, mode)
    assert binding.session.state_kind("s2", "s") == ("capacity", 1)
    with pytest.raises(iobind.InvalidState, match="^write_lengths: the length is unknown"):
        binding.write_lengths(2)
    binding.write_lengths(2, 0)
    assert firsts(binding.run()) == [1, 1, 0, 0, 0, 0, 0, 0]
    binding["x"] = numpy.full((1, 1, 2), 2, numpy.float32)
    for expected in ([1, 1, 2, 0, 0], [1, 1, 2, 2, 0]):
        binding.write_lengths(1)
        assert firsts(binding.run())[:5] == expected
    state = binding.save()
    binding.rewind(1)
    binding.update("s", numpy.full((1, 8, 2), 4, numpy.float32))  # of its dims, which a rewind does not change
    with pytest.raises(iobind.InvalidState):
        binding.write_lengths(1)
    binding.restore(state)
    with iobind.Stream(device) as stream:
        binding.write_lengths(1, stream=stream)
        assert firsts(binding.run(stream=stream))[:5] == [1, 1, 2, 2, 2]  # what is behind them is anybody's
    for added, length in ((0, 1), (1, -1), (4, None), (9, 0)):
        with pytest.raises(iobind.InvalidArgument, match="^write_lengths: "):
            binding.write_lengths(added, length)
    binding.write_lengths(2)
    with pytest.raises(iobind.ShapeError, match="'x' has 1 new rows"):
        binding.run()
    with pytest.raises(iobind.NotSupported, match="^write_lengths: .*cache of fixed capacity"):
        count("cpu").write_lengths(1)


MASKED = ([("Unsqueeze", ["at", "last"], ["places"]), ("ScatterND", ["s", "places", "x"], ["s2"]), ("MatMul", ["mask", "s2"], ["y"])],
          [("s", FLOAT, [8, 2]), ("x", FLOAT, ["n", 2]), ("at", INT64, ["n"]), ("mask", FLOAT, [1, 8])], [("s2", FLOAT, [8, 2]), ("y", FLOAT, [1, 2])])


def masked(device, mode):
    made = model(*MASKED, initializers=[onnx.helper.make_tensor("last", INT64, [1], [-1])])
    session = iobind.Session(made, device=device, identify=True)
    return session.bind({"s": numpy.full((8, 2), 9, numpy.float32), "x": numpy.full((2, 2), 1, numpy.float32)}, carry={"s2": "s"}, carry_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_lengths_that_the_program_names(device, mode):
    binding = masked(device, mode)
    assert binding.session.state_kind("s2", "s").kind == "unknown"
    with pytest.raises(iobind.NotSupported, match="^write_lengths: .*Binding.name_length"):
        binding.write_lengths(2, 0)
    binding.name_length("s", "cache", axis=0)
    binding.name_length("at", "positions")
    binding.name_length("mask", "mask")
    binding.write_lengths(2, 0)
    assert value(binding.run()["y"]) == 2
    binding["x"] = numpy.full((1, 2), 5, numpy.float32)
    for expected in (7, 12):
        binding.write_lengths(1)
        assert value(binding.run()["y"]) == expected
    state = binding.save()
    binding.rewind(1)
    binding.write_lengths(1)
    assert value(binding.run()["y"]) == 6
    binding.restore(state)
    binding.update("s", numpy.full((8, 2), 3, numpy.float32))  # of its dims, not of the rows in use that were saved
    binding.restore(state)
    binding.write_lengths(1)
    assert value(binding.run()["y"]) == 17
    binding.name_length("mask", None)
    binding.name_length("s", None)
    with pytest.raises(iobind.NotSupported, match="got none"):
        binding.write_lengths(1, 0)


def test_names_that_are_refused():
    binding = masked("cpu", None)
    with pytest.raises(iobind.NameNotFound):
        binding.name_length("no", "mask")
    for role, axis in (("unnamed", None), ("rows", None), ("cache", None), ("cache", -1), ("mask", 0), (None, 1), ("cache", 2)):
        with pytest.raises(iobind.InvalidArgument, match="^name_length: "):
            binding.name_length("s" if role == "cache" else "mask", role, axis=axis)
    with pytest.raises(iobind.DTypeError, match="^name_length: 'mask': expected int32 or int64, got float32"):
        binding.name_length("mask", "after")


def test_a_cache_that_cannot_be_in_place_is_swapped_where_graphs_are_captured():
    nodes = [("TensorScatter", ["s", "x", "at"], ["s2"]), ("Identity", ["s"], ["before"])]
    made = model(nodes, [("s", FLOAT, [1, "p", 2]), ("x", FLOAT, [1, "n", 2]), ("at", INT64, [1])],
                 [("s2", FLOAT, [1, "t", 2]), ("before", FLOAT, [1, "p", 2])], ir_version=12, opset=24)
    session = iobind.Session(made, device="vdev", identify=True, graphs=2)
    binding = session.bind({"s": numpy.zeros((1, 8, 2), numpy.float32), "x": numpy.full((1, 1, 2), 1, numpy.float32)}, carry={"s2": "s"})
    for length in range(3):
        binding.write_lengths(1, length)
        assert sum(firsts(binding.run())) == length + 1


def test_a_cache_is_carried_in_place_by_default(device):
    session = iobind.Session(model(*APPENDS, ir_version=12, opset=24), device=device, identify=True)
    first = iobind.tensor(numpy.zeros((1, 8, 2), numpy.float32), device=session.inputs[0].device)
    binding = session.bind({"s": first, "x": numpy.full((1, 1, 2), 1, numpy.float32)}, carry={"s2": "s"})
    binding.write_lengths(1, 3)
    out = binding.run()["s2"]
    assert first.numpy()[0, :, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0] == out.numpy()[0, :, 0].tolist()
    binding.write_lengths(1)
    binding.run()
    assert first.numpy()[0, :, 0].tolist() == [0, 0, 0, 1, 1, 0, 0, 0]


APPENDS_AND_READS = ([*APPENDS[0], ("Neg", ["s"], ["before"])], APPENDS[1], [*APPENDS[2], ("before", FLOAT, [1, 8, 2])])


def test_a_cache_that_another_node_reads_is_not_written_over_a_result(device):
    session = iobind.Session(model(*APPENDS_AND_READS, ir_version=12, opset=24), device=device, identify=True)
    first = iobind.tensor(numpy.zeros((1, 8, 2), numpy.float32), device=session.inputs[0].device)
    binding = session.bind({"s": first, "x": numpy.full((1, 1, 2), 1, numpy.float32)}, carry={"s2": "s"})
    assert session.state_kind("s2", "s").kind == "capacity"
    binding.write_lengths(1, 0)
    kept = binding.run()
    binding.write_lengths(1)
    later = binding.run()["s2"]
    binding.update("s", numpy.full((1, 8, 2), 5, numpy.float32))
    assert firsts(kept)[:2] == [1, 0] and firsts({"s2": later})[:3] == [1, 1, 0] and firsts({"s2": first})[:2] == [0, 0]
    binding.write_lengths(1, 2)
    binding.run()
    assert firsts(kept)[:3] == [1, 0, 0] and firsts({"s2": later})[:3] == [1, 1, 0]


def test_a_restored_cache_is_given_by_dlpack_after_the_run_that_writes_it():
    code = SMALL + "PLACE = 'vdev'\n" + DEVICE + """
from test_lengths import APPENDS, firsts, model
session = iobind.Session(model(*APPENDS, ir_version=12, opset=24), device=PLACE, identify=True)
first, stream = iobind.tensor(numpy.zeros((1, 8, 2), numpy.float32), device=PLACE), iobind.Stream(PLACE)
binding = session.bind({"s": first, "x": numpy.full((1, 1, 2), 1, numpy.float32)}, carry={"s2": "s"})
binding.write_lengths(1, 0)
binding.run()
binding.restore(binding.save())
binding.write_lengths(1)
consumer, target = iobind.Stream(PLACE), iobind.empty((1, 8, 2), "float32", PLACE)
setting(0, b"delay_compute", b"every:1,us:100000")
setting(0, b"race", b"count")
binding.run(stream=stream)
target.copy_from(iobind.from_dlpack(first.__dlpack__(stream=consumer.native, max_version=(1, 1))), stream=consumer)
consumer.synchronize()
print(firsts({"s2": target})[:3], get(0, b"races"))
"""
    assert child(code) == "[1.0, 1.0, 0.0] 0\n"


@pytest.mark.parametrize("mode", MODES)
def test_lengths_of_the_rows_of_a_batch(device, mode):
    session = iobind.Session(model(*APPENDS_TO_TWO, ir_version=12, opset=24), device=device, identify=True)
    binding = session.bind({"s": numpy.zeros((2, 8, 2), numpy.float32), "x": numpy.array([[[1, 1]], [[2, 2]]], numpy.float32)},
                           carry={"s2": "s"}, carry_mode=mode)

    def rows(out):
        return out["s2"].numpy()[:, :4, 0].tolist()

    for added, wrong in ((9, [0]), (1, []), (1, [0, 1, 2]), (1, [0, -1]), (1, [0, 8])):
        with pytest.raises(iobind.InvalidArgument, match="^write_lengths: "):
            binding.write_lengths(added, wrong)
    binding.write_lengths(1, [0, 1])
    assert rows(binding.run()) == [[1, 0, 0, 0], [0, 2, 0, 0]]
    binding.write_lengths(1)
    assert rows(binding.run()) == [[1, 1, 0, 0], [0, 2, 2, 0]]
    state = binding.save()
    binding.write_lengths(1, numpy.array([3, 3]))
    assert rows(binding.run()) == [[1, 1, 0, 1], [0, 2, 2, 2]]
    binding.restore(state)
    binding.reorder([1, 0])
    binding.write_lengths(1)
    assert [row[:3] for row in rows(binding.run())] == [[0, 2, 2], [1, 1, 2]]
    for wrong in (0.5, "12", [0.5, 1]):
        with pytest.raises(TypeError):
            binding.write_lengths(1, wrong)
