"""Runs `iobind run` for a test and says what Python's ONNX Runtime makes of the same input.

A test file takes the tool as its first argument: test_x.py TOOL [unittest's arguments]. IOBIND_REQUIRE is a list, as in
"cpu,webgpu", of the devices that must be there: what lacks one of them fails, and is otherwise skipped (exit code 77)."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / ".runtime/models"
SKIPPED = 77


def required(device):
    return device in os.environ.get("IOBIND_REQUIRE", "").split(",")


def leave(why, device="cpu"):
    """End a test program that lacks what it needs before it has begun."""
    print(f"{'missing' if required(device) else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required(device) else SKIPPED)


try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    leave(f"{missing}; scripts/get-python fetches it")


class ToolError(Exception):
    """The tool ended with another exit code than 0; the text is its last line."""

    def __init__(self, code, text):
        super().__init__(f"exit code {code}: {text}")
        self.code, self.text = code, text


class Tool:
    def __init__(self, path):
        self.path = path
        self.doctor = json.loads(self.call("doctor", "--json"))
        # The same kernels, compiled from the same sources: only then are results equal bit for bit.
        self.same_ort = self.doctor["ort_version"] == onnxruntime.__version__

    def call(self, *arguments):
        ran = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        if ran.returncode != 0:
            lines = ran.stderr.strip().splitlines()
            # A sanitizer's report comes in many lines; the tool's own is one.
            raise ToolError(ran.returncode, ran.stderr if len(lines) > 1 else "".join(lines))
        return ran.stdout

    def works(self, device):
        return any(row["works"] for row in self.doctor["devices"] if row["spec"].split(":")[0] == device)

    def run(self, model, inputs, folder, device="cpu", bind="device"):
        """The report's rows by the outputs' names; row["file"] has the values. Inputs are arrays, or files that are there."""
        arguments = ["run", model, "--json", "--device", device, "--bind", bind, "--output-dir", folder]
        for number, (name, value) in enumerate(inputs.items()):
            if not isinstance(value, (str, os.PathLike)):
                path = os.path.join(folder, f"input-{number}.npy")
                np.save(path, value)
                value = path
            arguments += ["--input", f"{name}={value}"]
        report = json.loads(self.call(*arguments))
        return {row["name"]: row | {"nodes": report["device_nodes"]} for row in report["outputs"]}


class Case(unittest.TestCase):
    """A test of one model, with the same model in Python beside it."""

    model = None
    tool = None

    @classmethod
    def setUpClass(cls):
        cls.path = MODELS / f"{cls.model}.onnx"
        if not cls.path.exists():
            message = f"{cls.path.name} is not there; scripts/get-models fetches it"
            raise AssertionError(message) if required("cpu") else unittest.SkipTest(message)
        cls.session = onnxruntime.InferenceSession(str(cls.path), providers=["CPUExecutionProvider"])

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def need(self, device):
        if not self.tool.works(device):
            message = f"{device} does not work here; `iobind doctor` says why"
            self.fail(message) if required(device) else self.skipTest(message)

    def reference(self, inputs):
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, inputs)))

    def run_tool(self, inputs, **how):
        rows = self.tool.run(self.path, inputs, self.folder, **how)
        return {name: np.load(row["file"]) for name, row in rows.items()}

    def assert_equal(self, expected, got, what, rtol=None, atol=None):
        """Bit for bit, unless a tolerance is given or the tool runs on another version of ONNX Runtime than Python."""
        self.assertEqual(expected.keys(), got.keys(), what)
        if rtol is None and not self.tool.same_ort:
            rtol, atol = 1e-3, 1e-4
        for name in expected:
            one, other = expected[name], got[name]
            self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape), f"{what}: {name}")
            if rtol is not None:
                np.testing.assert_allclose(other, one, rtol=rtol, atol=atol, err_msg=f"{what}: {name}")
            elif one.tobytes() != other.tobytes():
                differs = one != other
                self.fail(f"{what}: {name}: {differs.sum()} of {one.size} differ, by at most "
                          f"{np.abs(one.astype(np.float64) - other)[differs].max(initial=0)}")

    def check_cpu(self, inputs, what, binds=("device", "host")):
        """Python's result, which the tool's is found equal to under each form of binding."""
        self.need("cpu")
        expected = self.reference(inputs)
        for bind in binds:
            self.assert_equal(expected, self.run_tool(inputs, bind=bind), f"{what}, --bind {bind}")
        return expected

    def check_webgpu(self, inputs, what, bind="device"):
        """The tool's result there, which is equal to the processor's within the tolerance of floats: another device sums in
        another order."""
        self.need("webgpu")
        got = self.run_tool(inputs, device="webgpu", bind=bind)
        self.assert_equal(self.reference(inputs), got, f"{what}, webgpu, --bind {bind}", rtol=1e-3, atol=1e-3)
        return got


def main():
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} TOOL [ARGUMENT...]")
    Case.tool = Tool(sys.argv.pop(1))
    result = unittest.main(verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    # Nothing ran: the whole program is skipped. unittest does not count what a skipped class has as run.
    sys.exit(SKIPPED if result.testsRun <= len(result.skipped) else 0)
