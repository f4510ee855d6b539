#!/usr/bin/env python3
"""What the shells complete: each command and each option of its help; by bash as it is installed, by zsh and fish where they are."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from case import MISUSED, TOOL, Case

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "tool/completions"


class Completion(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment["PATH"] = os.path.dirname(TOOL) + ":" + cls.environment["PATH"]

    def commands(self):
        return re.findall(r"^  (\w+) +\S", self.good("--help"), flags=re.M)

    def helped(self, command):
        """The options of a command's help, with their letters."""
        return {option for found in re.findall(r"^  (?:(-\w), |    )(--[\w-]+)", self.good(command, "--help"), flags=re.M)
                for option in found if option}

    def bash(self, *words):
        """What bash offers for the last word."""
        script = (f'. "{SCRIPTS}/iobind.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_iobind iobind "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(["bash", "--norc", "-c", script, "bash", "iobind", *words], env=self.environment, cwd=self.folder,
                                check=True, capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def test_commands(self):
        self.assertEqual(self.bash(""), {*self.commands(), "--help", "--version"})
        self.assertEqual(self.bash("de"), {"devices"})

    def test_each_option(self):
        for command in self.commands():
            self.assertEqual(self.bash(command, "-"), self.helped(command), command)

    def test_the_start_of_an_option(self):
        self.assertEqual(self.bash("run", "--output"), {"--output", "--output-dir"})

    def test_values(self):
        for words in (["audit", "--bind", "d"], ["audit", "-b", "d"], ["audit", "--bind", "=", "d"]):
            self.assertEqual(self.bash(*words), {"device"})
        self.assertEqual(self.bash("run", "--seed", ""), set())

    def test_files(self):
        self.write("model-of-mine.onnx", b"")
        for words in (["run"], ["run", "--profile"], ["doctor", "--ort"], ["run", "--input", "x", "="]):
            self.assertEqual(self.bash(*words, "model-of"), {"model-of-mine.onnx"}, words)

    def test_lines(self):
        line = re.compile(r"(-|-\w)\t--[\w-]+\t(-|[^\t]+)\t[^\t]+")
        for command in self.commands():
            for text in self.good("complete", command).splitlines():
                self.assertTrue(line.fullmatch(text), text)
        self.refused(MISUSED, "did you mean 'doctor'", "complete", "docto")

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        stub = '_arguments() { print -rl -- "$@" }; words=(iobind "$1" ""); CURRENT=3; . "$2"'
        for command in self.commands():
            said = subprocess.run(["zsh", "-f", "-c", stub, "zsh", command, SCRIPTS / "_iobind"], env=self.environment, check=True,
                                  capture_output=True, text=True).stdout
            self.assertEqual(set(re.findall(r"^\*(-[\w-]+)", said, flags=re.M)), self.helped(command))

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        for command in self.commands():
            script = f'source "{SCRIPTS}/iobind.fish"; complete -C "iobind {command} -"'
            said = subprocess.run(["fish", "-c", script], env=self.environment, check=True, capture_output=True, text=True)
            self.assertEqual({line.split("\t")[0] for line in said.stdout.splitlines()}, self.helped(command))


if __name__ == "__main__":
    unittest.main(argv=["completion_cli"])
