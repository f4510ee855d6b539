"""iobind audit as a person and a CI job see it: audit_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from case import FAILED, MISUSED, TOOL, Case


class Audit(Case):
    def setUp(self):
        self.add = self.model("add.onnx", "add", "dims=1000")

    def audit(self, *words, code=0, device="vdev", **environment):
        result = self.call("audit", self.add, "--device", device, "--random", "--json", *words,
                           env=dict(self.environment, **environment))
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def counted(self, *words, **environment):
        """The report, and what the virtual accelerator itself saw cross its link on each run: the difference that ten runs make."""
        totals = []
        for runs in 5, 15:
            trace = self.path("trace.json")
            report = self.audit("--runs", str(runs), *words, VDEV_TRACE="1", VDEV_TRACE_FILE=trace, **environment)
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)
            events = events["traceEvents"] if isinstance(events, dict) else events
            totals.append(sum(event["args"]["bytes"] for event in events
                              if event["ph"] == "X" and event["name"] in ("upload", "download")))
        return report, (totals[1] - totals[0]) / 10

    def test_nothing_crosses_what_is_on_the_device(self):
        report = self.audit("--expect-zero")
        self.assertEqual(report["crossing_bytes"], 0)
        self.assertFalse(report["at_least"])
        self.assertEqual([move["kind"] for move in report["moves"]], ["input", "input", "output"])
        self.assertEqual({move["bytes"] for move in report["moves"]}, {0})
        self.assertTrue(all(move["reason"] for move in report["moves"]))

    def test_what_is_on_the_host_crosses(self):
        report = self.audit("--bind", "host", "--expect-zero", code=1)
        self.assertEqual(report["crossing_bytes"], 3 * 4000)
        for move in report["moves"]:
            self.assertTrue(move["crosses"])
            self.assertEqual(move["bytes"], 4000)
            self.assertTrue(move["advice"])
            self.assertGreater(move["time_ns"], 0)
        report = self.audit("--bind", "host", "--bind", "y=device", "--bind", "z=device")
        self.assertEqual(report["crossing_bytes"], 4000)

    def test_the_device_itself_counts_the_same(self):
        for binds in [], ["--bind", "x=live"], ["--bind", "host"], ["--bind", "z=host"]:
            with self.subTest(binds=binds):
                report, crossed = self.counted(*binds)
                self.assertEqual(report["crossing_bytes"], crossed)

    def test_copies_within_a_run(self):
        self.add = self.model("denoise.onnx", "denoise")
        report, crossed = self.counted(VDEV_DENY="Tanh")
        nodes = [move for move in report["moves"] if move["kind"] == "node"]
        copies = [move for move in report["moves"] if move["kind"] == "copy node"]
        self.assertEqual(len(nodes), 1)
        self.assertIn("Tanh runs on the CPU", nodes[0]["reason"])
        self.assertEqual([move["bytes"] for move in copies], [4096, 4096])
        self.assertEqual(report["crossing_bytes"], 8192)
        self.assertEqual(report["crossing_bytes"], crossed)
        self.audit("--expect-zero", code=1, VDEV_DENY="Tanh")

    def test_a_device_that_takes_nothing(self):
        result = self.call("audit", self.add, "--device", "vdev", "--random", env=dict(self.environment, VDEV_DENY="Add"))
        self.assertIn("no node runs on 'vdev:0'", result.stdout)
        report = self.audit("--expect-zero", code=1, VDEV_DENY="Add")
        self.assertEqual(report["crossing_bytes"], 0)
        self.assertFalse(report["device_used"])

    def test_what_has_one_reason_is_one_row(self):
        words = ("audit", self.model("denoise.onnx", "denoise"), "--device", "vdev", "--random", "--runs", "1")
        denied = dict(self.environment, VDEV_DENY="Tanh,Mul,Div,Sub")
        every = json.loads(self.good(*words, "--json", env=denied))["moves"]
        nodes = [move for move in every if move["kind"] == "node"]
        self.assertGreater(len(nodes), 1)
        table = self.good(*words, env=denied)
        for reason in {move["reason"] for move in nodes}:
            alike = [move for move in nodes if move["reason"] == reason]
            rows = [line for line in table.splitlines() if reason in line]
            self.assertEqual(len(rows), 1, table)
            self.assertEqual(f"and {len(alike) - 1} more" in rows[0], len(alike) > 1, rows[0])
        self.assertEqual(len([line for line in table.splitlines() if line.startswith("copy node")]),
                         len({move["from"] for move in every if move["kind"] == "copy node"}))
        shown = [line for line in self.call(*words, "-v", env=denied).stdout.splitlines() if line.startswith("node ")]
        self.assertEqual(len(shown), len(nodes))

    def test_the_first_of_several_devices_is_the_one_that_counts(self):
        """A device that is not there must not make the check pass on another one."""
        words = ("audit", self.add, "--random", "--device")
        self.assertIn("'cuda'", self.refused(FAILED, "--expect-zero: expected 'cuda', the first of --device cuda,cpu, got 'cpu'", *words,
                                             "cuda,cpu", "--expect-zero"))
        self.good(*words, "cuda,cpu")
        self.good(*words, "vdev,cpu", "--expect-zero")
        self.good(*words, "cpu", "--expect-zero")

    def test_the_host_has_no_link(self):
        result = self.good("audit", self.add, "--random")
        self.assertIn("everything is in host memory", result)
        self.assertIn("0 B cross", result)

    def test_what_is_refused(self):
        self.refused(MISUSED, "no such input or output", "audit", self.add, "--random", "--bind", "q=live")
        self.refused(MISUSED, "device or live", "audit", self.add, "--random", "--bind", "x=host")
        self.refused(MISUSED, "device, host or none", "audit", self.add, "--random", "--bind", "z=live")
        self.refused(MISUSED, "NAME=HOW", "audit", self.add, "--random", "--bind", "everything")
        self.refused(MISUSED, "--runs", "audit", self.add, "--random", "--runs", "0")
        self.refused(FAILED, "TMPDIR", "audit", self.add, "--random",
                     env=dict(self.environment, TMPDIR=self.path("no-such-folder")))

    def test_nothing_is_left_behind(self):
        folder = self.path("temporary")
        os.mkdir(folder)
        self.good("audit", self.add, "--random", env=dict(self.environment, TMPDIR=folder))
        self.assertEqual(os.listdir(folder), [])
        words = [TOOL, "audit", self.add, "--random", "--device", "vdev", "--runs", "100000"]
        slow = dict(self.environment, TMPDIR=folder, VDEV_DELAY_SESSION="every:1,us:300000", VDEV_DELAY_COMPUTE="every:1,us:20000")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU, signal.SIGPIPE, signal.SIGKILL):
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)  # nohup and shells in the background have programs ignore some, and so would the tool
            for loading in (True, False):
                if loading and number == signal.SIGKILL:
                    continue  # nothing can be done about that
                with self.subTest(number=number, loading=loading):
                    os.utime(folder, (0, 0))  # its time is another one once something was in it, however short
                    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=slow)
                    while os.stat(folder).st_mtime == 0 or (not loading and os.listdir(folder)):
                        self.assertIsNone(process.poll())
                        time.sleep(0.001)
                    process.send_signal(number)
                    process.communicate()
                    self.assertEqual(process.returncode, -number)
                    self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
