"""run.py [--need MODULE] FILE: its tests, by pytest; 77 where what they need is missing, unless IOBIND_REQUIRE names python (or MODULE)."""

import importlib.util
import os
import signal
import sys

ARGUMENTS = sys.argv[1:]
NEEDED = {"pytest": "python", "numpy": "python", "onnx": "python", "onnxruntime": "python"}
if ARGUMENTS[:1] == ["--need"]:
    NEEDED[ARGUMENTS[1]] = ARGUMENTS[1]
    ARGUMENTS = ARGUMENTS[2:]
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if MISSING:
    script = "scripts/get-spark" if "pyarrow" in MISSING else "scripts/get-python --tests --jax"
    print(f"skipped: {', '.join(MISSING)}: not there: {script} fetches them")
    sys.exit(1 if {NEEDED[name] for name in MISSING} & set(os.environ.get("IOBIND_REQUIRE", "").split(",")) else 77)

import pytest  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has programs ignore it, and so would the tests' processes
sys.exit(pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", "-rs", *ARGUMENTS]))
