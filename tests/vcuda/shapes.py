"""The cost of a convolution whose shape changes: the cuDNN calls of a run besides the convolution itself, for each value of the EP's option
cudnn_conv_algo_search. docs/cuda.md documents them.

usage: shapes.py        under with-cuda, with VCUDA_TRACE=1"""

import collections
import ctypes
import json
import os
import sys
import tempfile

import gpu_python

SKIPPED = 77
SHAPES = [(1, 4, 8, 8), (1, 4, 8, 8), (1, 4, 12, 8), (1, 4, 8, 8), (1, 4, 12, 8)]
FIRST, SAME, OTHER, BACK, AGAIN = range(5)
SEARCHES = "EXHAUSTIVE", "HEURISTIC", "DEFAULT"
# The calls of the first run, and whether a shape that was run before makes them again. One finalized descriptor belongs to the run itself.
PLANS = "cudnnBackendFinalize"
EXPECTED = {
    "Conv": dict.fromkeys(SEARCHES, PLANS), "ConvTranspose": dict.fromkeys(SEARCHES, PLANS),
    "FusedConv": {"EXHAUSTIVE": "cudnnFindConvolutionForwardAlgorithmEx", "HEURISTIC": "cudnnGetConvolutionForwardAlgorithm_v7",
                  "DEFAULT": "cudnnGetConvolutionForwardWorkspaceSize"}}


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"shapes: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


def model_of(operator, numpy, helper, numpy_helper):
    dims = (4, 8, 3, 3) if operator == "ConvTranspose" else (8, 4, 3, 3)
    constants = [numpy_helper.from_array(numpy.ones(shape, numpy.float32), name) for name, shape in (("w", dims), ("b", (8,)))]
    fused = {"domain": "com.microsoft", "activation": "Relu"} if operator == "FusedConv" else {}
    node = helper.make_node(operator, ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], **fused)
    graph = helper.make_graph([node], "shapes", [helper.make_tensor_value_info("x", 1, ["n", 4, "h", "w_"])],
                              [helper.make_tensor_value_info("y", 1, None)], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


class Trace:
    def __init__(self, folder):
        self.library, self.path, self.before = ctypes.CDLL("libcudart.so.13"), os.path.join(folder, "trace.json"), collections.Counter()

    def calls(self):
        """The number of calls of each cuDNN function since the last query."""
        self.library.vcuda_trace_write(self.path.encode())
        with open(self.path, encoding="utf-8") as file:
            events = json.load(file)
        names = collections.Counter(event.get("name") for event in (events["traceEvents"] if isinstance(events, dict) else events))
        since, self.before = names - self.before, names
        return since


def judge(operator, search, rows):
    """None, or a description of the failure."""
    call = EXPECTED[operator][search]
    counts = [row[call] for row in rows]
    if call == PLANS:  # each change of shape makes plans, without measurements
        measured = sum(count for row in rows for name, count in row.items() if "Find" in (name or ""))
        right = counts[SAME] == 1 and counts[FIRST] > 1 and counts[FIRST] == counts[OTHER] == counts[BACK] == counts[AGAIN] and not measured
    else:  # only a new shape
        right = counts[FIRST] > 0 and counts[FIRST] == counts[OTHER] and not counts[SAME] and not counts[BACK] and not counts[AGAIN]
    return None if right else f"{operator}, {search}: {call} in runs of the shapes A, A, B, A, B: {counts}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        if gpu_python.unpack(folder) is None:
            leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
        sys.path.insert(0, folder)
        import numpy
        import onnxruntime
        from onnx import helper, numpy_helper
        onnxruntime.set_default_logger_severity(4)
        trace, wrong = Trace(folder), []
        for operator, searches in EXPECTED.items():
            for search in searches:
                session = onnxruntime.InferenceSession(model_of(operator, numpy, helper, numpy_helper),
                                                       providers=[("CUDAExecutionProvider", {"cudnn_conv_algo_search": search})])
                trace.calls()
                rows = []
                for shape in SHAPES:
                    session.run(None, {"x": numpy.zeros(shape, numpy.float32)})
                    rows.append(trace.calls())
                wrong += filter(None, [judge(operator, search, rows)])
        print("\n".join(wrong) or f"ONNX Runtime {onnxruntime.__version__}: as docs/cuda.md says")
        sys.stdout.flush()
        return 1 if wrong else 0


sys.exit(main())
