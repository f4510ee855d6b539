#!/usr/bin/env python3
"""iobind.hpp and interop.hpp, compiled as users do and run against the library that they get.

usage: cpp.py compile COMPILER STANDARD LIBRARY MAKE-MODEL   the tests and the examples, without a warning, with exceptions and
                                                             without, on the CPU and on the virtual accelerator
       cpp.py quick COMPILER STANDARD LIBRARY MAKE-MODEL     the same, not optimized
       cpp.py cost COMPILER LIBRARY MAKE-MODEL               the instructions of a run against C's (callgrind), for bench/worst
       cpp.py ort COMPILER LIBRARY MAKE-MODEL               the example with Ort::Value, over ORT's headers: those that
                                                             scripts/get-onnxruntime-headers fetches, or those in the folder
                                                             that the environment variable IOBIND_ORT_HEADERS names
       cpp.py mistakes COMPILER LIBRARY MAKE-MODEL           mistakes that users make, under the sanitizers of the library's build
       cpp.py refused COMPILER                               mistakes that must not compile
       cpp.py aborts COMPILER LIBRARY                        -fno-exceptions: an error that nobody asked for is printed
       cpp.py mixed COMPILER LIBRARY                         files of two versions of C++ in one program
       cpp.py wrapped                                        every function of the C headers is called in them

77: there is no such compiler, or no valgrind, or no headers."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
INCLUDE = PROJECT / "include" / "iobind"
EXAMPLES = PROJECT / "examples" / "cpp"
FETCHED_HEADERS = PROJECT / ".runtime" / "onnxruntime-headers"
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror".split()
# The headers themselves, as strictly as each compiler can be; clang's warnings about older standards and about padding say nothing here.
STRICTEST = {
    "g++": "-Weffc++ -Wzero-as-null-pointer-constant -Wuseless-cast -Wduplicated-cond -Wlogical-op -Wnull-dereference -Wcast-align "
           "-Wcast-qual -Wswitch-enum -Wfloat-equal -Wundef".split(),
    "clang++": "-Weverything -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-padded -Wno-weak-vtables -Wno-documentation "
               "-Wno-documentation-unknown-command -Wno-unknown-warning-option -Wno-unsafe-buffer-usage".split(),
}
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
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


def compile_with(compiler, standard, library, make_model, *more):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {model: folder / f"{model}.onnx" for model in ("scale", "nonzero", "decoder", "pair")}
        for model, path in models.items():
            run(make_model, model, path)
        for header in ("iobind.hpp", "interop.hpp"):
            only = folder / "only.cpp"
            only.write_text(f"#include <iobind/{header}>\n#include <iobind/{header}>\n", encoding="utf-8")
            run(compiler, f"-std={standard}", *WARNINGS, *STRICTEST[compiler], f"-I{PROJECT / 'include'}", "-fsyntax-only", only)
        oldest = standard == "c++17"  # the rest is the same in every version
        for flags in ([], ["-fno-exceptions", "-fno-rtti"]) if oldest else ([],):
            build(compiler, standard, library, HERE / "cpp_test.cpp", folder / "cpp_test", *flags, *more)
            for device in ("cpu", "vdev"):
                run(folder / "cpp_test", models["scale"], models["decoder"], models["pair"], device)
        if oldest:
            build(compiler, standard, library, EXAMPLES / "quickstart.cpp", folder / "quickstart")  # the documents' tests run it
        for (example, device), said in SAYS.items() if oldest else ():
            if not (folder / example).exists():
                build(compiler, standard, library, EXAMPLES / f"{example}.cpp", folder / example)
            came = run(folder / example, models[MODELS[example]], device)
            if came != said:
                sys.exit(f"{example} on {device}: expected {said!r}, got {came!r}")
    print(f"{compiler} {standard}: no warning, and right")


def quick(*arguments):
    compile_with(*arguments, "-O0")


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


def mistakes(compiler, library, make_model):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in ("scale", "decoder"):
            run(make_model, model, folder / f"{model}.onnx")
        build(compiler, "c++17", library, HERE / "mistakes.cpp", folder / "mistakes", "-O0", "-g", *SANITIZERS)
        for device in ("cpu", "vdev"):
            print(run(folder / "mistakes", folder / "scale.onnx", folder / "decoder.onnx", device), end="")


def refused(compiler):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    source = HERE / "refused.cpp"
    cases = re.findall(r"^#(?:if|elif) defined\((\w+)\).*// (.+)$", source.read_text(encoding="utf-8"), flags=re.M)
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags = [compiler, "-std=c++17", *WARNINGS, f"-I{PROJECT / 'include'}"]
        (folder / "headers.hpp").write_text("#include <list>\n#include <iobind/interop.hpp>\n", encoding="utf-8")
        compiled = folder / ("headers.hpp.pch" if "clang" in compiler else "headers.hpp.gch")
        run(*flags, "-x", "c++-header", folder / "headers.hpp", "-o", compiled)
        use = ["-include-pch", compiled] if "clang" in compiler else ["-include", folder / "headers.hpp"]
        tried = [str(word) for word in (*flags, *use, "-fsyntax-only", source)]
        run(*tried)
        for case, words in cases:
            ran = subprocess.run([*tried, f"-D{case}"], capture_output=True, text=True)
            errors = "\n".join(line for line in ran.stderr.splitlines() if "error:" in line)
            if ran.returncode == 0 or not re.search(words, errors):
                wrong.append(f"{case}: expected an error with '{words}', got {errors or 'none'}")
    if wrong or len(cases) < 30:
        sys.exit("\n".join(wrong) or f"{source.name}: {len(cases)} cases were found, expected 30 or more")
    print(f"{len(cases)} mistakes do not compile")


def aborts(compiler, library):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = folder / "aborts.cpp"
        source.write_text("#include <iobind/iobind.hpp>\nint main() { iobind::runtime(nullptr).find(\"cpu\"); }\n", encoding="utf-8")
        build(compiler, "c++17", library, source, folder / "aborts", "-fno-exceptions")
        ran = subprocess.run([folder / "aborts"], capture_output=True, text=True)
    if ran.returncode != -signal.SIGABRT or "runtime is NULL [INVALID_ARGUMENT]" not in ran.stderr:
        sys.exit(f"expected the message and SIGABRT, got {ran.returncode} and '{ran.stderr}'")


def mixed(compiler, library):
    if not shutil.which(compiler):
        leave(f"no compiler '{compiler}' here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        declared = "#include <iobind/interop.hpp>\nfloat first(iobind::span<const float> values, iobind::tensor &of);\n"
        (folder / "older.cpp").write_text(declared + "float first(iobind::span<const float> values, iobind::tensor &of) {\n"
                                          "  return values[0] + of.data<float>()[0];\n}\n", encoding="utf-8")
        (folder / "newer.cpp").write_text(declared + "int main() {\n  iobind::runtime runtime;\n"
                                          "  iobind::tensor x = iobind::tensor::from(runtime.cpu(), {1}, {2.f});\n"
                                          "  return first(x.data<float>(), x) == 4 ? 0 : 1;\n}\n", encoding="utf-8")
        for source, standard in (("older", "c++17"), ("newer", "c++20")):
            run(compiler, f"-std={standard}", "-c", *WARNINGS, f"-I{PROJECT / 'include'}", folder / f"{source}.cpp", "-o",
                folder / f"{source}.o")
        folder_of_library = pathlib.Path(library).parent
        run(compiler, folder / "older.o", folder / "newer.o", f"-L{folder_of_library}", "-liobind",
            f"-Wl,-rpath,{folder_of_library}", "-o", folder / "mixed")
        run(folder / "mixed")


def wrapped():
    missing = []
    count = 0
    for header in sorted(INCLUDE.glob("*.h")):
        functions = set(re.findall(r"\b(iobind_\w+)\(", "\n".join(
            line for line in header.read_text(encoding="utf-8").splitlines() if line.startswith("IOBIND_API"))))
        wrapper = INCLUDE / ("interop.hpp" if header.name == "interop.h" else "iobind.hpp")
        text = re.sub(r"/\*.*?\*/", "", wrapper.read_text(encoding="utf-8"), flags=re.S)
        missing += sorted(f"{header.name}: {name}" for name in functions if not re.search(rf"\b{name}\b", text))
        count += len(functions)
    if count < 100:
        sys.exit(f"{count} functions were found, expected 100 or more")
    if missing:
        sys.exit(f"not wrapped: {', '.join(missing)}")


def main():
    commands = {"compile": (compile_with, 4), "quick": (quick, 4), "cost": (cost, 3), "ort": (with_ort, 3), "mistakes": (mistakes, 3),
                "refused": (refused, 1), "aborts": (aborts, 2), "mixed": (mixed, 2), "wrapped": (wrapped, 0)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) - 2 != count:
        print(__doc__, file=sys.stderr)
        return 2
    command(*sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
