"""The conformance rows of the C tests hold through this package too, on each device: in a process of their own, so that a crash is a failure
that names its row."""

import os
import pathlib
import subprocess
import sys

import iobind

HERE = pathlib.Path(__file__).parent
ROWS = HERE.parents[2] / "tests" / "conformance"
AT_LEAST = {"cpu": 826, "vdev": 869, "webgpu": 821, "cuda": 790}


def run_rows(device, file, wanted):
    sanitizer = "allocator_may_return_null=1"  # a row asks for more memory than there is
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(pathlib.Path(iobind.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
                   "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), sanitizer]))}
    if device == "vdev":  # a run cannot be cancelled in a kernel, and the virtual device makes a loop one kernel: there the CPU has it
        environment.update(VDEV_DENY="Loop", VDEV_RACE="fail")
    done = subprocess.run([sys.executable, "-X", "faulthandler", HERE / "conformance.py", device, ROWS / file, str(wanted)],
                          capture_output=True, text=True, timeout=600, env=environment)
    failures = "\n".join(line for line in done.stdout.split("\n") if not line.startswith("skip "))
    return done.returncode, failures, done.stderr[-4000:]


def test_the_rows(device):
    status, failures, errors = run_rows(device, "cases.tsv", AT_LEAST[device])
    assert status == 0, f"exit {status}:\n{failures}\n{errors}"


def test_rows_that_claim_what_is_not_so_fail(device):
    status, failures, errors = run_rows(device, "wrong.tsv", "ALL_WRONG")
    assert status == 0, f"exit {status}:\n{failures}\n{errors}"
