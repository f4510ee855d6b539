"""tests/known_failure: a test of a known defect passes as long as it fails, in whatever way, and no longer."""
import pathlib
import subprocess
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "known_failure"


class Known(unittest.TestCase):
    def run_it(self, *command):
        done = subprocess.run([SCRIPT, *command], capture_output=True, text=True)
        return done.returncode, done.stderr

    def test_what_fails_passes(self):
        for command in ("exit 1", "exit 2", "exit 76", "exit 78", "exit 255", "kill -SEGV $$", "kill -ABRT $$"):
            self.assertEqual(self.run_it("sh", "-c", command)[0], 0, command)

    def test_what_passes_fails(self):
        self.assertEqual(self.run_it("true"), (1, "known_failure: mended: take the mark away\n"))

    def test_what_is_skipped_is_skipped(self):
        self.assertEqual(self.run_it("sh", "-c", "exit 77")[0], 77)

    def test_what_cannot_be_started_shows_nothing(self):
        code, said = self.run_it("/no/such/command")
        self.assertEqual(code, 1)
        self.assertIn("/no/such/command could not be started", said)
        self.assertEqual(self.run_it()[0], 2)

    def test_each_argument_arrives(self):
        self.assertEqual(self.run_it("sh", "-c", 'test "$1" != "two words"', "sh", "two words")[0], 0)


if __name__ == "__main__":
    unittest.main()
