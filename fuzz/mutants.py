#!/usr/bin/env python3
"""Plant one defect after the other in a copy of a source file, and expect the fuzzers of bindings to find each.

usage: mutants.py --build DIR [--jobs N] [--list] [--trust] [--every] [--table FILE] [NAME]...
  --build DIR  a build tree of Ninja, with the programs that the table names
  --jobs N     how many defects at a time (default: the number of processors)
  --list       only list the defects
  --trust      do not try first whether all runs go well without a defect
  --every      all runs of a defect, not only until one finds it: which tests find the same
  --table FILE defects of another file than the mutants.tsv beside this script
  NAME         only these

mutants.tsv has a defect in each row: its name; the file below src/, the function, and the text that is replaced (the first time it occurs in that
function) by another one; and the runs that must find it, of which the first that fails is enough. A run is a program, in bin/ if no directory is named,
and its arguments; behind "cuda: " it sees two GPUs of vcuda. Rows of one name are one defect. Each call of NOTED in src/ must be the text of a row.
The object of that file, or of all sources of a header's module, is compiled from the copy, and the program is linked with it, by the commands that
the build tree has for them: src/ stays as it is. A defect that no run finds, a text that is not there any more and a copy that does not compile are
failures. A defect whose runs need a device that is not here is not tried: exit code 77, if all others are found."""
import argparse
import concurrent.futures
import csv
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"
TIME_LIMIT = 600
NOTED = ("iobind__table_changed(binding);", "iobind__binding_disarm(binding);")  # a change is noted: by each writer of the table


class Defect:
    """What is changed, row by row, and who must find it."""

    def __init__(self, rows):
        self.name = rows[0]["name"]
        self.rows = rows
        self.runs = [Run(one) for one in rows[0]["runs"].split(";")]

    def files(self):
        return sorted({row["file"] for row in self.rows})

    def source(self, file):
        """The file with the defect in it."""
        text = (SOURCES / file).read_text()
        for row in self.rows:
            text = change(text, row) if row["file"] == file else text
        return text


def change(text, row):
    found = re.search(rf"^[^\s/#][^;]*\b{row['function']}\([^;]*?\) \{{\n.*?^\}}", text, flags=re.M | re.S)
    if found is None or row["text"] not in found[0]:
        raise LookupError(f"{row['file']}: {row['function']} has no '{row['text']}'")
    return text[: found.start()] + found[0].replace(row["text"], row["replacement"], 1) + text[found.end() :]


class Absent(Exception):
    """A run needs a device that is not here."""


class Run:
    """A program and its arguments, in a tree that is laid out like the build tree."""

    CUDA = "cuda: "
    SETTINGS = ("IOBIND_REQUIRE=cuda", "VCUDA_RACE=fail", "VCUDA_DELAY_COPY=every:3,us:100,random", "VCUDA_DELAY_COMPUTE=every:3,us:100,random",
                "ASAN_OPTIONS=detect_leaks=0")

    def __init__(self, text):
        self.text = text
        self.on_cuda = text.startswith(self.CUDA)
        program, *self.words = shlex.split(text.removeprefix(self.CUDA))
        self.program = program if "/" in program else f"bin/{program}"

    def fails(self, tree, build):
        """What it says where it fails, or None."""
        front = [build / "bin" / "with-cuda", "--gpus", "2", "--onnxruntime", "env", *self.SETTINGS] if self.on_cuda else []
        done = subprocess.run([*front, tree / self.program, *self.words], capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT)
        if done.returncode == 77:
            raise Absent(f"{self.text}: no such device here")
        if done.returncode == 127:
            raise RuntimeError(f"{self.text}: {done.stderr[-500:]}")
        if done.returncode == 0:
            return None
        said = re.search(r"(WRONG|does not hold|ERROR|runtime error|problem|\[  ERROR).*", done.stderr + done.stdout)
        return said[0] if said else f"exit code {done.returncode}"


def read_table(path):
    """The rows that have the same name are one defect."""
    with open(path, newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Defect(list(of)) for _, of in itertools.groupby(rows, key=lambda row: row["name"])]


def unlisted(defects):
    """Calls by which a change is noted that no row leaves out."""
    texts = [(row["file"], row["text"]) for one in defects for row in one.rows]
    missing = []
    for source in sorted(SOURCES.glob("*/*.c")):
        name = str(source.relative_to(SOURCES))
        for text in NOTED:
            count = source.read_text().count(text)
            if count != texts.count((name, text)):
                missing.append(f"src/{name} has {count} times '{text}', mutants.tsv {texts.count((name, text))} times")
    return missing


