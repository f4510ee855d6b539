"""scripts/install-packages: what it asks for on a system without it, whatever is on this one."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
HIDDEN = {"mvn", "patchelf", "javac", "sudo", "xz", "bzip2"}


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        for directory in ("/usr/bin", "/bin"):
            for program in os.scandir(directory):
                if program.name not in HIDDEN and not (self.programs / program.name).is_symlink():
                    (self.programs / program.name).symlink_to(program.path)
        self.program("id", "echo 1000")
        self.program("apt-get", "exit 1")
        shutil.copytree(SCRIPTS, self.folder / "scripts")

    def program(self, name, text, folder=None):
        path = (folder or self.programs) / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def asked_for(self, need):
        result = subprocess.run(["/bin/bash", self.folder / "scripts" / "install-packages", need], capture_output=True, text=True,
                                env={"PATH": str(self.programs)})
        self.assertNotEqual(result.returncode, 0)
        line = result.stderr.splitlines()[-1]
        self.assertIn("apt-get install -y --no-install-recommends ", line)
        return line.split()[4:]

    def test_java_without_a_new_jdk(self):
        self.program("java-home", "exit 1", self.folder / "scripts")
        self.program("apt-cache", "exit 1")
        self.assertEqual(self.asked_for("java"), ["maven", "patchelf"])  # get-jdk needs that
        self.program("apt-cache", '[ "$2" = openjdk-24-jdk-headless ]')
        self.assertEqual(self.asked_for("java"), ["maven", "openjdk-24-jdk-headless"])

    def test_java_with_one(self):
        self.program("java-home", "echo /somewhere", self.folder / "scripts")
        self.assertEqual(self.asked_for("java"), ["maven"])

    def test_python_on_a_minimal_system(self):
        self.assertLessEqual({"xz-utils", "bzip2"}, set(self.asked_for("python")))  # get-port-libraries unpacks with them


if __name__ == "__main__":
    unittest.main()
