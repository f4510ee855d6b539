"""The ONNX cases of Debian's package libonnx-testdata through `iobind run` on CUDA's EP.

usage: testdata.py TOOL DIRECTORY [--most N] [CASE...]        under with-cuda

The test counts the cases of dense tensors of numbers that the CPU EP computes right through the same tool. Other cases are listed with the reason
why they are not counted, and counted cases that are not right on CUDA with theirs. The test fails if a result is wrong, if a run fails otherwise
than by a refusal, or if more than N cases are not right."""

import argparse
import concurrent.futures
import sys

import operators  # (it also reports missing packages, and adds the path of the modules with the cases)

import cases
import driver

WRONG, CRASHED = "wrong", "neither a result nor a refusal"
RIGHT, NOT_COUNTED = operators.PASSED, "not counted"
# The least number of cases of libonnx-testdata 1.12 that must be counted.
LEAST = 900


def why_uncounted(tool, case):
    """Why the case is not counted; None: the CPU EP computes it right."""
    if case.kind is not None:
        return f"a {case.kind} is among its values"
    try:
        got = operators.run_tool(tool, case, "cpu")
    except driver.ToolError as error:
        return f"the CPU EP does not run it: {error.text}"
    return None if all_near(case.outputs, got) else "the CPU EP gives other values than the package has"


def all_near(expected, got):
    return all(name in got and operators.near(value, got[name]) for name, value in expected.items())


def judge(tool, case):
    """(verdict, details)"""
    uncounted = why_uncounted(tool, case)
    if uncounted is not None:
        return NOT_COUNTED, uncounted
    try:
        got = operators.run_tool(tool, case)
    except driver.ToolError as error:
        refused = operators.why_not(error.text) if error.code == 1 else None
        return refused or CRASHED, f"{error}"
    return (RIGHT, "") if all_near(case.outputs, got) else (WRONG, "other values than the package has")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument("directory", metavar="DIRECTORY", help="of node, simple, pytorch-converted, pytorch-operator")
    parser.add_argument("--most", type=int, default=32, metavar="N", help="number of cases that may be refused (default: 32)")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    return parser.parse_intermixed_args()


def main():
    chosen = options()
    tool = driver.Tool(chosen.tool)
    if not tool.works("cuda"):
        driver.leave("no CUDA device works; run it by with-cuda", "vcuda")
    listed = [case for case in cases.read(chosen.directory) if not chosen.cases or case.name in chosen.cases]
    if not listed:
        driver.leave(f"no cases below {chosen.directory}; scripts/get-onnx-testdata fetches them", "vcuda")
    with concurrent.futures.ThreadPoolExecutor(operators.WORKERS) as pool:
        verdicts = list(pool.map(lambda case: judge(tool, case), listed))
    for case, (verdict, words) in zip(listed, verdicts):
        if verdict != RIGHT:
            print(f"{case.name}: {verdict}: {words}")
    found = [verdict for verdict, _ in verdicts if verdict != NOT_COUNTED]
    right, wrong, crashed = (found.count(verdict) for verdict in (RIGHT, WRONG, CRASHED))
    refused = len(found) - right - wrong - crashed
    print(f"of {len(listed)} cases {len(found)} count: {right} right, {wrong} wrong, {crashed} crashed, {refused} refused")
    few = len(found) < (0 if chosen.cases else LEAST)
    return 1 if wrong or crashed or refused > chosen.most or few else 0


if __name__ == "__main__":
    sys.exit(main())
