#!/usr/bin/env python3
"""Each public function has a row in the tests with two GPUs. Functions that cannot reach the EP or the driver are listed here with the reason."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "include/iobind"
CANNOT = {
    "does not use a device": """get_version get_version_string status_get_name dtype_get_name dtype_get_bits dtype_get_bytes preload
        get_host_api_base catalogue_get_ep catalogue_get_option catalogue_get_conflict""",
    "registers EPs, and at most queries the number of devices": "runtime_create runtime_register_ep",
    "reads members of the object": """runtime_get_info runtime_get_ep runtime_get_device runtime_get_ort device_get_info device_get_metadata
        device_get_counters device_get_memory stream_get_native tensor_get_info tensor_get_address session_get_info session_get_metadata session_get_input
        session_get_output session_find_input session_find_output session_get_node session_get_ort audit_get_info audit_get_entry state_get_info
        state_get_pair batch_get_info""",
    "counts a reference": "tensor_retain state_retain",
    "frees host memory": "audit_destroy",
    "adds a reference, waits for a step of another thread, or cancels that wait": "batch_join batch_await batch_stop",
    "strings are in host memory": "tensor_get_string tensor_set_string",
    "compares tensors in host memory": "tensor_compare",
    "ORT's profile is in host memory": "session_end_profile",
    "reads a file, then calls session_create_from_memory": "session_create",
    "reads the model's file": "session_get_state_kind",
    "Direct3D's": "runtime_adopt_device tensor_get_native",
}


def functions():
    for path in sorted(HEADERS.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        yield from re.findall(r"IOBIND_API\b[^;(]*?\biobind_(\w+)\(", text)


def main():
    sources = "".join((HERE / name).read_text(encoding="utf-8") for name in ("current_test.c", "current_run_test.c", "current_state_test.c", "current_batch_test.c", "current_external_test.c"))
    rows = {row.split("__")[0] for row in re.findall(r"\bROW\((\w+)\)", sources)}
    excused = set(" ".join(CANNOT.values()).split())
    public = set(functions())
    problems = [f"iobind_{name} has neither a row nor a reason why it needs none" for name in sorted(public - rows - excused)]
    problems += [f"iobind_{name} has a row and a reason why it needs none" for name in sorted(rows & excused)]
    problems += [f"iobind_{name} is in no header" for name in sorted((rows | excused) - public)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
