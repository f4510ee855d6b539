#!/usr/bin/env python3
"""Plant one defect after the other in a copy of a source file, and expect the fuzzers of bindings to find each.

usage: mutants.py --build DIR [--jobs N] [--list] [NAME]...
  --build DIR  a build tree with a compile_commands.json, the library, fuzz_binding and graph_fuzz
  --jobs N     how many defects at a time (default: the number of processors)
  --list       only list the defects
  NAME         only these

mutants.tsv has a defect in each row: its name; the file below src/, the function, and the text that is replaced (the first time it occurs in that
function) by another one; and the runs that must find it, of which the first that fails is enough. The object of that file is compiled from the
copy, with the command that the build tree has for it, and linked with the others: src/ stays as it is. A defect that no run finds, a text that
is not there any more and a copy that does not compile are failures. Exit code 77: a run needs a device that is not here."""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"
TIME_LIMIT = 600


class Defect(dict):
    def source(self):
        """The file with the defect in it."""
        text = (SOURCES / self["file"]).read_text()
        found = re.search(rf"^[^\s/#][^;]*\b{self['function']}\([^;]*?\) \{{\n.*?^\}}", text, flags=re.M | re.S)
        if found is None or self["text"] not in found[0]:
            raise LookupError(f"{self['file']}: {self['function']} has no '{self['text']}'")
        return text[: found.start()] + found[0].replace(self["text"], self["replacement"], 1) + text[found.end() :]


def read_table():
    with open(HERE / "mutants.tsv", newline="") as table:
        return [Defect(row) for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)]


class Build:
    """A build tree, whose library is linked again with one object replaced."""

    def __init__(self, path):
        self.path = path
        commands = json.loads((path / "compile_commands.json").read_text())
        self.commands = {}
        for entry in commands:
            source = pathlib.Path(entry["file"])
            words = shlex.split(entry["command"])
            output = words[words.index("-o") + 1]
            if SOURCES in source.parents and "iobind_objects.dir" in output:
                self.commands[str(source.relative_to(SOURCES))] = (words, output)
        if not self.commands:
            sys.exit(f"mutants.py: {path} has no command for a source of the library")
        self.library = (path / "lib/libiobind.so").resolve()

    def compiler(self, command):
        """The words of a command up to the compiler, and those of its options that the linker needs, too."""
        first = next(i for i, word in enumerate(command) if word.startswith("-"))
        return command[:first] + [word for word in command if word.startswith(("-fsanitize", "-fno-sanitize"))]

    def link(self, defect, folder):
        command, output = self.commands[defect["file"]]
        copy = folder / pathlib.Path(defect["file"]).name
        copy.write_text(defect.source())
        made = folder / "mutant.o"
        words = []
        skip = False
        for word in command:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT"):
                skip = True
            elif word not in ("-MD", "-c") and not word.endswith(f"src/{defect['file']}"):
                words.append(word)
        # what a defect leaves over is no defect of its own
        run([*words, "-Wno-error", "-w", "-c", copy, "-o", made], self.path)
        objects = [made if one == output else self.path / one for _, one in self.commands.values()]
        library = folder / "lib" / self.library.name
        run([*self.compiler(command), "-shared", f"-Wl,-soname,{soname(self.library)}", "-Xlinker", "--version-script", "-Xlinker",
             SOURCES / "iobind.map", *objects, "-ldl", "-lpthread", "-o", library], self.path)  # fmt: skip

    def tree(self, defect, folder):
        """Programs and libraries as they lie in the build tree, the library with the defect among them."""
        for name in ("bin", "lib"):
            (folder / name).mkdir()
        for beside in (self.path / "lib").iterdir():
            if not beside.name.startswith("libiobind.so"):
                (folder / "lib" / beside.name).symlink_to(beside.resolve())
        self.link(defect, folder)
        for name in (soname(self.library), "libiobind.so"):
            if name != self.library.name:
                (folder / "lib" / name).symlink_to(self.library.name)
        for program in ("fuzz_binding", "graph_fuzz"):
            os.link(self.path / "bin" / program, folder / "bin" / program)


def soname(library):
    return re.sub(r"(\.so\.\d+).*", r"\1", library.name)


def run(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def hunt(defect, folder):
    """The run that finds it and what it says, or None."""
    for one in defect["runs"].split(";"):
        program, *words = one.split()
        command = [folder / "bin" / program, *words]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT)
        if done.returncode == 77:
            print(f"mutants.py: {one}: no such device here", file=sys.stderr)
            sys.exit(77)
        if done.returncode != 0:
            said = re.search(r"(WRONG|does not hold|ERROR|runtime error|\[  ERROR).*", done.stderr + done.stdout)
            return one, said[0] if said else f"exit code {done.returncode}"
    return None


def try_one(build, defect, keep):
    with tempfile.TemporaryDirectory(dir=keep) as scratch:
        folder = pathlib.Path(scratch)
        try:
            build.tree(defect, folder)
            found = hunt(defect, folder)
        except (LookupError, RuntimeError, subprocess.TimeoutExpired) as problem:
            return False, f"{defect['name']}: {problem}"
    return found is not None, f"{defect['name']}: " + (f"found by {found[0]}: {found[1][:90]}" if found else "NOT FOUND")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    defects = [one for one in read_table() if not asked.names or one["name"] in asked.names]
    if asked.list:
        print("\n".join(f"{one['name']}: src/{one['file']}: {one['function']}" for one in defects))
        return 0
    if asked.build is None or not defects:
        parser.error("--build is missing" if defects else "no such defect")
    build = Build(asked.build.resolve())
    scratch = build.path / "mutants"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(try_one, build, one, scratch) for one in defects]):
            found, text = done.result()
            missed += not found
            print(text, flush=True)
    print(f"{len(defects) - missed} of {len(defects)} defects were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
