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
import zipfile

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
        self.assertNotIn("a signature", self.release("--check", "--unsigned").stdout)  # it is signed elsewhere
        self.assertIn("--unsigned: expected --check with it", self.release("--unsigned").stderr)
        self.assertIn("expected 'NAME <ADDRESS>' after it, got ''", self.release("--maintainer", "", "--check").stderr)

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

    def key(self):
        """A key of gpg's in a directory of its own, which the release uses from now on: its fingerprint."""
        home = tempfile.TemporaryDirectory(prefix="gpg", dir="/tmp")  # gpg's agent listens in it, and names of sockets are short
        self.addCleanup(home.cleanup)
        saved = os.environ.get("GNUPGHOME")
        self.addCleanup(lambda: os.environ.pop("GNUPGHOME") if saved is None else os.environ.update(GNUPGHOME=saved))
        self.addCleanup(subprocess.run, ["gpgconf", "--homedir", home.name, "--kill", "all"], check=True)
        os.environ["GNUPGHOME"] = home.name
        made = subprocess.run(["gpg", "--batch", "--status-fd", "1", "--passphrase", "", "--quick-generate-key", "Somebody <somebody@example.org>",
                               "ed25519", "sign", "never"], check=True, capture_output=True, text=True)
        return re.search(r"KEY_CREATED \w (\w+)", made.stdout)[1]

    def verified(self, signature, file):
        return subprocess.run(["gpg", "--batch", "--verify", signature, file], capture_output=True).returncode == 0

    @unittest.skipUnless(shutil.which("gpg"), "no gpg")
    def test_signature(self):
        key = self.key()
        result = self.release("--output", "signed", "--key", key, "source")
        self.assertEqual(result.returncode, 0, result.stderr)
        release = self.work / "signed"
        self.assertTrue(self.verified(release / "SHA256SUMS.asc", release / "SHA256SUMS"))
        self.assertNotIn(".asc", (release / "SHA256SUMS").read_text(encoding="utf-8"))
        result = self.release("--output", "unsigned", "--key", "nobody@example.org", "source")
        self.assertIn("--key: gpg cannot sign with 'nobody@example.org'", result.stderr)
        self.assertNotIn("building", result.stdout)

    @unittest.skipUnless(shutil.which("gpg"), "no gpg")
    def test_signatures_of_mavens_repository(self):
        key, release = self.key(), self.work / "release"
        files = {f"io/github/iobind/x/{self.version}/x-{self.version}.{end}": end.encode() for end in ("jar", "pom", "jar.sha1")}
        release.mkdir()
        with zipfile.ZipFile(release / f"iobind-{self.version}-maven.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        with (release / "SHA256SUMS").open("w") as sums:
            subprocess.run(["sha256sum", f"iobind-{self.version}-maven.zip"], check=True, cwd=release, stdout=sums)
        sign = [self.clone / "scripts/sign-release", release]
        for _ in range(2):  # signed again, it has the new signatures alone
            subprocess.run([*sign, key], check=True, capture_output=True)
        with zipfile.ZipFile(release / f"iobind-{self.version}-maven-signatures.zip") as archive:
            self.assertEqual(sorted(archive.namelist()), [name + ".asc" for name in sorted(files) if not name.endswith(".sha1")])
            archive.extractall(self.work / "signatures")
        for signature in (self.work / "signatures").rglob("*.asc"):
            name = signature.relative_to(self.work / "signatures").with_suffix("").as_posix()
            file = self.work / "file"
            file.write_bytes(files[name])
            self.assertTrue(self.verified(signature, file), name)
            file.write_bytes(files[name] + b"?")
            self.assertFalse(self.verified(signature, file), name)
        for arguments, message in ((("nobody",), "gpg cannot sign with the key 'nobody'"), ((), "expected the directory of a release and a key")):
            result = subprocess.run([*sign, *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
        (release / f"iobind-{self.version}-maven.zip").write_bytes(b"another one")
        result = subprocess.run([*sign, key], capture_output=True, text=True)
        self.assertIn("not signed, because it is not what SHA256SUMS lists", result.stderr)
        self.assertEqual([path.name for path in release.iterdir() if path.name.startswith(".")], [])

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

    @unittest.skipUnless(os.getuid() == 0, "only root builds as another user")
    def test_python_of_one_user(self):
        os.chmod(self.work, 0o755)
        program = self.clone / ".runtime/python/bin/python"
        program.parent.mkdir(parents=True)
        shutil.copy(self.clone / "scripts/requirements.txt", self.clone / ".runtime/python/requirements.txt")
        for text, mode, got in (("echo Python of root", 0o700, "ermission denied"), ('[ "$(id -u)" = 0 ] && echo one || echo another', 0o755, "got 'another'")):
            program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            program.chmod(mode)
            result = self.release("--output", "two-users", "--second-user", "nobody", "docs")
            self.assertEqual(result.returncode, 1)
            self.assertIn("--second-user: nobody cannot run .runtime/python", result.stderr)
            self.assertIn(got, result.stderr)
            self.assertNotIn("building", result.stdout)

    def test_part_that_is_not_built(self):
        self.edit("scripts/package", r"pack_source\(\) {", 'pack_source() {\n  die "a compiler that is missing"')
        self.commit()
        result = self.release("--output", "failed", "source")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("| source | not built | package: a compiler that is missing |", result.stdout)


class Sbom(unittest.TestCase):
    """What is in an artefact besides iobind is in its SBOM, with a version; its terms in the artefact are what says so."""

    def components(self, name, files):
        with tempfile.TemporaryDirectory() as directory:
            work = pathlib.Path(directory)
            (work / "ports/manylinux-x64/lib/pkgconfig").mkdir(parents=True)
            (work / "ports/manylinux-x64/contents").write_text("zlib ziglang-0.15.1 more\n", encoding="utf-8")
            (work / "ports/manylinux-x64/lib/pkgconfig/popt.pc").write_text("Name: popt\nVersion: 1.19\n", encoding="utf-8")
            with zipfile.ZipFile(work / name, "w") as archive:
                for file, text in files.items():
                    archive.writestr(file, text)
            result = subprocess.run([sys.executable, PROJECT / "scripts/lib/sbom.py", "1.0.0", "0", work / "ports", work / name],
                                    capture_output=True, text=True)
            if result.returncode:
                return result.stderr
            bom = json.loads((work / f"{name}.cdx.json").read_text(encoding="utf-8"))
            self.assertEqual([component["bom-ref"] for component in bom["components"]], bom["dependencies"][0]["dependsOn"])
            return {component["name"]: (component.get("version"), component.get("licenses")) for component in bom["components"]}

    def test_what_is_linked(self):
        terms = {"META-INF/licenses/zig.txt": "", "META-INF/licenses/popt.txt": "", "META-INF/licenses/iobind.txt": ""}
        came = self.components("x-natives-linux-x64.jar", terms)
        self.assertEqual(list(came), ["popt", "zig", "ONNX Runtime"])
        self.assertEqual(came["zig"], ("0.15.1", [{"expression": "MIT"}]))
        self.assertEqual(came["popt"][0], "1.19")
        self.assertIn("sbom: unknown: expected", self.components("x.jar", {"META-INF/licenses/unknown.txt": ""}))

    def test_what_is_in_pages(self):
        files = {"legal/jqueryUI.md": "## jQuery UI v1.14.1\n\n### jQuery UI License\n", "licenses/sphinx.txt": "",
                 "_static/scripts/bootstrap.js.LICENSE.txt": "/*!\n  * Bootstrap v5.3.3 (somewhere)\n"}
        came = self.components("x-javadoc.jar", files)
        pinned = re.search(r"^sphinx==(\S+)", (PROJECT / "scripts/requirements-site.txt").read_text(encoding="utf-8"), flags=re.M)[1]
        self.assertEqual({name: version for name, (version, _) in came.items()}, {"sphinx": pinned, "jQuery UI": "1.14.1", "Bootstrap": "5.3.3"})


if __name__ == "__main__":
    unittest.main()
