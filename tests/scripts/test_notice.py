"""NOTICE says what each script fetches, and names no script that is not there."""
import pathlib
import re
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]


class Notice(unittest.TestCase):
    def test_names_the_scripts_that_fetch(self):
        said = set(re.findall(r"^ +scripts/(get-[\w-]+)", (PROJECT / "NOTICE").read_text(encoding="utf-8"), flags=re.M))
        self.assertEqual(said, {path.name for path in (PROJECT / "scripts").glob("get-*")})


if __name__ == "__main__":
    unittest.main()
