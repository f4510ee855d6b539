"""Which of ONNX's operators CUDA's EP runs over vcuda, in which element types: the table of docs/vcuda.md, measured by runs.

usage: operator_types.py [--write | --check] [OPERATOR...]        under with-cuda
  --write   put the table into docs/vcuda.md
  --check   compare it with the page's table

ONNX's node cases of an operator are converted to each type that the input with the most types has. A type runs if CUDA's EP takes the node, no
node falls back to the CPU, and the results are those of the CPU EP in this type, or else in float32. Each operator is tried in a separate process."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import gpu_python

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
TESTS = pathlib.Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs/vcuda.md"
SKIPPED, WORKERS, MOST = 77, 2, 8
# in the order of the table, without rare ones such as strings
TYPES = "float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool"
RUNS, ABSENT, EP = "runs", "left to the CPU", "the EP has it, and refuses these cases"
OPSETS = 23, 20, 17, 13
HEAD = "| Operator | Runs | Otherwise |\n|---|---|---|\n"


def leave(why):
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print(f"operator_types: {'missing' if required else 'skipped'}: {why}", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)


def function_of(mangled):
    """The last name of a mangled name, in which the length precedes each name."""
    name, rest = mangled, mangled.removeprefix("_ZN")
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end():end], rest[end:]
    return name


def takes_type(schema):
    """Is the output's type an optional attribute, whose default is the input's type?"""
    return "dtype" in schema.attributes and not schema.attributes["dtype"].default_value.ByteSize()


# ---- the process of one operator ----


class Trial:
    def __init__(self):
        import ctypes
        import ml_dtypes
        import numpy
        import onnx
        import onnxruntime
        import element
        import reference
        onnxruntime.set_default_logger_severity(4)
        self.numpy, self.onnx, self.runtime, self.element, self.reference = numpy, onnx, onnxruntime, element, reference
        self.vcuda = ctypes.CDLL("libcudart.so.13")
        self.dtypes = {"bfloat16": ml_dtypes.bfloat16}
        self.kept = []

    def dtype(self, name):
        return self.numpy.dtype(self.dtypes.get(name, name))

    def variable(self, case):
        """The schema, the type variable of the input that has the most types, and these types; None: the case has more than one node."""
        model = self.onnx.ModelProto.FromString(case.model)
        if len(model.graph.node) != 1 or model.graph.node[0].domain or model.graph.initializer:
            return None
        schema = self.onnx.defs.get_schema(model.graph.node[0].op_type, model.opset_import[0].version)
        allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
        inputs = [one.type_str for one in schema.inputs]
        chosen = max(inputs, key=lambda one: len(allowed.get(one, [one])), default=None)
        return None if chosen is None else (schema, chosen, allowed.get(chosen, [chosen]))

    def convert(self, case, kind, opset):
        """Convert the model and inputs to another type."""
        schema, variable, _ = self.variable(case)
        model = self.onnx.ModelProto.FromString(case.model)
        number, node = self.element.TYPES[kind], model.graph.node[0]
        model.ir_version = 10
        model.opset_import[0].version = min(opset, model.opset_import[0].version)

        def of(given, formal):
            kinds = [formal[min(i, len(formal) - 1)].type_str for i in range(len(given))]
            return {name for name, one in zip(given, kinds) if one == variable}

        chosen = of(node.input, schema.inputs) | of(node.output, schema.outputs)
        if takes_type(schema) and not any(attribute.name == "dtype" for attribute in node.attribute):
            chosen |= set(node.output)  # these have the input's type
        inputs = dict(case.inputs)
        for info in [*model.graph.input, *model.graph.output]:
            if info.name not in chosen:
                continue
            info.type.tensor_type.elem_type = number
            if info.name in inputs:
                inputs[info.name] = self.values(inputs[info.name], kind)
        return model.SerializeToString(), inputs

    def values(self, array, kind):
        """Convert values: fractions become small whole numbers, without a sign for an unsigned type."""
        numpy = self.numpy
        real = array.astype(numpy.float64)
        if kind in ("bfloat16", "float16", "float32", "float64"):
            return real.astype(self.dtype(kind))
        if numpy.any(real != numpy.trunc(real)):
            real = numpy.round(real * 4)
        real = numpy.abs(real) if kind == "uint8" else real
        return numpy.clip(real, -100, 100).astype(self.dtype(kind))

    def run(self, model, inputs, names):
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = self.runtime.InferenceSession(model, options, providers=["CUDAExecutionProvider"])
        session.disable_fallback()
        self.kept.append(session)
        values = {name: self.reference.value_of(array) for name, array in inputs.items()}
        for _ in range(2):
            results = session.run_with_ort_values(names, values)
        return [self.reference.array_of(value) for value in results]

    def expect(self, case, kind, opset, model, inputs, names):
        try:
            return self.reference.run(model, inputs, names)
        except self.reference.Refused:
            model, inputs = self.convert(case, "float32", opset)
            return self.reference.run(model, inputs, names)

    def near(self, kind, got, expected):
        limit = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 1e-3, "float64": 1e-3}.get(kind, 0)
        if got.shape != expected.shape:
            return False
        got, expected = got.astype(self.numpy.float64), expected.astype(self.numpy.float64)
        return self.numpy.allclose(got, expected, limit, limit, equal_nan=True)

    def why_not(self, text):
        with open(os.environ["VCUDA_LOG"], "a+") as log:
            log.seek(0)
            logged = log.read()
            log.truncate(0)
        self.vcuda.vcuda_recover(0)
        self.vcuda.cudaGetLastError()
        missing = re.search(r"kernel not found: (\S+)", logged)
        if missing:
            return f"no kernel {function_of(missing[1])}"
        if logged.strip():
            return re.sub(r"^vcuda: |on device \d: ", "", logged.strip().splitlines()[0])[:120]
        if "assigned to the default CPU EP" in text or "Could not find an implementation" in text or "is not set" in text:
            return ABSENT
        return None if "INVALID_GRAPH" in text or "Load model" in text else EP

    def judge(self, case, kind):
        """RUNS, ABSENT, or a reason; None: inconclusive."""
        words = None
        for opset in OPSETS:
            try:
                model, inputs = self.convert(case, kind, opset)
                got = self.run(model, inputs, list(case.outputs))
            except Exception as error:  # of any class: ONNX Runtime's binding has many
                found = self.why_not(str(error))
                if found not in (None, ABSENT, EP):
                    return found
                words = found or words
                continue
            if case.is_random:
                return RUNS
            try:
                expected = self.expect(case, kind, opset, model, inputs, list(case.outputs))
            except (self.reference.Refused, ValueError, TypeError, OverflowError):
                return None
            same = all(self.near(kind, one, other) for one, other in zip(got, expected))
            return RUNS if same else "other values than on the CPU"
        return words


def try_operator(operator):
    """Print a line for each type: a refusal if a case is refused, otherwise the best result of all cases."""
    import cases
    import onnx
    trial = Trial()
    chosen = [case for case in cases.collect(onnx.IR_VERSION, onnx.defs.onnx_opset_version())
              if case.kind is None and case.inputs and trial.variable(case) is not None and trial.variable(case)[0].name == operator]
    chosen = [case for case in chosen if "expanded" not in case.name]
    for kind in TYPES:
        verdicts = []
        for case in chosen[::max(1, len(chosen) // MOST)][:MOST]:
            if verdicts.count(RUNS) == 3 or (ABSENT in verdicts and len(verdicts) > 2):
                break
            if f"tensor({ {'float32': 'float', 'float64': 'double'}.get(kind, kind)})" not in trial.variable(case)[2]:
                continue
            if any(array.dtype == object for array in case.inputs.values()):
                continue
            verdicts.append(trial.judge(case, kind))
        refusals = [one for one in verdicts if one not in (None, RUNS, ABSENT, EP)]
        verdict = refusals[0] if refusals else RUNS if RUNS in verdicts else EP if EP in verdicts else ABSENT
        print(json.dumps([kind, verdict]), flush=True)
    os._exit(0)


# ---- all operators ----


def collect(folder, operator):
    environment = dict(os.environ, VCUDA_LOG=os.path.join(folder, f"{operator}.log"), OPERATOR_TYPES=folder)
    ran = subprocess.run([sys.executable, __file__, "--operator", operator], env=environment, capture_output=True, text=True)
    rows = dict(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("["))
    for kind in TYPES:
        rows.setdefault(kind, f"the process ends with {ran.returncode}")
    return rows


def row_of(operator, rows):
    """A line of the table. None: CUDA's EP has no type of the operator."""
    runs = [kind for kind in TYPES if rows[kind] == RUNS]
    refused = {}
    for kind in TYPES:
        if rows[kind] not in (RUNS, ABSENT):
            refused.setdefault(rows[kind], []).append(kind)
    if not runs and not refused:
        return None
    return f"| {operator} | {' '.join(runs)} | {'; '.join(f'{chr(32).join(kinds)}: {words}' for words, kinds in refused.items())} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--operator", help=argparse.SUPPRESS)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = os.environ.get("OPERATOR_TYPES", folder)
        if own == folder and gpu_python.unpack(folder) is None:
            leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
        sys.path[:0] = [own, str(TESTS / "onnx_node")]
        if chosen.operator:
            try_operator(chosen.operator)
        import cases
        import onnx
        import onnxruntime
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            leave("this onnxruntime has no CUDA EP")
        os.environ["ONNX_CASES"] = os.path.join(folder, "cases")
        subprocess.run([sys.executable, str(TESTS / "onnx_node/cases.py"), os.environ["ONNX_CASES"]], check=True)
        listed = cases.collect(onnx.IR_VERSION, onnx.defs.onnx_opset_version())
        models = [onnx.ModelProto.FromString(case.model) for case in listed if case.kind is None]
        names = sorted({model.graph.node[0].op_type for model in models if len(model.graph.node) == 1 and not model.graph.node[0].domain})
        names = [name for name in names if not chosen.operators or name in chosen.operators]
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(lambda name: collect(folder, name), names))
    table = HEAD + "".join(f"{row}\n" for name, rows in zip(names, found) if (row := row_of(name, rows)) is not None)
    before, after = PAGE.read_text().split(HEAD)
    there = HEAD + "".join(re.match(r"(?:\|.*\n)*", after)[0])
    if chosen.write:
        PAGE.write_text(before + table + after[len(there) - len(HEAD):])
    elif chosen.check:
        print("".join(f"{'+' if line in table else '-'} {line}\n" for line in sorted(set(table.splitlines()) ^ set(there.splitlines()))), end="")
        return 0 if table == there else 1
    else:
        print(table, end="")
    return 0


sys.exit(main())
