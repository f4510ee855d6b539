#!/usr/bin/env python3
"""docs/crossings.md: every pair of its features is there once, with tests that exist or the reason why the two cannot meet.

usage: crossings.py [ROOT]

- The features are the first column of the table below "## Features". Each but the last has a section of its name, whose table lists the
  features behind it in the list, in their order.
- A cell has groups "[text](../file): `test`, `test`", parted by "; ", or begins with "Cannot occur: ".
- A test is a function of a C or Java file that is registered as one, a test function of Python, or the name of a row in a .tsv.
"""
import pathlib
import re
import sys

PAGE = "docs/crossings.md"
NO = "Cannot occur: "
GROUP = r"\[[^\]]+\]\(\.\./(?P<file>[^)]+)\): (?P<tests>`[^`]+`(?:, `[^`]+`)*)"
CELL = re.compile(rf"(?:{GROUP}(?:; |$))+".replace("?P<file>", "").replace("?P<tests>", ""))


def tables(text):
    """Heading of the second level -> the rows of its first table, without the two of its head."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")]
        found.setdefault(heading.strip(), []).extend([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])
    return found


def tests_of(name, text):
    """The names of the tests in a file."""
    if name.endswith(".tsv"):
        return {line.split("\t")[0] for line in text.splitlines() if "\t" in line and line[0] not in "#=\t"}
    if name.endswith(".py"):
        return set(re.findall(r"^[ \t]*def (test\w*)\(", text, flags=re.M))
    if name.endswith(".java"):
        return set(re.findall(r"@(?:Test|ParameterizedTest|RepeatedTest)\b(?:[^;{}]|\{[^;{}]*\})*?\bvoid (\w+)\(", text))
    defined = set(re.findall(r"^static void (\w+)\((?:void \*\*state|int own)\) \{", text, flags=re.M))
    listed = set(re.findall(r"[(,]\s*(\w+)\s*(?=[,)])", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)))
    return defined & listed


class Page:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.known = {}
        self.counts = {"tests": 0, "reasons": 0}

    def fault(self, message):
        self.problems.append(f"{PAGE}: {message}")

    def check_test(self, pair, file, test):
        if file not in self.known:
            path = self.root / file
            self.known[file] = tests_of(file, path.read_text(encoding="utf-8")) if path.is_file() else None
            if self.known[file] is None:
                self.fault(f"{pair}: there is no file {file}")
        if self.known[file] is not None and test not in self.known[file]:
            self.fault(f"{pair}: {file} has no test '{test}'")

    def check_cell(self, pair, cell):
        if cell.startswith(NO):
            self.counts["reasons"] += 1
            if len(cell) == len(NO.rstrip()) or "](" in cell:
                self.fault(f"{pair}: expected a reason alone behind '{NO.strip()}', got '{cell}'")
        elif not CELL.fullmatch(cell):
            self.fault(f"{pair}: expected [text](../file): `test` or '{NO.strip()}' with a reason, got '{cell}'")
        else:
            self.counts["tests"] += 1
            for group in re.finditer(GROUP, cell):
                for test in re.findall(r"`([^`]+)`", group["tests"]):
                    self.check_test(pair, group["file"], test)

    def check(self):
        found = tables((self.root / PAGE).read_text(encoding="utf-8"))
        features = [row[0] for row in found.pop("Features", [])]
        if len(set(features)) != len(features) or len(features) < 2:
            self.fault(f"Features: expected two or more, each once, got {features}")
            return self.problems
        for heading in found.keys() - set(features[:-1]):
            self.fault(f"'{heading}' is not a feature that is followed by another one")
        for at, feature in enumerate(features[:-1]):
            rows = found.get(feature, [])
            if [row[0] for row in rows] != features[at + 1:]:
                self.fault(f"{feature}: expected the rows {', '.join(features[at + 1:])}; got {', '.join(row[0] for row in rows)}")
            for row in rows:
                self.check_cell(f"{feature} with {row[0]}", row[1] if len(row) == 2 else "")
        return self.problems


def main(arguments):
    page = Page(pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[2]))
    for problem in page.check():
        print(f"crossings: {problem}", file=sys.stderr)
    if page.problems:
        return 1
    print(f"{page.counts['tests']} pairs have tests, {page.counts['reasons']} have a reason")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
