#!/usr/bin/env python3
"""A product of its own, vdev or vcuda: its README is followed by the letter in a tree that has nothing else, and works without libiobind.

usage: alone.py PRODUCT

The programs are written under the names in their first lines, then the blocks of shell run in their order in one shell. `pip install` is left out:
the packages are those of the Python that runs this. Ends with 77 where ONNX Runtime or Python's packages are not there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = ROOT / ".runtime"
sys.path[:0] = [str(ROOT / "tests/docs"), str(ROOT / "tests/vcuda")]

import gpu_python  # noqa: E402
import markdown  # noqa: E402

# What a product may use of the tree.
PARTS = {
    "vdev": ["vdev", "abi", "onnx", "cmake/alone.cmake", "cmake/defaults.cmake", "cmake/version.cmake", "include/iobind/version.h"],
    "vcuda": ["vcuda", "cmake/alone.cmake", "cmake/defaults.cmake", "cmake/version.cmake", "include/iobind/version.h"],
}
# ORT's header is not fetched; what the C programs need of it is declared here.
HEADER = '#include "ort.h"\nconst OrtApiBase *OrtGetApiBase(void);\n'
# Python's programs are looked at from inside, at their end.
CHECKED = """import runpy, sys
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
if "libiobind.so" in open("/proc/self/maps").read():
    sys.exit("libiobind is in the process")
"""


def leave(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


def copy_parts(product, tree):
    for part in PARTS[product]:
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tree / part)


def make_ort(tree, libraries):
    """An unpacked release, as the README has it."""
    (tree / "ort/include").mkdir(parents=True)
    (tree / "ort/include/onnxruntime_c_api.h").write_text(HEADER)
    for header in (ROOT / "abi").glob("*.h"):
        os.symlink(header, tree / "ort/include" / header.name)
    os.symlink(libraries, tree / "ort/lib")


def make_python(tree):
    (tree / "bin").mkdir()
    (tree / "bin/checked.py").write_text(CHECKED)
    python = tree / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {tree}/bin/checked.py "$@"\n')
    python.chmod(0o755)


def find_libraries(product, tree):
    """The directory of ONNX Runtime's libraries, and what Python needs to find its package."""
    if product == "vdev":
        if not (RUNTIME / "onnxruntime").exists():
            leave("no ONNX Runtime: scripts/get-onnxruntime fetches it")
        return RUNTIME / "onnxruntime", {}
    unpacked = gpu_python.unpack(tree)
    if unpacked is None:
        leave("no onnxruntime-gpu for this Python: 'make vcuda' fetches it")
    return unpacked.runtime, {"PYTHONPATH": str(tree)}


def write_programs(tree, blocks):
    for language, _, content in blocks:
        name = re.match(r"(?:#|//) ([\w.]+)", content)
        if language in ("python", "c"):
            (tree / name[1]).write_text(content)


def follow(product, tree):
    blocks = list(markdown.blocks((tree / product / "README.md").read_text()))
    script = "".join(content for language, _, content in blocks if language == "sh")
    script = re.sub(r"^pip install .*\n", "", script, flags=re.M)
    libraries, environment = find_libraries(product, tree)
    make_ort(tree, libraries)
    make_python(tree)
    write_programs(tree, blocks)
    known = {name: value for name, value in os.environ.items() if name != "ORT_NATIVE_LIB_PATH" and not name.startswith(("VDEV_", "VCUDA_"))}
    environment = {**known, **environment, "ORT": str(tree / "ort"), "PATH": f"{tree}/bin:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-eu", "-c", script], cwd=tree, env=environment, capture_output=True, text=True)
    if ran.returncode == 77:
        leave(ran.stderr.strip().splitlines()[-1])
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}{ran.stderr}\nexit code {ran.returncode}")
    return sum(language == "sh" for language, _, _ in blocks)


def check_trace(product, tree):
    """The README's last trace has work of each kind."""
    events = {event["name"] for event in json.loads((tree / "trace.json").read_text())["traceEvents"]}
    expected = {"vdev": {"upload", "Add", "download"}, "vcuda": {"cublasSgemm_v2"}}[product]
    if not expected <= events:
        sys.exit(f"trace.json: expected {sorted(expected)} among the events, got {sorted(events)}")


def check_needed(tree):
    """No program and no library that was built asks the loader for libiobind."""
    libraries = [path for path in tree.glob("build/**/*.so*") if re.search(r"\.so(\.\d+)*$", path.name)]
    built = [path for path in [*libraries, tree / "add", tree / "counted"] if path.is_file()]
    for path in built:
        needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        if "libiobind.so" in needed:
            sys.exit(f"{path.relative_to(tree)} needs libiobind")
    return len(built)


def main(product):
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as missing:
        leave(f"{missing}; scripts/get-python fetches it")
    if not shutil.which("cc"):
        leave("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder).resolve()
        copy_parts(product, tree)
        count = follow(product, tree)
        check_trace(product, tree)
        print(f"{count} blocks of shell, {check_needed(tree)} files built: no libiobind")


if __name__ == "__main__":
    main(sys.argv[1])
