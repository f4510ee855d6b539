"""The process's ONNX Runtime (ORT), its devices, and the log."""

from __future__ import annotations

import copyreg
import glob
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from . import _core
from ._errors import FileNotFound, InvalidArgument, InvalidState


class OtherDevice(Protocol):
    """A device of another library, such as torch.device("cuda", 0)."""

    @property
    def type(self) -> str:
        """such as "cuda\""""

    @property
    def index(self) -> int | None:
        """its number; None: the first"""


DeviceSpec = str | _core.Device | OtherDevice
WINDOWS = os.name == "nt"
HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = {"verbose": 1, "info": 2, "warning": 3, "error": 4}
_lock = threading.RLock()
_runtime: _core.Runtime | None = None
_settings: dict[str, Any] = {}
_attached = False
_found_in_package = False
_core.use_logger(logging.getLogger("iobind"))


def library_path() -> str:
    """The file of libiobind that this package uses."""
    for name in ("iobind.dll",) if WINDOWS else (os.path.join("lib", "libiobind.so.1"), os.path.join("..", "..", "libiobind.so.1")):
        path = os.path.realpath(os.path.join(HERE, name))
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"{'iobind.dll' if WINDOWS else 'libiobind.so.1'} is not beside {HERE}")


def vdev_path() -> str:
    """The file of the virtual accelerator, which lies beside it."""
    return os.path.join(os.path.dirname(library_path()), "iobind_vdev.dll" if WINDOWS else "libiobind_vdev.so")


def find_ort() -> str | None:
    """ORT's library in an installed onnxruntime or onnxruntime-gpu, which is not imported; None: there is none."""
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(glob.glob(os.path.join(folder, "capi", "onnxruntime.dll" if WINDOWS else "libonnxruntime.so*")))
        if found:
            return found[-1]
    return None


def configure(*, ort_library: str | os.PathLike[str] | None = None, ep_libraries: Sequence[str | os.PathLike[str]] = (),
              software_devices: bool = False, ep_search: bool = True, log_level: str = "warning", telemetry: bool = False,
              pools: bool = False) -> None:
    """Select ORT and its settings, before any other use of this package.

    ort_library: ORT's library or its directory; the default is ORT_NATIVE_LIB_PATH, then the installed onnxruntime, then the system's.
    ep_libraries: libraries of execution providers, each "FILE", "NAME=FILE" or a directory. software_devices: allow devices in software.
    ep_search: search for libraries of execution providers in iobind's default locations. log_level: "verbose", "info", "warning" or
    "error", for lines to the logger "iobind". telemetry: leave ORT's telemetry on. pools: on CUDA devices, allocate tensors from a pool
    of the driver, which does not wait for work. Raises InvalidState after ORT was loaded, or after attach(), when onnxruntime has these
    settings; InvalidArgument for an unknown log_level."""
    if log_level not in LEVELS:
        raise InvalidArgument(f"configure: log_level: expected one of {', '.join(LEVELS)}, got {log_level!r}")
    with _lock:
        if _runtime is not None:
            raise InvalidState("configure: ONNX Runtime is " + ("attached: its host program configures it" if _attached else
                               "loaded already: call it before anything else of iobind"))
        _settings.update(library=None if ort_library is None else os.fspath(ort_library), log_level=LEVELS[log_level],
                         ep_libraries=[os.fspath(path) for path in ep_libraries],
                         flags=(1 if telemetry else 0) | (0 if ep_search else 2) | (4 if software_devices else 0) | (8 if pools else 0))


def runtime() -> _core.Runtime:
    """The process's ORT, which is loaded on first use."""
    global _runtime, _found_in_package
    if _runtime is None:
        with _lock:
            if _runtime is None:
                library = _settings.get("library")
                if library is not None and os.sep in library:
                    require_file(library, "configure: ort_library")
                if library is None and not os.environ.get("ORT_NATIVE_LIB_PATH"):
                    library = find_ort()
                    _found_in_package = library is not None
                _runtime = _core.Runtime(library=library, api_base=0, ep_libraries=_settings.get("ep_libraries", []),
                                         flags=_settings.get("flags", 0), log_level=_settings.get("log_level", 3))
    return _runtime


def attach(onnxruntime: Any, *, ep_libraries: Sequence[str | os.PathLike[str]] = (), telemetry: bool = False) -> None:
    """Use the ORT inside the Python package onnxruntime instead of a second copy: both then share one environment, execution providers,
    devices and memory.

    onnxruntime: the imported module. ep_libraries: as in configure(). Call it before any session of iobind. Logging and threads stay as
    the module has configured them; its telemetry is disabled unless `telemetry` is True. After a failure attach() can be called again; a
    program that continues without it gets iobind's own ORT. Raises InvalidState after ORT was loaded, VersionError before ORT 1.24,
    NotFound, OrtError (an EP library)."""
    global _runtime, _attached
    with _lock:
        if _attached:
            return
        if _runtime is not None:
            raise InvalidState("attach: iobind has loaded an ONNX Runtime of its own already: call it before anything else of iobind")
        if _settings:
            raise InvalidState("attach: configure() was called, but an attached ONNX Runtime is configured by its host program")
        version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
        if version < (1, 24):
            from ._errors import VersionError

            raise VersionError(f"attach: expected onnxruntime 1.24 or newer, got {onnxruntime.__version__}")
        if not telemetry:
            onnxruntime.disable_telemetry_events()
        onnxruntime.register_execution_provider_library("iobind", library_path())
        try:
            base = _core.host_api_base()
            if base == 0:
                raise InvalidState("attach: onnxruntime registered libiobind, but did not call it: a copy of it was loaded")
            _runtime = _core.Runtime(library=None, api_base=base, ep_libraries=[os.fspath(path) for path in ep_libraries], flags=1,
                                     log_level=3)
        except BaseException:
            onnxruntime.unregister_execution_provider_library("iobind")  # for the next attempt
            raise
        _attached = True


