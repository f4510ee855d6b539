#!/usr/bin/env python3
"""The commands in the documents, run, and what they print compared with what the documents show.

usage: console.py [--root ROOT] BUILD_FOLDER PYTHON [CC_FLAG...]

What is built is installed into a folder that looks like a clone after `make demo`; a document's blocks run there one after the
other. Of a block the lines after "$ " are run that begin with iobind, cc, c++ or ./; what else a reader is shown (make, git, scripts)
readme.py checks. A block of "sh" shows no output; it must succeed. What differs from run to run or from machine to machine is made
equal first (SAME), and a shown line "..." stands for any number of lines. A block that names webgpu is left out where no such device
works. Ends with 77 (skipped) where the models are not there."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import markdown
import pieces

# What differs between two runs, and what stands for it on both sides; in this order.
SAME = [
    (r"/\S*?/(dist|\.runtime|build)/", r"/\1/"),
    (r"(?:0x[0-9a-f]{4}):(?:0x[0-9a-f]{4})", "IDS"),
    (r"\b(?:CPU|GPU|NPU) +\S[^\n]*? +IDS", "HARDWARE"),
    (r"\b[\d.]+ (?:ns|us|ms|s)\b", "TIME"),
    (r"\bx[\d.]+", "RATIO"),
    (r"\b\d+ % of what there is", "SHARE"),
    (r"TIME +[\d.]+ +RATIO", "TIME RATE RATIO"),  # runs a second
    (r"\b(?:\d+ runs?|never|at once)\b", "RUNS"),
    (r", and a run is [\d.]+ times as fast|, but the time stays[^\n]*", ", and the times"),
    (r"[ -]{2,}", " "),
]


def same(text):
    for pattern, replacement in SAME:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return [line.strip() for line in text.strip().splitlines()]


def shown(command, printed, came):
    """Whether the lines that came are those that the document shows, of which "..." is any number."""
    if command.startswith("./"):  # an example prints nothing that differs
        return printed == came
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in same(printed))
    return re.fullmatch(pattern, "".join(line + "\n" for line in same(came))) is not None


def commands(language, first, content):
    """(line number, command, what it prints or None) of a block."""
    if language == "sh":
        for number, line in enumerate(content.splitlines()):
            yield first + number, line, None
    if language == "console":
        parts = re.split(r"^\$ ", content, flags=re.M)
        number = first
        for part in parts[1:]:
            match = re.match(r"((?:.*\\\n)*.*)\n?", part)
            yield number, match[1], part[match.end():]
            number += part.count("\n")


class Clone:
    """A folder with what a reader has in a clone, after `make demo`."""

    def __init__(self, root, folder, build, python, flags):
        self.root, self.folder = root, folder
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(folder / "dist")], check=True, capture_output=True)
        (folder / "dist/lib/iobind").symlink_to(root / ".runtime")
        for name in [".runtime", "examples"]:
            (folder / name).symlink_to(root / name)
        (folder / "pp-ocr-cls.onnx").symlink_to(root / ".runtime/models/pp-ocr-cls.onnx")  # README's blocks run beside a copy
        (folder / "build/demo").mkdir(parents=True)
        subprocess.run([str(build / "bin/make-lookup"), str(folder / "build/demo")], check=True, capture_output=True)
        self.lacks = []  # files that a document speaks of, and the fetched Python is not there to make
        for maker, name in [("recording.py", "recording.raw"), ("drawing.py", "page.png")]:
            made = subprocess.run([python, str(pathlib.Path(__file__).resolve().parent / maker), str(folder / name)])
            if made.returncode != 0:
                self.lacks.append(name)
        (folder / "bin").mkdir()
        for name in ["cc", "c++"]:  # what is linked to a library with sanitizers needs their flags, which no reader is shown
            compiler = folder / "bin" / name
            compiler.write_text(f'#!/bin/sh\nexec /usr/bin/{name} "$@" {" ".join(flags)}\n')
            compiler.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{folder}/bin:{folder}/dist/bin:{os.environ['PATH']}", NO_COLOR="1")
        for name in ["ORT_NATIVE_LIB_PATH", "IOBIND_EP_LIBRARIES"]:  # a reader has the runtime folder's
            self.environment.pop(name, None)
        devices = json.loads(self.run("iobind doctor --json")[1]).get("devices", [])
        self.has_webgpu = any(device["spec"].startswith("webgpu") and device["works"] for device in devices)

    def export(self, command):
        """The variables that a line exports, as if it were typed in this folder."""
        for name, value in re.findall(r"(\w+)=(\S+)", command.split("#")[0]):
            self.environment[name] = value.replace("$PWD", str(self.folder))

    def run(self, command):
        ran = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        return ran.returncode, ran.stdout


def runs(command):
    return re.match(r"(?:\w+=\S* )*(?:(?:dist/bin/)?iobind|cc|c\+\+|\./\S+)(?: |$)", command)


def check_block(clone, language, first, content):
    for number, command, printed in commands(language, first, content):
        if command.startswith("export "):
            clone.export(command)
        if not runs(command):
            continue
        code, came = clone.run(command)
        fails = printed is not None and re.search(r"^iobind: \w+: ", printed, flags=re.M) is not None
        if (code != 0) != fails:
            yield number, f"'{command}' ended with {code}:\n{came}"
        elif printed is not None and not shown(command, printed, came):
            yield number, f"'{command}' is said to print\n{printed}\nand prints\n{came}"


def check(root, clone):
    for path in pieces.documents(root):
        for language, first, content in markdown.blocks(path.read_text()):
            missing = ("webgpu" in content and not clone.has_webgpu and "webgpu") or (
                any(name in content for name in clone.lacks) and "fetched Python")
            if missing and language in ("sh", "console"):
                print(f"skipped: {path.name}:{first}: no {missing}", file=sys.stderr)
                if missing in os.environ.get("IOBIND_REQUIRE", "").split(","):
                    yield f"{path.name}:{first}: no {missing}"
                continue
            for number, problem in check_block(clone, language, first, content):
                yield f"{path.relative_to(root)}:{number}: {problem}"


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments[:1] == ["--root"]:
        root = pathlib.Path(arguments[1]).resolve()
        arguments = arguments[2:]
    if len(arguments) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if not (root / ".runtime/models/pp-ocr-cls.onnx").exists():
        print("skipped: no models; scripts/get-models fetches them", file=sys.stderr)
        return 1 if "cpu" in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77
    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(root, pathlib.Path(folder), pathlib.Path(arguments[0]).resolve(), arguments[1], arguments[2:])
        problems = list(check(root, clone))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
