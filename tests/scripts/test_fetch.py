"""scripts/get-onnxruntime without a network: what a killed run leaves, what happens to files that were changed, NVIDIA's libraries."""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "get-onnxruntime"
# Stands where Python is asked to run pip: it makes the wheel that is asked for, or ends the script that asked.
PIP = """#!{python}
import os, pathlib, signal, sys, zipfile
words = sys.argv[1:]
if words[2:] == ["--version"]:
    sys.exit()
with open({log!r}, "a") as log:
    log.write("download\\n")
if os.environ.get("KILLED") == "pip":
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit()
name, version = words[-1].split("==")
folder = pathlib.Path(words[words.index("--dest") + 1])
with zipfile.ZipFile(folder / f"{{name}}-{{version}}-py3-none-any.whl", "w") as wheel:
    if name.startswith("nvidia-"):
        wheel.writestr(zipfile.ZipInfo("nvidia/cu13/lib/libmade.so.13"), "a library of NVIDIA's")
        sys.exit()
    wheel.writestr(f"onnxruntime/capi/libonnxruntime.so.{{version}}", "the library")
    wheel.writestr("onnxruntime/LICENSE", "the license")
"""
UNZIP = """#!{python}
import os, signal, sys
if os.environ.get("KILLED") == "unzip":
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit()
os.execv({unzip!r}, [{unzip!r}] + sys.argv[1:])
"""
VERSION = "9.8.7"


@unittest.skipUnless(shutil.which("flock") and shutil.which("unzip"), "no flock, or no unzip")
class Fetch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runtime, self.log = self.folder / "runtime", self.folder / "log"
        for name, text in (("pip", PIP), ("unzip", UNZIP)):
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.format(python=sys.executable, log=str(self.log), unzip=shutil.which("unzip")), encoding="utf-8")
            path.chmod(0o755)

    def get(self, killed=""):
        environment = dict(os.environ, PYTHON=str(self.folder / "bin/pip"), KILLED=killed,
                           PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}")
        command = [SCRIPT, "--version", VERSION, "--platform", "linux-x64", "--unpinned", "--dir", self.runtime]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    def got(self):
        result = self.get()
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def downloads(self):
        return len(self.log.read_text(encoding="utf-8").splitlines())

    def left(self):
        return sorted(path.name for part in ("downloads", "packages") for path in (self.runtime / part).glob(".*.*"))

    def library(self):
        return self.runtime / "packages" / f"onnxruntime-{VERSION}-linux-x64" / f"libonnxruntime.so.{VERSION}"

    def test_libraries_of_nvidia(self):
        """Their sizes are said before anything of them is fetched, and the folder where iobind looks has them all."""
        scripts = self.folder / "project/scripts"
        shutil.copytree(SCRIPT.parent, scripts)
        subprocess.run([self.folder / "bin/pip", "-m", "pip", "download", "--dest", self.folder, "nvidia-made==1.0"], check=True)
        wheel = self.folder / "nvidia-made-1.0-py3-none-any.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.log.unlink()
        (scripts / "checksums").write_text(f"nvidia-made 1.0 linux-x64 {digest} {wheel.name} 7\nonnxruntime {VERSION} linux-x64 0 none\n")
        command = [scripts / "get-onnxruntime", "--gpu", "--cuda-libraries", "--version", VERSION, "--platform", "linux-x64", "--unpinned",
                   "--dir", self.runtime]
        environment = dict(os.environ, PYTHON=str(self.folder / "bin/pip"))
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertLess(said.index("to fetch: nvidia-made 1.0, 7 MB"), said.index("fetching nvidia-made"))
        library = self.runtime / "cuda/libmade.so.13"
        self.assertTrue(library.is_symlink())
        self.assertEqual(library.read_text(), "a library of NVIDIA's")
        again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertNotIn("nvidia-made", again)
        self.assertEqual(self.downloads(), 2)

    def test_what_is_there_is_not_fetched_again(self):
        self.got()
        self.assertEqual(self.library().read_text(encoding="utf-8"), "the library")
        self.assertEqual(os.readlink(self.library().parent / "libonnxruntime.so.1"), self.library().name)
        self.got()
        self.assertEqual(self.downloads(), 1)
        self.assertEqual(self.left(), [])

    def test_what_killed_runs_leave_goes(self):
        for killed in ("pip", "unzip"):
            self.assertEqual(self.get(killed).returncode, -9)
        self.assertEqual(len(self.left()), 2)  # one of each; the second run has removed none, for it is in another folder
        (self.runtime / "packages/.unpack.Ab12Cd").mkdir()
        self.got()
        self.assertEqual(self.left(), [])

    def test_what_a_living_run_uses_stays(self):
        used = self.runtime / "packages" / ".new.Ab12Cd"
        used.mkdir(parents=True)
        held = os.open(used, os.O_RDONLY)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.got()
        self.assertEqual(self.left(), [used.name])

    def test_changed_files_are_noticed(self):
        self.got()
        for change in (lambda: self.library().write_text("another library", encoding="utf-8"), self.library().unlink):
            change()
            self.assertIn(f"unpacked again: {self.library().name}", self.got().stderr)
            self.assertEqual(self.library().read_text(encoding="utf-8"), "the library")
        self.assertEqual(self.left(), [])

    def test_what_was_unpacked_without_sums_is_unpacked_anew(self):
        self.got()
        (self.library().parent / ".sha256").unlink()
        self.library().write_text("another library", encoding="utf-8")
        self.got()
        self.assertEqual(self.library().read_text(encoding="utf-8"), "the library")


if __name__ == "__main__":
    unittest.main()
