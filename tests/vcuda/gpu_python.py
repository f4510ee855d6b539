"""Python's onnxruntime-gpu, unpacked for a test without its largest library, which is in the fetched runtime's directory."""
import collections
import os
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# runtime: the directory of the C libraries; capi: the directory of the package's own libraries
Unpacked = collections.namedtuple("Unpacked", "version runtime capi")


def newest():
    """The onnxruntime-gpu that `make vcuda` fetches."""
    return re.search(r"^onnxruntime-gpu +(\S+) ", (ROOT / "scripts/checksums").read_text(), flags=re.M)[1]


def unpack(folder):
    """Unpack it into `folder`. None: it was not fetched, or is for another Python."""
    named = os.environ.get("ORT_NATIVE_LIB_PATH")
    runtime = pathlib.Path(named) if named else ROOT / ".runtime/packages" / f"onnxruntime-gpu-{newest()}-linux-x64"
    version = re.fullmatch(r"onnxruntime-gpu-([\d.]+)-linux-x64", runtime.name)
    wheels = list((ROOT / ".runtime/downloads").glob(f"onnxruntime_gpu-{version[1]}-*.whl")) if version else []
    if not wheels or not runtime.is_dir() or sys.version_info[:2] != (3, 11):
        return None
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if not name.endswith(("_cuda.so", "_tensorrt.so"))])
    capi = pathlib.Path(folder) / "onnxruntime/capi"
    os.symlink(runtime / "libonnxruntime_providers_cuda.so", capi / "libonnxruntime_providers_cuda.so")
    return Unpacked(version[1], runtime, capi)
