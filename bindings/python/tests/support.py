"""What the tests stand on: models, children."""

import os
import pathlib
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper

import iobind


def model(nodes, inputs, outputs, initializers=(), ir_version=9):
    """A model of ONNX as bytes: nodes (op, inputs, outputs[, attributes]), values (name, type, dims)."""
    made = [helper.make_node(op, ins, outs, **(rest[0] if rest else {})) for op, ins, outs, *rest in nodes]
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    graph = helper.make_graph(made, "test", *values, initializer=list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version).SerializeToString()


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def add():
    return model([("Add", ["x", "y"], ["z"])], [("x", FLOAT, ["n"]), ("y", FLOAT, ["n"])], [("z", FLOAT, ["n"])])


def twice(dtype=FLOAT):
    return model([("Add", ["x", "x"], ["y"])], [("x", dtype, ["n"])], [("y", dtype, ["n"])])


def counter():
    """state and a growing list: next = state + x, joined = past ++ x; the names are not words of Python's."""
    return model([("Add", ["state", "x"], ["next"]), ("Concat", ["past.0.key", "x"], ["present.0.key"], {"axis": 0})],
                 [("x", FLOAT, [1]), ("state", FLOAT, [1]), ("past.0.key", FLOAT, ["past"])],
                 [("next", FLOAT, [1]), ("present.0.key", FLOAT, ["total"])])


def slow(seconds=3):
    """A loop that takes about so long on the CPU, and can be cancelled between its rounds."""
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["again"]), helper.make_node("MatMul", ["a", "weights"], ["b"])], "body",
                             [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("a", FLOAT, [64, 64])],
                             [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_tensor_value_info("b", FLOAT, [64, 64])])
    weights = onnx.numpy_helper.from_array(numpy.zeros((64, 64), numpy.float32), "weights")
    rounds = onnx.numpy_helper.from_array(numpy.array(int(seconds * 200_000)), "rounds")
    go = onnx.numpy_helper.from_array(numpy.array(True), "start")
    return model([("Loop", ["rounds", "start", "x"], ["y"], {"body": body})], [("x", FLOAT, [64, 64])], [("y", FLOAT, [64, 64])],
                 [weights, rounds, go])


def needs_graphs():
    """Skips where the device cannot capture graphs: ONNX Runtime before 1.26."""
    import pytest  # not for the children, which import this file too

    try:
        iobind.Session(twice(), device="vdev", graphs=1)
    except iobind.VersionError as error:
        pytest.skip(str(error))


def child(code, *arguments, status=0, environment=None, timeout=120):
    """Run Python in a process of its own; gives what it printed."""
    here = str(pathlib.Path(__file__).parent)
    paths = [here, str(pathlib.Path(iobind.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})})
    assert done.returncode == status, f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
