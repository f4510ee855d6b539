#!/usr/bin/env python3
"""iobind.hpp, compiled as users do and run against the library that they get.

usage: cpp.py compile COMPILER STANDARD LIBRARY MAKE-MODEL   the tests and the examples, without a warning, with exceptions and
                                                             without, on the CPU and on the virtual accelerator
       cpp.py cost COMPILER LIBRARY MAKE-MODEL               the instructions of a run against C's (callgrind), for bench/worst
       cpp.py ort COMPILER LIBRARY MAKE-MODEL               the example with Ort::Value, over ORT's headers: those that
                                                             scripts/get-onnxruntime-headers fetches, or those in the folder
                                                             that the environment variable IOBIND_ORT_HEADERS names
       cpp.py text                                           its size

77: there is no such compiler, or no valgrind, or no headers."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
HEADER = PROJECT / "include" / "iobind" / "iobind.hpp"
EXAMPLES = PROJECT / "examples" / "cpp"
FETCHED_HEADERS = PROJECT / ".runtime" / "onnxruntime-headers"
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror".split()
MOST_LINES = 600
MOST_COST = 1.002
SAYS = {
    ("unknown_size", "cpu"): "3 found, on cpu\n1 3 4 \n",
    ("unknown_size", "vdev"): "3 found, on vdev:0\n1 3 4 \n",
    ("loop", "cpu"): "2 4 6 8 in 100 runs: 0 up, 0 down\n",
    ("loop", "vdev"): "2 4 6 8 in 100 runs: 1 up, 1 down\n",
    ("wrapped", "cpu"): "2 4 6 8 \n",
    ("wrapped", "vdev"): "2 4 6 8 \n",
}
MODELS = {"unknown_size": "nonzero", "loop": "scale", "wrapped": "scale"}


def leave(words):
    print(f"cpp: {words}")
    sys.exit(77)


def run(*command, **more):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)}: {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def build(compiler, standard, library, source, program, *flags):
    # The C header's _INIT macros are C's: their casts are no news here.
    folder = pathlib.Path(library).parent
    run(compiler, f"-std={standard}", "-O2", *WARNINGS, *flags, f"-I{PROJECT / 'include'}", source, f"-L{folder}", "-liobind",
        f"-Wl,-rpath,{folder}", "-o", program)


def compile_with(compiler, standard, library, make_model):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {model: folder / f"{model}.onnx" for model in ("scale", "nonzero", "decoder")}
        for model, path in models.items():
            run(make_model, model, path)
        for flags in ([], ["-fno-exceptions", "-fno-rtti"]):
            build(compiler, standard, library, HERE / "cpp_test.cpp", folder / "cpp_test", *flags)
            for device in ("cpu", "vdev"):
                run(folder / "cpp_test", models["scale"], models["decoder"], device)
        build(compiler, standard, library, EXAMPLES / "quickstart.cpp", folder / "quickstart")  # the documents' tests run it
        for (example, device), said in SAYS.items():
            if not (folder / example).exists():
                build(compiler, standard, library, EXAMPLES / f"{example}.cpp", folder / example)
            came = run(folder / example, models[MODELS[example]], device)
            if came != said:
                sys.exit(f"{example} on {device}: expected {said!r}, got {came!r}")
    print(f"{compiler} {standard}: no warning, and right")


def with_ort(compiler, library, make_model):
    headers = pathlib.Path(os.environ.get("IOBIND_ORT_HEADERS") or FETCHED_HEADERS)
    if not (headers / "onnxruntime_cxx_api.h").exists():
        leave(f"no onnxruntime_cxx_api.h in {headers}: scripts/get-onnxruntime-headers fetches it")
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(make_model, "scale", folder / "scale.onnx")
        build(compiler, "c++17", library, EXAMPLES / "ort_value.cpp", folder / "ort_value", "-isystem", headers)
        for device in ("cpu", "vdev"):
            came = run(folder / "ort_value", folder / "scale.onnx", device)
            if came != "2 4 6 8 \n":
                sys.exit(f"ort_value on {device}: expected 2 4 6 8, got {came!r}")
    print(f"{compiler}: right")


def cost(compiler, library, make_model):
    for program in (compiler, "valgrind"):
        if not shutil.which(program):
            leave(f"no '{program}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(make_model, "scale", folder / "scale.onnx")
        build(compiler, "c++17", library, HERE / "run.cpp", folder / "run")
        run("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}", "--toggle-collect=steady",
            "--dump-after=steady", folder / "run", folder / "scale.onnx", env=dict(os.environ, ORT_DISABLE_TELEMETRY="1"))
        in_c, in_cpp = (int(re.search(r"^totals: (\d+)", (folder / f"out.{number}").read_text(), flags=re.M)[1])
                        for number in (1, 2))
    ratio = in_cpp / in_c
    if ratio < 0.99:
        sys.exit(f"500 runs: {in_c} instructions in C, {in_cpp} in C++: expected about the same")
    print(f"{ratio:.4f} {MOST_COST} instructions of a run in C++, against C's")


def text():
    lines = len(HEADER.read_text(encoding="utf-8").splitlines())
    if lines > MOST_LINES:
        sys.exit(f"{HEADER.name}: {lines} lines, at most {MOST_LINES} are allowed")
    print(f"{lines} lines")


def main():
    commands = {"compile": (compile_with, 4), "cost": (cost, 3), "ort": (with_ort, 3), "text": (text, 0)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) - 2 != count:
        print(__doc__, file=sys.stderr)
        return 2
    command(*sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
