#!/usr/bin/env python3
"""Every function of the public header has a scenario in fail_each, or a reason why it has none.

usage: complete.py FAIL_EACH   the program, which says what it has
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "header"))
from header import functions  # noqa: E402: it lies in another folder

public = {function.name for function in functions()}
lines = subprocess.run([sys.argv[1], "--functions"], check=True, capture_output=True, text=True).stdout.splitlines()
tried = {line.split()[1] for line in lines if line.startswith("scenario ")}
without = {line.split()[1].rstrip(":") for line in lines if line.startswith("without ")}

problems = [f"{name}: no scenario: add one to tests/fake_ort, or a line to without_scenarios with the reason"
            for name in sorted(public - tried - without)]
problems += [f"{name}: has a scenario, but is no public function" for name in sorted(tried - public)]
problems += [f"{name}: stands in without_scenarios for nothing" for name in sorted(without - (public - tried))]
if not public or not tried:
    problems.append("no function was found at all")
for problem in problems:
    print(problem, file=sys.stderr)
print(f"{len(public)} functions: {len(tried & public)} with scenarios, {len(without)} without")
sys.exit(1 if problems else 0)
