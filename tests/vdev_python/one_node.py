"""Runs its share of ONNX's node cases, each on the CPU EP, unbound on vdev and bound on vdev, and tells of each step in a line of
JSON on standard output. run_nodes.py starts it, and again behind the case that ended it.

usage: one_node.py LIBRARY SAMPLE SHARE SHARES START [CASE...]"""

import json
import sys

import vdev

import cases
import element
import numpy as np
import onnxruntime
import reference

# ORT's flag for a run that returns before its work is done.
NO_WAIT = "disable_synchronize_execution_providers"


def tell(**line):
    print(json.dumps(line), flush=True)


def close(one, other):
    """The same bytes; floats may differ by 1e-5, for a nested session fuses other nodes."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(close, one, other))
    if one is None or other is None:
        return one is other
    one, other = np.asarray(one), np.asarray(other)
    return element.identical(one, other) or (one.dtype.kind in "fcV" and element.close(one, other, 1e-5, 1e-5))


def same_kind(one, other):
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same_kind, one, other))
    return one is other is None or element.same_kind(np.asarray(one), np.asarray(other))


def compare(case, expected, got, road):
    same = same_kind if case.is_random else close
    for name, one, other in zip(case.names, expected, got):
        if not same(one, other):
            return f"{road}: '{name}': expected {str(one)[:200]}, got {str(other)[:200]}"
    return None


class Runner:
    def __init__(self, path):
        self.library = vdev.Library(path)
        self.no_wait = onnxruntime.RunOptions()
        self.no_wait.add_run_config_entry(NO_WAIT, "1")
        self.raw = {case.name: case.data_sets[0] for case in cases.load()}

    def prepare(self, case):
        """Values that are not tensors, as Python's ONNX Runtime takes them; the names of the outputs."""
        graph = vdev.onnx.load_model_from_string(case.model).graph
        case.names = [output.name for output in graph.output]
        if case.kind is not None:
            inputs = self.raw[case.name][0]
            case.inputs = {info.name: value if isinstance(value, list) or value is None else element.plain(value)
                           for info, value in zip(graph.input, inputs)}
        case.is_plain = case.kind is None and not any(array.dtype == object for _, array in case.arrays())

    def expect(self, case):
        if case.kind is None:
            return reference.run(case.model, case.inputs, case.names)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            return onnxruntime.InferenceSession(case.model, options, providers=["CPUExecutionProvider"]).run(
                case.names, case.inputs)
        except Exception as refused:  # ONNX Runtime raises a class of its own for each of its error codes
            raise reference.Refused(str(refused)) from None

    def unbound(self, case, session):
        if not case.is_plain:
            return session.run(case.names, case.inputs)
        inputs = {name: reference.value_of(array) for name, array in case.inputs.items()}
        return [reference.array_of(value) for value in session.run_with_ort_values(case.names, inputs)]

    def bound(self, case, session, expected):
        """Everything on the device; the run returns before its work is done."""
        binding, outputs = session.io_binding(), []
        for name, array in case.inputs.items():
            host = reference.value_of(array)
            value = vdev.empty(array.shape, element.number_of(array))
            if array.size > 0:
                onnxruntime.copy_tensors([host], [value])
            binding.bind_ortvalue_input(name, value)
        for name, array in zip(case.names, expected):
            outputs.append(vdev.empty(array.shape, element.number_of(array)))
            binding.bind_ortvalue_output(name, outputs[-1])
        session.run_with_iobinding(binding, self.no_wait)
        binding.synchronize_outputs()
        got = []
        for array, value in zip(expected, outputs):
            host = reference.value_of(np.zeros_like(array))
            if array.size > 0:
                onnxruntime.copy_tensors([value], [host])
            got.append(reference.array_of(host))
        return got

    def judge(self, case):
        self.prepare(case)
        tell(step="cpu")
        try:
            expected = self.expect(case)
        except reference.Refused as refused:
            return "cannot", str(refused)
        tell(step="vdev")
        self.library.reset()
        try:
            session = self.library.session(case.model)
            wrong = compare(case, expected, self.unbound(case, session), "unbound")
            claimed = self.library.get("kernels") > 0
            if case.is_plain and not wrong:
                tell(step="bound vdev")
                wrong = compare(case, expected, self.bound(case, session, expected), "bound")
        except Exception as failed:  # of ONNX Runtime's classes, too
            return "failed", str(failed)
        del session
        left = {name: self.library.get(name) for name in ["live_bytes", "errors", "races"]}
        if any(left.values()):
            wrong = wrong or f"afterwards {left} {self.library.native.vdev_last_race().decode()}"
        if wrong:
            return "wrong", wrong
        return ("claimed" if claimed else "left"), ""


def main():
    path, sample, share, shares, start = sys.argv[1], sys.argv[2] == "1", *map(int, sys.argv[3:6])

    def takes(model):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # as above
            return False
        return True

    listed = cases.collect(*cases.newest(takes))
    if sample:
        # Those with graphs inside and those that are not tensors are few, and other roads: all of them.
        listed = cases.sample(listed) + [case for case in listed if case.kind or has_graphs(case)]
        listed = list({case.name: case for case in listed}.values())
    if sys.argv[6:]:
        listed = [case for case in listed if case.name in sys.argv[6:]]
    runner = Runner(path)
    for index, case in list(enumerate(listed[share::shares]))[start:]:
        tell(begin=index, name=case.name, graphs=has_graphs(case))
        verdict, words = runner.judge(case)
        tell(verdict=verdict, words=words, plain=case.is_plain)
    tell(done=True)


def has_graphs(case):
    graph = vdev.onnx.load_model_from_string(case.model).graph
    return any(attribute.HasField("g") for node in graph.node for attribute in node.attribute)


if __name__ == "__main__":
    main()
