#!/usr/bin/env python3
"""No EP option ends the process on CUDA: each row of options.tsv is run on vcuda in separate processes.

usage: options.py WITH_CUDA MAKE_MODEL OPTIONS IOBIND

Columns:
- expect: fine; refused: by iobind and by ONNX Runtime; ours: refused by iobind alone; iobind: refused by iobind, and not tried on ONNX Runtime
- says: a part of the message
- options
A row that is fine is run twice: once the session is destroyed, and once the process ends without destroying anything. If the caller sets
ORT_NATIVE_LIB_PATH, the ONNX Runtime may be older than the rows: options that it does not know are omitted. The test also checks that the
table is complete: of all words in the EP's library that could be keys, the EP takes exactly those that the table has for its release."""
import csv
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

WITH_CUDA, MAKE_MODEL, PROGRAM, TOOL = sys.argv[1:5]
OLDER = len(sys.argv) > 5  # in the process that this script starts


def judge(model, row):
    """Run the row through iobind; check the message and how the process ends."""
    wrong = []
    for way in ["destroy", "keep"] if row["says"] == "fine" else ["destroy"]:
        words = [PROGRAM, way, model, *row["options"].split(" ")]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
        said = ran.stdout.strip().splitlines()[-1:] or [""]
        if ran.returncode != 0 or row["says"] not in said[0]:
            wrong.append(f"{way} {row['options']}: exit {ran.returncode}, expected {row['says']}\n{ran.stdout}{ran.stderr}")
    return wrong


def ask(lines):
    """ONNX Runtime's message for each line of options."""
    ran = subprocess.run([PROGRAM, "ask"], input="".join(line + "\n" for line in lines), capture_output=True, text=True)
    answers = ran.stdout.splitlines()
    if ran.returncode != 0 or len(answers) != len(lines):
        sys.exit(f"ask: exit {ran.returncode}, {len(answers)} answers of {len(lines)}\n{ran.stdout}{ran.stderr}")
    return answers


def numbers(version):
    return [int(part) for part in version.split(".")]


def tensorrt():
    """TensorRT's EP does not load without NVIDIA's libraries. So its keys are taken as the words in its library with the prefix of all keys."""
    library = pathlib.Path(os.environ["ORT_NATIVE_LIB_PATH"], "libonnxruntime_providers_tensorrt.so").read_bytes()
    words = {word.decode() for word in re.findall(rb"(?<=\0)trt_[a-z0-9_]+(?=\0)", library)}
    keys = {option["key"] for option in table_of("tensorrt")["options"] if option["key"].startswith("trt_")}
    return [f"{key}: not in both the table of TensorRT's options and its EP's library" for key in sorted(words ^ keys)]


def table_of(ep):
    return json.loads(subprocess.run([TOOL, "options", ep, "--json"], capture_output=True, text=True, check=True).stdout)


def whole(table):
    """Check that the table has exactly the keys of the release."""
    folder = pathlib.Path(os.environ["ORT_NATIVE_LIB_PATH"])
    release = next(folder.glob("libonnxruntime.so.*.*")).name.removeprefix("libonnxruntime.so.")
    with open(folder / "libonnxruntime_providers_cuda.so", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        words = {word.decode() for word in re.findall(rb"[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?=\0)", library)}
    had = {option["key"] for option in table["options"] if numbers(option["since"] or "0") <= numbers(release)}
    asked = sorted(words | {option["key"] for option in table["options"]})
    taken = {key for key, said in zip(asked, ask([key + "=0" for key in asked])) if "Unknown provider option" not in said}
    return [f"{key}: the EP of {release} takes it, and the table does not have it" for key in sorted(taken - had)] + \
           [f"{key}: the table has it for {release}, and the EP does not take it" for key in sorted(had - taken)]


def agree(rows):
    """Check that ONNX Runtime refuses exactly the rows with `refused`. Returns the failures, and the rows whose options it does not know."""
    rows = [row for row in rows if row["expect"] != "iobind"]
    wrong, unknown = [], []
    for row, said in zip(rows, ask([row["options"] for row in rows])):
        if OLDER and "Unknown provider option" in said and row["expect"] != "refused":
            unknown.append(row["options"])
        elif (said == "fine") != (row["expect"] != "refused"):
            wrong.append(f"ask {row['options']}: expected {row['expect']}, ONNX Runtime says: {said}")
    return wrong, unknown


def with_a_policy(model):
    """An option reaches the EP that a policy has chosen: shown by an option that makes the run fail."""
    words = [TOOL, "run", model, "--random", "--policy", "prefer-gpu", *(word for dim in "mkn" for word in ("--dim", f"{dim}=400"))]
    wrong = []
    for limit, code in ("1000", 1), ("8589934592", 0):
        ran = subprocess.run([*words, "--ep-option", f"cuda.gpu_mem_limit={limit}"], capture_output=True, text=True, timeout=120)
        if ran.returncode != code or (code == 1 and "OUT_OF_MEMORY" not in ran.stderr):
            wrong.append(f"a policy and gpu_mem_limit={limit}: exit {ran.returncode}: {ran.stderr}")
    return wrong


def as_config_entry(model):
    """ORT also passes entries of the session's configuration to the EP. Options given there would not be checked, and an invalid one, even one
    that only the EP's kernels read, would end the process. iobind refuses them."""
    wrong = []
    said = {"use_tf32": "expected the EP option 'cuda.use_tf32'", "no_such_option": "which iobind does not know", "fpa_intb_gemm": "which iobind does not know"}
    for where in ["--device", "cuda"], ["--policy", "prefer-gpu"]:
        for key in said:
            words = [TOOL, "run", model, "--random", *where, *(word for dim in "mkn" for word in ("--dim", f"{dim}=4"))]
            ran = subprocess.run([*words, "--config", f"ep.cuda.{key}=7"], capture_output=True, text=True, timeout=120)
            if ran.returncode != 1 or said[key] not in ran.stderr:
                wrong.append(f"{where} and the entry ep.cuda.{key}: exit {ran.returncode}: {ran.stderr}")
    return wrong


def main():
    if "VCUDA_DEVICES" not in os.environ and WITH_CUDA != "-":
        older = ["older"] if "ORT_NATIVE_LIB_PATH" in os.environ else []
        os.execv(WITH_CUDA, [WITH_CUDA, "--gpus", "2", "--onnxruntime", sys.executable, *sys.argv, *older])
    with open(pathlib.Path(__file__).with_name("options.tsv"), newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    table = table_of("cuda")
    for option in table["options"]:
        good = "ours" if option["key"] == "enable_cuda_graph" else "fine"  # only graph_limit sets it
        for expect in (good, "refused"):
            if not any(row["expect"] == expect and any(word.split("=")[0] == option["key"] for word in row["options"].split(" "))
                       for row in rows):
                sys.exit(f"options.tsv: no row has {option['key']} that is {expect}")
    if os.environ.get("VCUDA_DEVICES") != "2":  # a real GPU (scripts/gpu-check), which may be the only one, and may have TensorRT
        rows = [row for row in rows if "device_id" not in row["options"].lower() and "tensorrt" not in row["options"]]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        model = f"{folder}/matmul.onnx"
        subprocess.run([MAKE_MODEL, "matmul", model], check=True)
        wrong, unknown = agree(rows)
        wrong += whole(table) + ([] if OLDER else tensorrt())
        wrong += with_a_policy(model) + as_config_entry(model)
        rows = [row for row in rows if row["options"] not in unknown]
        wrong += [line for lines in pool.map(lambda row: judge(model, row), rows) for line in lines]
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{len(rows)} rows, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
