"""`iobind bench --graph` and `iobind loop --graph` on a device that counts launches: graph_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER DEVICE."""
import sys
import unittest

from case import FAILED, Case

DEVICE = sys.argv[4]
KERNELS = 1 if DEVICE == "vdev" else 2  # which multi takes: the virtual accelerator computes a group of nodes at once


class Graph(Case):
    def setUp(self):
        super().setUp()
        if DEVICE == "vdev" and self.good_json("doctor")["ort_api_version"] < 26:
            self.skipTest("ONNX Runtime before 1.26 has no graph capture for EP plugins")

    def test_bench_shows_launches_before_and_after(self):
        ways = self.good_json("bench", self.model("multi.onnx", "multi"), "--device", DEVICE, "--graph", "--iterations", "8")["ways"]
        self.assertEqual([(way["captured"], way["way"], way["launches"]) for way in ways],
                         [(False, way, KERNELS) for way in ("unbound", "read", "written", "resident")] +
                         [(True, "unbound", KERNELS), (True, "read", 1), (True, "written", 1), (True, "resident", 1)])
        self.assertTrue(all(way["median_ns"] > 0 for way in ways))
        table = self.good("bench", self.model("multi.onnx", "multi"), "--device", DEVICE, "--graph", "--iterations", "8")
        self.assertIn(f"launches in a run: {KERNELS}, captured 1.", table)
        self.assertNotIn("CAPTURED", self.good("bench", self.model("multi.onnx", "multi"), "--device", DEVICE, "--iterations", "8"))

    def test_loop_shows_launches_before_and_after(self):
        model = self.model("denoise.onnx", "denoise", "dims=4")
        for mode in ("", ",swap", ",in-place"):
            report = self.good_json("loop", model, "--device", DEVICE, "--graph", "--steps", "6", "-c", f"denoised=latents{mode}",
                                    "--random")
            ways = {way["way"]: way["launches"] for way in report["ways"]}
            self.assertEqual(list(ways), ["carried", "captured", "host"])
            self.assertEqual((ways["captured"], ways["carried"]), (1, ways["host"]))
            self.assertTrue(report["same"], mode)

    def test_a_state_is_restored_for_captured_steps(self):
        """The session that captures is another one, and loads the file too."""
        model = self.model("denoise.onnx", "denoise", "dims=4")
        kept = self.path("captured.state")
        for mode in ("swap", "in-place"):
            words = ("loop", model, "--device", DEVICE, "-c", f"denoised=latents,{mode}", "--steps", "4", "--random")
            self.good(*words, "--save-state", kept)
            report = self.good_json(*words, "--graph", "--restore-state", kept)
            self.assertEqual([way["way"] for way in report["ways"]], ["carried", "captured", "host"])
            self.assertTrue(report["same"], mode)
            self.good(*words, "--graph", "--restore-state", kept, "--no-host")  # no copy on the host to begin with

    def test_what_cannot_be_captured_is_said(self):
        self.refused(FAILED, "got MOVE", "loop", self.model("scale.onnx", "scale"), "--device", DEVICE, "--graph", "--steps", "2", "-c",
                     "y=x,move", "--random", "--dim", "x[0]=4")
        self.refused(FAILED, "control flow", "bench", self.model("if.onnx", "if"), "--device", DEVICE, "--graph", "--iterations", "1")
        self.refused(FAILED, "graph_limit", "bench", self.model("scale.onnx", "scale"), "--device", "cpu", "--graph", "--iterations", "1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
