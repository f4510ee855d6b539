"""Session.map: many items, whose copies and runs overlap."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _core, _dtypes, _tensor
from ._errors import DeviceError, Error, InvalidArgument, InvalidState, NameNotFound
from ._runtime import DeviceSpec
from ._runtime import device as find_device
from ._runtime import place as find_place
from ._runtime import runtime
from ._session import Session, Value, as_host_tensor

HOST, DEVICE, NONE = range(3)  # iobind_placement
STOP, TIMES = 1, 2  # IOBIND_PIPELINE_*


class Waiting(NamedTuple):
    """An item that was taken from the caller; `failed`: it could not be submitted."""

    number: int
    is_tagged: bool
    tag: Any
    failed: Exception | None


class Times(NamedTuple):
    """When each stage of an item of Session.map ended, in nanoseconds of time.monotonic_ns(). 0: the item has no such stage, or (except
    for submit_ns) times=True was not set."""

    submit_ns: int
    """when the item was submitted"""
    upload_ns: int
    """when its upload ended"""
    run_ns: int
    """when its run ended"""
    download_ns: int
    """when its download ended, or its outputs were handed over if nothing is downloaded"""


class Map:
    """The result of Session.map: an iterator over the outputs of the items. After a failed item, next() continues with the following one,
    unless stop=True. If the iterator of the items fails, its exception is raised after the last item. The end of a block `with
    session.map(items) as results:` closes the map."""

    times: Times | None
    """of the item whose outputs next() gave last; None before the first, and after one that failed"""

    def __init__(self, session: Session, items: Iterable[Any], slots: int, constants: Mapping[str, Any],
                 outputs: Mapping[str, DeviceSpec | None], *, stop: bool = False, times: bool = False,
                 run_options: tuple[int, str | None, list[str], list[str]] | None = None) -> None:
        """session, items, slots, constants, outputs, stop, times: as for Session.map, which creates a map. run_options: log level, tag,
        keys, values. Errors of all arguments except the items are raised here, before the first item. Raises NotFound, DeviceError,
        DTypeError, ShapeError, InvalidArgument, NotSupported."""
        self._items = iter(items)
        self._streams: dict[str, _tensor.Stream] = {}
        self._known = {value.name: _dtypes.BY_NAME.get(value.dtype, 0) for value in session.inputs}
        self._constants = frozenset(constants)
        self._outputs = [value.name for value in session.outputs]
        self._pipeline = _core.Pipeline(session=session, slots=slots, flags=(STOP if stop else 0) | (TIMES if times else 0),
                                        constants=self._fixed(session, constants) if constants else None,
                                        outputs=_placements(session.outputs, outputs) if outputs else None, run_options=run_options)
        self._slots = slots or 3
        self._waiting: deque[Waiting] = deque()
        self._taken = 0
        self._is_over = self._is_busy = False
        self._stops, self.times = stop, None

    def _fixed(self, session: Session, constants: Mapping[str, Any]) -> list[Any]:
        for name in constants:
            if name not in self._known:
                raise NameNotFound(f"map: no input {name!r}; there are {', '.join(self._known)}")
        return [self._constant(value, constants[value.name]) if value.name in constants else None for value in session.inputs]

    def _constant(self, value: Value, given: Any) -> _tensor.Tensor:
        """A tensor itself; an array as a copy, on every device, so that the program may change it between items."""
        what = f"map: constants: {value.name!r}"
        found = self._resident(given, what)
        if found is not None:
            tensor, event = found
            if event is not None:
                event.wait()
            return tensor
        code = self._known[value.name]
        seen = as_host_tensor(given.array if isinstance(given, _tensor.Live) else given, code, what)
        made = seen.to(value.device)
        return made if made is not seen or code == _dtypes.STRING else seen.copy()

    def __iter__(self) -> Iterator[Any]:
        return self

    def close(self) -> None:
        """End the map before its last item, as does the end of a block `with`: no more items are read, and it waits for those in flight,
        after which their tensors may be written. Raises InvalidState if another thread is in next()."""
        if self._is_busy:
            raise InvalidState("map: next() is in progress, in another thread or in a call by the generator of the items")
        self._drop_rest()

    def __enter__(self) -> Map:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __next__(self) -> Any:
        """The outputs of the next item, or (tag, outputs). Raises the item's failure, whose exception has the item's number as `item`,
        and `tag`; InvalidState if another thread, or the generator of the items, is in next(); StopIteration after the last item."""
        if self._is_busy:
            raise InvalidState("map: next() is already in progress, in another thread or in a call by the generator of the items")
        self._is_busy = True
        try:
            while not self._is_over and len(self._waiting) < self._slots:
                self._take()
            if not self._waiting:
                raise StopIteration
            try:
                return self._give()
            except Exception:
                if self._stops:
                    self._drop_rest()
                raise
        finally:
            self._is_busy = False

    def _take(self) -> None:
        try:
            item = next(self._items)
        except StopIteration:
            self._is_over = True
            return
        except Exception as reason:  # of what makes the items: none come behind it
            self._is_over = True
            self._waiting.append(Waiting(self._taken, False, None, reason))
            return
        number, is_tagged, tag = self._taken, False, None
        self._taken += 1
        if isinstance(item, tuple) and len(item) == 2:
            is_tagged, (tag, item) = True, item
        failed: Exception | None = None
        try:
            self._submit(number, item)
        except StopIteration as reason:  # next() would say by it that there are no more items
            failed = RuntimeError(f"map: item {number} raised StopIteration")
            failed.__cause__ = reason
        except Exception as reason:
            failed = reason
        except BaseException:  # Ctrl-C: next() raises that, and the item comes later, as one that failed
            interrupted = InvalidState(f"map: item {number} was interrupted while its inputs were prepared")
            _mark(interrupted, number, tag)
            self._waiting.append(Waiting(number, is_tagged, tag, interrupted))
            raise
        if failed is not None:
            _mark(failed, number, tag)
            self._is_over = self._stops
        self._waiting.append(Waiting(number, is_tagged, tag, failed))

    def _submit(self, number: int, item: Mapping[str, Any]) -> None:
        if not isinstance(item, Mapping):
            raise InvalidArgument(f"map: item {number}: expected a dict of inputs, or a pair (tag, dict), got {type(item).__name__}")
        for name in item:
            if name not in self._known or name in self._constants:
                raise NameNotFound(f"map: item {number}: {name!r} is not an input that items bring")
        missing = [name for name in self._known if name not in item and name not in self._constants]
        if missing:
            raise InvalidArgument(f"map: item {number}: input {missing[0]!r} is missing")
        pairs = [(None, None) if name in self._constants else self._input(item[name], code, f"map: item {number}: {name!r}")
                 for name, code in self._known.items()]
        self._pipeline.submit([tensor for tensor, _ in pairs], [event for _, event in pairs])

    def _input(self, value: Any, code: int, what: str) -> tuple[_tensor.Tensor, _tensor.Event | None]:
        """A tensor, and the event after which it is read."""
        return self._resident(value, what) or (as_host_tensor(value.array if isinstance(value, _tensor.Live) else value, code, what), None)

    def _resident(self, value: Any, what: str) -> tuple[_tensor.Tensor, _tensor.Event | None] | None:
        """A tensor that is read in place, and the event after which it is read; None: `value` is an array."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], _tensor.Event):
            if not isinstance(value[0], _tensor.Tensor):
                raise InvalidArgument(f"{what}: expected an iobind.Tensor with the event, got {type(value[0]).__name__}")
            return _behind(value[0], value[1])
        is_live = isinstance(value, _tensor.Live)
        value = value.array if is_live else value
        if isinstance(value, _tensor.Tensor):
            writers = value._writers()
            for writer in writers[1:]:  # an input has one event
                writer.record().wait()
            return _behind(value, writers[0].record() if writers else None)
        if not _tensor.is_on_device(value):
            return None
        device = _tensor.device_of(*value.__dlpack_device__())
        if device.spec not in self._streams:
            self._streams[device.spec] = _tensor.Stream(device)
        order = _tensor.Order(value, self._streams[device.spec])
        tensor = _core.from_dlpack(runtime(), order.capsule(), False)
        order.event.record(order.stream)
        if is_live:
            return tensor, order.event
        order.event.wait()
        return tensor.copy(), None  # its producer may write it again at once

    def _give(self) -> Any:
        number, is_tagged, tag, failed = self._waiting[0]
        self.times = None
        if failed is not None:
            self._waiting.popleft()
            raise failed
        try:
            _, times, tensors = self._pipeline.next()
        except Error as reason:
            self._waiting.popleft()
            _mark(reason, number, tag)
            raise
        self._waiting.popleft()
        self.times = Times(*times)
        outputs = {name: tensor for name, tensor in zip(self._outputs, tensors) if tensor is not None}
        return (tag, outputs) if is_tagged else outputs

    def _drop_rest(self) -> None:
        """Wait for the items after a failed one, most of which are not run; their tensors may then be written."""
        self._is_over = True
        while self._waiting:
            if self._waiting[0].failed is None:
                with contextlib.suppress(Error):
                    self._pipeline.next()
            self._waiting.popleft()


