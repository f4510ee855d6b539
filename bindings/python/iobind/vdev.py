"""The virtual accelerator under plain onnxruntime, for tests of code that does not use iobind (docs/vdev.md).

In pytest the fixture `vdev` is a Vdev; elsewhere iobind.vdev.Vdev() creates one."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import InvalidState
from ._runtime import vdev_path

EP = "VirtualDeviceExecutionProvider"
VENDOR = 0x1DEF
PROCESS_SETTINGS = ["devices", "vendor_id", "device_id", "metadata", "hardware", "reserve"]
DEFAULTS = {"race": "off", "clock": "real", "poison": "1", "deny": "", "trace_file": "", "dump": ""}  # all others: 0
KINDS = {"alloc": ["allocations"], "copy": ["h2d_count", "d2h_count", "d2d_count"], "compute": ["kernels"]}

_prepared: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""SessionOptions that have the virtual accelerator, each with the device's number: it can be added only once"""

_lock = threading.RLock()
"""protects the data of redirect(): blocks of several threads may begin and end in any order"""

_blocks: dict[object, tuple[Vdev, int]] = {}
"""the blocks of redirect() that have not ended, each with its device; new sessions use the device of the last one"""

_naming: set[Vdev] = set()
"""each Vdev from its first redirect() to its reset()"""

_own: dict[tuple[Any, str], Any] = {}
"""onnxruntime's own methods while they are replaced, by class and name"""


def _from_environment() -> dict[str, str]:
    return {name[5:].lower(): value for name, value in os.environ.items() if name.startswith("VDEV_")}


_initial = _from_environment()
"""the initial settings of devices; DEFAULTS has all others"""

_values: dict[tuple[int, str], str] = {}
"""the settings that were changed later, by device and name"""


class Fault:
    """The outcome of a test in which one operation failed: the operation's kind, its number among those, and the error, an exception
    (None: the test passed nevertheless)."""

    def __init__(self, kind: str, number: int, error: Exception | None) -> None:
        self.kind = kind
        self.number = number
        self.error = error

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}: {'right' if self.error is None else f'{type(self.error).__name__}: {self.error}'}>"


