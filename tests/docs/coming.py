#!/usr/bin/env python3
"""The programs of docs/coming-from.md, the old one and the new one of each section, compiled and run: both print the same.

usage: coming.py LIBRARY MAKE-MODEL COMPILER   with iobind's module in PYTHONPATH. Ends with 77 (skipped) without ORT's headers."""
import pathlib
import subprocess
import sys
import tempfile

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coming-from.md"
HEADERS, ORT = ROOT / ".runtime/onnxruntime-headers", ROOT / ".runtime/onnxruntime"
# Three results, which are read only after the last run: one that a later run has overwritten differs.
EXPECTED = [[0, 4, 6, 8], [2, 4, 6, 8], [4, 4, 6, 8]]
CPP = {
    "Ort::Session": """#include <array>
#include <cstdio>
#include <onnxruntime_cxx_api.h>
#include <vector>
int main() {{
  Ort::Env environment;
  Ort::SessionOptions options;
  std::vector<float> picture{{1, 2, 3, 4}};
  const std::array<int64_t, 1> dims{{4}};
  std::vector<Ort::Value> results;
#line {line} "docs/coming-from.md"
{code}
  for (auto &result : results) {{
    for (int i = 0; i < 4; i++) std::printf("%g ", static_cast<double>(result.GetTensorMutableData<float>()[i]));
  }}
}}
""",
    "iobind::session": """#include <cstdio>
#include <iobind/iobind.hpp>
int main() {{
  iobind::runtime runtime;
  std::vector<float> picture{{1, 2, 3, 4}};
  std::vector<iobind::tensor> results;
#line {line} "docs/coming-from.md"
{code}
  for (auto &result : results) {{
    for (float value : result.read<float>()) std::printf("%g ", static_cast<double>(value));
  }}
}}
""",
}


def run_cpp(folder, compiler, library, line, code):
    whose = next(name for name in CPP if name in code)
    source = folder / "program.cpp"
    source.write_text(CPP[whose].format(line=line, code=code), encoding="utf-8")
    libraries = [f"-L{ORT}", "-lonnxruntime", f"-Wl,-rpath,{ORT}"] if whose == "Ort::Session" else \
        [f"-L{library.parent}", "-liobind", f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-isystem", str(HEADERS), str(source),
                    "-o", str(folder / "program"), *libraries], check=True)
    shown = subprocess.run([folder / "program"], cwd=folder, capture_output=True, text=True, check=True).stdout
    numbers = [float(word) for word in shown.split()]
    return whose, [numbers[at:at + 4] for at in range(0, len(numbers), 4)]


def run_python(folder, line, code):
    program = folder / "program.py"
    program.write_text("import iobind, numpy, onnxruntime\npicture = numpy.array([1, 2, 3, 4], 'float32')\nresults = []\n" + code +
                       "print(*[result.numpy().tolist() for result in results], sep='\\n')\n", encoding="utf-8")
    shown = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, check=True).stdout
    return f"Python, line {line}", [[float(word) for word in row.strip("[]").split(",")] for row in shown.splitlines()]


def main(library, make_model, compiler):
    if not (HEADERS / "onnxruntime_cxx_api.h").exists():
        print("skipped: no ONNX Runtime's headers: scripts/get-onnxruntime-headers fetches them")
        return 77
    ran = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([make_model, "scale", folder / "scale.onnx"], check=True)
        for language, line, code in markdown.blocks(PAGE.read_text(encoding="utf-8")):
            if language not in ("cpp", "python"):
                print(f"docs/coming-from.md:{line}: a block of {language or 'no language'}, which this test does not run", file=sys.stderr)
                return 1
            whose, got = run_cpp(folder, compiler, pathlib.Path(library), line, code) if language == "cpp" else run_python(folder, line, code)
            ran.append(whose)
            if got != EXPECTED:
                print(f"docs/coming-from.md:{line}: expected {EXPECTED}, got {got}", file=sys.stderr)
                return 1
    print(f"{len(ran)} programs: {', '.join(ran)}")
    return 0 if len(ran) == 4 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
