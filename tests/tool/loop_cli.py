"""`iobind loop` as a person sees it: loop_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER."""
import os
import pty
import re
import struct
import subprocess
import sys
import unittest

from case import FAILED, MISUSED, TOOL, Case
from files import npy_bytes, read_npy


def floats(values, shape):
    return npy_bytes("<f4", shape, struct.pack(f"<{len(values)}f", *values))


class Loop(Case):
    def setUp(self):
        self.concat = self.model("concat.onnx", "concat")
        self.none = self.write("none.npy", floats([], (0, 3)))
        self.rows = self.write("rows.npy", floats(range(30), (10, 1, 3)))
        self.out = self.path("loop-out")

    def loop(self, *words, device="vdev"):
        return self.good_json("loop", *words, "--device", device, "--output-dir", self.out)

    def read(self, name):
        _, shape, content = read_npy(os.path.join(self.out, name))
        return shape, list(struct.unpack(f"<{len(content) // 4}f", content))

    def test_a_state_grows_from_nothing(self):
        for device in ("cpu", "vdev"):
            report = self.loop(self.concat, "-c", "joined=first", "-i", f"first={self.none}", "-i", f"second={self.rows}@0", device=device)
            self.assertEqual(self.read("joined.npy"), ((10, 3), list(range(30))))
            self.assertEqual((report["steps"], report["same"]), (10, True))
            carried, host = report["ways"]
            self.assertEqual((carried["way"], host["way"]), ("carried", "host"))
            # 12 bytes are fed; through the host the state goes up and down, 5.5 rows of it on average.
            linked = device == "vdev"
            self.assertEqual((carried["upload_bytes"], carried["download_bytes"]), (12, 0) if linked else (0, 0))
            self.assertEqual((host["upload_bytes"], host["download_bytes"]), (66, 66) if linked else (0, 0))

    def test_fed_along_any_axis(self):
        # [2, 3, 1] along axis 1: the axis stays where the input has as many dims as the file, and is gone where it has fewer.
        add = self.model("loop-add.onnx", "add", "dims=2,1")
        x = self.write("x.npy", floats([0, 0], (2, 1)))
        for shape, axis in (((2, 3, 1), 1), ((2, 1, 3), 2), ((2, 3), 1)):
            fed = self.write("fed.npy", floats([1, 10, 100, 2, 20, 200], shape))
            self.loop(add, "-c", "z=x,swap", "-i", f"x={x}", "-i", f"y={fed}@{axis}")
            self.assertEqual(self.read("z.npy"), ((2, 1), [111, 222]), shape)
        self.loop(add, "-c", "z=x,in-place", "-i", f"x={x}", "-i", f"y={fed}@1", "--steps", "2")
        self.assertEqual(self.read("z.npy"), ((2, 1), [11, 22]))

    def test_other_outputs_are_gathered(self):
        multi = self.model("multi.onnx", "multi")
        x = self.write("x.npy", floats([1, 3], (2,)))
        for mode in ("move", "swap"):
            report = self.loop(multi, "-c", f"sum=x,{mode}", "-i", f"x={x}", "--steps", "3")
            self.assertEqual(self.read("sum.npy"), ((2,), [8, 24]))
            self.assertEqual(self.read("product.npy"), ((3, 2), [1, 9, 4, 36, 16, 144]))
            self.assertEqual(report["outputs"][0]["carried_to"], "x")
            self.assertEqual(report["outputs"][1]["dims"], [3, 2])
        text = self.good("loop", multi, "-c", "sum=x", "-i", f"x={x}", "--steps", "3", "--no-host")
        self.assertNotIn("through the host", text)
        self.assertIn("carried", text)

    def test_a_carried_output_is_gathered(self):
        """As a generated text is: each step's token is the next step's input."""
        x = self.write("x.npy", floats([1, 3], (2,)))
        for mode in ("move", "swap", "in-place"):
            for device in ("cpu", "vdev"):
                report = self.loop(self.model("loop-scale.onnx", "scale"), "-c", f"y=x,{mode}", "-i", f"x={x}", "-n", "3",
                                   "--gather", "y", device=device)
                self.assertEqual(self.read("y.npy"), ((3, 2), [2, 6, 4, 12, 8, 24]))
                self.assertEqual((report["outputs"][0]["dims"], report["same"]), ([3, 2], True))
        words = ("loop", self.concat, "-c", "joined=first", "-i", "first=zeros", "-i", f"second={self.rows}@0", "--gather", "joined")
        self.assertIn("'joined' changes its dims from step to step: not gathered; its last state is written",
                      self.good(*words, "-o", self.out))
        self.assertEqual(self.read("joined.npy"), ((10, 3), list(range(30))))
        self.refused(MISUSED, "--gather joined: expected --output-dir", *words)
        self.refused(FAILED, "the model has 'joined'", *words, "-o", self.out, "--gather", "other")

    def test_a_first_step_of_its_own(self):
        """A prompt of three rows, and then one row a step, fed or always the same."""
        prompt = self.write("prompt.npy", floats(range(100, 109), (3, 3)))
        last = self.write("last.npy", floats([7, 8, 9], (1, 3)))
        words = (self.concat, "-c", "joined=first", "-i", "first=zeros", "--first", f"second={prompt}")
        for device in ("cpu", "vdev"):
            report = self.loop(*words, "-i", f"second={self.rows}@0", device=device)
            self.assertEqual(self.read("joined.npy"), ((13, 3), list(range(100, 109)) + list(range(30))))
            self.assertEqual((report["steps"], report["same"]), (11, True))
            self.loop(*words, "-i", f"second={self.rows}@0", "--steps", "3", device=device)
            self.assertEqual(self.read("joined.npy"), ((5, 3), list(range(100, 109)) + list(range(6))))
            self.loop(*words, "-i", f"second={last}", "--steps", "3", device=device)
            self.assertEqual(self.read("joined.npy"), ((5, 3), list(range(100, 109)) + [7, 8, 9] * 2))
        self.loop(*words, "-i", f"second={self.rows}@0", "--steps", "1")
        self.assertEqual(self.read("joined.npy"), ((3, 3), list(range(100, 109))))
        self.refused(FAILED, "input 'second' is fed for 11 steps", "loop", *words, "-i", f"second={self.rows}@0", "--steps", "12")
        self.refused(MISUSED, "the input is carried; --input gives its first state", "loop", *words, "-i", f"second={self.rows}@0",
                     "--first", f"first={prompt}")
        self.refused(FAILED, "--first: ", "loop", *words, "-i", f"second={self.rows}@0", "--first", f"third={prompt}")

    def test_a_state_goes_on_in_another_process(self):
        """Saved on one device and restored on the other; all at once gives the same."""
        x = self.write("x.npy", floats([1, 3], (2,)))
        kept = self.path("kept.state")
        model = self.model("loop-scale.onnx", "scale")
        for mode in ("move", "swap", "in-place"):
            words = (model, "-c", f"y=x,{mode}", "-n", "2")
            saved = self.loop(*words, "-i", f"x={x}", "--save-state", kept, device="cpu")
            self.assertEqual((saved["saved_state"], "restored_state" in saved), (kept, False))
            report = self.loop(*words, "--restore-state", kept, "--save-state", kept)
            self.assertEqual((report["saved_state"], report["restored_state"], report["same"]), (kept, kept, True))
            self.assertEqual(report["restored_device"].split(":")[0], "cpu")
            self.assertRegex(report["restored_ort"], r"^1\.\d+\.\d+")
            self.assertEqual(self.read("y.npy"), ((2,), [16, 48]), mode)
            self.assertEqual(report["ways"][0]["upload_bytes"], 0)
            text = self.good("loop", *words, "--restore-state", kept, "--no-host", "-o", self.out)
            self.assertIn(f"restored state: {kept} (8 B)", text)
            self.assertRegex(text, r"saved on: +vdev(:0)?, ORT 1\.")
            self.assertNotIn("saved state", text)
            self.assertEqual(self.read("y.npy"), ((2,), [64, 192]), mode)
        # A first step has other dims, and slices begin again.
        words = (self.concat, "-c", "joined=first", "-i", f"second={self.rows}@0", "-n", "2")
        self.loop(*words, "-i", "first=zeros", "--save-state", kept)
        self.loop(*words, "--restore-state", kept, device="cpu")
        self.assertEqual(self.read("joined.npy"), ((4, 3), list(range(6)) * 2))

    def test_a_state_is_refused(self):
        kept = self.path("refused.state")
        pair = self.model("loop-add.onnx", "add", "dims=2,1")
        one = ("loop", pair, "-c", "z=x", "-i", "y=zeros", "-n", "2")
        self.good(*one, "-i", "x=zeros", "--save-state", kept)
        self.refused(MISUSED, "--input x=zeros: the input is carried, and --restore-state gives its first state", *one, "-i", "x=zeros",
                     "--restore-state", kept)
        for option in ("--save-state", "--restore-state"):
            self.refused(MISUSED, f"{option}: there is no state, because nothing is carried", "loop", pair, "-r", "-n", "2", option, kept)
        self.refused(MISUSED, "--save-state is given 2 times", *one, "-i", "x=zeros", "--save-state", kept, "--save-state", kept)
        self.refused(FAILED, "it has no state of 'y': expected a state that a loop with the same --carry saved", "loop", pair, "-c", "z=y", "-i", "x=zeros",
                     "-n", "2", "--restore-state", kept)
        self.refused(FAILED, "is the state of another model: its file differs", "loop", self.model("loop-scale.onnx", "scale"), "-c", "y=x",
                     "-n", "2", "--restore-state", kept)
        self.refused(FAILED, "is not the file of a state [IO]", *one, "--restore-state", self.rows)
        self.refused(FAILED, "cannot be read [IO]", *one, "--restore-state", self.path("nothing"))
        self.refused(FAILED, "cannot be written", *one, "-i", "x=zeros", "--save-state", self.path("nothing/state"))

    def test_a_stack_of_inputs_without_any_state(self):
        scale = self.model("loop-scale2.onnx", "scale", "dims=1,3")
        for device in ("cpu", "vdev"):
            report = self.loop(scale, "-i", f"x={self.rows}@0", device=device)
            self.assertEqual(self.read("y.npy"), ((10, 1, 3), [2 * value for value in range(30)]))
            self.assertEqual((report["steps"], report["same"]), (10, True))

    def test_an_empty_first_state_without_a_file(self):
        words = (self.concat, "-c", "joined=first", "-i", f"second={self.rows}@0")
        for given in (["-i", "first=zeros"], ["-r", "--dim", "first[0]=0"], ["-i", "first=zeros", "--dim", "new=1"]):
            self.loop(*words, *given)
            self.assertEqual(self.read("joined.npy"), ((10, 3), list(range(30))), given)
        self.loop(*words, "-i", "first=zeros", "--dim", "first[0]=2")
        self.assertEqual(self.read("joined.npy"), ((12, 3), [0] * 6 + list(range(30))))
        self.refused(FAILED, "--dim past=0 applies to all steps; --dim INPUT[AXIS]=N, or --input INPUT=zeros, fixes only a first state",
                     "loop", *words, "-r", "--dim", "past=0")
        self.refused(FAILED, "it has open dims", "loop", self.concat, "-c", "joined=first", "-i", "first=zeros", "-i", "second=zeros",
                     "-n", "2")

    def test_what_changes_its_dims_is_said(self):
        """Weights over a cache that grows cannot be one array; the rest can."""
        decoder = self.model("decoder.onnx", "decoder")
        tokens = self.write("tokens.npy", npy_bytes("<i8", (3, 1), struct.pack("<3q", 5, 2, 9)))
        empty = self.write("empty.npy", floats([], (0, 8)))
        words = (decoder, "-c", "key=past_key", "-c", "value=past_value", "-i", f"past_key={empty}", "-i", f"past_value={empty}", "-i",
                 f"tokens={tokens}@0")
        report = self.loop(*words)
        self.assertEqual([(output["name"], output["dims"]) for output in report["outputs"]],
                         [("logits", [3, 1, 16]), ("key", [3, 8]), ("value", [3, 8]), ("weights", None)])
        self.assertEqual([output["file"] is not None for output in report["outputs"]], [True, True, True, False])
        text = self.good("loop", *words, "-o", self.out)
        self.assertIn("'weights' changes its dims from step to step: not gathered", text)

    def test_a_mode_that_the_model_does_not_allow_is_seen(self):
        """A transpose that writes where it has yet to read."""
        outer = self.model("loop-transpose.onnx", "transpose", "dims=2,2")
        x = self.write("x.npy", floats([1, 2, 3, 4], (2, 2)))
        right = self.loop(outer, "-c", "y=x,swap", "-i", f"x={x}", "--steps", "1", device="cpu")
        wrong = self.loop(outer, "-c", "y=x,in-place", "-i", f"x={x}", "--steps", "1", device="cpu")
        self.assertEqual((right["same"], wrong["same"]), (True, False))

    def test_a_mode_that_is_not_given(self):
        """A cache of fixed capacity in place, if its operator alone reads it; others are moved, or swapped where graphs are captured."""
        rows = self.write("new.npy", floats([1] * 4 + [2] * 4 + [3] * 4, (3, 1, 1, 4)))
        at = self.write("at.npy", npy_bytes("<i8", (3, 1), struct.pack("<3q", 0, 1, 2)))
        cases = ((("append", "opset=24"), (), "in-place"), (("append", "opset=24"), ("--graph",), "in-place"),
                 (("append", "opset=24", "old=1"), (), "move"), (("append", "opset=24", "old=1"), ("--graph",), "swap"))
        for words, options, mode in cases:
            report = self.loop(self.model(f"loop-{'-'.join(words)}.onnx", *words), "-c", "next=cache", "-i", "cache=zeros", "-i", f"row={rows}@0", "-i",
                               f"at={at}@0", *options)
            self.assertEqual((report["outputs"][0]["mode"], report["same"]), (mode, True), words + options)
            self.assertEqual(self.read("next.npy")[1][:16:4], [1, 2, 3, 0])
        shared = self.model("loop-shared.onnx", "shared")
        last = self.write("last.npy", npy_bytes("<i4", (3, 1), struct.pack("<3i", 0, 1, 2)))
        total = self.write("total.npy", npy_bytes("<i4", (3,), struct.pack("<3i", 1, 2, 3)))
        x = self.write("x.npy", floats(range(96), (3, 1, 1, 32)))
        report = self.loop(shared, "-c", "key=past_key", "-c", "value=past_value", "-i", "past_key=zeros", "-i", "past_value=zeros", "-i",
                           f"x={x}@0", "-i", f"seqlens_k={last}@0", "-i", f"total={total}@0", device="cpu")
        self.assertEqual(([output["mode"] for output in report["outputs"]], report["same"]), ([None, "in-place", "in-place"], True))

    def test_rows_beyond_the_length_of_a_cache(self):
        """In place they are what they were first, or what a step has written before the length was shortened; in new memory the operator makes
        them zeros."""
        shared = self.model("loop-shared.onnx", "shared")
        x = self.write("x.npy", floats(range(96), (3, 1, 1, 32)))
        full = self.write("full.npy", floats([7] * 512, (1, 2, 16, 16)))
        words = (shared, "-c", "key=past_key,in-place", "-c", "value=past_value,in-place", "-i", f"past_key={full}", "-i", f"past_value={full}",
                 "-i", f"x={x}@0")
        for steps in ((0, 1, 2), (5, 1, 2), (5, 6, 2)):
            last = self.write("last.npy", npy_bytes("<i4", (3, 1), struct.pack("<3i", *steps)))
            total = self.write("total.npy", npy_bytes("<i4", (3,), struct.pack("<3i", *(step + 1 for step in steps))))
            for more in ((), ("--gather", "key")):
                report = self.loop(*words, "-i", f"seqlens_k={last}@0", "-i", f"total={total}@0", *more, device="cpu")
                self.assertTrue(report["same"], steps)

    def test_progress_is_for_terminals(self):
        """After two seconds a line says where the loop is: the steps take longer until its thread has had its turn."""
        x = self.write("x.npy", floats([1], (1,)))
        words = ("loop", self.model("scale.onnx", "scale"), "-c", "y=x,swap", "-i", f"x={x}", "-n", "10", "--no-host", "-d", "vdev")
        line = rb"iobind: loop: step \d+ of 10 \(\d+ s\)"
        text = b""
        for milliseconds in (300, 1000, 3000):
            slow = dict(self.environment, VDEV_DELAY_COMPUTE=f"every:1,us:{milliseconds * 1000}")
            text = self.on_terminal(words, slow)
            if re.search(line, text):
                break
        self.assertRegex(text, line)
        self.assertTrue(text.endswith(b"\r\x1b[K"), text)
        self.assertEqual(self.call(*words, env=slow).stderr, "")

    def on_terminal(self, words, environment):
        """What the tool writes to stderr where that is a terminal."""
        master, slave = pty.openpty()
        process = subprocess.Popen([TOOL, *words], stdout=subprocess.DEVNULL, stderr=slave, env=environment)
        os.close(slave)
        text = b""
        try:
            while part := os.read(master, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
        os.close(master)
        self.assertEqual(process.wait(), 0, text)
        return text

    def test_refused(self):
        first, second = f"first={self.none}", f"second={self.rows}@0"
        good = ("loop", self.concat, "-i", first, "-i", second)
        self.refused(MISUSED, "nothing is carried", "loop", self.concat, "-r", "--dim", "past=1", "--dim", "new=1", "--steps", "3")
        self.refused(MISUSED, "expected OUTPUT=INPUT or OUTPUT=INPUT,MODE, got 'joined'", *good, "-c", "joined")
        self.refused(MISUSED, "expected the mode move, swap or in-place, got ',swop'", *good, "-c", "joined=first,swop")
        self.refused(MISUSED, "its output is carried already", *good, "-c", "joined=first", "-c", "joined=second")
        self.refused(FAILED, "the model has 'joined'", *good, "-c", "j=first")
        self.refused(FAILED, "the model has 'first', 'second'", *good, "-c", "joined=third")
        carried = ("loop", self.concat, "-c", "joined=first", "-i", first)
        self.refused(MISUSED, "--steps is missing", *carried, "-i", f"second={self.write('row.npy', floats([1, 2, 3], (1, 3)))}")
        self.refused(MISUSED, "expected a whole number", *carried, "-i", second, "--steps", "0")
        self.refused(FAILED, "input 'second' is fed for 10 steps", *carried, "-i", second, "--steps", "11")
        self.refused(FAILED, "no axis 3", *carried, "-i", f"second={self.rows}@3")
        self.refused(FAILED, "no slice along axis 0", *carried, "-i", f"second={self.none}@0")
        self.refused(FAILED, "input 'second' (float32[new,3]) is missing", *carried)
        self.refused(FAILED, "rows.npy@one", *carried, "-i", f"second={self.rows}@one")
        self.refused(MISUSED, "the input is carried; give its first state", *good, "-c", "joined=second")
        wide = self.write("wide.npy", npy_bytes("<f8", (2, 1, 3), bytes(48)))
        self.refused(FAILED, "expected float32, got an array of type <f8", *carried, "-i", f"second={wide}@0")
        self.refused(FAILED, "step 0: output 'joined': expected the bound shape", "loop", self.concat, "-c", "joined=first,swap",
                     "-i", first, "-i", second)
        self.refused(FAILED, "'y' is int64[2], input 'x' is float32", "loop", self.model("shape.onnx", "shape"), "-c", "y=x", "-r",
                     "--dim", "n=1", "--dim", "m=1", "--steps", "1")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
