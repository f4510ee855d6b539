"""ONNX's node cases through `iobind run` on CUDA's EP over vcuda, compared with Python's ONNX Runtime on the CPU.

usage: operators.py TOOL [--sample] [--verbose] [CASE...]        under with-cuda

A case passes if the tool's outputs are near those of the CPU EP. It is skipped if
- the CPU EP does not run it;
- it has a value that is not a tensor, or a type that is not supported;
- vcuda lacks one of its kernels, which is named at the end.
All other cases fail. A run in which too few cases pass fails as well."""

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

import driver  # noqa: E402  (it also reports missing packages)

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
# The least numbers of the sample's cases, and of all cases, that must pass.
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
    """Floats within the tolerance of their type; all other values must be equal."""
    tolerance = {"float32": 1e-3, "float64": 1e-3, "float16": 1e-2, "bfloat16": 2e-2}.get(element.name_of(one), 0)
    return element.close(one, other, tolerance, tolerance)


def why_not(text):
    """The reason to skip a case that failed with this message; None for a real failure."""
    if "kernel not found" in text:
        return KERNEL
    # The EP refuses to create the session. A crash, or an error of the tool itself, does not count.
    if text.endswith("[RUNTIME]") and "CUDA failure" not in text and "CUDA error" not in text and "CUDNN" not in text:
        return OTHER
    return None


def judge(tool, case):
    """(verdict, details)"""
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
    parser.add_argument("--sample", action="store_true", help="about 200 cases, which include every element type")
    parser.add_argument("--verbose", action="store_true", help="print why each case is skipped")
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
