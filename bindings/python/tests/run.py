"""run.py FILE: its tests, by pytest; 77 where what they need is missing, unless IOBIND_REQUIRE names python."""

import importlib.util
import os
import sys

MISSING = [name for name in ("pytest", "numpy", "onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"skipped: {', '.join(MISSING)}: not there: scripts/get-python --tests fetches them")
    sys.exit(1 if "python" in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77)

import pytest  # noqa: E402

sys.exit(pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", "-rs", *sys.argv[1:]]))