class Build:
    """A build tree of Ninja, whose programs are linked again with one object replaced."""

    def __init__(self, path):
        self.path = path
        self.commands = {}
        for entry in json.loads((path / "compile_commands.json").read_text()):
            source = pathlib.Path(entry["file"])
            if SOURCES in source.parents and "iobind_objects.dir" in entry["command"]:
                self.commands[str(source.relative_to(SOURCES))] = shlex.split(entry["command"])
        if not self.commands:
            sys.exit(f"mutants.py: {path} has no command for a source of the library")
        self.links = {}

    def link_command(self, program):
        if program not in self.links:
            commands = subprocess.run(["ninja", "-t", "commands", program], cwd=self.path, capture_output=True, text=True, check=True)
            self.links[program] = commands.stdout.splitlines()[-1]
        return self.links[program]

    def compile(self, defect, folder):
        for file in defect.files():
            copy = folder / "src" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(defect.source(file))
        for file in defect.files():
            # a header of a module is for its sources alone
            includers = [name for name in self.commands if pathlib.Path(name).parent == pathlib.Path(file).parent]
            for source in includers if file.endswith(".h") else [file]:
                self.compile_one(source, folder)

    def compile_one(self, file, folder):
        changed = folder / "src" / file
        words = []
        skip = False
        for word in self.commands[file]:
            if not skip and word not in ("-o", "-MF", "-MT", "-MD", "-c", "-Werror") and not word.endswith(f"src/{file}"):
                words.append(word)
            skip = word in ("-o", "-MF", "-MT")
        # the copies come before src/; what a defect leaves unused is no defect of its own
        words.insert(words.index(f"-I{SOURCES}"), f"-I{folder / 'src'}")
        source = changed if changed.exists() else SOURCES / file
        run([*words, "-w", "-c", source, "-o", folder / f"{file.replace('/', '-')}.o"], self.path)

    def link(self, program, folder):
        """The program with the defect in it, in a tree like that of the build: it finds the same libraries."""
        made = folder / program
        if made.exists():
            return
        made.parent.mkdir(parents=True, exist_ok=True)
        for libraries in (pathlib.Path("lib"), pathlib.Path(program).parent.parent / "lib"):
            if not (folder / libraries).exists():
                (folder / libraries).symlink_to(self.path / libraries)
        # the objects come before the archive of all of them
        command = self.link_command(program).replace(f" -o {program} ", f" -o {made} {folder}/*.o ", 1)
        run(["sh", "-c", command], self.path)


def run(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def hunt(build, defect, folder, every):
    """The runs that find it and what each says: the first one, or all of them."""
    build.compile(defect, folder)
    found = []
    for one in defect.runs:
        if found and not every:
            break
        build.link(one.program, folder)
        said = one.fails(folder, build.path)
        if said is not None:
            found.append(f"{one.text}: {said[:90]}")
    return found


def fails_as_it_is(one, build):
    try:
        return one.fails(build.path, build.path)
    except Absent:
        return None


def try_one(build, defect, keep, every):
    with tempfile.TemporaryDirectory(dir=keep) as scratch:
        folder = pathlib.Path(scratch)
        try:
            found = hunt(build, defect, folder, every)
        except Absent as problem:
            return None, f"{defect.name}: not tried: {problem}"
        except (LookupError, RuntimeError, subprocess.TimeoutExpired) as problem:
            return False, f"{defect.name}: {problem}"
    return bool(found), f"{defect.name}: " + ("found by " + "\n    and by ".join(found) if found else "NOT FOUND")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "mutants.tsv")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    table = read_table(asked.table)
    defects = [one for one in table if not asked.names or one.name in asked.names]
    if asked.list:
        print("\n".join(f"{one.name}: src/{row['file']}: {row['function']}" for one in defects for row in one.rows))
        return 0
    if asked.build is None or not defects:
        parser.error("--build is missing" if defects else "no such defect")
    missing = unlisted(table)
    print("".join(f"{one}\n" for one in missing), end="")
    build = Build(asked.build.resolve())
    for one in {} if asked.trust else {run.text: run for defect in defects for run in defect.runs}.values():
        said = fails_as_it_is(one, build)
        if said is not None:
            print(f"{one.text}: fails without a defect: {said}")
            return 1
    missed, untried = len(missing), 0
    # a tree of its own: several of these may run at a time
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=build.path) as scratch, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(try_one, build, one, scratch, asked.every) for one in defects]):
            found, text = done.result()
            missed += found is False
            untried += found is None
            print(text, flush=True)
    print(f"{len(defects)} defects, {missed} not found, {untried} not tried")
    return 1 if missed else 77 if untried else 0


if __name__ == "__main__":
    sys.exit(main())
