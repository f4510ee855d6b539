"""What the programs that call the tool share. Their arguments are TOOL MAKE_MODEL RUNTIME_FOLDER and unittest's."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from files import identity_model

TOOL, MAKE_MODEL, RUNTIME = (os.path.abspath(word) for word in sys.argv[1:4])
FAILED, MISUSED = 1, 2


class Case(unittest.TestCase):
    maxDiff = None
    software_gpu = False  # in each process that checks all devices, WebGPU's software driver takes longer than all else

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="iobind-cli-")
        cls.environment = dict(os.environ, ORT_DISABLE_TELEMETRY="1", HOME=cls.folder)
        if not cls.software_gpu:
            cls.environment["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] = "0"
        cls.environment.pop("NO_COLOR", None)
        cls.environment.pop("COLUMNS", None)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def model(self, name, *spec):
        path = self.path(name)
        if not os.path.exists(path):
            subprocess.run([MAKE_MODEL, *spec, path], check=True)
        return path

    def identity(self, name, **more):
        return self.write(name, identity_model(["x"], [("x", "y")], **more))

    def call(self, *words, **more):
        more.setdefault("env", self.environment)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("timeout", 120)
        return subprocess.run([TOOL, *words], stderr=subprocess.PIPE, errors="replace", **more)

    def good(self, *words, **more):
        result = self.call(*words, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def good_json(self, *words):
        return json.loads(self.good(*words, "--json"))

    def refused(self, code, part, *words, **more):
        with self.subTest(words=words):
            result = self.call(*words, **more)
            self.assertEqual(result.returncode, code, result.stderr)
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertTrue(lines[0].startswith("iobind: "), lines[0])
            self.assertTrue(lines[0].isprintable(), lines[0])
            self.assertNotRegex(lines[0], r"^iobind: (\w+: )?\w+_\w+: ", "a function's name")
            self.assertIn(part, lines[0])
            if more.get("stdout") is None and {"--json", "-j"} & set(words):
                self.assertIn(json.loads(result.stdout)["error"]["message"], lines[0])
            elif more.get("stdout") is None:
                self.assertEqual(result.stdout, "")
            return lines[0]
