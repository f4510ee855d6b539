"""`iobind loop` beside Python's ONNX Runtime: a state of a real model over speech, and the caches of a small decoder.

test_loop.py TOOL MAKE_MODEL [unittest's arguments]"""

import json
import os
import subprocess
import sys

import driver
import numpy as np
import onnxruntime
import speech

STEPS = 512


class Looping(driver.Case):
    def need(self, device):
        if device != "vdev":  # which is there only when it is named
            super().need(device)

    def loop(self, path, inputs, *carries, device="cpu"):
        """The report, and what was written. An input is an array, or a pair of one and the axis that it is fed along."""
        arguments = ["loop", path, "--json", "--device", device, "--output-dir", self.folder]
        for name, value in inputs.items():
            array, axis = value if isinstance(value, tuple) else (value, None)
            file = os.path.join(self.folder, f"input-{name}.npy")
            np.save(file, array)
            arguments += ["--input", f"{name}={file}" + ("" if axis is None else f"@{axis}")]
        for carry in carries:
            arguments += ["--carry", carry]
        report = json.loads(self.tool.call(*arguments))
        return report, {output["name"]: np.load(output["file"]) for output in report["outputs"] if output["file"]}

    def host_loop(self, session, fed, states, steps):
        """Python's: `states` by the output that each comes from; all other outputs gathered."""
        names = [output.name for output in session.get_outputs()]
        inputs = {into: first for into, first in states.values()}
        gathered = {name: [] for name in names if name not in states}
        for step in range(steps):
            outputs = dict(zip(names, session.run(names, {**inputs, **fed(step)})))
            for name in gathered:
                gathered[name].append(outputs[name])
            inputs = {into: outputs[name] for name, (into, _) in states.items()}
        return gathered, {name: inputs[into] for name, (into, _) in states.items()}


class Speech(Looping):
    model = "silero-vad"

    def test_probabilities_of_speech(self):
        samples, silent = speech.make()
        padded = np.concatenate([np.zeros(64, np.float32), samples])
        windows = np.stack([padded[start:start + 576][None] for start in range(0, len(samples) - 511, 512)])
        state, rate = np.zeros((2, 1, 128), np.float32), np.array(16000, np.int64)
        expected, last = self.host_loop(self.session, lambda step: {"input": windows[step], "sr": rate},
                                        {"stateN": ("state", state)}, len(windows))
        heard = np.stack(expected["output"])
        self.assertLess(heard[:silent // 512].max(), 0.3)
        self.assertGreater(heard.max(), 0.5)
        for device, mode in (("cpu", "move"), ("cpu", "swap"), ("vdev", "swap")):
            with self.subTest(device=device, mode=mode):
                self.need(device)
                report, got = self.loop(self.path, {"input": (windows, 0), "state": state, "sr": rate}, f"stateN=state,{mode}",
                                        device=device)
                self.assertTrue(report["same"])
                self.assert_equal({"output": heard, "stateN": last["stateN"]}, got, f"{device}, {mode}")


class Decoder(Looping):
    """Made here: its caches grow from no row at all."""

    make_model = None

    @classmethod
    def setUpClass(cls):
        pass

    def made(self, *spec):
        path = os.path.join(self.folder, "model.onnx")
        subprocess.run([self.make_model, *spec, path], check=True)
        return path, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def check(self, device, tokens, steps):
        self.need(device)
        path, session = self.made("decoder")
        none = np.zeros((0, 8), np.float32)
        states = {"key": ("past_key", none), "value": ("past_value", none)}
        expected, last = self.host_loop(session, lambda step: {"tokens": tokens[step]}, states, steps)
        report, got = self.loop(path, {"tokens": (tokens, 0), "past_key": none, "past_value": none}, "key=past_key",
                                "value=past_value", device=device)
        self.assertTrue(report["same"])
        self.assertEqual(got["key"].shape, (steps, 8))
        # What vdev takes as one group is fused otherwise than the whole model, and rounded otherwise.
        near = {"rtol": 1e-5, "atol": 1e-6} if device == "vdev" else {}
        self.assert_equal({"logits": np.stack(expected["logits"]), **last}, got, device, **near)
        return report["ways"]

    def test_a_cache_that_grows(self):
        tokens = np.random.default_rng(1).integers(0, 16, (STEPS, 1))
        self.check("cpu", tokens, STEPS)
        carried, host = self.check("vdev", tokens, STEPS)
        # A token goes up and a row of logits comes down; weights are read once and, as they change their dims, seen to.
        self.assertEqual(carried["upload_bytes"], 8)
        self.assertLess(carried["download_bytes"], 64 + 8)
        self.assertGreater(host["upload_bytes"], 2 * 8 * 4 * STEPS // 2 - 100)

    def test_on_webgpu(self):
        self.need("webgpu")
        path, session = self.made("decoder")
        tokens = np.arange(6)[:, None] % 16
        none = np.zeros((0, 8), np.float32)
        _, got = self.loop(path, {"tokens": (tokens, 0), "past_key": none, "past_value": none}, "key=past_key",
                           "value=past_value", device="webgpu")
        expected, _ = self.host_loop(session, lambda step: {"tokens": tokens[step]},
                                     {"key": ("past_key", none), "value": ("past_value", none)}, len(tokens))
        np.testing.assert_allclose(got["logits"], np.stack(expected["logits"]), rtol=1e-3, atol=1e-4)

    def test_a_cache_of_fixed_size(self):
        path, session = self.made("cache", "capacity=64")
        rows = np.random.default_rng(2).random((128, 1, 8), np.float32)
        at = (np.arange(128) % 64).reshape(128, 1, 1)
        empty = np.zeros((64, 8), np.float32)
        expected, last = self.host_loop(session, lambda step: {"row": rows[step], "at": at[step]}, {"next": ("cache", empty)}, 128)
        for device in ("cpu", "vdev"):
            for mode, most in (("move", 2), ("swap", 0.1), ("in-place", 0.1)):
                with self.subTest(device=device, mode=mode):
                    self.need(device)
                    report, got = self.loop(path, {"cache": empty, "row": (rows, 0), "at": (at, 0)}, f"next=cache,{mode}", device=device)
                    self.assertTrue(report["same"])
                    self.assert_equal({"sum": np.stack(expected["sum"]), **last}, got, f"{device}, {mode}")
                    self.assertLessEqual(report["ways"][0]["tensors"], most)


if __name__ == "__main__":
    Decoder.make_model = os.path.abspath(sys.argv.pop(2))
    driver.main()
