"""The programs of docs/vcuda.md do what it says, and its tables name all settings and counters.

usage: test_docs.py WITH_CUDA LIBIOBIND MAKE_MODEL PYTHON [unittest's arguments]"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/vcuda.md").read_text()
WITH_CUDA, LIBIOBIND, MAKE_MODEL, PYTHON = sys.argv[1:5]


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)[1]


def table(heading):
    """The names in the first column of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, flags=re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on_cuda(self, *command, **environment):
        ran = subprocess.run([WITH_CUDA, "--onnxruntime", *command], cwd=self.folder, env=dict(os.environ, **environment),
                             capture_output=True, text=True)
        if ran.returncode == 77:
            self.skipTest(ran.stderr.strip())
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_the_c_program(self):
        (self.folder / "counted.c").write_text(block("c"))
        libraries = str(pathlib.Path(LIBIOBIND).parent)
        subprocess.run(["cc", "counted.c", "-o", "counted", f"-I{ROOT}/include", f"-L{libraries}",
                        "-liobind", f"-Wl,-rpath,{libraries}", "-ldl"], cwd=self.folder, check=True)
        subprocess.run([MAKE_MODEL, "scale", "scale.onnx"], cwd=self.folder, check=True)
        said = self.run_on_cuda("./counted", "scale.onnx", VCUDA_TRACE_FILE="trace.json")
        self.assertRegex(said, r"^[1-9]\d* launches, the host waited \d+ times$")
        self.assertIn("cudaLaunchKernel", (self.folder / "trace.json").read_text())

    def test_the_python_program(self):
        """The package is unpacked, but for its largest library, which lies with the fetched runtime."""
        wheels = sorted((ROOT / ".runtime/downloads").glob("onnxruntime_gpu-*.whl"))
        runtimes = sorted((ROOT / ".runtime/packages").glob("onnxruntime-gpu-*-linux-x64"))
        if not wheels or not runtimes or sys.version_info[:2] != (3, 11):
            self.skipTest("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(self.folder, [name for name in wheel.namelist() if not name.endswith(("_cuda.so", "_tensorrt.so"))])
        library = "libonnxruntime_providers_cuda.so"
        os.symlink(runtimes[0] / library, self.folder / "onnxruntime/capi" / library)
        (self.folder / "bound.py").write_text(block("python"))
        self.run_on_cuda(PYTHON, "bound.py", PYTHONPATH=str(self.folder))

    def test_the_settings_are_those_that_there_are(self):
        source = (ROOT / "vcuda/settings.c").read_text()
        known = set(re.findall(r'^    \{"(\w+)", AT', source, flags=re.M))
        sites = re.findall(r'"(\w+)"', re.search(r"sites\[\] = \{(.*?)\}", source)[1])
        self.assertGreater(len(known), 5)
        self.assertEqual(table("Settings"), known | {f"{what}_{site}" for what in ("fail", "delay") for site in sites})

    def test_the_counters_are_those_that_there_are(self):
        source = (ROOT / "vcuda/state.h").read_text().split("VCUDA_COUNTED(X)")[1].split("/* clang-format on */")[0]
        self.assertEqual(table("Counters"), set(re.findall(r"X\((\w+)\)", source)))


if __name__ == "__main__":
    unittest.main(argv=["test_docs.py", *sys.argv[5:]])
