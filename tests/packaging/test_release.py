"""scripts/release: what it lists as missing, and the release of a part that needs no compiler."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CHANGELOG.md", "SECURITY.md", "debian", "include", "scripts", "tests/abi/clients", "tests/structure"]
GIT = ["git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]


class Release(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)
        self.clone = self.work / "clone"
        for name in COPIED:
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            copy(PROJECT / name, self.clone / name)
        header = (self.clone / "include/iobind/version.h").read_text(encoding="utf-8")
        self.version = ".".join(re.findall(r"^#define IOBIND_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, flags=re.M))
        self.write("CMakeLists.txt", "# what is looked for in the archive\n")
        self.write("tests/structure/version.py", "")  # it reads files that are not copied
        self.edit("CHANGELOG.md", rf"## \[{self.version}\] - .*", f"## [{self.version}] - 2026-12-01")
        self.edit("SECURITY.md", "is not released yet", "is released")
        self.edit("debian/control", "unset@", "somebody@")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def write(self, name, text):
        (self.clone / name).write_text(text, encoding="utf-8")

    def edit(self, name, pattern, replacement):
        text = (self.clone / name).read_text(encoding="utf-8")
        changed = re.sub(pattern, replacement, text, count=1)
        self.write(name, changed)

    def git(self, *arguments):
        subprocess.run([*GIT, "-C", self.clone, *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a state")
        self.git("tag", "--force", f"v{self.version}")

    def release(self, *arguments):
        environment = {**os.environ, "PYTHON": sys.executable}
        return subprocess.run([self.clone / "scripts/release", *arguments], capture_output=True, text=True, cwd=self.work, env=environment)

    def lacking(self, *arguments):
        result = self.release("--check", "--key", "somebody", "--url", "somewhere", *arguments)
        lacks = re.findall(r"^lacks: (.*)$", result.stdout, flags=re.M)
        self.assertEqual(result.returncode, 1 if lacks else 0, result.stdout + result.stderr)
        return lacks

    def test_lacks_nothing(self):
        self.assertEqual(self.lacking(), [])

    def test_each_thing_that_lacks(self):
        cases = {
            "a date in CHANGELOG.md": lambda: self.edit("CHANGELOG.md", " - 2026-12-01", " - Unreleased"),
            "one version": lambda: self.write("tests/structure/version.py", "raise SystemExit(1)\n"),
            "a frozen client": lambda: shutil.rmtree(self.clone / "tests/abi/clients"),
            "a supported version": lambda: self.edit("SECURITY.md", "is released", "is not released yet"),
            "a maintainer": lambda: self.edit("debian/control", "somebody@", "unset@"),
        }
        for expected, spoil in cases.items():
            with self.subTest(expected):
                before = subprocess.run([*GIT, "-C", self.clone, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
                spoil()
                self.commit()
                lacks = self.lacking()
                self.assertEqual(len(lacks), 1, lacks)
                self.assertTrue(lacks[0].startswith(expected), lacks)
                self.git("reset", "--quiet", "--hard", before)
                self.git("tag", "--force", f"v{self.version}")
        self.git("tag", "--delete", f"v{self.version}")
        self.write("new", "")
        lacks = self.lacking()
        self.assertEqual([lack.split(":")[0] for lack in lacks], ["a clean tree", f"the tag v{self.version} at HEAD"])
        for missing in ("a signature", "an address for Maven's poms"):
            self.assertIn(missing, self.release("--check").stdout)

    def test_release_of_the_sources(self):
        self.assertEqual(self.release("--output", "first", "source").returncode, 0)
        result = self.release("--output", "second", "source")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 artefact", result.stdout)
        archive = f"iobind-{self.version}.tar.gz"
        names = {path.name for path in (self.work / "first").iterdir()}
        self.assertEqual(names, {"CHECKED.md", "NOTES.md", "SHA256SUMS", archive, archive + ".cdx.json"})
        for name in names:
            self.assertEqual((self.work / "first" / name).read_bytes(), (self.work / "second" / name).read_bytes(), name)
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], check=True, cwd=self.work / "first")
        bom = json.loads((self.work / "first" / (archive + ".cdx.json")).read_text(encoding="utf-8"))
        self.assertEqual((bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["version"]), ("CycloneDX", "1.5", self.version))
        self.assertEqual(bom["metadata"]["component"]["hashes"][0]["content"],
                         hashlib.sha256((self.work / "first" / archive).read_bytes()).hexdigest())
        self.assertNotEqual(self.release("--output", "first", "source").returncode, 0)  # it is there

    def test_builds_that_differ(self):
        self.edit("scripts/package", r"gzip -9n", 'printf "%s" "$project_dir" >>"$archive"; gzip -9n')
        self.commit()
        result = self.release("--output", "spoiled", "source")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("DIFFERS", result.stdout)
        self.assertFalse((self.work / "spoiled").exists())

    @unittest.skipUnless(os.getuid() == 0, "only root builds as another user")
    def test_second_user(self):
        os.chmod(self.work, 0o755)
        self.edit("scripts/package", r"gzip -9n", 'id -un >>"$archive"; gzip -9n')
        self.commit()
        self.assertEqual(self.release("--output", "one-user", "source").returncode, 0)
        result = self.release("--output", "two-users", "--second-user", "nobody", "source")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("DIFFERS", result.stdout)
        self.assertIn("does not exist", self.release("--second-user", "no-such-user", "source").stderr)

    def test_part_that_is_not_built(self):
        self.edit("scripts/package", r"pack_source\(\) {", 'pack_source() {\n  die "a compiler that is missing"')
        self.commit()
        result = self.release("--output", "failed", "source")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("| source | not built | package: a compiler that is missing |", result.stdout)


if __name__ == "__main__":
    unittest.main()
