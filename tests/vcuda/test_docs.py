"""The programs of docs/vcuda.md, of vcuda/README.md in Python, and of docs/cuda.md work as documented. The tables of these pages list all settings,
counters and options.


usage: test_docs.py WITH_CUDA LIBIOBIND MAKE_MODEL IOBIND PYTHON [unittest's arguments]"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import gpu_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/vcuda.md").read_text()
README = (ROOT / "vcuda/README.md").read_text()
CUDA = (ROOT / "docs/cuda.md").read_text()
WITH_CUDA, LIBIOBIND, MAKE_MODEL, IOBIND, PYTHON = sys.argv[1:6]


def blocks(language, page):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.M | re.S)


BOUND = blocks("python", README)[0]


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

    def compile(self, text):
        """Build a program that begins with a comment with its file name. Returns the name of the executable."""
        name = re.match(r"/\* (\w+)\.c: ", text)[1]
        (self.folder / f"{name}.c").write_text(text)
        libraries = str(pathlib.Path(LIBIOBIND).parent)
        subprocess.run(["cc", f"{name}.c", "-o", name, f"-I{ROOT}/include", f"-L{libraries}",
                        "-liobind", f"-Wl,-rpath,{libraries}", "-ldl"], cwd=self.folder, check=True)
        subprocess.run([MAKE_MODEL, "scale", "scale.onnx"], cwd=self.folder, check=True)
        return f"./{name}"

    def test_the_c_program(self):
        self.compile(blocks("c", PAGE)[0])
        said = self.run_on_cuda("./counted", "scale.onnx", VCUDA_TRACE_FILE="trace.json")
        self.assertRegex(said, r"^[1-9]\d* launches, the host waited \d+ times$")
        self.assertIn("cudaLaunchKernel", (self.folder / "trace.json").read_text())

    def unpack_python(self):
        unpacked = gpu_python.unpack(self.folder)
        if unpacked is None:
            self.skipTest("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
        return unpacked.version, unpacked.capi

    def test_the_python_program(self):
        """Python's package may be an older one, which ORT_NATIVE_LIB_PATH names; with-cuda gets it as the page documents."""
        version, own = self.unpack_python()
        (self.folder / "bound.py").write_text(BOUND)
        named = {} if version == gpu_python.newest() else {"ORT_NATIVE_LIB_PATH": str(own)}
        self.run_on_cuda(PYTHON, "bound.py", PYTHONPATH=str(self.folder), **named)

    def test_pytest(self):
        """python -m iobind.vcuda -- pytest: the page's program as a test beside one on vdev, with the package as the wheel has it."""
        self.unpack_python()
        libraries = pathlib.Path(LIBIOBIND).parent
        (self.folder / "iobind_vcuda/lib").mkdir(parents=True)
        for name, place in {"bin": pathlib.Path(WITH_CUDA).parent, "lib/vcuda": libraries / "vcuda"}.items():
            os.symlink(place, self.folder / "iobind_vcuda" / name)
        (self.folder / "test_bound.py").write_text("def test_on_cuda():\n" + textwrap.indent(BOUND, "    ") + """
def test_on_vdev(vdev):
    import numpy, onnx, onnxruntime
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Add(x, x) }')
    with vdev.redirect():
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    with vdev.expect(kernels=1):
        assert session.run(None, {"x": numpy.ones(2, "f4")})[0].tolist() == [2, 2]
""")
        paths = [self.folder, libraries / "python", ROOT / ".runtime/python-tests"]
        environment = {name: value for name, value in os.environ.items() if name != "ORT_NATIVE_LIB_PATH"}
        ran = subprocess.run([PYTHON, "-m", "iobind.vcuda", "--", PYTHON, "-m", "pytest", "-p", "iobind._pytest", "test_bound.py"],
                             cwd=self.folder, env={**environment, "PYTHONPATH": os.pathsep.join(map(str, paths))}, capture_output=True, text=True)
        if ran.returncode == 77:
            self.skipTest(ran.stderr.strip())
        self.assertIn("2 passed", ran.stdout, ran.stdout + ran.stderr)

    def test_the_c_programs_of_cuda(self):
        """The page has the programs' output except for its last line."""
        for text in blocks("c", CUDA):
            said = self.run_on_cuda(self.compile(text), "scale.onnx")
            if "limited.c" in text:
                self.assertEqual(said.splitlines()[0], "made")
                self.assertIn("EP option 'gpu_mem_limit' of cuda: expected 0 .. 18446744073709551615, got '1G'", said)

    def test_the_commands_of_cuda(self):
        subprocess.run([MAKE_MODEL, "scale", "dims=n", "scale.onnx"], cwd=self.folder, check=True)
        for content in blocks("console", CUDA):
            for part in re.split(r"^\$ ", content, flags=re.M)[1:]:
                command, printed = part.split("\n", 1)
                ran = subprocess.run([WITH_CUDA, "--onnxruntime", "sh", "-c", command.replace("iobind ", IOBIND + " ", 1)],
                                     cwd=self.folder, capture_output=True, text=True)
                if ran.returncode == 77:
                    self.skipTest(ran.stderr.strip())
                pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in printed.splitlines())
                self.assertRegex(ran.stdout + ran.stderr, rf"\A{pattern}\Z", command)

    def test_the_options_are_those_that_there_are(self):
        source = (ROOT / "src/ep/cuda.c").read_text() + (ROOT / "src/ep/nvidia.h").read_text()
        of_streams = re.search(r"stream_options\[\] = \{.*?\n\};", source, flags=re.S).group()
        section = CUDA.split("\n## Options\n")[1].split("\n## ")[0]
        cells = re.findall(r"^\| (`[^|]*) \|", section, flags=re.M)
        self.assertEqual({name for cell in cells for name in re.findall(r"`(\w+)`", cell)},
                         set(re.findall(r'\.key = "(\w+)"', source.replace(of_streams, ""))))
        streams = CUDA.split("\n## Streams\n")[1].split("\n## ")[0]
        for name in re.findall(r'\.key = "(\w+)"', of_streams):
            self.assertIn(f"takes the option `{name}`", streams)

    def test_the_options_of_vdev_are_its_settings(self):
        rows = (ROOT / "src/ep/vdev.c").read_text()
        settings = re.findall(r'^    \{"(\w+)",(.*?)\},$', (ROOT / "vdev/settings.c").read_text(), flags=re.M)
        self.assertEqual(set(re.findall(r'\.key = "(\w+)"', rows)), {name for name, rest in settings if ".fixed" not in rest})

    def test_the_settings_are_those_that_there_are(self):
        source = (ROOT / "vcuda/settings.c").read_text()
        known = set(re.findall(r'^    \{"(\w+)", AT', source, flags=re.M))
        sites = re.findall(r'"(\w+)"', re.search(r"sites\[\] = \{(.*?)\}", source)[1])
        self.assertGreater(len(known), 5)
        known.add(re.search(r'wrong_setting\[\] = "(\w+)"', source)[1])
        self.assertEqual(table("Settings"), known | {f"fail_{site}" for site in sites} | {f"delay_{site}" for site in ("copy", "compute", "graph")})

    def test_the_counters_are_those_that_there_are(self):
        source = (ROOT / "vcuda/state.h").read_text().split("VCUDA_COUNTED(X)")[1].split("/* clang-format on */")[0]
        self.assertEqual(table("Counters"), set(re.findall(r"X\((\w+)\)", source)))


if __name__ == "__main__":
    unittest.main(argv=["test_docs.py", *sys.argv[6:]])
