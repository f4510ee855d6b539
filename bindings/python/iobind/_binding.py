"""Bindings: a session's inputs and outputs bound to memory."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core, _dtypes, _tensor
from ._audit import Audit
from ._errors import DTypeError, FileError, InvalidArgument, InvalidState, NameNotFound, NotSupported, ShapeError
from ._runtime import DeviceSpec, is_device
from ._runtime import place as find_place
from ._session import STATE_KINDS, Session, as_dict, as_host_tensor, run_options, signature
from ._state import State

if TYPE_CHECKING:
    import concurrent.futures

RESIDENT, SNAPSHOT, LIVE = range(3)
COPY = 16  # a RESIDENT tensor that only the input has
FRESH_MODE, REUSE_MODE, NONE_MODE = range(3)
IN_PLACE = 1
LENGTH_ROLES = ["unnamed", "before", "last", "after", "extent", "mask", "positions", "other", "cache"]  # by C's numbers; "unnamed" is None here
CARRY_MODES = ["default", "move", "swap", "in_place"]  # by C's numbers; the default is None here


class Reuse:
    """REUSE, or REUSE("cpu") with a device's name: the first run allocates memory there, and later runs overwrite it."""

    def __init__(self, device: DeviceSpec | None = None) -> None:
        self.device = device

    def __call__(self, device: DeviceSpec) -> Reuse:
        return Reuse(device)

    def __repr__(self) -> str:
        return "iobind.REUSE" if self.device is None else f"iobind.REUSE({str(self.device)!r})"


REUSE = Reuse()


class InPlace:
    """in_place(tensor): an output is written into a tensor that may overlap an input."""

    def __init__(self, tensor: _tensor.Tensor) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return f"iobind.in_place({self.tensor!r})"


def in_place(tensor: _tensor.Tensor) -> InPlace:
    """Let an output be written into `tensor`, which may share memory with an input. Use it only if the model's operators allow that;
    iobind cannot check it."""
    return InPlace(tensor)


