#!/usr/bin/env python3
"""On 80 columns no line is wider, and no word is broken: each command's help, and each table. A word that alone is wider, such as a path, ends
its line."""
import re
import unittest

from case import Case
from files import npy_bytes

WIDTH = 80


class Width(Case):
    def lines(self, *words, width=WIDTH):
        return self.call(*words, env=dict(self.environment, COLUMNS=str(width))).stdout.splitlines()

    def expect_narrow(self, *words):
        lines = self.lines(*words)
        self.assertTrue(lines, words)
        for line in lines:
            label = re.match(r"[A-Za-z0-9 /]*: +", line)
            room = WIDTH - (len(label[0]) if label else 0)
            if len(line) > WIDTH:
                self.assertGreater(len(line.split()[-1]), room, (words, line))
                self.assertEqual(len(line[WIDTH - room:].split()), 1, (words, line))
        return lines

    def expect_whole_words(self, *words):
        """What is on 80 columns has the words of what is in lines of any length."""
        result = self.call(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        whole = set(result.stdout.split())
        for word in " ".join(self.expect_narrow(*words)).split():
            self.assertTrue(word in whole or word.removesuffix(":") in whole, (words, word))

    def commands(self):
        return re.findall(r"^  (\w+) +\S", self.good("--help"), flags=re.M)

    def test_help(self):
        self.expect_whole_words("--help")
        for command in self.commands():
            self.assertLessEqual(max(map(len, self.lines(command, "--help"))), WIDTH, command)
            self.expect_whole_words(command, "--help")

    def test_help_without_a_width_is_as_wide(self):
        for command in self.commands():
            self.assertLessEqual(max(map(len, self.good(command, "--help").splitlines())), WIDTH, command)

    def test_tables_of_devices(self):
        for words in (["doctor"], ["devices"], ["devices", "-v"], ["options"], ["options", "cuda"], ["options", "vdev"]):
            self.expect_whole_words(*words)
        del self.environment["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"]  # its rows are the widest
        self.addCleanup(self.environment.update, ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER="0")
        for words in (["doctor", "-v"], ["devices", "-v"]):
            self.expect_whole_words(*words)

    def test_tables_of_models(self):
        model = self.model("add.onnx", "add")
        given = ["--random", "--dim", "n=4", "--device", "vdev"]
        picture = self.write("picture.npy", npy_bytes("<f4", (1, 3, 8, 8), bytes(768)))
        same = self.identity("same.onnx", dims=(1, 3, 8, 8))
        self.expect_whole_words("inspect", model, "--device", "vdev", "-v")
        for words in (["run", model, *given], ["loop", model, *given, "--steps", "2", "--carry", "z=x"],
                      ["bench", model, "--device", "vdev", "--iterations", "3", "--dim", "n=4"], ["audit", model, *given, "-v"],
                      ["compare", model, *given, "--nodes"], ["tile", same, "--input", picture, "--output", self.path("out.npy")]):
            self.expect_narrow(*words)

    def test_a_table_that_fits_is_a_table(self):
        lines = self.lines("devices", width=300)
        self.assertRegex(lines[0], r"^DEVICE +EP +HARDWARE")
        self.assertEqual(lines, self.good("devices").splitlines())

    def test_a_column_of_text_is_continued_below(self):
        lines = self.lines("options", "vdev", width=100)
        self.assertRegex(lines[3], r"^KEY +VALUES +DEFAULT")
        self.assertTrue(any(line.startswith(" " * 20) for line in lines), lines)


if __name__ == "__main__":
    unittest.main(argv=["width_cli"])
