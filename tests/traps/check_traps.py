#!/usr/bin/env python3
"""Every guard and every test that the table of traps names is there.

usage: check_traps.py ROOT   ROOT: the folder of the whole tree
"""
import pathlib
import re
import sys

TRAPS = 44  # how many the table has: a row that is lost is noticed


def rows(readme):
    """The cells of each numbered row."""
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0].isdigit():
            yield cells


def conformance_rows(cases):
    return {line.split("\t")[0].split("/")[0] for line in cases.splitlines() if line and line[0] not in "#="}


def check_test(root, test, library, cases):
    """What is wrong with a test's name; None where nothing is."""
    first, _, name = test.partition(" ")
    if first == "row":
        return None if name in cases else "no row of cases.tsv"
    if first == "never":
        return f"the library calls it: {library[name]}" if name in library else None
    path = root / "tests" / first
    if not path.is_file():
        return "no such file"
    by_ctest = not first.endswith("_test.c")
    where = path.parent / "CMakeLists.txt" if by_ctest else path
    pattern = rf"NAME {re.escape(name)} " if by_ctest else rf"(\bcmocka_unit_test\w*\(|[{{] ?\"[^\"]*\", ){name}\b"
    return None if re.search(pattern, where.read_text(encoding="utf-8")) else f"no such test in {where.name}"


def calls(root):
    """Each function of ORT's tables that a file of src/ calls, and the file."""
    found = {}
    for path in sorted((root / "src").rglob("*.[ch]")):
        for name in re.findall(r"(?:\bapi|IOBIND__API\([^()]*\))->(\w+)", path.read_text(encoding="utf-8")):
            found.setdefault(name, path.relative_to(root).as_posix())
    return found


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0])
    readme = (root / "tests/traps/README.md").read_text(encoding="utf-8")
    cases = conformance_rows((root / "tests/conformance/cases.tsv").read_text(encoding="utf-8"))
    library = calls(root)
    problems = []
    numbers = []
    for number, _, guard, tests in rows(readme):
        numbers.append(int(number))
        for file in re.findall(r"`(src/[\w./]+)`", guard):
            if not (root / file).is_file():
                problems.append(f"{number}: {file}: no such file")
        named = re.findall(r"`([^`]+)`", tests)
        if not named:
            problems.append(f"{number}: no test")
        for test in named:
            wrong = check_test(root, test, library, cases)
            if wrong:
                problems.append(f"{number}: {test}: {wrong}")
    if numbers != list(range(1, TRAPS + 1)):
        problems.append(f"expected the traps 1 .. {TRAPS}, got {numbers}")
    if "RunWithBinding" not in library or len(cases) < 150:
        problems.append("the calls of the library, or the rows of cases.tsv, were not understood")
    for problem in problems:
        print(f"check_traps: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
