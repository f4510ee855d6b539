#!/usr/bin/env python3
"""The time that artefacts name as theirs (scripts/lib/fetch.sh): given, of the last commit, or of the sources."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED, WRITTEN = 1700000000, 1600000000


class Date(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.project = pathlib.Path(holder.name)
        shutil.copytree(PROJECT / "scripts/lib", self.project / "scripts/lib")
        version = self.project / "include/iobind/version.h"
        version.parent.mkdir(parents=True)
        version.write_text("")
        os.utime(version, (WRITTEN, WRITTEN))
        self.environment = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(self.project.parent)}

    def date(self, **environment):
        command = "set -euo pipefail; . scripts/lib/fetch.sh; set_source_date; env"
        said = subprocess.run(["bash", "-c", command], cwd=self.project, env={**self.environment, **environment}, check=True,
                              capture_output=True, text=True).stdout
        return int(dict(line.split("=", 1) for line in said.splitlines() if "=" in line)["SOURCE_DATE_EPOCH"])

    def test_given(self):
        self.assertEqual(self.date(SOURCE_DATE_EPOCH="5"), 5)

    def test_of_the_sources_where_there_is_no_commit(self):
        self.assertEqual(self.date(), WRITTEN)

    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_of_the_last_commit(self):
        git = ["git", "-C", self.project, "-c", "user.name=n", "-c", "user.email=n@example.org"]
        environment = {**self.environment, "GIT_COMMITTER_DATE": f"{COMMITTED} +0000"}
        subprocess.run([*git, "init", "-q"], env=environment, check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], env=environment, check=True)
        self.assertEqual(self.date(), COMMITTED)


if __name__ == "__main__":
    unittest.main()