def _behind(tensor: _tensor.Tensor, event: _tensor.Event | None) -> tuple[_tensor.Tensor, _tensor.Event | None]:
    """Data on the host are copied after their event; wait for it here, where Ctrl-C can end the wait."""
    if event is None or not tensor.host_readable:
        return tensor, event
    event.wait()
    return tensor, None


def _mark(error: Exception, number: int, tag: Any) -> None:
    with contextlib.suppress(AttributeError):  # of a class that has such a field of its own
        error.item, error.tag = number, tag  # type: ignore[attr-defined]
    if not isinstance(error, Error):  # its message does not say which item it was
        error.add_note(f"map: item {number}")


def _placements(outputs: list[Value], wanted: Mapping[str, DeviceSpec | None]) -> list[int]:
    names = [value.name for value in outputs]
    for name in wanted:
        if name not in names:
            raise NameNotFound(f"map: no output {name!r}; there are {', '.join(names)}")
    return [_placement(value, wanted.get(value.name, "cpu")) for value in outputs]


def _placement(value: Value, wanted: DeviceSpec | None) -> int:
    if wanted is None:
        return NONE
    device, memory = find_place(wanted)
    if memory != 0 or device not in (find_device("cpu"), value.device):
        raise DeviceError(f"map: output {value.name!r}: expected \"cpu\", {value.device}, where the session leaves it, or None, got {wanted}")
    return HOST if device == find_device("cpu") else DEVICE


__all__ = ["Map", "Times"]