class Vdev:
    """The virtual accelerator in this process: its settings, counters and faults."""

    def __init__(self, **settings: Any) -> None:
        """settings: those of docs/vdev.md, such as race="fail" or mem_limit=1 << 20; they apply to device 0 until reset(). Raises
        ImportError without onnxruntime, ValueError as set(), InvalidState if iobind has another ONNX Runtime."""
        import onnxruntime  # type: ignore[import-untyped]

        self.path = vdev_path()
        self.onnxruntime = onnxruntime
        if not self.devices:
            self._register()
            _initial.clear()
            _initial.update(_from_environment())
            _values.clear()
        self._native = ctypes.CDLL(self.path)
        self._native.vdev_get.restype = ctypes.c_int64
        self._native.vdev_last_error.restype = self._native.vdev_last_race.restype = ctypes.c_char_p
        self._changed: dict[tuple[int, str], str] = {}  # and what they were
        try:
            for name, value in settings.items():
                self.set(name, value)
        except ValueError:
            self.reset()
            raise

    def _register(self) -> None:
        try:
            self.onnxruntime.register_execution_provider_library("vdev", self.path)
        except Exception as refused:
            if "another copy of ONNX Runtime" not in str(refused):
                raise
            raise InvalidState("vdev: iobind has registered it with an ONNX Runtime of its own: call iobind.attach(onnxruntime) before "
                               "anything else of iobind, under pytest in conftest.py, so that both use one") from refused

    @property
    def devices(self) -> list[Any]:
        """onnxruntime's OrtEpDevices of the virtual accelerator."""
        return [device for device in self.onnxruntime.get_ep_devices() if device.ep_name == EP]

    def get(self, name: str, device: int = 0) -> int:
        """A statistic by its name in docs/vdev.md: d2h_bytes, in bytes, time_ns, in nanoseconds, allocations, races, kernels ... device:
        its number. Raises ValueError for an unknown name."""
        value = int(self._native.vdev_get(device, name.encode()))
        if value < 0:
            raise ValueError(f"vdev: {self._error()}")
        return value

    def set(self, name: str, value: Any, device: int = 0) -> None:
        """Change a setting by its name in docs/vdev.md, which also has its unit. device: its number. Raises ValueError for an unknown
        setting, an invalid value, or a setting that has an effect only when a process starts."""
        if name in PROCESS_SETTINGS:
            raise ValueError(f"vdev: {name} applies to the whole process: set VDEV_{name.upper()} in its environment")
        text = {True: "1", False: "0"}.get(value, str(value)) if isinstance(value, bool) else str(value)
        if self._native.vdev_set(device, name.encode(), text.encode()) != 0:
            raise ValueError(f"vdev: {self._error()}")
        self._changed.setdefault((device, name), self._value(name, device))
        _values[device, name] = text

    def reset(self) -> None:
        """Restore all settings that this Vdev has changed, and set all counters to 0. Outside redirect(), a device's name ("cuda") again
        means that device."""
        for (device, name), value in self._changed.items():
            self._native.vdev_set(device, name.encode(), value.encode())
            _values[device, name] = value
        self._changed.clear()
        with _lock:
            if all(vdev is not self for vdev, _ in _blocks.values()):
                _naming.discard(self)
            if not _naming:
                _put_back(self._collection().OrtDevice)
        for device in range(len(self.devices)):
            self._native.vdev_reset(device)

    @property
    def last_race(self) -> str:
        """The last race that the detector found: both accesses; "" if none."""
        return (self._native.vdev_last_race() or b"").decode()

    def _error(self) -> str:
        return (self._native.vdev_last_error() or b"").decode()

    def _value(self, name: str, device: int) -> str:
        return _values.get((device, name), _initial.get(name, DEFAULTS.get(name, "0")))

    @staticmethod
    def _collection() -> Any:
        from onnxruntime.capi import onnxruntime_inference_collection as collection  # type: ignore[import-untyped]

        return collection

    @contextlib.contextmanager
    def redirect(self, device: int = 0) -> Iterator[None]:
        """Create every onnxruntime.InferenceSession in the block on the virtual accelerator, whatever providers it names, also those of
        add_provider() and add_provider_for_devices() of its SessionOptions, which have no effect in the block. set_providers() has no
        effect on such a session. Modules that have imported onnxruntime's classes by name are not affected. Every OrtValue and binding
        that names a device of an accelerator ("cuda", 0) is on the virtual accelerator too, also after the block, until reset().

        A SessionOptions that was used keeps vdev. device: its number; creating a session raises IndexError if there is no such device,
        and ValueError for a SessionOptions that was used on another device, or that had a provider before the block."""
        collection, options_class = self._collection(), self.onnxruntime.SessionOptions
        block = object()
        with _lock:
            _replace(collection.OrtDevice, "make", _device_on_vdev)
            _replace(collection.InferenceSession, "__init__", _session_on_vdev)
            _replace(options_class, "add_provider", _do_nothing)
            _replace(options_class, "add_provider_for_devices", _do_nothing)
            _naming.add(self)
            _blocks[block] = self, device
        try:
            yield
        finally:
            with _lock:
                del _blocks[block]
                if not _blocks:
                    _put_back(collection.InferenceSession)
                    _put_back(options_class)

    @contextlib.contextmanager
    def expect(self, device: int = 0, **changes: int | range) -> Iterator[None]:
        """Check how much the statistics change in the block, by the names of get(): expect(d2h_bytes=0, races=0, kernels=range(1, 4)).
        device: its number. Raises AssertionError, which names each difference, and ValueError as get()."""
        before = {name: self.get(name, device) for name in changes}
        yield
        wrong = []
        for name, wanted in changes.items():
            got = self.get(name, device) - before[name]
            if got not in wanted if isinstance(wanted, range) else got != wanted:
                wrong.append(f"{name}: expected {wanted}, got {got}" + (f": {self.last_race}" if name == "races" else ""))
        if wrong:
            raise AssertionError("vdev: " + "; ".join(wrong))

    def each_fault(self, test: Callable[..., Any], *, setup: Callable[[], Any] | None = None,
                   kinds: tuple[str, ...] = ("alloc", "copy", "compute"), device: int = 0) -> list[Fault]:
        """Make each allocation, copy and kernel of a test fail, one after the other.

        The test runs once without faults, and its operations are counted; then it runs once for each operation, which fails in that run;
        and once more at the end. It must pass each time (return), or raise an exception. An AssertionError counts as a wrong result, and
        so do pytest.fail() and a pytest.raises() without the exception. setup: creates the test's argument for each run, without faults.
        kinds: the operations that fail: "alloc", "copy", "compute". device: its number. Returns the outcome for each operation. Raises
        AssertionError for a wrong result, which names the operation, exceptions of the test without a fault, and ValueError for unknown
        kinds."""
        if isinstance(kinds, str) or not set(kinds) <= set(KINDS):
            raise ValueError(f"each_fault: kinds: expected a tuple of {', '.join(map(repr, KINDS))}, got {kinds!r}")
        others = {name: self._value(name, device) for name in (f"fail_{kind}" for kind in kinds)}
        try:
            for name in others:
                self.set(name, 0, device)
            counted = self._count(test, setup, device)
            results = [self._strike(test, setup, kind, number, device) for kind in kinds for number in range(1, counted[kind] + 1)]
            test(*([] if setup is None else [setup()]))
        finally:
            for name, value in others.items():
                self.set(name, value, device)
        return results

    def _count(self, test: Callable[..., Any], setup: Callable[[], Any] | None, device: int) -> dict[str, int]:
        given = [] if setup is None else [setup()]
        before = {name: self.get(name, device) for names in KINDS.values() for name in names}
        test(*given)
        return {kind: sum(self.get(name, device) - before[name] for name in names) for kind, names in KINDS.items()}

    def _strike(self, test: Callable[..., Any], setup: Callable[[], Any] | None, kind: str, number: int, device: int) -> Fault:
        given = [] if setup is None else [setup()]
        self.set(f"fail_{kind}", number, device)
        error: Exception | None = None
        try:
            test(*given)
        except _wrong_results() as wrong:
            raise AssertionError(f"vdev: with {kind} {number} failing: {str(wrong) or 'a wrong result'}") from wrong
        except Exception as failed:
            error = failed
        finally:
            self.set(f"fail_{kind}", 0, device)
        return Fault(kind, number, error)


