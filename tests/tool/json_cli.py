#!/usr/bin/env python3
"""With --json a command that fails prints one object with the error, beside the line on stderr; and the exit code stays."""
import json
import os
import re
import unittest

from case import FAILED, MISUSED, Case
from files import npy_bytes

ARGUMENTS = {"bench": ["MODEL"], "audit": ["MODEL"], "inspect": ["MODEL"], "run": ["MODEL"], "loop": ["MODEL"],
             "compare": ["MODEL", "--device", "vdev"], "tile": ["MODEL", "--input", "IN.npy", "--output", "OUT.npy"]}


class Json(Case):
    def commands(self):
        return re.findall(r"^  (\w+) +\S", self.good("--help"), flags=re.M)

    def words(self, command):
        places = {"MODEL": self.model("add.onnx", "add"), "IN.npy": self.write("in.npy", npy_bytes("<f4", (1, 1, 4, 4), bytes(64))),
                  "OUT.npy": self.path("out.npy")}
        return [command, *(places.get(word, word) for word in ARGUMENTS.get(command, []))]

    def error(self, code, *words, **more):
        """The error in the object, which is all that is on stdout."""
        result = self.call(*words, **more)
        self.assertEqual(result.returncode, code, (words, result.stderr))
        error = json.loads(result.stdout)["error"]
        self.assertIn(f"iobind: {words[0]}: {error['message']}\n", result.stderr)
        return error

    def test_each_command_without_onnx_runtime(self):
        for command in set(self.commands()) - {"options"}:  # which needs none
            error = self.error(FAILED, *self.words(command), "--json", "--ort", "/no/such/file")
            self.assertEqual(error["status"], "NOT_FOUND", error)

    def test_each_command_used_wrongly(self):
        for command in self.commands():
            for words in (["--json", "--no-such-option"], ["--no-such-option", "-j"], ["--no-such-option=1", "-vj"]):
                error = self.error(MISUSED, command, *words)
                self.assertIsNone(error["status"])
                self.assertIn("unknown option '--no-such-option", error["message"])

    def test_a_model_that_is_not_there(self):
        error = self.error(FAILED, "inspect", "no.onnx", "-j")
        self.assertIn("no.onnx", error["message"])
        self.assertIsNone(error["status"], "no call of the library failed")
        self.assertEqual(self.error(MISUSED, "inspect", "-j")["message"], "MODEL is missing; see `iobind inspect --help`")

    def test_a_failure_after_the_report_adds_no_object(self):
        model = self.model("add.onnx", "add")
        result = self.call("audit", model, "-j", "--random", "--dim", "n=4", "--device", "vdev", "--bind", "host", "--expect-zero")
        self.assertEqual(result.returncode, FAILED)
        self.assertNotIn("error", json.loads(result.stdout))

    def test_without_json_nothing_is_on_stdout(self):
        self.assertEqual(self.call("inspect", "no.onnx").stdout, "")

    def test_doctor_has_its_own_fields_as_well(self):
        result = json.loads(self.call("doctor", "-j", env=dict(self.environment, ORT_NATIVE_LIB_PATH="/no/such/file")).stdout)
        self.assertEqual((result["ok"], result["status"], result["error"]["status"]), (False, "NOT_FOUND", "NOT_FOUND"))


if __name__ == "__main__":
    os.environ.pop("ORT_NATIVE_LIB_PATH", None)
    unittest.main(argv=["json_cli"])
