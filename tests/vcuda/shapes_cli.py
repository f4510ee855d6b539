"""`iobind doctor` and `iobind bench` report what convolutions on CUDA do when a shape changes. vcuda.shapes checks the same by counting calls.

usage: shapes_cli.py TOOL        under with-cuda --onnxruntime"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv.pop(1)
PLANS = "creates plans after each change of shape, also back to an earlier one"
FUSED = {"EXHAUSTIVE": "runs all algorithms once for each new shape",
         "HEURISTIC": "asks cuDNN once for each new shape, and runs none to choose",
         "DEFAULT": "uses one algorithm for every shape"}


def model_of(operator, size):
    import numpy
    from onnx import TensorProto, helper, numpy_helper
    domain = {"domain": "com.microsoft", "activation": "Relu"} if operator == "FusedConv" else {}
    constants = [numpy_helper.from_array(numpy.ones((1, 1, 3, 3), numpy.float32), "w")]
    node = helper.make_node(operator, ["x", "w"], ["y"], pads=[1, 1, 1, 1], **domain)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size, 4]) for name in "xy"]
    graph = helper.make_graph([node], "shapes", values[:1], values[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def call(*words):
    ran = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        raise AssertionError(f"{words}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Shapes(unittest.TestCase):
    def bench(self, operator, size, *words):
        """The lines about shapes."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(model_of(operator, size))
            said = call("bench", path, "--device", "cuda", "--iterations", "3", *words)
        return [line for line in said.splitlines() if "cudnn_conv_algo_search" in line]

    def test_doctor_has_the_table(self):
        rows = json.loads(call("doctor", "--json"))["shape_changes"]
        expected = [("Conv", None, PLANS), ("ConvTranspose", None, PLANS)] + [("FusedConv", *fact) for fact in FUSED.items()]
        self.assertEqual([(row["operator"], row["search"], row["does"]) for row in rows], expected)
        self.assertTrue(all(row["seen"] for row in rows))
        said = call("doctor")
        for does in [PLANS, *FUSED.values()]:
            self.assertIn(does, said)

    def test_bench_warns_of_open_dims(self):
        for search in FUSED:
            said = self.bench("Conv", "n", "--ep-option", f"cudnn_conv_algo_search={search}")
            self.assertEqual(said, [f"model on cuda:0: the times are for one shape: each of 1 Conv {PLANS} "
                                    f"(cudnn_conv_algo_search={search})."])

    def test_bench_warns_by_the_option(self):
        for search, does in FUSED.items():
            said = self.bench("FusedConv", "n", "--ep-option", f"cuda.cudnn_conv_algo_search={search}")
            self.assertEqual(said, [f"model on cuda:0: the times are for one shape: each of 1 FusedConv {does} "
                                    f"(cudnn_conv_algo_search={search})."])

    def test_without_the_option(self):
        self.assertIn("(cudnn_conv_algo_search=EXHAUSTIVE)", self.bench("FusedConv", "n")[0])

    def test_fixed_dims_are_no_matter(self):
        self.assertEqual(self.bench("Conv", 4), [])


try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
except ImportError as missing:
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"shapes_cli: {'missing' if required else 'skipped'}: {missing}", file=sys.stderr)
    sys.exit(1 if required else 77)
unittest.main()
