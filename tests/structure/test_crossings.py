"""Does crossings.py notice what it is there for? Each case puts one fault into a small page that has none."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import crossings

PAGE = """# Crossings

## Features

| Feature | What it includes |
|---|---|
| lend | a |
| two devices | b |
| take | c |

## lend

| With | Tests |
|---|---|
| two devices | [unit/a_test.c](../tests/unit/a_test.c): `lent`, `lent_late`; [rows](../tests/cases.tsv): `lend/@` |
| take | [test_b.py](../python/test_b.py): `test_taken`; [C.java](../java/C.java): `taken` |

## two devices

| With | Tests |
|---|---|
| take | Cannot occur: they never meet. |
"""
SOUND = {
    "docs/crossings.md": PAGE,
    "tests/unit/a_test.c": "static void lent(void **state) {\n}\nstatic void lent_late(void **state) {\n}\nstatic void idle(void **state) {\n}\n"
                           "static void help(int x) {\n  call(help, 1);\n}\n"
                           "static const struct CMUnitTest tests[] = {cmocka_unit_test(lent), {\"late\", lent_late, 0}}; /* (idle) */\n",
    "tests/cases.tsv": "# a comment\tof two\n=list\ta b\nname\teach\tsteps\nlend/@\ta b\trun\n",
    "python/test_b.py": "def test_taken(x):\n    pass\ndef taken():\n    pass\n",
    "java/C.java": "class C {\n  @ParameterizedTest\n  @ValueSource(strings = {\"a\"})\n  void taken() throws Exception {}\n  void helps() {}\n}\n",
}


class Crossings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in SOUND.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def assert_fault(self, old, new, *messages):
        self.assertEqual(PAGE.count(old), 1)
        (self.root / "docs/crossings.md").write_text(PAGE.replace(old, new), encoding="utf-8")
        problems = crossings.Page(self.root).check()
        self.assertEqual(len(problems), len(messages), problems)
        for problem, message in zip(problems, messages):
            self.assertIn(message, problem)

    def test_sound(self):
        page = crossings.Page(self.root)
        self.assertEqual(page.check(), [])
        self.assertEqual(page.counts, {"tests": 2, "reasons": 1})

    def test_what_is_said_decides(self):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(crossings.main([self.root]), 0)
            self.assertEqual(said.getvalue(), "")
            (self.root / "tests/cases.tsv").unlink()
            self.assertEqual(crossings.main([self.root]), 1)
        self.assertIn("docs/crossings.md: lend with two devices: there is no file tests/cases.tsv", said.getvalue())

    def test_a_pair_that_is_missing(self):
        self.assert_fault("| take | Cannot occur: they never meet. |\n", "", "two devices: expected the rows take; got ")

    def test_a_pair_that_is_there_twice(self):
        row = "| take | Cannot occur: they never meet. |\n"
        self.assert_fault(row, row + row, "got take, take")

    def test_a_pair_in_the_wrong_section(self):
        row = "| take | Cannot occur: they never meet. |\n"
        self.assert_fault(row, row + "| lend | Cannot occur: they never meet. |\n", "got take, lend")

    def test_a_section_that_is_missing(self):
        self.assert_fault(PAGE[PAGE.index("## two devices"):], "", "two devices: expected the rows take")

    def test_a_section_of_no_feature(self):
        self.assert_fault("## two devices\n", "## others\n\n| With | Tests |\n|---|---|\n\n## two devices\n", "'others' is not a feature")

    def test_a_feature_that_nobody_crosses(self):
        self.assert_fault("| take | c |\n", "| take | c |\n| carry | d |\n", "lend: expected the rows two devices, take, carry; got two devices, take",
                          "two devices: expected the rows take, carry", "take: expected the rows carry")

    def test_a_feature_that_is_there_twice(self):
        self.assert_fault("| lend | a |\n", "| lend | a |\n| lend | a |\n", "each once")

    def test_a_file_that_is_not_there(self):
        self.assert_fault("../tests/unit/a_test.c)", "../tests/unit/z_test.c)", "there is no file tests/unit/z_test.c")

    def test_tests_that_are_not_there(self):
        for old, new in (("`lent`", "`lend`"), ("`lent`", "`help`"), ("`lent`", "`idle`"), ("`lent_late`", "`lent_lately`"),
                         ("`lend/@`", "`lend/a`"), ("`lend/@`", "`name of none`"), ("`test_taken`", "`taken_late`"),
                         ("`taken` |", "`helps` |")):
            with self.subTest(new):
                self.assert_fault(old, new, f"has no test '{new.strip(' |').strip('`')}'")

    def test_neither_a_test_nor_a_reason(self):
        for cell in ("", "-", "Cannot occur: ", "they never meet", "[a](../tests/unit/a_test.c)", "`lent`", "tests/unit/a_test.c: `lent`",
                     "Cannot occur: it does, see [a](../tests/unit/a_test.c): `lent`"):
            with self.subTest(cell):
                self.assert_fault("Cannot occur: they never meet.", cell, "two devices with take: expected ")


if __name__ == "__main__":
    unittest.main()
