#!/usr/bin/env python3
"""README.md, compared with docs/graphs.md and the tests here: it has the situations of that table, in their order; each has a test; each test is
named, and is there; and what a test leaves out on some device has a reason.

usage: check_rows.py [--readme FILE]"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs/graphs.md"
TESTS = r"cmocka_unit_test\((\w+)\)"


def rows(text, heading):
    """The cells of each row of the table under a heading."""
    table = text.split(heading, 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]


def names(text):
    return set(re.findall(r"`(\w+)`", text))


def bodies(sources):
    """Each function of the sources, as it stands at the left margin."""
    return {match[1]: match[2] for match in re.finditer(r"^static void (\w+)\(void \*\*state\) \{\n(.*?)^\}", sources, flags=re.M | re.S)}


def problems(readme, document, sources):
    situations = [row[0] for row in rows(document, "| Situation | ORT | iobind |\n|---|---|---|\n")]
    told = rows(readme, "| Situation | Tests | Not everywhere |\n|---|---|---|\n")
    besides = names(readme.split("\nBesides: ", 1)[1])
    tests = set(re.findall(TESTS, sources))
    if [row[0] for row in told] != situations:
        yield "the situations are not those of docs/graphs.md"
    named = set().union(besides, *(names(row[1]) for row in told))
    for row in told:
        if not names(row[1]):
            yield f"'{row[0]}' has no test"
    for name in sorted(named ^ tests):
        yield f"'{name}' is " + ("not named" if name in tests else "no test")
    excused = set().union(*(names(row[2]) for row in told))
    for name, body in bodies(sources).items():
        if name in tests and "skip();" in body and name not in excused:
            yield f"'{name}' leaves out a device without a reason"


def main(arguments):
    readme = pathlib.Path(arguments[1]) if arguments[:1] == ["--readme"] else HERE / "README.md"
    sources = "".join(path.read_text() for path in sorted(HERE.glob("*.c")))
    found = list(problems(readme.read_text(), DOCUMENT.read_text(), sources))
    for problem in found:
        print(f"{readme.name}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
