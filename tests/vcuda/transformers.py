"""Operators of transformers, and small models with them, on CUDA's EP over vcuda, compared with the CPU EP: operators with several shapes and
types, three runs each; models over several steps.

usage: transformers.py [--long] [--cudnn] [--list] [CASE...]        under with-cuda; a CASE is the beginning of a name

CUDA's EP runs every node, as the fallback to the CPU is disabled. Inputs and outputs are on the device; a cache may be written in place. The CPU
computes in float32 from the same values, rounded to the device's type. vcuda's setting race=fail finds unordered accesses."""

import argparse
import ctypes
import os
import sys
import tempfile

import gpu_python

SKIPPED = 77
FOLDER = tempfile.TemporaryDirectory()
UNPACKED = gpu_python.unpack(FOLDER.name)
if UNPACKED is None:
    required = "vcuda" in os.environ.get("IOBIND_REQUIRE", "").split(",")
    print("transformers: skipped: no onnxruntime-gpu for this Python; `make vcuda` fetches it", file=sys.stderr)
    sys.exit(1 if required else SKIPPED)
sys.path.insert(0, FOLDER.name)
import onnxruntime  # noqa: E402
import transformer_cases  # noqa: E402
import transformer_models  # noqa: E402
import transformer_run  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="all shapes and types, not only some")
    parser.add_argument("--cudnn", action="store_true", help="only attention by cuDNN, for a setting VCUDA_CUDNN from 90300 on")
    parser.add_argument("--list", action="store_true", help="print only the names")
    parser.add_argument("names", nargs="*", metavar="CASE")
    return parser.parse_args()


def judge_cudnn(case):
    """Check the results, also in replays of a captured graph. cuDNN must have computed them: if its call fails, the run must fail."""
    wrong = transformer_run.judge(case) or transformer_run.judge_replays(case, case.types[0])
    if wrong:
        return wrong
    setting = ctypes.CDLL("libcudart.so.13").vcuda_set
    setting(0, b"fail_call", b"from:1,name:cudnnBackendExecute")
    try:
        list(transformer_run.on_cuda(case, case.types[0]))
    except Exception as error:  # of any class: ORT has many
        return "" if "cudnn" in str(error).lower() else f"the run failed otherwise: {error}"
    finally:
        setting(0, b"fail_call", b"0")
    return "cuDNN has not computed it"


def collect(chosen):
    """Names of the cases, and functions that run and check them."""
    if chosen.cudnn:
        cases = [(case.name, True, lambda case=case: judge_cudnn(case)) for case in transformer_cases.cudnn_cases()]
        return [each for each in cases if not chosen.names or each[0].startswith(tuple(chosen.names))]
    cases = [(case.name, case.needs_cudnn, lambda case=case: transformer_run.judge(case)) for case in transformer_cases.collect(chosen.long)]
    models = [(model.name, model.needs_cudnn, lambda model=model: transformer_models.judge(model)) for model in transformer_models.MODELS]
    return [each for each in cases + models if not chosen.names or each[0].startswith(tuple(chosen.names))]


def main():
    chosen = options()
    cases = collect(chosen)
    if chosen.list:
        print("\n".join(name for name, _, _ in cases))
        return 0
    runs = [(name, judge) for name, needs_cudnn, judge in cases if not needs_cudnn or transformer_run.has_cudnn()]
    failed = 0
    for name, judge in runs:
        wrong = judge()
        if wrong:
            failed += 1
            print(f"{name}: {wrong}")
    print(f"ONNX Runtime {onnxruntime.__version__}: {len(runs) - failed} passed, {failed} failed, {len(cases) - len(runs)} skipped: CUDA's EP needs "
          "cuDNN for them")
    return 1 if failed or not runs else 0


sys.exit(main())
