"""`iobind compare` over models that are random on purpose: compare.py TOOL, with the fetched Python (numpy, onnx).

Ends with 77 (skipped) if a package is not there."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}; scripts/get-python fetches it", file=sys.stderr)
    sys.exit(1 if "cpu" in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77)

TOOL = os.path.abspath(sys.argv.pop(1))
DONE, FAILED, MISUSED = 0, 1, 2


def chain(*nodes, weights=(), outputs=("y",), dtype=TensorProto.FLOAT):
    graph = helper.make_graph(list(nodes), "chain", [helper.make_tensor_value_info("x", dtype, [4])],
                              [helper.make_tensor_value_info(name, dtype, [4]) for name in outputs],
                              [numpy_helper.from_array(value, name) for name, value in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs, [output], name=f"make {output}", **attributes)


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = os.path.join(self.folder, "model.onnx")

    def call(self, *words, model=None, **environment):
        if model is not None:
            onnx.save(model, self.model)
        return subprocess.run([TOOL, "compare", self.model, "--random", *words], capture_output=True, text=True,
                              env=dict(os.environ, ORT_DISABLE_TELEMETRY="1", **environment))

    def compare(self, code, *words, **more):
        ran = self.call("--json", "--device", "vdev", *words, **more)
        self.assertEqual((code, ""), (ran.returncode, ran.stderr))
        return json.loads(ran.stdout)

    def noisy(self, scale):
        """On vdev another node stands first in its graph, so that noise begins with another seed."""
        return chain(node("Exp", ["x"], "a"), node("RandomUniformLike", ["a"], "noise", high=float(scale)),
                     node("Add", ["a", "noise"], "b"), node("Neg", ["b"], "y"))

    def test_the_same_on_both(self):
        report = self.compare(DONE, "--nodes", model=chain(node("Mul", ["x", "x"], "a"), node("Add", ["a", "x"], "y")))
        self.assertEqual(("vdev:0", "cpu", True, None), tuple(report[key] for key in ("device", "with", "same", "node")))
        self.assertEqual([("y", [4], 0, 0, 0)], [tuple(output[key] for key in ("name", "dims", "absolute", "relative", "beyond"))
                                                for output in report["outputs"]])
        self.assertEqual(2, report["compared_values"])

    def test_the_first_node_that_differs(self):
        report = self.compare(FAILED, "--nodes", model=self.noisy(1), VDEV_DENY="Exp")
        self.assertEqual(("RandomUniformLike", "make noise", "noise"), tuple(report["node"][key] for key in ("op_type", "name", "output")))
        self.assertEqual((False, 2), (report["same"], report["compared_values"]))
        self.assertGreater(report["outputs"][0]["beyond"], 0)
        self.assertGreater(report["node"]["absolute"], 0)
        text = self.call("--device", "vdev", "--nodes", VDEV_DENY="Exp").stdout
        self.assertIn("first node that differs: RandomUniformLike make noise, output 'noise': by ", text)

    def test_limits(self):
        self.compare(DONE, "--absolute", "1", "--relative", "0", model=self.noisy(1), VDEV_DENY="Exp")
        self.compare(FAILED, "--absolute", "0", "--relative", "0", VDEV_DENY="Exp")
        self.compare(DONE, "--absolute", "0", "--relative", "1", VDEV_DENY="Exp")  # what is at least 1 is off by less than 1
        report = self.compare(DONE, "--nodes", "--absolute", "1", VDEV_DENY="Exp")
        self.assertIsNone(report["node"])

    def test_weights_beside_the_model(self):
        onnx.save(chain(node("Mul", ["x", "w"], "a"), node("Neg", ["a"], "y"), weights=[("w", np.float32([1, 2, 3, 4]))]), self.model,
                  save_as_external_data=True, location="weights.bin", size_threshold=0)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "weights.bin")))
        self.assertEqual(2, self.compare(DONE, "--nodes")["compared_values"])

    def test_refused(self):
        onnx.save(chain(node("Neg", ["x"], "y")), self.model)
        for code, part, words in ((FAILED, "--with: ", ["--with", "cuda"]), (MISUSED, "--with: 'cudda'", ["--with", "cudda"]),
                                  (MISUSED, "--absolute: expected a number", ["--absolute", "-1"])):
            ran = self.call(*words)
            self.assertEqual((code, "", 1), (ran.returncode, ran.stdout, len(ran.stderr.splitlines())), ran.stderr)
            self.assertIn(part, ran.stderr)


if __name__ == "__main__":
    unittest.main()
