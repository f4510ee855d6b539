"""ONNX's node cases through `iobind run` on CUDA's EP, held against Python's ONNX Runtime on the CPU: what vcuda's kernels compute.

usage: operators.py TOOL [--sample] [--verbose] [CASE...]        under with-cuda

A case passes when the tool's outputs are near those of the CPU EP. It is skipped when that EP does not run it, when it holds what
is not a tensor or a type that is not computed with, or when vcuda does not have one of its kernels: which, is said at the end.
Everything else fails, and so does a run in which hardly anything passed."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "models_real"), str(TESTS / "onnx_node")]

import driver  # noqa: E402  (it also says what is missing)

try:
    import onnx  # noqa: E402
except ImportError as missing:
    driver.leave(f"{missing}; scripts/get-python fetches it")
import cases  # noqa: E402
import element  # noqa: E402
import numpy as np  # noqa: E402
import reference  # noqa: E402

WORKERS = 2
PASSED, FAILED = "passed", "failed"
CPU, KIND, KERNEL, OTHER = ("the CPU EP does not run it", "it has values that are not tensors", "vcuda does not have a kernel of it",
                            "CUDA's EP refuses it")
# Of the sample's cases, and of all: fewer mean that something else is wrong.
LEAST_OF_SAMPLE, LEAST = 140, 1200


def run_tool(tool, case, device="cuda"):
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        with open(model, "wb") as file:
            file.write(case.model)
        inputs = {name: element.to_file(array) for name, array in case.inputs.items()}
        rows = tool.run(model, inputs, folder, device=device)
        return {name: element.from_file(np.load(row["file"]), row["dtype"], row["dims"]) for name, row in rows.items()}


def near(one, other):
    """Floats as near as their types allow; what is not a float must be the same."""
    tolerance = {"float32": 1e-3, "float64": 1e-3, "float16": 1e-2, "bfloat16": 2e-2}.get(element.name_of(one), 0)
    return element.close(one, other, tolerance, tolerance)


def why_not(text):
    """The reason to skip a case that failed with these words; None for a real failure."""
    if "no such kernel" in text:
        return KERNEL
    # A refusal of the EP when the session is made; a crash or an error of the tool's own is none.
    if text.endswith("[RUNTIME]") and "CUDA failure" not in text and "CUDA error" not in text and "CUDNN" not in text:
        return OTHER
    return None


def judge(tool, case):
    """(verdict, words)"""
    if case.kind is not None:
        return KIND, ""
    try:
        expected = dict(zip(case.outputs, reference.run(case.model, case.inputs, list(case.outputs))))
    except reference.Refused as words:
        return CPU, str(words)
    try:
        got = run_tool(tool, case)
    except driver.ToolError as error:
        reason = why_not(error.text) if error.code == 1 else None
        return (reason, error.text) if reason else (FAILED, f"{error}")
    if case.is_random:
        return PASSED, ""
    wrong = [name for name in expected if name not in got or not near(expected[name], got[name])]
    return (FAILED, f"other than on the CPU: {' '.join(wrong)}") if wrong else (PASSED, "")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument("--sample", action="store_true", help="some 200 cases that have every element type")
    parser.add_argument("--verbose", action="store_true", help="say why each case is skipped")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    return parser.parse_intermixed_args()


def collect(chosen):
    listed = cases.collect(onnx.IR_VERSION, onnx.defs.onnx_opset_version())
    if chosen.sample:
        listed = cases.sample(listed)
    return [case for case in listed if not chosen.cases or case.name in chosen.cases]


def main():
    chosen = options()
    tool = driver.Tool(chosen.tool)
    if not tool.works("cuda"):
        print("operators: skipped: no CUDA device works; run it by with-cuda", file=sys.stderr)
        return 1 if driver.required("cuda") or driver.required("vcuda") else driver.SKIPPED
    listed = collect(chosen)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(lambda case: judge(tool, case), listed))
    reasons = collections.Counter(verdict for verdict, _ in verdicts)
    for case, (verdict, words) in zip(listed, verdicts):
        if verdict == FAILED or (chosen.verbose and verdict != PASSED):
            print(f"{case.name}: {verdict}: {words}")
    passed, failed = reasons.pop(PASSED, 0), reasons.pop(FAILED, 0)
    for reason, count in sorted(reasons.items()):
        print(f"skipped {count}: {reason}")
    print(f"{passed} passed, {failed} failed, {reasons.total()} skipped")
    least = 0 if chosen.cases else LEAST_OF_SAMPLE if chosen.sample else LEAST
    return 1 if failed or passed < least else 0


if __name__ == "__main__":
    sys.exit(main())
