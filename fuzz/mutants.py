#!/usr/bin/env python3
"""Plant one defect after the other in a copy of a source file, and expect the fuzzers of bindings to find each.

usage: mutants.py --build DIR [--jobs N] [--list] [NAME]...
  --build DIR  a build tree of Ninja, with the programs that the table names
  --jobs N     how many defects at a time (default: the number of processors)
  --list       only list the defects
  NAME         only these

mutants.tsv has a defect in each row: its name; the file below src/, the function, and the text that is replaced (the first time it occurs in that
function) by another one; and the runs that must find it, of which the first that fails is enough, or "none: " and why nothing can tell. Each call of NOTED in src/ must
be the text of a row. The object of that file is compiled from the
copy, and the program is linked with it, by the commands that the build tree has for them: src/ stays as it is. A defect that no run finds, a text that
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
NOTED = ("iobind__table_changed(binding);", "iobind__binding_disarm(binding);")  # a change is noted: by each writer of the table


class Defect(dict):
    def source(self):
        """The file with the defect in it."""
        text = (SOURCES / self["file"]).read_text()
        found = re.search(rf"^[^\s/#][^;]*\b{self['function']}\([^;]*?\) \{{\n.*?^\}}", text, flags=re.M | re.S)
        if found is None or self["text"] not in found[0]:
            raise LookupError(f"{self['file']}: {self['function']} has no '{self['text']}'")
        return text[: found.start()] + found[0].replace(self["text"], self["replacement"], 1) + text[found.end() :]

    def runs(self):
        return [] if self["runs"].startswith("none: ") else self["runs"].split(";")


def read_table():
    with open(HERE / "mutants.tsv", newline="") as table:
        return [Defect(row) for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)]


def unlisted(defects):
    """Calls by which a change is noted that no row leaves out."""
    texts = [(one["file"], one["text"]) for one in defects]
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
            commands = subprocess.run(["ninja", "-t", "commands", f"bin/{program}"], cwd=self.path, capture_output=True, text=True, check=True)
            self.links[program] = commands.stdout.splitlines()[-1]
        return self.links[program]

    def compile(self, defect, folder):
        copy = folder / pathlib.Path(defect["file"]).name
        copy.write_text(defect.source())
        words = []
        skip = False
        for word in self.commands[defect["file"]]:
            if not skip and word not in ("-o", "-MF", "-MT", "-MD", "-c", "-Werror") and not word.endswith(f"src/{defect['file']}"):
                words.append(word)
            skip = word in ("-o", "-MF", "-MT")
        # what a defect leaves unused is no defect of its own
        run([*words, "-w", "-c", copy, "-o", folder / "mutant.o"], self.path)

    def program(self, name, folder):
        """The program with the defect in it, in a tree like that of the build: it finds the same libraries."""
        made = folder / "bin" / name
        if not made.exists():
            # an object comes before the archive of all of them
            command = self.link_command(name).replace(f" -o bin/{name} ", f" -o {made} {folder}/mutant.o ", 1)
            run(["sh", "-c", command], self.path)
        return made

    def tree(self, defect, folder):
        (folder / "bin").mkdir()
        (folder / "lib").symlink_to(self.path / "lib")
        self.compile(defect, folder)


def run(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def hunt(build, defect, folder):
    """The run that finds it and what it says, or None."""
    for one in defect.runs():
        program, *words = shlex.split(one)
        command = [build.program(program, folder), *words]
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
            found = hunt(build, defect, folder)
        except (LookupError, RuntimeError, subprocess.TimeoutExpired) as problem:
            return False, f"{defect['name']}: {problem}"
    return found is not None, f"{defect['name']}: " + (f"found by {found[0]}: {found[1][:90]}" if found else "NOT FOUND")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    defects = [one for one in read_table() if not asked.names or one["name"] in asked.names]
    if asked.list:
        print("\n".join(f"{one['name']}: src/{one['file']}: {one['function']}" for one in defects))
        return 0
    if asked.build is None or not defects:
        parser.error("--build is missing" if defects else "no such defect")
    missing = unlisted(read_table())
    print("".join(f"{one}\n" for one in missing), end="")
    build = Build(asked.build.resolve())
    for one in {run for defect in defects for run in defect.runs()}:
        program, *words = shlex.split(one)
        if not asked.trust and subprocess.run([build.path / "bin" / program, *words], capture_output=True).returncode not in (0, 77):
            print(f"{one}: fails without a defect")
            return 1
    scratch = build.path / "mutants"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    missed = len(missing)
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(try_one, build, one, scratch) for one in defects if one.runs()]):
            found, text = done.result()
            missed += not found
            print(text, flush=True)
    unseen = [one for one in defects if not one.runs()]
    print("".join(f"{one['name']}: not looked for: {one['runs'][6:]}\n" for one in unseen), end="")
    print(f"{len(defects) - len(unseen)} defects, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
