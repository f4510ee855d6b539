"""Does run_cases.py look? A tool that spoils one byte of what it writes passes no case.

usage: test_spoiled.py TOOL"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

CASES = ["test_add", "test_cast_FLOAT_to_BFLOAT16", "test_equal", "test_quantizelinear_int4", "test_string_concat"]
# In front of the tool: the last byte of each output is another one, where it is a number, a truth and a packed element.
SPOILER = """#!{python}
import json, subprocess, sys
ran = subprocess.run([{tool!r}] + sys.argv[1:], stdout=subprocess.PIPE)
if sys.argv[1] == "run" and ran.returncode == 0:
    for row in json.loads(ran.stdout)["outputs"]:
        with open(row["file"], "r+b") as file:
            file.seek(-4 if row["dtype"] == "string" else -1, 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))
sys.stdout.buffer.write(ran.stdout)
sys.exit(ran.returncode)
"""


def run(tool):
    runner = pathlib.Path(__file__).with_name("run_cases.py")
    return subprocess.run([sys.executable, runner, tool, *CASES], capture_output=True, text=True)


def run_both(*tools):
    """At the same time: most of it is making ONNX's cases."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, tools))


def main():
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        spoiled_tool = os.path.join(folder, "iobind")
        with open(spoiled_tool, "w") as file:
            file.write(SPOILER.format(python=sys.executable, tool=tool))
        os.chmod(spoiled_tool, 0o755)
        sound, spoiled = run_both(tool, spoiled_tool)
    if sound.returncode == 77:
        print(sound.stderr, end="")
        return 77
    for ran, code, passed in [(sound, 0, len(CASES)), (spoiled, 1, 0)]:
        print(ran.stdout, ran.stderr, sep="", end="")
        if ran.returncode != code or f"\n{passed} passed, " not in ran.stdout:
            print(f"expected exit code {code} and '{passed} passed', got {ran.returncode}")
            return 1
    return 0


sys.exit(main())
