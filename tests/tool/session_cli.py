"""The options of sessions and runs, which the commands share: session_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER."""
import glob
import json
import os
import struct
import sys
import unittest

from case import FAILED, MISUSED, Case
from files import npy_bytes

COMMANDS = ("inspect", "run", "loop", "bench", "audit", "tile")


class Session(Case):
    def setUp(self):
        self.scale = self.model("scale-1-1-4-4.onnx", "scale", "dims=1,1,4,4")
        self.picture = self.write("picture.npy", npy_bytes("<f4", (1, 1, 4, 4), struct.pack("<16f", *range(16))))

    def words(self, command, model=None):
        """What the command needs besides."""
        own = {"inspect": [], "run": ["--random"], "bench": ["--iterations", "3"], "audit": ["--random", "--runs", "1"],
               "loop": ["--carry", "y=x", "--random", "--steps", "2"],
               "tile": ["--input", self.picture, "--output", self.path("tiled.npy")]}[command]
        return [command, model or self.scale, *own]

    def each(self, *words, commands=COMMANDS, device="vdev", code=0, **environment):
        for command in commands:
            with self.subTest(command=command, words=words):
                placed = ["--device", device] if device else []
                ran = self.call(*self.words(command), "--json", *placed, *words, env=dict(self.environment, **environment))
                self.assertEqual(ran.returncode, code, ran.stderr)
                yield command, ran.stderr if code else json.loads(ran.stdout)

    def test_ep_options_reach_the_ep(self):
        """An EP option makes the virtual accelerator fail: that it fails says that it came through."""
        for command, said in self.each("--ep-option", "fail_compute=1", code=FAILED, commands=COMMANDS[1:]):
            self.assertIn("fail_compute", said)
        for command, said in self.each("--ep-option", "fail_copy=every:x", code=FAILED):
            self.assertIn("fail_copy", said)
            self.assertIn("; `iobind options vdev` lists the options", said)
        for command, said in self.each("--ep-option", "vdev.foo=1", code=FAILED):
            self.assertRegex(said, "EP option 'foo' .* \\[[A-Z_]+\\]; `iobind options vdev` lists the options")
        for command, report in self.each("--ep-option", "vdev.clock=virtual", "--ep-option", "compute_us=7", commands=("run", "loop", "audit")):
            self.assertEqual(report["clock"], "virtual")
            self.assertEqual(report["ways"][0]["first_ns"] if command == "loop" else report["run_ns"], 7000)

    def test_config_entries_reach_the_session(self):
        """Of entries, too: a prefix of the EP's own name hands them on to it."""
        for command, said in self.each("--config", "ep.virtualdeviceexecutionprovider.fail_compute=1", code=FAILED,
                                       commands=COMMANDS[1:]):
            self.assertIn("fail_compute", said)
        for command, said in self.each("--config", "session.disable_cpu_ep_fallback=1", VDEV_DENY="Mul", code=FAILED):
            self.assertIn("fall", said.lower())

    def test_run_config_entries_reach_the_runs(self):
        """The entry that iobind refuses, because a run would return before it has finished."""
        for command, said in self.each("--run-config", "disable_synchronize_execution_providers=1", code=FAILED):
            self.assertIn("disable_synchronize_execution_providers", said)
        for command, report in self.each("--run-config", "any=1"):
            pass
        self.refused(MISUSED, "got --bind host", *self.words("run"), "--bind", "host", "--run-config", "any=1")

    def test_strict(self):
        for command, said in self.each("--strict", VDEV_DENY="Mul", code=FAILED):
            self.assertIn("iobind: " + command + ": ", said)
        for command, report in self.each("--strict"):
            pass

    def test_policies(self):
        for command, report in self.each("--policy", "prefer-cpu", device=None):
            self.assertEqual(report["ways"][0]["device"] if command == "bench" else report["device"], "cpu")
        line = self.refused(MISUSED, "--policy prefer-cpu: ONNX Runtime chooses the device then; expected no --device, got 'vdev'",
                            *self.words("run"), "--policy", "prefer-cpu", "--device", "vdev")
        self.assertIn("iobind run --help", line)
        self.refused(MISUSED, "--policy: expected default, prefer-cpu, prefer-npu, prefer-gpu, max-performance, max-efficiency or "
                     "min-power, got 'prefer_cpu'; did you mean 'prefer-cpu'?", *self.words("run"), "--policy", "prefer_cpu")

    def test_threads_and_optimization(self):
        for command, report in self.each("--threads", "2", "--optimization", "none"):
            pass
        chain = self.model("optimized.onnx", "unused", "dims=4")
        counts = {level: self.good_json("inspect", chain, "--device", "cpu", "--optimization", level)["node_count"]
                  for level in ("none", "basic", "extended", "layout", "all")}
        self.assertEqual(min(counts.values()), counts["all"])
        for command in COMMANDS:
            self.refused(MISUSED, "--threads: expected a whole number of 1 to 1024, got '0'", *self.words(command), "--threads", "0")
            self.refused(MISUSED, "--optimization: expected all, none, basic, extended or layout, got 'most'", *self.words(command),
                         "--optimization", "most")

    def test_profiles(self):
        """The report says where it is, and it is of the session that has run."""
        for command, report in self.each("--profile", self.path("profile")):
            path = report["ways"][0]["profile"] if command == "bench" else report["profile"]
            self.assertEqual(glob.glob(self.path("profile*")), [path])
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
            self.assertEqual(command != "inspect", any(event["name"] == "model_run" for event in events))
            os.remove(path)
        for command in COMMANDS:
            self.refused(FAILED, "--profile: ONNX Runtime has not written " + self.path("missing/"), *self.words(command),
                         "--device", "cpu", "--profile", self.path("missing/profile"))

    def test_refused(self):
        for option in ("--ep-option", "--config", "--run-config"):
            self.refused(MISUSED, option + ": expected KEY=VALUE, got 'key'", *self.words("run"), option, "key")
            self.refused(MISUSED, option + ": expected KEY=VALUE, got '=1'", *self.words("run"), option, "=1")
            self.refused(MISUSED, option + ": 'a' is given twice", *self.words("run"), option, "a=1", option, "a=2")
        self.refused(MISUSED, "--profile is given 2 times", *self.words("run"), "--profile", "a", "--profile", "b")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
