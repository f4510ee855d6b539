"""Silero VAD: is this speech? A state goes round, from each run's output file to the next run's input."""

import os
import tempfile

import driver
import numpy as np
import speech


class Speech(driver.Case):
    model = "silero-vad"

    def windows(self, rate):
        """What the model takes at a time: a window, behind the end of the one before it."""
        samples, silent = speech.make(rate)
        size, context = rate * 32 // 1000, rate * 4 // 1000
        padded = np.concatenate([np.zeros(context, np.float32), samples])
        starts = range(0, len(samples) - size + 1, size)
        return [padded[start:start + context + size][None] for start in starts], silent // size

    def listen(self, rate, count, rtol=None, atol=None, **how):
        """Probabilities of the first windows, equal to Python's at each step, each side going on with its own state."""
        windows, silent = self.windows(rate)
        self.assertGreaterEqual(len(windows), count)
        state = np.zeros((2, 1, 128), np.float32)
        file, heard = state, []
        with tempfile.TemporaryDirectory() as even, tempfile.TemporaryDirectory() as odd:
            for step, window in enumerate(windows[:count]):
                inputs = {"input": window, "sr": np.array(rate, np.int64)}
                expected = self.reference({**inputs, "state": state})
                # Two folders in turn: a run does not write over the file that it reads.
                rows = self.tool.run(self.path, {**inputs, "state": file}, (even, odd)[step % 2], **how)
                got = {name: np.load(row["file"]) for name, row in rows.items()}
                self.assert_equal(expected, got, f"{rate} Hz, window {step}", rtol, atol)
                state, file = expected["stateN"], rows["stateN"]["file"]
                self.assertTrue(os.path.exists(file))
                heard.append(got["output"].item())
        return heard, silent

    def check(self, heard, silent):
        self.assertLess(max(heard[:silent]), 0.3, heard)
        self.assertGreater(max(heard), 0.5, heard)

    def test_device(self):
        self.need("cpu")
        self.check(*self.listen(16000, 28))

    def test_host(self):
        self.need("cpu")
        self.listen(16000, 6, bind="host")

    def test_telephone(self):
        self.need("cpu")
        self.check(*self.listen(8000, 16))

    def test_webgpu(self):
        self.need("webgpu")
        if self.tool.doctor["ort_version"].startswith("1.24."):
            self.skipTest("ONNX Runtime 1.24 corrupts its heap where a plugin EP runs inside of an If, under Python too")
        self.listen(16000, 2, device="webgpu", rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    driver.main()