def _wrong_results() -> tuple[type[BaseException], ...]:
    """Exceptions that a test raises for a wrong result: in pytest also those of fail() and of a raises() without the exception, whose
    class is not an Exception."""
    pytest = sys.modules.get("pytest")
    return (AssertionError,) if pytest is None else (AssertionError, pytest.fail.Exception)


def _replace(owner: Any, name: str, instead: Callable[..., Any]) -> None:
    """Replace a method of onnxruntime by a function, which gets the method as its first argument."""
    if (owner, name) in _own:
        return
    _own[owner, name] = vars(owner)[name]
    method = getattr(owner, name)

    @functools.wraps(method)
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        return instead(method, *arguments, **keywords)

    setattr(owner, name, staticmethod(replaced) if isinstance(_own[owner, name], staticmethod) else replaced)


def _put_back(owner: Any) -> None:
    for key in [key for key in _own if key[0] is owner]:
        setattr(*key, _own.pop(key))


def _do_nothing(*unused: Any, **unused_too: Any) -> None:
    pass


def _device_on_vdev(make: Callable[..., Any], name: str, number: int, vendor_id: int = -1) -> Any:
    return make(name, number, vendor_id) if name.lower() == "cpu" else make("gpu", number, VENDOR)


def _session_on_vdev(create: Callable[..., None], session: Any, path_or_bytes: Any, sess_options: Any = None, providers: Any = None,
                     provider_options: Any = None, **rest: Any) -> None:
    with _lock:
        block = next(reversed(_blocks.values()), None)
        if block is not None:
            sess_options = sess_options or block[0].onnxruntime.SessionOptions()
            _prepare(sess_options, *block)
    if block is None:  # another thread's block has just ended
        create(session, path_or_bytes, sess_options, providers, provider_options, **rest)
        return
    create(session, path_or_bytes, sess_options, **{**rest, "enable_fallback": 0})
    first = session.get_providers()[0]
    if first != EP:
        raise ValueError(f"redirect: the SessionOptions have {first} before vdev: create them, or add the "
                         "provider, within redirect()")
    session.set_providers = _do_nothing


def _prepare(options: Any, vdev: Vdev, device: int) -> None:
    """Add the virtual accelerator to SessionOptions."""
    if options not in _prepared:
        inspect.unwrap(vdev.onnxruntime.SessionOptions.add_provider_for_devices)(options, [vdev.devices[device]], {})
        _prepared[options] = device
    elif _prepared[options] != device:
        raise ValueError(f"redirect: the SessionOptions are of a session on device {_prepared[options]}: create others for device {device}")
