"""The ONNX Runtime (ORT) that a process uses, its devices, and the log."""

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
              software_devices: bool = False, ep_search: bool = True, log_level: str = "warning", telemetry: bool = False) -> None:
    """Say which ORT is used, and how, before anything else of this package is.

    ort_library: ORT's library or its folder; otherwise ORT_NATIVE_LIB_PATH, the installed onnxruntime, the system.
    ep_libraries: libraries of execution providers, each "FILE", "NAME=FILE" or a folder. software_devices: let them offer
    devices in software. ep_search: look for them where iobind does by itself. log_level: "verbose", "info", "warning" or "error",
    of what comes to logging's "iobind". telemetry: leave ORT's on.
    Raises InvalidState once ORT is loaded, or attached: then its host has said all this; InvalidArgument for a log_level that is none.
    """
    if log_level not in LEVELS:
        raise InvalidArgument(f"configure: log_level: expected one of {', '.join(LEVELS)}, got {log_level!r}")
    with _lock:
        if _runtime is not None:
            raise InvalidState("configure: ONNX Runtime is " + ("attached: its host program configures it" if _attached else
                               "loaded already: call it before anything else of iobind"))
        _settings.update(library=None if ort_library is None else os.fspath(ort_library), log_level=LEVELS[log_level],
                         ep_libraries=[os.fspath(path) for path in ep_libraries],
                         flags=(1 if telemetry else 0) | (0 if ep_search else 2) | (4 if software_devices else 0))


def runtime() -> _core.Runtime:
    """The process's ORT, loaded on first use."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                library = _settings.get("library")
                if library is not None and os.sep in library:
                    require_file(library, "configure: ort_library")
                if library is None and not os.environ.get("ORT_NATIVE_LIB_PATH"):
                    library = find_ort()
                _runtime = _core.Runtime(library=library, api_base=0, ep_libraries=_settings.get("ep_libraries", []),
                                         flags=_settings.get("flags", 0), log_level=_settings.get("log_level", 3))
    return _runtime


def attach(onnxruntime: Any, *, ep_libraries: Sequence[str | os.PathLike[str]] = (), telemetry: bool = False) -> None:
    """Use the ORT inside the Python package onnxruntime instead of a second copy: one environment, one set of execution providers
    and devices, and memory that both know.

    onnxruntime: the imported module. ep_libraries: as in configure(). Before any session of iobind. Log and threads stay as the
    module has them; its telemetry is switched off unless `telemetry` is True. Raises InvalidState after ORT was loaded, VersionError before
    ORT 1.24, NotFound, OrtError (an EP library). If it fails it can be called again; a program that goes on without it gets an ORT of
    iobind's own, as if it had never been called.
    """
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
    """The devices that are there; the first is always the CPU. Raises NotFound or VersionError if no ONNX Runtime can be loaded."""
    return runtime().devices()


def device(spec: DeviceSpec) -> _core.Device:
    """The first device of a spec that works: "cpu", "cuda:1", "webgpu", "vdev", "gpu", "npu", "ep=NAME", or a list: "gpu,cpu"; a torch.device
    is one too. Raises NotFound if there is none, DeviceError if none works: the message has each reason; InvalidArgument for what is not a spec."""
    return spec if isinstance(spec, _core.Device) else _find(spec)[0]


def _reduce(found: _core.Device) -> tuple[Any, tuple[str]]:
    return device, (found.spec,)


copyreg.pickle(_core.Device, _reduce)


def place(spec: DeviceSpec) -> tuple[_core.Device, int]:
    """A device and a kind of memory: "cuda/pinned" is host memory that the device reads directly."""
    return (spec, 0) if isinstance(spec, _core.Device) else _find(spec)


def is_device(given: Any) -> bool:
    """Whether it says a device: a spec, an iobind.Device, or what has a type and an index as torch.device."""
    return isinstance(given, (str, _core.Device)) or (isinstance(getattr(given, "type", None), str) and hasattr(given, "index"))


def _find(spec: str | OtherDevice) -> tuple[_core.Device, int]:
    if not is_device(spec):
        raise InvalidArgument(f"device: expected a spec such as \"cpu\", or an iobind.Device, got {spec!r:.60}")
    if not isinstance(spec, str):
        spec = spec.type if spec.index is None else f"{spec.type}:{spec.index}"
    return runtime().find(spec)


def require_file(path: Any, what: str) -> None:
    """Raises FileNotFound for a path that is not there."""
    if not os.path.exists(path):
        raise FileNotFound(f"{what}: no such file or directory: {os.fsdecode(path)!r}")


def register_ep(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Register the library of an execution provider; its devices follow those that are known. path: the file. name: for ONNX Runtime;
    None: by the file. Raises FileNotFound, OrtError (it does not load: the message says why), NotSupported (another copy
    of ONNX Runtime in the process uses it), InvalidArgument."""
    require_file(path, "register_ep")
    runtime().register_ep(os.fspath(path), name)


def info() -> dict[str, Any]:
    """The loaded ORT: ort_version, ort_api_version, ort_library, found_by; and `eps`, the libraries of execution providers that
    were found, each with name, path, status and message. Raises NotFound or VersionError if no ONNX Runtime can be loaded."""
    return {**runtime().info(), "eps": runtime().eps(), "attached": _attached, "python": sys.version.split()[0]}


def preload(folder: str | os.PathLike[str] | None = None, *, cuda: bool = True, cudnn: bool = True, msvc: bool = True,
            version: int = 0) -> None:
    """Load NVIDIA's libraries before ORT asks for them, as onnxruntime.preload_dlls does; it happens by itself with CUDA's provider.

    folder: None: an installed PyTorch's, NVIDIA's packages, then the loader's search; "": the packages only; or a folder.
    cuda, cudnn, msvc: False: not these; msvc is Microsoft's C++ runtime, on Windows only. version: of CUDA, 12 or 13; 0: the newest that is
    found. Raises FileNotFound for a folder that is not there, NotFound for what CUDA's provider cannot do without."""
    packages = None if folder is not None else _packages()
    if folder:
        require_file(folder, "preload")
    _core.preload(packages if folder is None else os.fspath(folder), (0 if cuda else 1) | (0 if cudnn else 2) | (0 if msvc else 4), version)


def _packages() -> str | None:
    """The folder of this environment's packages, if NVIDIA's are there: the library itself does not know which Python it is in."""
    spec = importlib.util.find_spec("nvidia")
    found = list(spec.submodule_search_locations or []) if spec else []
    return os.path.dirname(found[0]) if found else None
