"""vdev in Python's ONNX Runtime, as a user has it: the device is found, sessions run on it, tensors stay there.

usage: test_road.py LIBRARY [unittest's arguments]"""

import gc
import os
import pathlib
import subprocess
import sys
import unittest

import vdev

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

FLOATS = 1024
BYTES = 4 * FLOATS


def model(*nodes, inputs="xy", outputs="z", dims=(FLOATS,)):
    """Each node is (operator, its inputs, its outputs), a letter each."""
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)) for name in inputs + outputs}
    graph = helper.make_graph([helper.make_node(operator, list(ins), list(outs)) for operator, ins, outs in nodes], "test",
                              [values[name] for name in inputs], [values[name] for name in outputs])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


ADD = model(("Add", "xy", "z"))
X = np.arange(FLOATS, dtype=np.float32)
Y = np.full(FLOATS, 0.5, np.float32)


class Road(unittest.TestCase):
    library: vdev.Library

    def setUp(self):
        self.library.reset()

    def tearDown(self):
        gc.collect()  # exceptions keep what they were raised among
        self.assertEqual(self.library.get("live_bytes"), 0)

    def get(self, *statistics):
        return [self.library.get(name) for name in statistics]

    def test_the_device_is_found(self):
        self.assertEqual([device.ep_metadata["vdev.index"] for device in self.library.devices], ["0", "1"])
        for device in self.library.devices:
            self.assertEqual(device.device.type, onnxruntime.OrtHardwareDeviceType.GPU)
            self.assertEqual(device.device.vendor_id, vdev.VENDOR)

    def test_an_unbound_run_moves_its_tensors(self):
        session = self.library.session(ADD)
        self.assertEqual(session.get_providers()[0], vdev.EP)
        (z,) = session.run(None, {"x": X, "y": Y})
        np.testing.assert_array_equal(z, X + Y)
        self.assertEqual(self.get("h2d_bytes", "d2h_bytes", "kernels"), [2 * BYTES, BYTES, 1])

    def test_bound_runs_move_nothing(self):
        session = self.library.session(ADD)
        binding, z = session.io_binding(), vdev.empty([FLOATS], np.float32)
        binding.bind_ortvalue_input("x", vdev.on_device(X))
        binding.bind_ortvalue_input("y", vdev.on_device(Y))
        binding.bind_ortvalue_output("z", z)
        session.run_with_iobinding(binding)
        self.library.reset()
        for _ in range(100):
            session.run_with_iobinding(binding)
        self.assertEqual(self.get("h2d_bytes", "d2h_bytes", "d2d_bytes", "allocations", "kernels"), [0, 0, 0, 0, 100])
        np.testing.assert_array_equal(z.numpy(), X + Y)
        self.assertEqual(self.get("d2h_bytes", "d2h_count"), [BYTES, 1])

    def test_one_sessions_output_is_anothers_input(self):
        add, twice = self.library.session(ADD), self.library.session(model(("Add", "xx", "z"), inputs="x"))
        middle, z = vdev.empty([FLOATS], np.float32), vdev.empty([FLOATS], np.float32)
        first, second = add.io_binding(), twice.io_binding()
        first.bind_ortvalue_input("x", vdev.on_device(X))
        first.bind_ortvalue_input("y", vdev.on_device(Y))
        first.bind_ortvalue_output("z", middle)
        second.bind_ortvalue_input("x", middle)
        second.bind_ortvalue_output("z", z)
        self.library.reset()
        add.run_with_iobinding(first)
        twice.run_with_iobinding(second)
        self.assertEqual(self.get("h2d_bytes", "d2h_bytes", "kernels"), [0, 0, 2])
        np.testing.assert_array_equal(z.numpy(), 2 * (X + Y))

    def test_two_devices(self):
        session = self.library.session(ADD, device=1)
        kernels = self.library.get("kernels", 1)
        (z,) = session.run(None, {"x": X, "y": Y})
        np.testing.assert_array_equal(z, X + Y)
        self.assertEqual([self.get("kernels")[0], self.library.get("kernels", 1)], [0, kernels + 1])
        here, there = vdev.empty([FLOATS], np.float32), vdev.on_device(X, 1)
        onnxruntime.copy_tensors([there], [here])
        np.testing.assert_array_equal(here.numpy(), X)
        self.assertEqual(self.get("peer_bytes"), [BYTES])

    def test_an_early_download_is_found(self):
        session = self.library.session(ADD)
        binding, z = session.io_binding(), vdev.empty([FLOATS], np.float32)
        binding.bind_ortvalue_input("x", vdev.on_device(X))
        binding.bind_ortvalue_input("y", vdev.on_device(Y))
        binding.bind_ortvalue_output("z", z)
        no_wait = onnxruntime.RunOptions()
        no_wait.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.library.set("race", "count")
        self.library.set("compute_us", 1000)
        try:
            session.run_with_iobinding(binding, no_wait)
            z.numpy()
            self.assertEqual(self.get("races"), [1])
            self.assertRegex(self.library.native.vdev_last_race().decode(), "download on the host reads 4096 .* Add on stream")
            session.run_with_iobinding(binding, no_wait)
            binding.synchronize_outputs()
            np.testing.assert_array_equal(z.numpy(), X + Y)
            self.assertEqual(self.get("races"), [1])
        finally:
            binding.synchronize_outputs()
            self.library.set("race", "off")
            self.library.set("compute_us", 0)

    def test_a_kernel_that_fails_late_fails_its_run(self):
        """Once, and no other run: also where threads of ONNX Runtime's submit the work."""
        for mode in onnxruntime.ExecutionMode.ORT_SEQUENTIAL, onnxruntime.ExecutionMode.ORT_PARALLEL:
            options = onnxruntime.SessionOptions()
            options.execution_mode, options.inter_op_num_threads = mode, 2
            session = self.library.session(ADD, options=options)
            binding, z = session.io_binding(), vdev.empty([FLOATS], np.float32)
            binding.bind_ortvalue_input("x", vdev.on_device(X))
            binding.bind_ortvalue_input("y", vdev.on_device(Y))
            binding.bind_ortvalue_output("z", z)
            for _ in range(3):
                self.library.set("fail_compute", "1,late")
                with self.assertRaisesRegex(Exception, "failed late"):
                    session.run_with_iobinding(binding)
                session.run_with_iobinding(binding)
                np.testing.assert_array_equal(z.numpy(), X + Y)

    def test_a_denied_operator_stays_on_the_cpu(self):
        mixed = model(("Add", "xy", "a"), ("Mul", "ay", "b"), ("Sub", "bx", "z"))
        try:
            session = self.library.session(mixed, deny="Mul")
            self.library.reset()
            (z,) = session.run(None, {"x": X, "y": Y})
        finally:
            self.library.set("deny", "")
        np.testing.assert_array_equal(z, (X + Y) * Y - X)
        self.assertEqual(self.get("kernels"), [2])
        self.assertGreater(self.get("d2h_bytes")[0], BYTES)  # what Mul reads comes down besides the output

    def test_a_function_of_the_models_own_is_computed_on_the_device(self):
        function = helper.make_function("mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                        [helper.make_opsetid("", 20)])
        made = onnx.load_model_from_string(model(("Add", "xy", "a"), ("Twice", "a", "z")))
        made.graph.node[1].domain = "mine"
        made.opset_import.append(helper.make_opsetid("mine", 1))
        made.functions.append(function)
        session = self.library.session(made.SerializeToString())
        self.library.reset()
        (z,) = session.run(None, {"x": X, "y": Y})
        np.testing.assert_array_equal(z, 2 * (X + Y))
        self.assertEqual(self.get("kernels", "h2d_bytes", "d2h_bytes"), [1, 2 * BYTES, BYTES])

    def test_a_modelled_link_takes_exactly_its_time(self):
        """2 ms at 1 GB/s and 0.1 ms of latency each way, 1 ms of computing; nobody sleeps for it."""
        dims = 500_000
        session = self.library.session(model(("Neg", "x", "z"), inputs="x", dims=(dims,)))
        settings = {"clock": "virtual", "h2d_gbps": "1", "d2h_gbps": "1", "latency_us": "100", "compute_us": "1000"}
        for name, value in settings.items():
            self.library.set(name, value)
        try:
            before = self.library.get("time_ns")
            for _ in range(10):
                session.run(None, {"x": np.ones(dims, np.float32)})
            self.assertEqual(self.library.get("time_ns") - before, 10 * (2_100_000 + 1_000_000 + 2_100_000))
        finally:
            for name in settings:
                self.library.set(name, "real" if name == "clock" else "0")

    def test_a_fault_is_an_error_and_then_gone(self):
        session = self.library.session(ADD)
        for fault in ["fail_copy", "fail_compute", "fail_alloc"]:
            self.library.set(fault, 1)
            with self.assertRaisesRegex(Exception, fault if fault != "fail_alloc" else "NULL|no memory|alloc"):
                session.run(None, {"x": X, "y": Y})
            (z,) = session.run(None, {"x": X, "y": Y})
            np.testing.assert_array_equal(z, X + Y)

    def test_a_wrong_setting_is_refused(self):
        with self.assertRaisesRegex(Exception, "'h2d_gbps'.*'much'"):
            self.library.session(ADD, h2d_gbps="much")
        with self.assertRaisesRegex(ValueError, "warp"):
            self.library.set("warp", 9)


class Runner(unittest.TestCase):
    """Does run_nodes.py look?"""

    library: vdev.Library

    def run_nodes(self, *cases, **environment):
        program = [sys.executable, pathlib.Path(__file__).with_name("run_nodes.py"), self.path, *cases]
        return subprocess.run(program, capture_output=True, text=True, env=dict(os.environ, **environment))

    def test_a_kernel_that_fails(self):
        sound = self.run_nodes("test_add", "test_equal")
        self.assertEqual(sound.returncode, 0, sound.stdout + sound.stderr)
        self.assertIn("    2 run on vdev", sound.stdout)
        failing = self.run_nodes("test_add", "test_equal", VDEV_FAIL_COMPUTE="every:1")
        self.assertEqual(failing.returncode, 1)
        self.assertIn("test_add: failed on vdev", failing.stdout)
        self.assertIn("    0 run on vdev", failing.stdout)

    def test_an_output_that_is_another_one(self):
        import one_node
        self.assertTrue(one_node.close(X, X + np.float32(1e-7)))
        self.assertFalse(one_node.close(X, X + np.float32(0.1)))
        self.assertFalse(one_node.close(X, X.astype(np.float64)))
        self.assertFalse(one_node.close(X.astype(np.int64), X.astype(np.int64) + 1))
        self.assertFalse(one_node.close([X, Y], [X]))
        self.assertFalse(one_node.close(X, None))


if __name__ == "__main__":
    Runner.path = sys.argv.pop(1)
    os.environ["VDEV_DEVICES"] = "2"
    Road.library = vdev.Library(Runner.path)
    unittest.main()
