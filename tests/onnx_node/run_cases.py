"""ONNX's node cases through `iobind run`, held against what ONNX expects and against Python's ONNX Runtime on the CPU.

usage: run_cases.py TOOL [--sample] [--list] [--verbose] [--device SPEC [--at-least N] [--own CASE,...]] [CASE...]

A case passes when the tool's outputs are Python's bit for bit and ONNX's within ONNX's tolerance. It is skipped, and counted
by the reason, when it holds what is not a tensor, when the ONNX Runtime is too old to make a tensor of a type in it, when the CPU
EP does not run it, or when the CPU EP's answer is not the one of ONNX (and the tool's is the CPU EP's, bit for bit). Everything
else fails. With another ONNX Runtime under the tool than Python's, the CPU EP's answer is the one of the tool's unbound run,
and few of those may be other than ONNX's.

With --device a case passes when the device's outputs are ONNX's within ONNX's tolerance. It is skipped also when ONNX Runtime or the EP refuses it
in one line, and when it is in --own: the EP's own arithmetic is another one there, and a case of --own that passes fails. How many of
those that passed had a node on the device is counted, and --at-least says how many these must be."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile

# The cases use operators of the newest ONNX, which ONNX Runtime otherwise refuses before it is released.
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models_real"))

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
FEW = 0.05
PASSED, FAILED = "passed", "failed"
CANNOT = "the CPU EP does not run it"
REFUSED = "the EP refuses it"
OWN = "the EP has an arithmetic of its own"
IDLE = "passed, but without a node on the device"
OTHER = "the CPU EP's answer is not ONNX's, the tool's is the CPU EP's"
MAKES_NONE = "the ONNX Runtime makes no tensors of a type in it"
# Up to this version ONNX Runtime takes these for other types when it makes a tensor, and iobind refuses them.
NEW_TYPES, WITHOUT_NEW_TYPES = {"int2", "uint2", "float8e8m0"}, (1, 27)
# Of each of these the sample has cases that Python's ONNX Runtime runs: were none to pass, it would show too little.
TYPES = """bool string float16 float32 float64 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int2
int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 zero-size scalar""".split()


def run_tool(tool, case, bind="device", device="cpu"):
    """The tool's outputs by name, read back from its files, and how many nodes ran on the device."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        with open(model, "wb") as file:
            file.write(case.model)
        inputs = {name: element.to_file(array) for name, array in case.inputs.items()}
        rows = tool.run(model, inputs, folder, device=device, bind=bind)
        return {name: element.from_file(np.load(row["file"]), row["dtype"], row["dims"]) for name, row in rows.items()}, \
            max((row["nodes"] or 0 for row in rows.values()), default=0)


def takes(tool, model):
    """Whether the ONNX Runtime under the tool takes a model of this version."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        try:
            tool.call("inspect", path)
        except driver.ToolError:
            return False
    return True


def run_python(case):
    return dict(zip(case.outputs, reference.run(case.model, case.inputs, list(case.outputs))))


def refused_type(tool, case, error):
    """Whether the tool refuses what the ONNX Runtime under it is too old for, and the case has it."""
    version = tool.doctor["ort_version"]
    if tuple(int(number) for number in version.split(".")[:2]) > WITHOUT_NEW_TYPES:
        return False
    types = NEW_TYPES & {element.name_of(array) for _, array in case.arrays()}
    return any(error.text.endswith(f"ONNX Runtime {version} has no tensors of {name} [NOT_SUPPORTED]") for name in types)


def describe(array, start):
    """From the first element that differs on."""
    return f"{element.name_of(array)}{list(array.shape)} [{start}:] {np.array2string(array.reshape(-1)[start:start + 4])}"


def first_difference(one, other, equal):
    """The first output that is not the same, in words; None when all are."""
    if one.keys() != other.keys():
        return f"outputs {sorted(other)}, expected {sorted(one)}"
    for name in one:
        if not equal(one[name], other[name]):
            pairs = zip(one[name].reshape(-1, 1), other[name].reshape(-1, 1))
            start = next((at for at, pair in enumerate(pairs) if not equal(*pair)), 0)
            return f"'{name}': expected {describe(one[name], start)}, got {describe(other[name], start)}"
    return None


def judge(tool, case):
    """(verdict, words); the verdict is passed, failed, or the reason to skip."""
    if case.kind is not None:
        return f"it has values of the kind {case.kind}", ""
    try:
        python, refused = run_python(case), None
    except reference.Refused as words:
        python, refused = None, str(words)
    try:
        got, _ = run_tool(tool, case)
    except driver.ToolError as error:
        if refused_type(tool, case, error):
            return MAKES_NONE, error.text
        # ONNX Runtime's refusal, told in one line. A crash, or an error of the tool's own, is none.
        own_words = error.code != 1 or not error.text.endswith("[RUNTIME]")
        if own_words or (refused is None and tool.same_ort):
            return FAILED, f"{error}; Python: {refused or 'runs it'}"
        return CANNOT, error.text
    except (ValueError, KeyError) as error:
        return FAILED, f"its files: {error}"

    def close(one, other):
        return element.same_kind(one, other) if case.is_random else element.close(one, other, case.rtol, case.atol)

    if python is not None and tool.same_ort and not case.is_random:
        differs = first_difference(python, got, element.identical)
        if differs:
            return FAILED, f"is not what Python gets: {differs}"
    wrong = first_difference(case.outputs, got, close)
    if wrong is None:
        return PASSED, ""
    plain = python if tool.same_ort else run_tool(tool, case, "host")[0]
    if plain is not None and first_difference(plain, got, element.identical) is None:
        return OTHER, wrong
    return FAILED, f"is not what ONNX expects: {wrong}"


def judge_on(tool, case, device, own):
    """As judge, of another EP than the CPU's."""
    if case.kind is not None:
        return f"it has values of the kind {case.kind}", ""
    try:
        got, nodes = run_tool(tool, case, device=device)
    except driver.ToolError as error:
        refused = error.code == 1 and error.text.rstrip().endswith(("[RUNTIME]", "[NOT_SUPPORTED]"))
        return (REFUSED if refused else FAILED), error.text
    except (ValueError, KeyError) as error:
        return FAILED, f"its files: {error}"

    def close(one, other):
        return element.same_kind(one, other) if case.is_random else element.close(one, other, case.rtol, case.atol)

    wrong = first_difference(case.outputs, got, close)
    if case.name in own:
        return (OWN, wrong) if wrong else (FAILED, "passes now: take it out of --own")
    if wrong is None:
        return (PASSED if nodes else IDLE), ""
    try:
        plain, _ = run_tool(tool, case)
    except driver.ToolError:
        plain = {}
    return (FAILED if first_difference(plain, got, close) else OTHER), f"is not what ONNX expects: {wrong}"


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument("--sample", action="store_true", help="some 200 cases that have every element type")
    parser.add_argument("--list", action="store_true", help="name the cases, and run none")
    parser.add_argument("--verbose", action="store_true", help="say why each case is skipped")
    parser.add_argument("--device", metavar="SPEC", help="another one than the CPU")
    parser.add_argument("--at-least", type=int, default=1, metavar="N", help="with --device: so many pass with nodes on it")
    parser.add_argument("--own", default="", metavar="CASE,...", help="with --device: what the EP computes in another way")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    return parser.parse_intermixed_args()


