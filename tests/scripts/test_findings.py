"""scripts/device-findings: the part of docs/devices.md that it writes, and that the page is as it writes it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("device_findings", str(PROJECT / "scripts" / "device-findings"))
sys.dont_write_bytecode = True
findings = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(findings)


def row(op_type, dtype, count, **cases):
    made = {"device": "vdev:0", "op_type": op_type, "dtype": dtype, "rank": 2, "count": count}
    for outcome in findings.OUTCOMES:
        made[outcome] = [{"kernel": kernel, "reason": "why"} for kernel in cases.get(outcome, [])]
    made["right"] = count - sum(len(made[outcome]) for outcome in findings.OUTCOMES)
    return made


SAID = {"ort_version": "1.2.3", "devices": [], "kernels": [
    row("Conv", "float32", 3, wrong=["Conv 1x33x20 *8x33x3"], fatal=["Conv 0x3"]),
    row("Cast", "int64", 2, on_cpu=["Cast a", "Cast b"]), row("Cast", "int32", 2, on_cpu=["Cast c"], refused=["Cast d"]),
    row("Relu", "float32", 4)]}
WRITTEN = """**The virtual accelerator**; driver: -; ONNX Runtime 1.2.3; 11 kernels: 5 right, 1 wrong, 1 ending the process, 1 refused, 3 on the CPU.

| Computed wrong | Type | |
|---|---|---|
| `Conv 1x33x20 *8x33x3` | float32 | why |

| Ends the process | Type | |
|---|---|---|
| `Conv 0x3` | float32 | why |

Refused: Cast int32 (1 of 2).

Left to the CPU: Cast int64, int32 (1 of 2)."""


class Findings(unittest.TestCase):
    def test_what_is_written(self):
        self.assertEqual(findings.render("vdev", SAID), WRITTEN)

    def test_more_than_a_page_shows(self):
        many = row("Conv", "float32", 50, wrong=[f"Conv {number}" for number in range(findings.SHOWN + 3)])
        self.assertIn("| and 3 more | | |", findings.render("vdev", {"ort_version": "1.2.3", "devices": [], "kernels": [many]}))

    def call(self, page, *words):
        with mock.patch.object(findings, "PAGE", page), mock.patch.object(findings, "examine", lambda *given: SAID), \
             mock.patch.object(sys, "argv", ["device-findings", *words]), contextlib.redirect_stdout(io.StringIO()):
            return findings.main()

    def test_a_page(self):
        """Only the device's own part is changed; --check finds a page that is another one, and changes nothing."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            before = "one\n<!-- findings: cpu -->\nkept\n<!-- end -->\n<!-- findings: vdev -->\n<!-- end -->\ntwo\n"
            page.write_text(before, encoding="utf-8")
            self.assertEqual((self.call(page, "--check", "vdev"), page.read_text(encoding="utf-8")), (1, before))
            self.assertEqual(self.call(page, "vdev", "--json", folder), 0)
            after = page.read_text(encoding="utf-8")
            self.assertEqual(after, before.replace("vdev -->\n", f"vdev -->\n{WRITTEN}\n"))
            self.assertEqual(json.loads(pathlib.Path(folder, "vdev.json").read_text(encoding="utf-8")), SAID)
            self.assertEqual(self.call(page, "--check", "vdev"), 0)
            self.assertEqual((self.call(page, "vdev"), page.read_text(encoding="utf-8")), (0, after))
            page.write_text(after.replace("5 right", "6 right"), encoding="utf-8")
            self.assertEqual(self.call(page, "--check", "vdev"), 1)
            page.write_text(after.replace("Runtime 1.2.3", "Runtime 1.2.4"), encoding="utf-8")
            self.assertEqual(self.call(page, "--check", "vdev"), findings.SKIPPED)
            for words in (["nobody"], []):
                with self.assertRaisesRegex(SystemExit, "expected one of cpu, vdev"):
                    self.call(page, *words)


class Page(unittest.TestCase):
    """docs/devices.md, without a device."""

    HEAD = re.compile(r"\*\*(.+?)\*\*(?:, EP [\d.]+)?; driver: (.+?); ONNX Runtime [\d.]+; (\d+) kernels: (\d+ right(?:, \d+ [a-zCPU ]+)*)\.")
    LISTS = re.compile(r"(Refused|Left to the CPU): \w+ [a-z0-9 (),;A-Z]+\.")

    def check(self, name, text):
        head, *parts = text.split("\n\n")
        match = self.HEAD.fullmatch(head)
        self.assertIsNotNone(match, head)
        self.assertEqual((match[1], match[2]), findings.DEVICES[name][:2])
        counts = {word: int(number) for number, word in (part.split(" ", 1) for part in match[4].split(", "))}
        self.assertEqual(sum(counts.values()), int(match[3]), head)
        tables = {part.split(" |")[0].removeprefix("| "): part.splitlines()[2:] for part in parts if part.startswith("|")}
        for title, word in (("Computed wrong", "wrong"), ("Ends the process", "ending the process")):
            rows = tables.pop(title, [])
            self.assertEqual(len(rows), min(counts.get(word, 0), findings.SHOWN) + (counts.get(word, 0) > findings.SHOWN), title)
            for line in rows[:findings.SHOWN]:
                self.assertRegex(line, r"^\| `[A-Z]\w+( [^`]+)?` \| \w+ \| .+ \|$")
        self.assertEqual(tables, {})
        lists = [part for part in parts if not part.startswith("|")]
        for line in lists:
            self.assertRegex(line, self.LISTS)
        return int(match[3])

    def test_each_device(self):
        page = findings.PAGE.read_text(encoding="utf-8")
        said = re.findall(r"<!-- findings: (\w+) -->\n(.*?)\n<!-- end -->", page, re.S)
        self.assertEqual([name for name, _ in said], list(findings.DEVICES))
        totals = {self.check(name, text) for name, text in said}
        self.assertEqual(len(totals), 1, "the same list for each")
        self.assertIn(f"generates {totals.pop()} models of one node", (PROJECT / "docs" / "tool.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
