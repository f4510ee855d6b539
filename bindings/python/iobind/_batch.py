"""Live batches: many sequences of one recurrent model as rows of one run, each with its own state."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, SupportsFloat, SupportsIndex

from . import _core, _dtypes, _tensor
from ._errors import Error, InvalidArgument, NameNotFound
from ._session import Session, as_dict, as_host_tensor
from ._state import State

ALL = NO_TIMEOUT = (1 << 64) - 1  # IOBIND_BATCH_ALL, IOBIND_NO_TIMEOUT
NO_AXIS = -1
ON_DEVICE = 1
MOST = 1 << 31  # more than any number of rows or axis
LONGEST_TIME = 1e9  # in seconds, about 30 years: more is no limit


class Waiter:
    """A task that awaits the step of its row."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[dict[str, _tensor.Tensor]] = self.loop.create_future()
        self.has_ended = self.is_delivered = False

    def resolve(self) -> None:
        """Keep how the step has ended, if it has."""
        try:
            self.row.batch._await(self.row._slot, 0)
            self.ended: Any = self.row.outputs
        except TimeoutError:
            return
        except Exception as reason:
            self.ended = reason
        self.has_ended = True

    def deliver(self) -> None:
        """In the loop's thread."""
        self.is_delivered = True
        if self.future.done():  # cancelled
            return
        if isinstance(self.ended, Exception):
            self.future.set_exception(self.ended)
        else:
            self.future.set_result(self.ended)