class Outputs(_core.Outputs, Mapping[str, _tensor.Tensor]):
    """The outputs of a run by name: out["y"] is a Tensor. An output that is bound to None is not included.

    No later run overwrites a FRESH output, a moved state, or a state that was carried without a mode, unless that is a cache in place.
    Such outputs of a run without a stream are fetched before the next run if the program still holds the Outputs. Any other output is in
    memory that later runs write: fetch it before the next run or change of an output. Binding.take() keeps a REUSE output and a swapped
    state. If the binding is destroyed, all outputs are kept. An output that was not fetched in time raises InvalidState, and an output of
    a failed run raises that run's failure."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def get(self, name: str, default: Any = None) -> Any:
        """The output `name`, or `default` if the run has no such output. Raises InvalidState, OrtError, Cancelled as out[name] does."""
        return self[name] if name in self else default

    def __missing__(self, name: object) -> _tensor.Tensor:
        if not isinstance(name, str):
            raise TypeError(f"expected the name of an output, got {name!r}")
        raise NameNotFound(f"outputs: no output {name!r}; there are {', '.join(self)}")

    def __repr__(self) -> str:
        return f"<iobind.Outputs {', '.join(self)}>"


class Step(NamedTuple):
    """A change of one input or output of a binding, prepared for the C module."""

    key: tuple[str, int]
    """"input" or "output", and its index"""
    call: Callable[[_core.Binding], None]
    note: Callable[[], None]
    """what Python keeps of it"""


class Binding(_core.Binding):
    """A session's inputs and outputs, bound to memory. A binding is externally synchronized; a session may have any number of bindings.
    The end of a block `with binding:` closes it.

    b["x"] = array copies new data in, and may change open dims. b["x"] = tensor binds the tensor itself. Both raise as bind()."""

    # Of its own, the interpreter finds a method faster where no dict has been made; a program's attributes are in one still.
    __slots__ = ("session", "_orders", "_tensors", "_shapes", "_carried", "_states", "_caches", "_calls", "_foreign", "_pool", "_running", "_inputs", "_outputs", "__dict__",
                 "__weakref__")

    def __new__(cls, session: Session) -> Binding:
        made = super().__new__(cls, session)
        made.session = session
        made._orders = {}
        made._tensors = {}
        made._shapes = {}
        made._carried = {}
        made._states = {}
        made._caches = set()
        made._calls = {}
        made._foreign = None
        made._pool = None
        made._running = None
        made._inputs = {value.name: (index, value) for index, value in enumerate(session.inputs)}
        made._outputs = {value.name: (index, value) for index, value in enumerate(session.outputs)}
        return made

    def __init__(self, session: Session) -> None:
        """session: the session whose inputs and outputs are bound."""

    session: Session
    _orders: dict[int, tuple[_tensor.Order, Any]]
    _tensors: dict[int, _tensor.Tensor]
    """RESIDENT inputs that stay: not the first of the states that are carried to other memory"""
    _shapes: dict[int, tuple[int, ...]]
    """the shapes that inputs were bound with"""
    _carried: dict[int, str]
    """inputs that have been carried, and how"""
    _states: dict[int, int]
    """the outputs that are carried now, and to which inputs"""
    _caches: set[int]
    """the inputs that the program has named as caches of fixed capacity"""
    _calls: dict[tuple[str, int], Callable[[_core.Binding], None]]
    """what is bound, except what only the binding has: its own memory, and carried states"""
    _foreign: tuple[int, _tensor.Stream] | None
    """the last stream of another library, and its wrapper: releasing the wrapper waits for the stream"""
    _pool: Any
    _running: concurrent.futures.Future[Outputs] | None
    _inputs: dict[str, tuple[int, Any]]
    _outputs: dict[str, tuple[int, Any]]

    def __repr__(self) -> str:
        return f"<iobind.Binding {signature(self.session)}>"

    def bind(self, inputs: Mapping[str, Any] | None = None, *, outputs: Mapping[str, Any] | None = None,
             carry: Mapping[str, str] | None = None, carry_mode: str | None = None) -> None:
        """Bind several inputs and outputs at once. If one of them is refused, nothing changes.

        inputs: {name: value}. An array is copied now, to the memory from which the session reads it (SNAPSHOT); its dims must fit the
        model's. An iobind.Tensor, which must be where the session reads it, is the input itself and is never copied (RESIDENT). A device
        tensor of another library is copied by DLPack. Each run reads live(array) again. outputs: {name: a device spec ("cpu": each
        run's result is copied there, FRESH), REUSE or REUSE("cpu"), a Tensor or array into which each run writes, in_place(tensor), None
        (not fetched)}. All other outputs are FRESH in the session's own output memory (with graphs= REUSE). carry: {output: input}: the
        output becomes the next run's input; it must not be in `outputs`. carry_mode: see carry(). Raises NameNotFound, NotFound,
        DTypeError, ShapeError, DeviceError, InvalidArgument, InvalidState."""
        inputs, outputs, carry = as_dict(inputs, "bind: inputs"), as_dict(outputs, "bind: outputs"), as_dict(carry, "bind: carry")
        both = [name for name in carry if name in outputs]
        if both:
            raise InvalidArgument(f"bind: {both[0]!r} is in carry and in outputs: expected one of them; a carried output stays where "
                                  "the next run reads it, and numpy() copies it to the host")
        steps = [*(self._carry_step(output, to, carry_mode) for output, to in carry.items()),
                 *(self._input_step(name, value, COPY) for name, value in inputs.items()),
                 *(self._output_step(name, value) for name, value in outputs.items())]
        if len(steps) > 1:
            self._rehearse(steps)
        for step in steps:
            self._take_step(step)

    def _rehearse(self, steps: list[Step]) -> None:
        """Raise the error of the first step that would fail, on another binding to which the same is bound; no step is applied."""
        stage = self._stage()
        changed = {step.key for step in steps}
        for key, call in self._calls.items():
            if key not in changed:
                call(stage)
        for step in steps:
            step.call(stage)

    def _take_step(self, step: Step) -> None:
        step.call(self)
        step.note()

    def _input(self, name: str) -> tuple[int, Any]:
        found = self._inputs.get(name)
        if found is None:
            raise NameNotFound(f"binding: no input {name!r}; there are {', '.join(self._inputs)}")
        return found

    def _output(self, name: str, what: str = "binding") -> tuple[int, Any]:
        found = self._outputs.get(name)
        if found is None:
            raise NameNotFound(f"{what}: no output {name!r}; there are {', '.join(self._outputs)}")
        return found

    def _assign(self, name: str, value: Any) -> None:
        self._take_step(self._input_step(name, value, SNAPSHOT))

    def _input_step(self, name: str, value: Any, copied: int) -> Step:
        """copied: how a value that is not an iobind tensor is copied: SNAPSHOT, when the step is applied, or COPY, here."""
        index, wanted = self._input(name)
        what = f"bind: {name!r}"
        if isinstance(value, _tensor.Tensor):
            return self._step_of(index, RESIDENT, value)
        if isinstance(value, _tensor.Live):
            return self._live_step(index, value.array, _dtypes.BY_NAME.get(wanted.dtype, 0), what)
        if _tensor.is_on_device(value):
            order = _tensor.Order(value)
            tensor = _tensor.from_dlpack(value)
            order.wait(on_host=True)
        else:
            tensor = as_host_tensor(value, _dtypes.BY_NAME.get(wanted.dtype, 0), what)
        if copied == SNAPSHOT or wanted.device is None or tensor.dtype_code == _dtypes.STRING:
            return self._step_of(index, SNAPSHOT, tensor)
        try:
            made = _core.create(wanted.device, wanted.memory, tensor.dtype_code, tensor.shape)
        except NotSupported:  # memory that only a session can lend
            return self._step_of(index, SNAPSHOT, tensor)
        _core.copy([tensor], [made], None)
        return self._step_of(index, COPY, made)

    def _live_step(self, index: int, value: Any, code: int, what: str) -> Step:
        if isinstance(value, _tensor.Tensor):
            return self._step_of(index, LIVE, value)
        if _tensor.is_on_device(value):
            order = _tensor.Order(value)
            return self._step_of(index, LIVE, _tensor.from_dlpack(value), order.event, order)
        array = _tensor.own_array(value, what)
        if code == _dtypes.STRING:
            raise NotSupported(f"{what}: an array of strings cannot be read in place: bind it again before a run, or live(tensor), "
                               "which tensor.write() changes")
        tensor = as_host_tensor(array, code, what, advice=_tensor.SHARE_DENSE)
        if not array.flags.writeable:  # update() writes into it
            tensor = _tensor.tensor_over(array, False, what)._view(0, code, tensor.shape)
        return self._step_of(index, LIVE, tensor)

    def _step_of(self, index: int, mode: int, tensor: _tensor.Tensor, event: _tensor.Event | None = None,
                 order: _tensor.Order | None = None) -> Step:
        def call(binding: _core.Binding) -> None:
            binding._set_input(index, mode, tensor, event)

        def note() -> None:
            self._shapes[index] = tensor.shape
            self._forget(index)
            if mode in (RESIDENT, LIVE) and self._carried.get(index) in (None, "in_place"):
                self._calls["input", index] = call
            if mode == RESIDENT and self._carried.get(index) in (None, "in_place"):
                self._tensors[index] = tensor
            if order is not None:
                self._orders[index] = (order, tensor)
                self._use_order(_order_all(self._orders))

        return Step(("input", index), call, note)

    def set_input(self, name: str, value: Any, *, event: _tensor.Event | None = None) -> None:
        """Bind an input as b[name] = value does. event: each run waits for this event before it reads the tensor. Raises as bind(), and
        InvalidArgument for an event with a value that is not a tensor."""
        if event is None:
            self._assign(name, value)
            return
        if not isinstance(value, _tensor.Tensor):
            raise InvalidArgument("set_input: event: expected a tensor, got a value that is copied at once and needs no event")
        self._take_step(self._step_of(self._input(name)[0], RESIDENT, value, event))

    def clear(self) -> None:
        """Unbind everything; outputs are FRESH again (with graphs= REUSE). Raises InvalidState while a run is in flight."""
        super().clear()
        self._orders.clear()
        self._tensors.clear()
        self._shapes.clear()
        self._carried.clear()
        self._states.clear()
        self._calls.clear()
        self._use_order(None)

    def close(self) -> None:
        """Wait for the runs in flight and unbind everything, as does the end of a block `with binding:`. The binding then retains no
        memory. Outputs that were fetched remain valid. Raises InvalidState during another thread's call."""
        self._await_runs()
        self.clear()

    def __enter__(self) -> Binding:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, name: str, array: Any, *, stream: _tensor.Stream | None = None) -> None:
        """Copy new data, an array of the same dims, into the bound input `name`. With `stream`, the copy is ordered after the runs that
        are queued on it; the value must then be an array, not a list, and must not change until the stream has completed the copy. Raises
        NotFound, InvalidState (it is not bound), InvalidArgument (the wrong number of bytes), DTypeError (also for strings), ShapeError
        (other dims, gaps), DeviceError (another device's stream)."""
        index, wanted = self._input(name)
        code = _dtypes.BY_NAME.get(wanted.dtype, 0)
        if code == _dtypes.STRING:
            raise DTypeError(f"update: {name!r}: strings cannot be copied into bound memory: bind them, b[{name!r}] = array")
        if stream is not None:
            array = _tensor.own_array(array, f"update: {name!r}")
        data = _tensor.host_array(array, code, f"update: {name!r}")
        bound = self._shapes.get(index, data.shape)
        # bytes of packed elements have no dims, a moved state has those that the last run gave it, and the call below counts the bytes
        if data.shape != bound and data.size == math.prod(bound) and code not in _dtypes.PACKED and self._carried.get(index) != "move":
            raise ShapeError(f"update: {name!r}: expected {list(bound)}, got {list(data.shape)}")
        if index in self._carried and self._spares(index):
            self._take_step(self._input_step(name, array, SNAPSHOT))  # not over a result that is still referenced
            return
        if index in self._tensors:
            self._tensors[index]._await(stream)
            self._tensors[index]._add_writer(stream)
        self._update_input(index, _tensor.as_bytes(data), stream)

    def set_output(self, name: str, value: Any) -> None:
        """Bind the output `name`; bind() lists the possible values. Raises NotFound, DTypeError, ShapeError, DeviceError,
        InvalidArgument, NotSupported, InvalidState."""
        self._take_step(self._output_step(name, value))

    def _output_step(self, name: str, value: Any) -> Step:
        index, _ = self._output(name)
        if value is None:
            return self._step_to(index, lambda binding: binding._place_output(index, NONE_MODE, None, 0))
        if isinstance(value, Reuse):
            device, memory = (None, 0) if value.device is None else find_place(value.device)
            return self._step_to(index, lambda binding: binding._place_output(index, REUSE_MODE, device, memory))
        if is_device(value):
            place = find_place(value)
            return self._step_to(index, lambda binding: binding._place_output(index, FRESH_MODE, *place))
        flags = IN_PLACE if isinstance(value, InPlace) else 0
        given = value.tensor if isinstance(value, InPlace) else value
        tensor = given if flags or isinstance(given, _tensor.Tensor) else _tensor.tensor_over(given, True, f"bind: {name!r}")
        return self._step_to(index, lambda binding: binding._set_output(index, tensor, flags))

    def _step_to(self, index: int, call: Callable[[_core.Binding], None]) -> Step:
        def note() -> None:
            self._calls["output", index] = call
            self._states.pop(index, None)

        return Step(("output", index), call, note)

    def fresh(self, name: str) -> None:
        """Reset the output `name` to FRESH in the session's own output memory, as in a new binding. Raises NotFound, InvalidState,
        NotSupported (the session has graphs=: its outputs are REUSE)."""
        index, _ = self._output(name)
        self._take_step(self._step_to(index, lambda binding: binding._place_output(index, FRESH_MODE, None, 0)))

    def carry(self, output: str, input: str, mode: str | None = None) -> None:
        """Let an output become an input of the next run: a state that never leaves the device. The bound input is the first state.

        mode: "swap" (two buffers of the state's shape; a run that produces another shape raises ShapeError), "move" (new memory in each
        run, of any shape) or "in_place" (one buffer; only some operators allow this, and iobind cannot check it). None: "in_place" for a
        cache of fixed capacity ("capacity" of Session.state_kind) whose operator allows it; for any other state "swap" if the model gives
        both the same shape, otherwise "move". With None, a swapped or moved state that the program still references, as an output, an
        array or by DLPack, is never overwritten: if a swap would do that, the state is moved from then on. A moved state is kept as a
        FRESH output is. A swapped state can be fetched until the next run; the run after that overwrites its memory, or the next run if
        the input is bound again; take() keeps it. The next run overwrites a state in place. Raises NameNotFound, InvalidArgument,
        DTypeError, ShapeError, InvalidState."""
        self._take_step(self._carry_step(output, input, mode))

    def _carry_step(self, output: str, input: str, mode: str | None) -> Step:
        number, given = self._output(output, "carry")
        if mode not in (None, *CARRY_MODES[1:]):
            raise InvalidArgument(f"carry: mode: expected one of {', '.join(CARRY_MODES[1:])}, got {mode!r}")
        to, wanted = self._input(input)
        stays = given.shape is not None and given.shape == wanted.shape and not {None, "?"} & set(given.shape)  # "?" is not a name
        default = self._find_kind(number, to)[2] if mode is None else None
        is_written = default == "in_place"
        chosen = mode or ("in_place" if is_written else "swap" if stays or default == "swap" else "move")

        def call(binding: _core.Binding) -> None:
            binding._carry(number, to, CARRY_MODES.index(chosen), mode is None and not is_written)

        def note() -> None:
            self._calls["output", number] = call
            self._carried[to] = chosen
            self._states[number] = to
            if chosen != "in_place":
                self._tensors.pop(to, None)
                self._calls.pop(("input", to), None)

        return Step(("output", number), call, note)

    def _find_kind(self, output: int, input: int) -> tuple[str, int | None, str]:
        """The kind, the axis of the length, and the mode in which iobind carries the state by default. Nothing is known of a model whose file
        is gone."""
        try:
            kind, axis, carried = self.session._state_kind(output, input)
        except FileError:
            return "unknown", None, "move"
        return STATE_KINDS[kind], axis, CARRY_MODES[carried]

    def take(self, name: str) -> _tensor.Tensor:
        """The output `name` of the last run, with that run's shape. No later run overwrites it: for REUSE and a swapped state the binding
        gets new memory. The exceptions are a bound tensor and a state in place, which later runs overwrite: use copy() to keep their
        content. Raises NotFound, InvalidState (no run is complete, or the output was taken), DeviceError, and the failure of the run."""
        return self._take(self._output(name, "take")[0])

    def save(self) -> State:
        """The content that the next run would read as its carried inputs, as a State that never changes. A moved or swapped state that
        the program does not reference is not copied: the binding gets new memory for it when it needs that. Any other state is copied on
        its device. Does not block for runs on a stream of the execution provider: the state is that of the last run. Raises InvalidState
        (nothing is carried, an input is not bound, a failed run has left no state, another thread's call is in flight), the failure of
        the last run, OutOfMemory, OrtError."""
        return State._save(self)

    def restore(self, state: State) -> None:
        """Continue from `state`, which was saved by this binding or by another binding of the session that carries the same states: the
        next run reads it. A moved or swapped state is read without a copy. A state in place, and any state with graphs=, is copied into
        the bound memory if it has the same shape. Fetch outputs of the last run first, as before a run. Raises InvalidState (a run is in
        flight, the state is closed), InvalidArgument (a state of another session, or of other carried inputs), ShapeError, the failure of
        the run that was to produce the state, OutOfMemory, OrtError."""
        if not isinstance(state, State):
            raise InvalidArgument(f"restore: expected an iobind.State, got {type(state).__name__}")
        self._await_states()
        shapes = [state._shape(number) for number in range(len(state))]
        state._restore_to(self)
        caches = {index for output, index in self._states.items() if self._find_kind(output, index)[0] == "capacity"} | self._caches
        for name, shape in zip(state, shapes):
            index = self._inputs[name][0]
            if index in caches:  # of which the state may have the rows in use alone: the cache keeps its capacity, and the tensor stays
                self._shapes.pop(index, None)
            else:
                self._note_state(index, shape)

    def reorder(self, rows: Sequence[int], *, axis: int = 0) -> None:
        """Reorder the rows of all carried states on their device: the new row i is the old row rows[i]. A beam search continues with its
        best beams this way. rows: a row may appear several times or not at all, and their number may change. axis: the axis of the rows
        in each carried state; the states must have the same number of rows. Saved states do not change. Fetch outputs of the last run
        first, as before a run. Raises InvalidArgument (a row that does not exist, no rows), ShapeError (a state without that axis, or
        with another number of rows), NotSupported (another number of rows with graphs=), InvalidState (nothing is carried, a run is in
        flight), the failure of the last run, OutOfMemory, OrtError."""
        if axis < 0:
            raise ShapeError(f"reorder: axis: expected 0 or more, got {axis}")
        self._await_states()
        given = list(rows)
        self._reorder(axis, given)
        for index in self._states.values():
            bound = self._shapes.get(index, ())
            if len(bound) > axis:
                self._note_state(index, (*bound[:axis], len(given), *bound[axis + 1:]))

    def name_length(self, name: str, role: str | None, *, axis: int | None = None) -> None:
        """Name the role of the input `name` for write_lengths(), if the model's graph does not show it, such as a mask from which the model
        computes lengths, or a cache that operators write which iobind does not know. If `length` rows are in use and a run adds `added`
        rows, the values are: "before": length; "last": length + added - 1; "after": length + added; "extent": no less than length + added
        of the longest row of the batch; "mask": 1 for each of the first length + added rows along the last axis, 0 for the others;
        "positions": length, length + 1, ... along the last axis. "other": the program writes the input itself. "cache": a carried cache of
        fixed capacity, whose rows are on axis `axis`. None: what the graph shows. All roles that the graph does not show must be named. The
        length becomes unknown: pass it to the next write_lengths(). Raises NameNotFound, InvalidArgument, DTypeError, ShapeError,
        NotSupported (it is not a tensor of numbers), InvalidState (a run is in flight)."""
        if role not in (None, *LENGTH_ROLES[1:]):
            raise InvalidArgument(f"name_length: role: expected one of {', '.join(LENGTH_ROLES[1:])} or None, got {role!r}")
        if (axis is None) == (role == "cache") or (axis is not None and axis < 0):
            raise InvalidArgument(f"name_length: axis: expected 0 or more for \"cache\", and none for other roles, got {axis} for {role!r}")
        index, _ = self._input(name)
        self._name_length(index, LENGTH_ROLES.index(role or "unnamed"), axis or 0)
        if role == "cache":
            self._caches.add(index)
        else:
            self._caches.discard(index)

    def write_lengths(self, added: int, length: int | Iterable[int] | None = None, *, stream: _tensor.Stream | None = None) -> None:
        """Write the lengths of the carried caches of fixed capacity ("capacity" of Session.state_kind) into the model's inputs for them,
        for a run that adds `added` rows. A successful run advances the length; a failed run does not. `length`: the number of rows in use
        before the run, such as 0 for an empty cache, or a sequence with the number for each row of the batch; None: the number that
        iobind has counted. Inputs for lengths that are not bound are bound; masks and positions that are not named
        (name_length()) remain the caller's task. Raises InvalidArgument (beyond the capacity, or not one length for each row), InvalidState (the length is
        unknown, a run is in flight elsewhere), ShapeError (a bound mask or bound positions do not fit), NotSupported (no such cache is
        carried, the model computes its lengths, or it takes one length for all rows), FileError as Session.state_kind, DeviceError (another device's stream), OutOfMemory, OrtError."""
        lengths = None if length is None else tuple(length) if isinstance(length, Iterable) else (length,)
        if added < 1 or any(one < 0 for one in lengths or ()):
            raise InvalidArgument(f"write_lengths: expected 1 new row or more and lengths of 0 or more, got {added} and {length}")
        for tensor in self._tensors.values():  # which of them have lengths, the library knows
            tensor._await(stream)
        self._write_lengths(added, lengths, stream)

    def rewind(self, length: int) -> None:
        """Go back to a shorter length: keep the first `length` rows of each carried state, on the axis that Session.state_kind() returns.
        A decoder drops wrongly guessed tokens this way. The caller must bind other inputs that depend on the length. Saved states do not
        change. Fetch outputs of the last run first, as before a run. Of a cache of kind "capacity" only the length that write_lengths()
        counts is set. Raises NotSupported (a state of another kind: save a state earlier, and restore it), InvalidArgument (a state is
        shorter), ShapeError (the states have different lengths), FileError as Session.state_kind, InvalidState (nothing is carried, a run
        is in flight), the failure of the last run, OutOfMemory, OrtError."""
        if length < 0:
            raise InvalidArgument(f"rewind: length: expected 0 or more, got {length}")
        self._await_states()
        self._rewind(length)
        for output, index in self._states.items():
            kind, axis = self.session._kind_of(output, index)
            bound = self._shapes.get(index, ())
            if kind != "capacity" and axis is not None and len(bound) > axis:
                self._note_state(index, (*bound[:axis], length, *bound[axis + 1:]))

    def _await_states(self) -> None:
        """Wait for work that writes the tensors of states in place."""
        for index in self._carried.keys() & self._tensors.keys():
            self._tensors[index]._await(None)

    def _note_state(self, index: int, shape: tuple[int, ...]) -> None:
        """Record that the carried input has another state: in place, in the bound tensor if that has the state's shape, otherwise in
        separate memory."""
        bound = self._tensors.get(index)
        if bound is None or bound.shape != shape or bound.read_only:
            self._forget(index)
        self._shapes[index] = shape

    def set_run_options(self, config: Mapping[str, Any] | None = None, *, tag: str | None = None, log_level: int = 0) -> None:
        """Set options for all later runs. config: ONNX Runtime's run config entries, such as {"memory.enable_memory_arena_shrinkage":
        "gpu:0"}. tag: names the runs in ONNX Runtime's log. log_level: 1 verbose, 2 info, 3 warning, 4 error; 0: the default. Raises
        InvalidState while a run is in flight, InvalidArgument."""
        self._set_run_options(*run_options(config, tag, log_level))

    def audit(self) -> Audit:
        """Report the bytes that each run moves, with source, target and reason: a table in a terminal, HTML in a notebook."""
        return Audit(*self._audit())

    # ---- order ----

    def _forget(self, index: int) -> None:
        self._tensors.pop(index, None)
        self._calls.pop(("input", index), None)
        if self._orders.pop(index, None) is not None and not self._orders:
            self._use_order(None)

    def _run_on(self, stream: Any, event: _tensor.Event | None) -> Outputs:
        if stream is not None and not isinstance(stream, _core.Stream):
            stream = self._wrap_foreign(stream)
        if stream is not None:
            for index in self._carried.keys() & self._tensors.keys():
                self._tensors[index]._add_writer(stream)
        return super()._run_on(stream, event)

    def _wrap_foreign(self, stream: Any) -> _tensor.Stream | None:
        handle = _tensor.foreign_stream(stream)
        if handle is None:
            raise InvalidArgument(f"run: expected a stream, got {type(stream).__name__}: an iobind.Stream, or an object with "
                                  "__cuda_stream__, cuda_stream or ptr")
        if self._foreign is not None and self._foreign[0] == handle:
            return self._foreign[1]
        device = next((value.device for _, value in self._outputs.values() if value.device and value.device.spec != "cpu"), None)
        if device is None:  # nothing of the session is on the stream's device
            _tensor.synchronize_foreign(stream)
            return None
        self._foreign = (handle, _tensor.Stream.wrap(device, handle, stream))
        return self._foreign[1]

    async def run_async(self) -> Outputs:
        """As run(), without blocking the event loop. The run is in flight from the time at which the task begins to await it: later
        access to bound memory is ordered after the run. Runs that are awaited at the same time execute one after another. Cancelling a
        task cancels its own run, and the task ends when that run has ended. Raises as run(): InvalidState, ShapeError, DeviceError,
        Cancelled, OrtError."""
        while (earlier := self._running) is not None and not earlier.done():
            await _ended(earlier)
        self._announce_run()
        run = AnnouncedRun(self)
        try:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(1, "iobind")
            self._running = future = self._pool.submit(run)
        except BaseException:
            self._withdraw_run()
            raise
        try:
            await _ended(future)
        except asyncio.CancelledError:
            run.cancel()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):  # cancelled again: the binding is still busy
                    await _ended(future)
            raise
        finally:
            if self._running is future:
                self._running = None  # which would keep the outputs
        outputs: Outputs = future.result()
        return outputs


class AnnouncedRun:
    """A run in the thread pool. cancel() cancels this run only: the following one cannot begin before this one has released the lock."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.is_over = False
        self.lock = threading.Lock()

    def __call__(self) -> Outputs:
        try:
            outputs: Outputs = self.binding._make_announced_run()
            return outputs
        finally:
            with self.lock:
                self.is_over = True

    def cancel(self) -> None:
        with self.lock:
            if not self.is_over:
                self.binding.cancel()


async def _ended(future: concurrent.futures.Future[Outputs]) -> None:
    """Wait until a run has ended. Cancelling the wait does not cancel the run."""
    running: asyncio.Future[Outputs] = asyncio.wrap_future(future)
    running.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled task does not ask for it
    await asyncio.wait([running])


def _order_all(orders: dict[int, tuple[_tensor.Order, Any]]) -> Any:
    """Order a run after the producers of its inputs. It does not retain the binding, which retains it."""

    def order_run(stream: _tensor.Stream | None) -> None:
        for order, _ in orders.values():
            order.wait()

    return order_run


__all__ = ["Binding", "InPlace", "InvalidState", "Outputs", "REUSE", "Reuse", "ShapeError", "in_place"]
