"""The cases that ONNX's package makes, one operator each, and which of them a tool that takes tensors can run.

usage: cases.py FILE   keep them all there, for programs whose ONNX_CASES names it: to make them takes seconds"""

import collections
import os
import pathlib
import pickle
import sys
import warnings

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
try:
    import onnx
    from onnx import numpy_helper
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit(0)  # the programs that need it say so

import element

TENSOR = "tensor_type"
# What comes out depends on a generator that ONNX leaves open.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
STRIDE_SIZE = 100  # of the sample's cases, those taken evenly from the list
EACH_TYPE = 3      # and of those that show a type, for each type and each side


def nodes_of(graph):
    """With those of the graphs inside."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes_of(inner)


def identity(ir, opset):
    """A model of one operator, to find out which versions a runtime takes."""
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "identity", value[:1], value[1:])
    return onnx.helper.make_model(graph, ir_version=ir, opset_imports=[onnx.helper.make_opsetid("", opset)])


def newest(takes):
    """The newest IR and operator set of ONNX's that a runtime takes: takes(model) says whether it does."""
    opset = next(n for n in range(onnx.defs.onnx_opset_version(), 0, -1) if takes(identity(10, n)))
    return next(n for n in range(onnx.IR_VERSION, 0, -1) if takes(identity(n, opset))), opset


def make_older(model, ir, opset):
    """The same model under older numbers. ONNX's package gives each case the newest ones; where an operator is not yet what it
    became, the runtime refuses or its answer is not the expected one, and the case does not pass."""
    model.ir_version = min(model.ir_version, ir)
    for imported in model.opset_import:
        if imported.domain == "":
            imported.version = min(imported.version, opset)


class NodeCase:
    def __init__(self, case, ir, opset):
        ((inputs, outputs),) = case.data_sets
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        make_older(model, ir, opset)
        graph = model.graph
        self.name = case.name
        self.model = model.SerializeToString()
        self.rtol, self.atol = case.rtol, case.atol
        self.is_random = any(node.op_type in RANDOM for node in nodes_of(graph))
        values = list(zip(graph.input, inputs)) + list(zip(graph.output, outputs))
        kinds = {info.type.WhichOneof("value") for info, _ in values} - {TENSOR}
        self.kind = min(kinds).removesuffix("_type") if kinds else None
        if self.kind is None:
            self.inputs = {info.name: element.plain(value) for info, value in zip(graph.input, inputs)}
            self.outputs = {info.name: element.plain(value) for info, value in zip(graph.output, outputs)}

    def arrays(self):
        return [("in", array) for array in self.inputs.values()] + [("out", array) for array in self.outputs.values()]

    def traits(self):
        """What a sample must have of: types on both sides, no elements at all, no dims."""
        for side, array in self.arrays():
            yield side, element.name_of(array)
            if array.size == 0:
                yield side, "zero-size"
            if array.ndim == 0:
                yield side, "scalar"


def read_tensors(directory, side, count):
    """The values of one side of a case that is kept in files."""
    for number in range(count):
        yield numpy_helper.to_array(onnx.load_tensor(directory / f"{side}_{number}.pb"))


class FileCase:
    """A case as ONNX keeps it: a directory with the model, and one with the values of each side."""

    def __init__(self, directory):
        self.name = f"{directory.parent.name}/{directory.name}"
        self.model = (directory / "model.onnx").read_bytes()
        graph = onnx.ModelProto.FromString(self.model).graph
        given = {tensor.name for tensor in graph.initializer}
        inputs = [info for info in graph.input if info.name not in given]
        self.kind = self.odd_kind([*inputs, *graph.output])
        if self.kind is None:
            values = directory / "test_data_set_0"
            self.inputs = {info.name: value for info, value in zip(inputs, read_tensors(values, "input", len(inputs)))}
            self.outputs = {info.name: value for info, value in zip(graph.output, read_tensors(values, "output", len(graph.output)))}

    @staticmethod
    def odd_kind(infos):
        """What is not a dense tensor of numbers, by its name."""
        kinds = {info.type.WhichOneof("value").removesuffix("_type") for info in infos} - {"tensor"}
        texts = {"string" for info in infos if info.type.tensor_type.elem_type == onnx.TensorProto.STRING}
        return min(kinds | texts, default=None)


def read(directory):
    """All cases below a directory, by name."""
    return [FileCase(path.parent) for path in sorted(pathlib.Path(directory).glob("*/*/model.onnx"))]


def make():
    """ONNX's own cases by name, so that the order never changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy's, about the infinities that some cases are there for
        from onnx.backend.test.case.node import collect_testcases
        return sorted(collect_testcases(None), key=lambda case: case.name)


def load():
    """As make, or what it made before."""
    kept = os.environ.get("ONNX_CASES")
    return pickle.loads(pathlib.Path(kept).read_bytes()) if kept else make()


def collect(ir, opset):
    """All of them, for a runtime that takes these versions."""
    return [NodeCase(case, ir, opset) for case in load()]


def sample(cases):
    """The same cases each time: evenly spread ones, and for each trait a first, a middle and a last one that has it."""
    having = collections.defaultdict(list)
    plain = [case for case in cases if case.kind is None]
    for case in plain:
        for trait in sorted(set(case.traits())):
            having[trait].append(case)
    chosen = {plain[i * len(plain) // STRIDE_SIZE].name for i in range(STRIDE_SIZE)}
    for ones in having.values():
        chosen.update(ones[i * (len(ones) - 1) // (EACH_TYPE - 1)].name for i in range(EACH_TYPE))
    return [case for case in cases if case.name in chosen]


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(pickle.dumps(make()))
