#!/usr/bin/env python3
"""The programs of docs/coming-from.md, the old one and the new one of each section, compiled and run: both print the same.

usage: coming.py LIBRARY MAKE-MODEL COMPILER SECTION [DECODE]   with iobind's module in PYTHONPATH. SECTION is the beginning of a heading, DECODE
the program bench_decode, which writes the decoder of two sections. Ends with 77 (skipped) without ORT's headers, the crate, genai or optimum."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coming-from.md"
HEADERS, ORT = ROOT / ".runtime/onnxruntime-headers", ROOT / ".runtime/onnxruntime"
CRATES = ROOT / ".runtime/ort-crate"
GENAI = next(ROOT.glob(".runtime/downloads/onnxruntime_genai-*.whl"), None)
OPTIMUM = ROOT / ".runtime/python-optimum"
# What optimum asks of a model's directory; the numbers are those of bench_decode's model.
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 128, "num_attention_heads": 2,
          "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 256, "bos_token_id": 0, "eos_token_id": 1023, "pad_token_id": 0}
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
C = """#include <iobind/iobind.h>
#include <stdio.h>
#define TRY(call) if ((call) != IOBIND_OK) return fprintf(stderr, "%s\\n", error.message), 1
int main(void) {{
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x, *results[3];
  size_t input, output;
  const int64_t dims[] = {{4}};
  float picture[] = {{1, 2, 3, 4}};
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, "cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
#line {line} "docs/coming-from.md"
{code}
  for (int run = 0; run < 3; run++) {{
    TRY(iobind_tensor_read(results[run], 0, picture, sizeof picture, NULL, &error));
    for (int i = 0; i < 4; i++) printf("%g ", (double)picture[i]);
  }}
  return 0;
}}
"""
RUST = """use ort::memory::{{AllocationDevice, AllocatorType, MemoryInfo, MemoryType}};
use ort::session::Session;
use ort::value::Tensor;
fn main() -> ort::Result<()> {{
    let environment = ort::init().build()?;
    let mut picture = [1f32, 2.0, 3.0, 4.0];
    let mut results = Vec::new();
{code}
    for result in &results {{
        for value in result.try_extract_tensor::<f32>()?.1 {{
            print!("{{value}} ");
        }}
    }}
    Ok(())
}}
"""


def rows_of(shown):
    numbers = [float(word) for word in shown.split()]
    return [numbers[at:at + 4] for at in range(0, len(numbers), 4)]


def run_program(folder, **environment):
    return rows_of(subprocess.run([folder / "program"], cwd=folder, capture_output=True, text=True, check=True,
                                  env={**os.environ, **environment}).stdout)


def run_c(folder, compiler, library, line, code):
    source = folder / "program.c"
    source.write_text(C.format(line=line, code=code), encoding="utf-8")
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-x", "c", str(source), "-x", "none",
                    "-o", str(folder / "program"), f"-L{library.parent}", "-liobind", f"-Wl,-rpath,{library.parent}"], check=True)
    return f"C, line {line}", run_program(folder)


def run_rust(folder, code):
    """cargo builds from the crates that scripts/get-ort-crate has fetched, without a network."""
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(CRATES / name, folder / name)
    (folder / "src").mkdir()
    (folder / "src/main.rs").write_text(RUST.format(code=code), encoding="utf-8")
    crates = [f"source.{name}" for name in ("crates-io.replace-with='fetched'", f"fetched.directory='{CRATES}/vendor'")]
    subprocess.run(["cargo", "build", "--quiet", "--frozen", "--config", crates[0], "--config", crates[1]], cwd=folder, check=True)
    shutil.copy(folder / "target/debug/program", folder / "program")
    return "Rust", run_program(folder, ORT_DYLIB_PATH=str(ORT / "libonnxruntime.so"))


def run_cpp(folder, compiler, library, line, code):
    whose = next(name for name in CPP if name in code)
    source = folder / "program.cpp"
    source.write_text(CPP[whose].format(line=line, code=code), encoding="utf-8")
    libraries = [f"-L{ORT}", "-lonnxruntime", f"-Wl,-rpath,{ORT}"] if whose == "Ort::Session" else \
        [f"-L{library.parent}", "-liobind", f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-isystem", str(HEADERS), str(source),
                    "-o", str(folder / "program"), *libraries], check=True)
    return whose, run_program(folder)


def run_python(folder, line, code):
    if "decoder" in code:
        modules, begin, end = "onnxruntime_genai" if "genai" in code else "iobind", "prompt = [5, 6, 7, 8]", "print(*tokens)"
        if "torch" in code:
            modules = "iobind, torch" if "iobind" in code else "torch"
            begin += "\nfrom optimum.onnxruntime import ORTModelForCausalLM" if "ORTModel" in code else ""
    else:
        modules, begin = "iobind, onnxruntime", "picture = numpy.array([1, 2, 3, 4], 'float32')\nresults = []"
        end = "print(*[value for result in results for value in result.numpy()])"
    (folder / "program.py").write_text(f"import {modules}, numpy\n{begin}\n{code}\n{end}\n", encoding="utf-8")
    path = os.pathsep.join([str(OPTIMUM) if "torch" in code else str(folder / "genai"), os.environ["PYTHONPATH"]])
    shown = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}).stdout
    return f"Python, line {line}", rows_of(shown)


def run(folder, compiler, library, language, line, code):
    if language == "cpp":
        return run_cpp(folder, compiler, library, line, code)
    if language == "python":
        return run_python(folder, line, code)
    return run_rust(folder, code) if language == "rust" else run_c(folder, compiler, library, line, code)


def blocks_of(section):
    """The programs of a section."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index(f"\n## {section}")
    end = text.find("\n## ", begin + 1)
    lines = text[:begin].count("\n")
    return [(language, line + lines, code) for language, line, code in markdown.blocks(text[begin:end])]


