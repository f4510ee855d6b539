#!/usr/bin/env python3
"""The blocks of C in the documents, and that of C++ in README.md, compiled and run.

usage: pieces.py [--root ROOT] DEVICE LIBRARY COMPILER [FLAG...]

The blocks under one heading of the first or second level continue one another, in a function that has a runtime, a device, a session
and so on (frame.h); a block that begins with "static" stands before it. A block of "text" under the same heading is what they
print; if it names vdev, it is compared only on vdev. The block of C++ chooses its device itself. Sections that are a program are left out: readme.py and console.py look
after those. Ends with 77 (skipped) where the device or the models are not there."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import markdown

HERE = pathlib.Path(__file__).resolve().parent
# Documents with tests of their own.
ELSEWHERE = {"vdev.md", "vcuda.md", "cuda.md", "install.md", "java.md", "coming-from.md"}
FUNCTION = """{before}
static int section_{line}(PIECE_PARAMETERS);
static int section_{line}(PIECE_PARAMETERS) {{
  (void)runtime, (void)device, (void)session, (void)binding, (void)image, (void)pixels, (void)bytes, (void)dims, (void)rank;
{code}
  return 0;
}}
"""

# The block of C++ has pictures.
PROGRAM = """#include <cstdio>
#include <iobind/iobind.hpp>
int main() try {{
  const std::vector<std::vector<float>> pictures(2, std::vector<float>(3 * 48 * 192));
#line {line} "README.md"
{code}
  return scores.size() == 2 ? 0 : 1;
}} catch (const iobind::error &failed) {{
  std::fprintf(stderr, "%s\\n", failed.what());
  return 1;
}}
"""


def documents(root):
    return [root / "README.md"] + sorted(path for path in (root / "docs").glob("*.md") if path.name not in ELSEWHERE)


def is_program(blocks):
    return blocks[0][1].startswith(("#include", "/*", "//"))


def sections(path, language="c"):
    """(first line, blocks of C, what they print or None) of each section that has C, or another language."""
    for _, blocks in markdown.sections(path.read_text()):
        code = [(line, content) for written_in, line, content in blocks if written_in == language]
        printed = "".join(content for written_in, _, content in blocks if written_in == "text")
        if code:
            yield code[0][0], code, printed or None


class Failure(Exception):
    pass


class Compiler:
    def __init__(self, root, folder, library, command):
        self.folder = folder
        flags = ["-Wall", "-Wextra", "-Werror", f"-I{root}/include", f"-I{HERE}"]
        self.command = [*command, "-std=c17", *flags]
        self.command_cpp = ["c++", *command[1:], "-std=c++17", *flags]
        self.libraries = [f"-L{library.parent}", "-liobind", "-lpthread", f"-Wl,-rpath,{library.parent}"]

    def build(self, *sources):
        program = self.folder / pathlib.Path(sources[0]).stem
        command = self.command_cpp if pathlib.Path(sources[0]).suffix == ".cpp" else self.command
        ran = subprocess.run([*command, *map(str, sources), "-o", str(program), *self.libraries], capture_output=True, text=True)
        if ran.returncode != 0:
            raise Failure(ran.stderr.strip())
        return program


def run(folder, *command):
    ran = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=600)
    if ran.returncode == 77:
        print(ran.stderr.strip(), file=sys.stderr)
        sys.exit(1 if command[-1] in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77)
    if ran.returncode != 0:
        raise Failure(f"{ran.stdout}{ran.stderr}".strip() + f"\nexit code {ran.returncode}")
    return ran.stdout


def placed(root, path, code):
    """What stands before the function and in it, with lines that lead a compiler's messages to the document."""
    name = path.relative_to(root).as_posix()
    parts = {True: "", False: ""}
    for line, content in code:
        parts[content.startswith("static ")] += f'#line {line} "{name}"\n{content}\n'
    return {"before": parts[True], "code": parts[False]}


def compare(device, printed, came):
    if printed is not None and ("vdev" not in printed or device == "vdev") and came.strip() != printed.strip():
        raise Failure(f"the document says that it prints\n{printed}it prints\n{came}")


def check_functions(compiler, folder, device, name, found):
    """All functions of a document in one program; what each prints comes after a line of its own."""
    source = folder / f"{name}.c"
    table = "".join(f"  {{{line}, section_{line}}},\n" for line, _, _ in found)
    source.write_text('#include "frame.h"\n#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n'
                      + "".join(FUNCTION.format(line=line, **code) for line, code, _ in found)
                      + f"const section sections[] = {{\n{table}  {{0, NULL}}}};\n")
    output = run(folder, compiler.build(source, HERE / "frame.c"), device)
    came = {int(part.split("\n", 1)[0]): part.split("\n", 1)[1] for part in re.split(r"^== ", output, flags=re.M)[1:]}
    for line, _, printed in found:
        compare(device, printed, came[line])


def check_cpp(root, compiler):
    for line, code, _ in sections(root / "README.md", "cpp"):
        if not is_program(code):
            source = compiler.folder / "readme.cpp"
            source.write_text(PROGRAM.format(line=line, code=code[0][1]))
            run(compiler.folder, compiler.build(source))


def check(root, device, library, command):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in (root / ".runtime/models").glob("*.onnx"):
            (folder / model.name).symlink_to(model)
        compiler = Compiler(root, folder, library, command)
        found = {path: [(line, placed(root, path, code), printed) for line, code, printed in sections(path) if not is_program(code)]
                 for path in documents(root)}
        if not any(found.values()):
            yield "no document has a block of C"
        for path, functions in found.items():
            try:
                if functions:
                    check_functions(compiler, folder, device, path.stem, functions)
            except Failure as failure:
                yield f"{path.relative_to(root)}: {failure}"
        try:
            check_cpp(root, compiler)
        except Failure as failure:
            yield f"README.md: {failure}"


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments[:1] == ["--root"]:
        root = pathlib.Path(arguments[1]).resolve()
        arguments = arguments[2:]
    if len(arguments) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if not (root / ".runtime/models/pp-ocr-cls.onnx").exists():
        print("skipped: no models; scripts/get-models fetches them", file=sys.stderr)
        return 1 if arguments[0] in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77
    problems = list(check(root, arguments[0], pathlib.Path(arguments[1]).resolve(), arguments[2:]))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