def attached() -> bool:
    """Whether iobind uses the ORT inside Python's onnxruntime."""
    return _attached


def devices() -> list[_core.Device]:
    """All devices; the first is always the CPU. Raises NotFound or VersionError if no ONNX Runtime can be loaded."""
    return runtime().devices()


def device(spec: DeviceSpec) -> _core.Device:
    """The first device of a spec that works. A spec is "cpu", "cuda:1", "webgpu", "vdev", "gpu", "npu", "ep=NAME", a list such as
    "gpu,cpu", or a torch.device. Raises NotFound if there is none, DeviceError if none works (the message has each reason),
    InvalidArgument for an invalid spec."""
    return spec if isinstance(spec, _core.Device) else _find(spec)[0]


def _reduce(found: _core.Device) -> tuple[Any, tuple[str]]:
    return device, (found.spec,)


copyreg.pickle(_core.Device, _reduce)


def place(spec: DeviceSpec) -> tuple[_core.Device, int]:
    """A device and a kind of memory: "cuda/pinned" is host memory that the device reads directly."""
    return (spec, 0) if isinstance(spec, _core.Device) else _find(spec)


def is_device(given: Any) -> bool:
    """Whether the value names a device: a spec, an iobind.Device, or an object with a type and an index such as torch.device."""
    return isinstance(given, (str, _core.Device)) or (isinstance(getattr(given, "type", None), str) and hasattr(given, "index"))


def _find(spec: str | OtherDevice) -> tuple[_core.Device, int]:
    if not is_device(spec):
        raise InvalidArgument(f"device: expected a spec such as \"cpu\", or an iobind.Device, got {spec!r:.60}")
    if not isinstance(spec, str):
        spec = spec.type if spec.index is None else f"{spec.type}:{spec.index}"
    return runtime().find(spec)


def require_file(path: Any, what: str) -> None:
    """Raises FileNotFound for a path that does not exist."""
    if not os.path.exists(path):
        raise FileNotFound(f"{what}: no such file or directory: {os.fsdecode(path)!r}")


def register_ep(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Register the library of an execution provider; its devices are appended to the known ones. path: the file. name: its name in ONNX
    Runtime; None: derived from the file. Raises FileNotFound, OrtError (it does not load: the message has the reason), NotSupported
    (another copy of ONNX Runtime in the process uses it), InvalidArgument."""
    require_file(path, "register_ep")
    runtime().register_ep(os.fspath(path), name)


def info() -> dict[str, Any]:
    """The loaded ORT: ort_version, ort_api_version, ort_library, found_by; and `eps`, the libraries of execution providers that were
    found, each with name, path, status and message. Raises NotFound or VersionError if no ONNX Runtime can be loaded."""
    found = runtime().info()
    if _found_in_package:
        found["found_by"] = "the Python package onnxruntime"
    return {**found, "eps": runtime().eps(), "attached": _attached, "python": sys.version.split()[0]}


def preload(folder: str | os.PathLike[str] | None = None, *, cuda: bool = True, cudnn: bool = True, msvc: bool = True,
            version: int = 0) -> None:
    """Load NVIDIA's libraries before ORT needs them, as onnxruntime.preload_dlls does. For CUDA's execution provider iobind does this
    automatically.

    folder: a directory; None: the libraries of an installed PyTorch, then NVIDIA's packages, then the loader's search path; "": NVIDIA's
    packages only. cuda, cudnn, msvc: False: do not load these; msvc is Microsoft's C++ runtime, on Windows only. version: of CUDA, 12 or
    13; 0: the newest that is found. Raises FileNotFound for a directory that does not exist, NotFound for a missing library that CUDA's
    execution provider needs."""
    packages = None if folder is not None else _packages()
    if folder:
        require_file(folder, "preload")
    _core.preload(packages if folder is None else os.fspath(folder), (0 if cuda else 1) | (0 if cudnn else 2) | (0 if msvc else 4), version)


def _packages() -> str | None:
    """The directory of this environment's packages, if it has NVIDIA's: libiobind does not know in which Python it is."""
    spec = importlib.util.find_spec("nvidia")
    found = list(spec.submodule_search_locations or []) if spec else []
    return os.path.dirname(found[0]) if found else None