def run_all(judged, listed, verbose):
    """The verdicts, and how many there are of each."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(judged, listed))
    for case, (verdict, words) in zip(listed, verdicts):
        if verdict == FAILED or (verbose and verdict != PASSED):
            print(f"{case.name}: {verdict}: {words}")
    return verdicts, collections.Counter(verdict for verdict, _ in verdicts)


def run_on(tool, listed, chosen):
    if not tool.works(chosen.device):
        driver.leave(f"{chosen.device} does not work here; `iobind doctor` says why", chosen.device)
    own = set(filter(None, chosen.own.split(",")))
    _, reasons = run_all(lambda case: judge_on(tool, case, chosen.device, own), listed, chosen.verbose)
    for reason, count in sorted(reasons.items()):
        print(f"{count}: {reason}")
    few = reasons[PASSED] < chosen.at_least
    if few:
        print(f"expected {chosen.at_least} or more to pass with nodes on {chosen.device}, got {reasons[PASSED]}")
    return 1 if reasons[FAILED] or few else 0


def main():
    chosen = options()
    tool = driver.Tool(chosen.tool)
    ir, opset = cases.newest(lambda model: takes(tool, model))
    print(f"ONNX Runtime {tool.doctor['ort_version']} takes IR {ir} and operator set {opset}; ONNX {onnx.__version__} has "
          f"{onnx.IR_VERSION} and {onnx.defs.onnx_opset_version()}")
    listed = cases.collect(ir, opset)
    if chosen.sample:
        listed = cases.sample(listed)
    if chosen.cases:
        unknown = set(chosen.cases) - {case.name for case in listed}
        if unknown:
            sys.exit(f"no such case: {' '.join(sorted(unknown))}")
        listed = [case for case in listed if case.name in chosen.cases]
    if chosen.list:
        print("\n".join(case.name for case in listed))
        return 0
    if chosen.device:
        return run_on(tool, listed, chosen)
    if not tool.same_ort:
        print("another ONNX Runtime than Python's: held against ONNX, and against the unbound run")
    verdicts, reasons = run_all(lambda case: judge(tool, case), listed, chosen.verbose)
    shown = {trait[1] for case, (verdict, _) in zip(listed, verdicts) if verdict == PASSED for trait in case.traits()}
    passed, failed = reasons.pop(PASSED, 0), reasons.pop(FAILED, 0)
    for reason, count in sorted(reasons.items()):
        print(f"skipped {count}: {reason}")
    print(f"types that passed: {' '.join(sorted(shown))}")
    missing = [name for name in TYPES if name not in shown and tool.same_ort and not chosen.cases]
    if missing:
        print(f"no case passed with {' '.join(missing)}")
    many = not tool.same_ort and reasons[OTHER] > FEW * (passed + reasons[OTHER])
    if many:
        print("too many answers are not ONNX's for the CPU EP to be the reason")
    print(f"{passed} passed, {failed} failed, {reasons.total()} skipped")
    return 1 if failed or missing or many else 0


sys.exit(main())
