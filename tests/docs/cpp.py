#!/usr/bin/env python3
"""The blocks of C++ in docs/cpp.md that are no program, compiled and run as they stand; readme.py has the program.

usage: cpp.py LIBRARY MAKE-MODEL COMPILER [FLAG...]   77 (skipped) where the model of speech is not there"""
import pathlib
import subprocess
import sys
import tempfile

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEECH = ROOT / ".runtime/models/silero-vad.onnx"
PROGRAM = """#include <cstdio>
#include <iobind/iobind.hpp>
int main(int argc, char **argv) try {{
  iobind::runtime runtime;
  iobind::device device = runtime.find(argc > 2 ? argv[2] : "vdev");
  {before}
#line {line} "docs/cpp.md"
  {code}
  {after}
}} catch (const iobind::error &failed) {{
  std::fprintf(stderr, "%s\\n", failed.what());
  return 1;
}}
"""
# By the beginning of a block: the model, what stands before it and after it; the program prints "right".
AROUND = {
    "iobind::error failed;": ("", "", 'std::puts(!failed && x ? "right" : "wrong");'),
    "iobind::pipeline pipeline(session);": (
        "scale",
        """iobind::session session(runtime, argv[1], device);
  std::vector<iobind::tensor> items;
  for (float value : {1.f, 2.f, 3.f, 4.f, 5.f}) items.push_back(iobind::tensor::from(device, {1}, std::array{value}));
  float sum = 0;
  auto use = [&](const iobind::tensor &y) { sum += y.read<float>()[0]; };""",
        'std::puts(sum == 30 ? "right" : "wrong");'),
    "iobind::batch_options options;": (
        "speech",
        """iobind::session session(runtime, argv[1], device);
  iobind::tensor rate = iobind::tensor::of<std::int64_t>(device, {});
  rate.write(std::array<std::int64_t, 1>{16000});
  iobind::tensor frame = iobind::tensor::from(device, {1, 576}, std::vector<float>(576, 0.25f));
  iobind::tensor other = iobind::tensor::from(device, {1, 576}, std::vector<float>(576, -0.5f));
  iobind::binding one(session);
  one.input("input", frame), one.input("sr", rate);
  one.input("state", iobind::tensor::from(device, {2, 1, 128}, std::vector<float>(256)), IOBIND_INPUT_SNAPSHOT);
  one.carry("stateN", "state");
  one.run();
  iobind::state saved = one.save();""",
        'std::puts(speech.read<float>().size() == 1 && kept ? "right" : "wrong");'),
}


def check(library, make_model, compiler, folder):
    subprocess.run([make_model, "scale", folder / "scale.onnx"], check=True)
    models = {"": "none", "scale": folder / "scale.onnx", "speech": SPEECH}
    left = set(AROUND)
    for language, line, code in markdown.blocks((ROOT / "docs/cpp.md").read_text(encoding="utf-8")):
        if language != "cpp" or code.startswith(("#include", "/*", "//")):
            continue
        beginning = code.splitlines()[0]
        if beginning not in AROUND:
            yield f"docs/cpp.md:{line}: a block that this test does not know: {beginning}"
            continue
        left.discard(beginning)
        model, before, after = AROUND[beginning]
        source, program = folder / "piece.cpp", folder / "piece"
        source.write_text(PROGRAM.format(line=line, code=code, before=before, after=after), encoding="utf-8")
        subprocess.run([*compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", source, "-o", program, f"-L{library.parent}",
                        "-liobind", f"-Wl,-rpath,{library.parent}"], check=True)
        ran = subprocess.run([program, models[model]], capture_output=True, text=True)
        if ran.stdout != "right\n":
            yield f"docs/cpp.md:{line}: {ran.stdout}{ran.stderr}"
    yield from (f"docs/cpp.md: has no block any more that begins '{beginning}'" for beginning in left)


def main(library, make_model, *compiler):
    if not SPEECH.exists():
        print("skipped: no silero-vad.onnx: scripts/get-models fetches it")
        return 77
    with tempfile.TemporaryDirectory() as name:
        problems = list(check(pathlib.Path(library), make_model, compiler, pathlib.Path(name)))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