def _deliver(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.deliver()


class Batch(_core.Batch):
    """Many independent sequences of one recurrent model as rows of one run. Each row has its own state; rows join and leave at any time. A
    batch is thread-safe. Session.batch() creates one. The end of a block `with batch:` closes it."""

    session: Session
    """whose model runs"""
    _inputs: dict[str, tuple[int, int]]
    _outputs: dict[str, int]
    _given: dict[str, int]
    _rows: dict[int, Row]
    _awaited: tuple[int, int]
    _lock: threading.Lock
    _waiters: list[Waiter]
    _is_stepping: bool
    _pool: ThreadPoolExecutor | None

    def __new__(cls, session: Session, most_rows: int, *, states: Mapping[str, str] | None = None,
                axes: Mapping[str, int | None] | None = None, first: State | None = None, tolerance: float = 0.0, on_device: bool = False,
                rows: int = 16, longest: float = 0.001) -> Batch:
        inputs = {value.name: (index, _dtypes.BY_NAME.get(value.dtype, 0)) for index, value in enumerate(session.inputs)}
        outputs = {value.name: index for index, value in enumerate(session.outputs)}
        pairs = [(_find(outputs, "output", output), _find(inputs, "input", given)[0]) for output, given in as_dict(states, "batch: states").items()]
        taken = None if axes is None else as_dict(axes, "batch: axes")
        made = super().__new__(cls, session, _count(most_rows, "batch: most_rows"), pairs, _axes(taken, inputs, outputs), _axes(taken, outputs, inputs), first, tolerance,
                               ON_DEVICE if on_device else 0)
        carried = {output for output, _ in pairs}
        made.session = session
        made._inputs = inputs
        made._outputs = outputs
        made._given = {name: index for name, index in outputs.items() if index not in carried}
        made._rows = {}
        made._awaited = (_count(rows, "batch: rows"), _least(longest, "batch: longest"))
        made._lock = threading.Lock()
        made._waiters = []
        made._is_stepping = False
        made._pool = None
        return made

    def __init__(self, session: Session, most_rows: int, **options: Any) -> None:
        """session: runs the model. most_rows, states, axes, first, tolerance, on_device, rows and longest: see Session.batch. Raises the
        same exceptions: NameNotFound, InvalidArgument, ShapeError, DTypeError, NotSupported, OutOfMemory, OrtError."""

    def join(self, state: State | None = None) -> Row:
        """Add a row and return it. Nothing is moved before its first step. state: the initial state of one row, from Row.save(),
        Binding.save() or Session.load_state(); the default is the batch's first state. Raises InvalidState (the batch has its maximum
        number of rows, or is closed), InvalidArgument (a state of another session, or of other pairs), ShapeError, TypeError,
        OutOfMemory."""
        row = Row(self, self._join(state))
        self._rows[row._slot] = row
        return row

    def set(self, inputs: Mapping[str, Any]) -> None:
        """Set inputs without a batch axis, which all rows share: {name: array}. They remain set until they are set again. The data are
        copied. inputs: an array must have the input's type and shape. Blocks until the step in flight is complete. Raises NameNotFound,
        InvalidArgument (an input of each row, or a state), DTypeError, ShapeError, DeviceError (it is on another device), InvalidState,
        OutOfMemory, OrtError."""
        self._set_all(ALL, inputs)

    def run(self, rows: Sequence[Row], inputs: Sequence[Mapping[str, Any]] | None = None, *, stream: _tensor.Stream | None = None) -> None:
        """Make a step of some rows; the states of all others do not change. If the step fails, no row changes.

        rows: their inputs must be set, with the same dims. inputs: a dict for each row, as for Row.set. stream: the call returns when the
        step is submitted to the stream; the next call that needs the result blocks until the step is complete, and raises its failure.
        Raises InvalidArgument (no row, a row twice, a row of another batch), InvalidState (an input is not set), NotFound (a row that has
        left), ShapeError, NotSupported (the model mixes rows: the message names the output), TypeError, DeviceError, OutOfMemory,
        OrtError."""
        if isinstance(rows, Row) or not isinstance(rows, Iterable):
            raise InvalidArgument(f"run: expected a list of rows of this batch, got {rows!r:.80}")
        rows = list(rows)
        for row in rows:
            if not isinstance(row, Row) or row.batch is not self:
                raise InvalidArgument(f"run: expected rows of this batch, got {row!r:.80}")
        if inputs is not None:
            if isinstance(inputs, Mapping) or not isinstance(inputs, Sequence):
                raise InvalidArgument(f"run: inputs: expected a list with a dict for each row, got {type(inputs).__name__}")
            if len(inputs) != len(rows):
                raise InvalidArgument(f"run: inputs: expected one dict for each of the {len(rows)} rows, got {len(inputs)}")
            for row, given in zip(rows, inputs):
                row.set(given)
        self._run([row._slot for row in rows], stream)

    def step(self, rows: int = 16, longest: float = 0.001, timeout: float | None = None) -> list[Row]:
        """Make a step of the submitted rows and return these rows, whose outputs are then available. Rows whose dims differ from those of
        the first one remain for the next step. rows: the step is made as soon as so many rows are submitted, or all rows of the batch.
        longest: or as soon as a row has waited so long, in seconds. timeout: for the first row, in seconds; None: no limit. Raises
        Timeout (no row was submitted), and the exceptions of Batch.run, which Row.result then also raises for each row: NotSupported,
        ShapeError, OutOfMemory, OrtError. Raises InvalidArgument, InvalidState (the batch is closed)."""
        made = self._step(_count(rows, "step: rows"), _least(longest, "step: longest"), _nanoseconds(timeout, "step: timeout"))
        return [self._rows[slot] for slot in made if slot in self._rows]

    def info(self) -> dict[str, int]:
        """Counts of the batch: row_count (rows that have joined and not left), width (rows of the last step's run, including idle ones),
        steps, moved_rows (rows whose states were moved), nbytes (of the states' memory). Raises InvalidState (it is closed)."""
        return self._info()

    def close(self) -> None:
        """Let all rows leave after the step in flight, as does the end of a block `with batch:`. Outputs and saved states remain valid.
        Tasks and threads that await a row, and all later calls, get InvalidState. Raises nothing."""
        self._close()
        self._rows.clear()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<iobind.Batch {'closed' if self._is_closed else f'of {len(self._rows)} rows'}>"

    def _set_all(self, slot: int, inputs: Mapping[str, Any]) -> None:
        for name, value in as_dict(inputs, "set").items():
            index, code = _find(self._inputs, "input", name, "set")
            if self._set_input(slot, index, value) is NotImplemented:
                self._set_input(slot, index, as_host_tensor(value, code, f"set: {name!r}"))

    # ---- steps of rows that tasks await: a thread of the batch's own makes them as long as there are any

    def _add_waiter(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.append(waiter)
            if self._is_stepping:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "iobind")
            self._pool.submit(self._step_awaited)
            self._is_stepping = True

    def _step_awaited(self) -> None:
        rows, longest = self._awaited
        while True:
            with contextlib.suppress(Error, MemoryError):  # each row reports the error of its step
                self._step(rows, longest, 0)
            with self._lock:
                taken, self._waiters = self._waiters, []
            for waiter in taken:
                waiter.resolve()
            with self._lock:
                self._waiters += [waiter for waiter in taken if not waiter.has_ended]
                self._is_stepping = is_left = bool(self._waiters)
            _deliver_all([waiter for waiter in taken if waiter.has_ended])
            if not is_left:
                return


class Row:
    """A stream of a batch, created by Batch.join(). row["x"] = array sets an input for its next step and raises as set(). At the end of a
    block `with row:` or `async with row:` the row leaves. If the program drops a row, it stays in the batch until the batch is closed."""

    __slots__ = ("batch", "_slot", "__weakref__")

    def __init__(self, batch: Batch, slot: int) -> None:
        """batch, slot: of a row that has joined. Batch.join() creates rows, and raises InvalidState."""
        self.batch = batch
        self._slot = slot

    def __setitem__(self, name: str, value: Any) -> None:
        """Set the input `name` for the row's next step. Raises as set(): NameNotFound, DTypeError, ShapeError, InvalidArgument."""
        self.batch._set_all(self._slot, {name: value})

    def set(self, inputs: Mapping[str, Any]) -> None:
        """Set inputs for the row's next step: {name: array}. The data are copied. inputs: an array must have the input's type and shape,
        with length 1 on the batch axis. Raises NameNotFound, NotFound (the row has left), InvalidArgument (a state, or an input that all
        rows share), DTypeError, ShapeError, DeviceError (it is on another device), InvalidState (the batch is closed), OutOfMemory."""
        self.batch._set_all(self._slot, inputs)

    @property
    def outputs(self) -> dict[str, _tensor.Tensor]:
        """The outputs of the row's last step by name, without states. No later step overwrites them. Outputs on the host are views of
        memory that all rows of the step share. Blocks until the step in flight is complete. Raises InvalidState (no step was made),
        NotFound (the row has left), and the failure of the step in flight."""
        return {name: self.batch._get_output(self._slot, index) for name, index in self.batch._given.items()}

    def get(self, name: str) -> _tensor.Tensor:
        """One of the `outputs`, by its name. Raises NameNotFound, InvalidArgument (a state: use save()), InvalidState, NotFound,
        OutOfMemory, OrtError."""
        return self.batch._get_output(self._slot, _find(self.batch._outputs, "output", name, "get"))

    def save(self) -> State:
        """The state of the row, for another row of a batch of the session, for a binding, or for a file. Blocks until the step in flight
        is complete. Raises NotFound (the row has left), InvalidState (the batch has no states, or is closed), the failure of the step in
        flight, OutOfMemory, OrtError."""
        return self.batch._save(self._slot, State)

    def leave(self) -> None:
        """Leave the batch, after the step in flight. Raises NotFound (the row has left), InvalidState, and the failure of the step in
        flight; in that case the row has not left."""
        self.batch._leave(self._slot, None)
        self.batch._rows.pop(self._slot, None)

    def leave_saved(self) -> State:
        """Leave the batch, and return the state as save() does. Raises as leave() and save(): NotFound, InvalidState, OutOfMemory,
        OrtError; in that case the row has not left."""
        state = self.batch._leave(self._slot, State)
        self.batch._rows.pop(self._slot, None)
        assert state is not None
        return state

    def submit(self, inputs: Mapping[str, Any] | None = None) -> None:
        """Submit the row for the next Batch.step(), which another thread makes. inputs: set first, as by set(). Raises NotFound (the row
        has left), InvalidState (an input is not set, or the row is already submitted), and as set(): NameNotFound, InvalidArgument,
        DTypeError, ShapeError."""
        if inputs is not None:
            self.set(inputs)
        self.batch._submit(self._slot)

    def result(self, timeout: float | None = None) -> dict[str, _tensor.Tensor]:
        """Block until the step for which the row was submitted is complete, and return its outputs. timeout: in seconds; None: no limit.
        Raises Timeout, NotFound (the row has left), InvalidState (it was not submitted, or the batch was closed), InvalidArgument, and
        the failure of the step."""
        self.batch._await(self._slot, _nanoseconds(timeout, "result: timeout"))
        return self.outputs

    async def step(self, inputs: Mapping[str, Any] | None = None) -> dict[str, _tensor.Tensor]:
        """Submit the row as submit(inputs) does, and await its outputs, without blocking the event loop. A thread of the batch makes the
        steps; `rows` and `longest` of Session.batch define when. A cancelled task ends when the step has ended. Raises as submit() and
        result(): NotFound, InvalidState, NameNotFound, InvalidArgument, DTypeError, ShapeError, NotSupported, OutOfMemory, OrtError."""
        waiter = Waiter(self)  # before the row is submitted: it needs a running event loop
        self.submit(inputs)
        self.batch._add_waiter(waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            while not waiter.is_delivered:
                waiter.future = waiter.loop.create_future()
                with contextlib.suppress(asyncio.CancelledError, Exception):  # cancelled again: the row is still submitted
                    await waiter.future
            raise

    async def steps(self, items: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]]) -> AsyncIterator[dict[str, _tensor.Tensor]]:
        """Make a step for each item, one after the other: async for outputs in row.steps(items). items: dicts of inputs, from a list, a
        generator, or an asynchronous generator. Raises as step(): NotFound, InvalidState, NameNotFound, InvalidArgument, DTypeError,
        ShapeError, NotSupported, OutOfMemory, OrtError; and exceptions of `items`."""
        if isinstance(items, AsyncIterable):
            async for inputs in items:
                yield await self.step(inputs)
        else:
            for inputs in items:
                yield await self.step(inputs)

    def __enter__(self) -> Row:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.batch._is_closed and self._slot in self.batch._rows:
            self.leave()

    async def __aenter__(self) -> Row:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def __repr__(self) -> str:
        has_left = self._slot not in self.batch._rows
        return f"<iobind.Row {self._slot:#x}{' that has left' if has_left else ''} of {self.batch!r}>"


