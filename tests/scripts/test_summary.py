"""scripts/summary: the time of each suite, the slowest tests, and each test that was skipped, with the reason that it gave."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "summary"
CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="7" failures="1" disabled="0" skipped="4">
  <testcase name="a.passed" time="1.5" status="run"><system-out>skipped is a word here</system-out></testcase>
  <testcase name="b.failed" time="20" status="fail"><failure message=""/><system-out>no</system-out></testcase>
  <testcase name="a.other" time="0.25" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>c: skipped: no namespace &amp; no mount
and more
</system-out></testcase>
  <testcase name="d.other" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>c: skipped: no namespace &amp; no mount</system-out></testcase>
  <testcase name="e.silent" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out></system-out></testcase>
  <testcase name="e.cmocka" time="0" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[==========] Running 1 test(s).
[ RUN      ] cmocka
no WebGPU plugin
[  SKIPPED ] cmocka
[==========] 1 test(s) run.
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] cmocka
</system-out></testcase>
</testsuite>
"""

class Summary(unittest.TestCase):
    def said(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            return subprocess.run([SCRIPT, folder], capture_output=True, text=True, check=True).stdout.splitlines()

    def test_everything(self):
        said = self.said({"dev.xml": CTEST})
        at = said.index("skipped, and why:")
        self.assertEqual([line.split() for line in said[:5]],
                         [["suite", "tests", "seconds"], ["b", "1", "20.0"], ["a", "2", "1.8"], ["d", "1", "0.0"], ["e", "2", "0.0"]])
        self.assertEqual(said[5], "the slowest 10 tests:")
        self.assertEqual([line.split(maxsplit=1) for line in said[6:at]][:3],
                         [["20.0", "b.failed (dev)"], ["1.5", "a.passed (dev)"], ["0.2", "a.other (dev)"]])
        self.assertEqual(said[at + 1:], ["  a.other (dev), d.other (dev):", "    c: skipped: no namespace & no mount",
                                         "  e.silent (dev):", "    it did not say why", "  e.cmocka (dev):", "    no WebGPU plugin",
                                         "1 passed, 1 failed, 4 skipped"])

    def test_two_runs(self):
        said = self.said({"dev.xml": CTEST, "tsan.xml": CTEST})
        self.assertIn("  a.other (dev), a.other (tsan), d.other (dev), d.other (tsan):", said)
        self.assertEqual(said[-1], "2 passed, 2 failed, 8 skipped")

    def test_no_more_than_ten(self):
        cases = "".join(f'<testcase name="a.{number}" time="{number}" status="run"/>' for number in range(12))
        said = self.said({"dev.xml": f"<testsuite>{cases}</testsuite>"})
        self.assertEqual(len(said), 1 + 1 + 1 + 10 + 1)
        self.assertEqual(said[3].split(), ["11.0", "a.11", "(dev)"])

    def test_nothing_was(self):
        self.assertEqual(self.said({}), ["0 passed, 0 failed, 0 skipped"])


if __name__ == "__main__":
    unittest.main()
