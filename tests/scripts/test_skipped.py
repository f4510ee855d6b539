"""scripts/skipped: each test that was skipped is named, with the reason that it gave."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "skipped"
RESULTS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="4" failures="1" disabled="0" skipped="2">
  <testcase name="a.passed" status="run"><system-out>skipped is a word here</system-out></testcase>
  <testcase name="b.failed" status="fail"><failure message=""/><system-out>no</system-out></testcase>
  <testcase name="c.other" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>c: skipped: no namespace &amp; no mount
and more
</system-out></testcase>
  <testcase name="d.other" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>c: skipped: no namespace &amp; no mount</system-out></testcase>
  <testcase name="e.silent" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out></system-out></testcase>
</testsuite>
"""


class Skipped(unittest.TestCase):
    def said(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name.replace("_", ".")).write_text(text, encoding="utf-8")
            return subprocess.run([SCRIPT, folder], capture_output=True, text=True, check=True).stdout.splitlines()

    def test_each_with_its_reason(self):
        said = self.said(dev_xml=RESULTS, java_txt="no JDK\n")
        self.assertEqual(said, ["skipped, and why:", "  c.other (dev), d.other (dev):", "    c: skipped: no namespace & no mount",
                                "  e.silent (dev):", "    it did not say why", "  java:", "    no JDK",
                                "1 passed, 1 failed, 4 skipped"])

    def test_nothing_was(self):
        self.assertEqual(self.said(), ["0 passed, 0 failed, 0 skipped"])


if __name__ == "__main__":
    unittest.main()
