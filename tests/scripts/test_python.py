"""scripts/get-python with an index of its own: what scripts/get-onnxruntime has fetched is not fetched again."""
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def make_wheel(folder, name):
    """A wheel without a file of its own -> its name, and the line that requires it."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return wheel.name, f"{name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "no venv here")
class Python(unittest.TestCase):
    def test_a_wheel_that_is_here(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "scripts/lib").mkdir(parents=True)
            for script in ("get-python", "lib/fetch.sh"):
                (folder / "scripts" / script).symlink_to(SCRIPTS / script)
            runtime, required = folder / "runtime", ""
            for package, where in (("other", folder / "index/other"), ("onnxruntime", runtime / "downloads")):
                wheel, line = make_wheel(where, package)
                required += line
                page = folder / "index" / package / "index.html"  # the index has both, and what it says of the second one is not there
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(f'<!DOCTYPE html><a href="{wheel}">{wheel}</a>', encoding="utf-8")
            (folder / "scripts/requirements.txt").write_text(required, encoding="utf-8")
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
            environment.update(PYTHON=sys.executable, PIP_INDEX_URL=(folder / "index").as_uri(), PIP_CONFIG_FILE=os.devnull)
            got = subprocess.run([folder / "scripts/get-python", "--dir", runtime], env=environment, capture_output=True, text=True)
            self.assertEqual(got.returncode, 0, got.stderr)
            listed = subprocess.run([runtime / "python/bin/python", "-m", "pip", "list", "--format", "freeze"], env=environment,
                                    capture_output=True, text=True, check=True).stdout
            self.assertLessEqual({"onnxruntime==1.0", "other==1.0"}, set(listed.split()))


if __name__ == "__main__":
    unittest.main()
