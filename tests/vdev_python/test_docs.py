"""The programs of docs/vdev.md do what it says, and its tables name all settings and statistics.

usage: test_docs.py LIBRARY [unittest's arguments]

Each program is put into a directory under the name in its first line, beside the library."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import vdev

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/vdev.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)


def table(heading):
    """The names in the first column of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, flags=re.M)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.symlink(os.path.realpath(sys.argv[0]), self.folder / "libiobind_vdev.so")
        (self.folder / "bin").mkdir()
        python = self.folder / "bin/python"
        python.write_text(f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
        python.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{python.parent}:{os.environ['PATH']}")

    def run_in_folder(self, *command):
        ran = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_programs(self):
        """Each by itself: those of the README have a test in tests/alone."""
        programs = [program for program in blocks("python") if not re.match("# (test_|conftest)", program)]  # bindings/python/tests has pytest
        self.assertTrue(programs)
        for program in programs:
            name = re.match(r"# ([\w.]+)", program)[1]
            (self.folder / name).write_text(program)
            self.run_in_folder("python", name)

    def test_the_settings_are_those_that_there_are(self):
        named = set(table("Settings"))
        library = vdev.Library(sys.argv[0])
        source = (ROOT / "vdev/settings.c").read_text()
        known = set(re.findall(r'^    \{"(\w+)", \.kind', source, flags=re.M))
        self.assertGreater(len(known), 20)
        self.assertEqual(named, known)
        for name, value in re.findall(r"`([a-z_]+)=([^`]+)`", PAGE.replace("enable_fallback=", "")):
            library.set(name, value)
            library.set(name, {"race": "off"}.get(name, "0"))

    def test_the_statistics_are_those_that_there_are(self):
        named = set(table("Statistics"))
        source = (ROOT / "vdev/device.c").read_text()
        self.assertEqual(named, set(re.findall(r'\{"(\w+)", (?:device|vdev_\w+\(\))', source)))


if __name__ == "__main__":
    # unittest reads the arguments from the second on, and the tests the first.
    sys.argv.pop(0)
    unittest.main(argv=["test_docs.py", *sys.argv[1:]])