def what_is_missing(programs):
    if not (HEADERS / "onnxruntime_cxx_api.h").exists():
        return "no ONNX Runtime's headers: scripts/get-onnxruntime-headers fetches them"
    if any(language == "rust" for language, _, _ in programs) and not (CRATES.is_dir() and shutil.which("cargo")):
        return "no crate `ort`, or no cargo: scripts/get-ort-crate fetches the crate"
    if any("onnxruntime_genai" in code for _, _, code in programs) and GENAI is None:
        return "no onnxruntime-genai: scripts/get-onnxruntime --genai fetches it"
    if any("ORTModel" in code for _, _, code in programs) and not OPTIMUM.is_dir():
        return "no optimum: scripts/get-python --optimum fetches it"
    return None


def make_models(folder, make_model, decode):
    subprocess.run([make_model, "scale", folder / "scale.onnx"], check=True)
    if decode is None:
        return
    (folder / "decoder").mkdir()
    subprocess.run([decode, "--write", folder / "decoder"], check=True)
    (folder / "decoder/config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    if GENAI is not None:
        with zipfile.ZipFile(GENAI) as wheel:
            wheel.extractall(folder / "genai")


def main(library, make_model, compiler, section, decode=None):
    programs = blocks_of(section)
    missing = what_is_missing(programs)
    if missing is not None:
        print(f"skipped: {missing}")
        return 77
    ran, expected = [], EXPECTED if decode is None else None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_models(folder, make_model, decode)
        for language, line, code in programs:
            if language not in ("c", "cpp", "python", "rust"):
                print(f"docs/coming-from.md:{line}: a block of {language or 'no language'}, which this test does not run", file=sys.stderr)
                return 1
            whose, got = run(folder, compiler, pathlib.Path(library), language, line, code)
            ran.append(whose)
            expected = expected or got
            if got != expected:
                print(f"docs/coming-from.md:{line}: expected {expected}, got {got}", file=sys.stderr)
                return 1
    print(f"{len(ran)} programs: {', '.join(ran)}; {sum(expected, [])}")
    return 0 if len(ran) == 2 and len(set(sum(expected, []))) > 3 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