def _deliver_all(waiters: list[Waiter]) -> None:
    """Make one call for each event loop; an event loop that has ended awaits nothing."""
    for loop in {id(waiter.loop): waiter.loop for waiter in waiters}.values():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_deliver, [waiter for waiter in waiters if waiter.loop is loop])


def _find(known: Mapping[str, Any], kind: str, name: str, call: str = "batch") -> Any:
    if name not in known:
        raise NameNotFound(f"{call}: no {kind} {name!r}; there are {', '.join(known)}")
    return known[name]


def _axes(given: Mapping[str, int | None] | None, names: Iterable[str], others: Iterable[str]) -> list[int] | None:
    """The axes of all `names`."""
    if given is None:
        return None
    known = [*names, *others]
    for name in given:
        if name not in known:
            raise NameNotFound(f"batch: axes: no input or output {name!r}; there are {', '.join(known)}")
    missing = [name for name in names if name not in given]
    if missing:
        raise InvalidArgument(f"batch: axes: expected the batch axis, or None, of each input and output: {missing[0]!r} is missing")
    for name, axis in given.items():
        if axis is not None and (not isinstance(axis, SupportsIndex) or not 0 <= axis.__index__() < MOST):
            raise InvalidArgument(f"batch: axes: {name!r}: expected an axis of 0 or more, or None, got {axis!r:.40}")
    axes = [given[name] for name in names]
    return [NO_AXIS if axis is None else axis for axis in axes]


def _count(rows: int, what: str) -> int:
    if not isinstance(rows, SupportsIndex) or rows.__index__() < 1:
        raise InvalidArgument(f"{what}: expected a whole number, 1 or more, got {rows!r:.40}")
    return min(rows.__index__(), MOST)


def _nanoseconds(seconds: float | None, what: str) -> int:
    """None: no limit."""
    if seconds is not None and not (isinstance(seconds, (SupportsFloat, SupportsIndex)) and seconds >= 0):
        raise InvalidArgument(f"{what}: expected 0 or more seconds, or None, got {seconds!r:.40}")
    if seconds is None or seconds >= LONGEST_TIME:
        return NO_TIMEOUT
    return int(seconds * 1e9)


def _least(seconds: float, what: str) -> int:
    """In nanoseconds. C takes 0 as a request for its own choice."""
    return max(_nanoseconds(seconds, what), 1)


__all__ = ["Batch", "Row"]
