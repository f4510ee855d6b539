"""Bindings: a session's inputs and outputs bound to memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core, _dtypes, _tensor
from ._audit import Audit
from ._errors import InvalidArgument, InvalidState, NotFound, ShapeError
from ._runtime import place as find_place
from ._session import Session, as_host_tensor, run_options

RESIDENT, SNAPSHOT, LIVE = range(3)
FRESH_MODE, REUSE_MODE, FIXED_MODE, IN_PLACE_MODE, NONE_MODE = range(5)
CARRY_MODES = ["move", "swap", "in_place"]


class Reuse:
    """REUSE, or REUSE("cpu"), a device's name: memory of the first run there, overwritten by the next ones."""

    def __init__(self, device: str | _core.Device | None = None) -> None:
        self.device = device

    def __call__(self, device: str | _core.Device) -> Reuse:
        return Reuse(device)


REUSE = Reuse()


class InPlace:
    """in_place(tensor): an output is written into a tensor that may overlap an input."""

    def __init__(self, tensor: _tensor.Tensor) -> None:
        self.tensor = tensor


def in_place(tensor: _tensor.Tensor) -> InPlace:
    """Let an output be written into `tensor`, memory that an input has: only if the model's operators allow it, which nobody checks."""
    return InPlace(tensor)


class Outputs(_core.Outputs):
    """The outputs of a run, by name: out["y"] is a Tensor. Kept, they stay as they are: what is FRESH is fetched before the next run, but not
    of a run on a stream."""

    __slots__ = ()

    def keys(self) -> list[str]:
        """The outputs' names, in the model's order."""
        return [value.name for value in self._session().outputs]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def values(self) -> list[_tensor.Tensor]:
        """The outputs that are bound, in the model's order. Raises InvalidState for one that is not fetched, or that a
        later run has ended, and what the run failed with: OrtError, Cancelled."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, _tensor.Tensor]]:
        """Names and tensors. Raises InvalidState, OrtError, Cancelled as values() does."""
        return [(name, self[name]) for name in self.keys()]

    def __repr__(self) -> str:
        return f"<iobind.Outputs {', '.join(self.keys())}>"


class Binding(_core.Binding):
    """A session's inputs and outputs, bound to memory. One thread at a time; a session may have any number of bindings.

    b["x"] = array copies new data in, and may change open dims; b["x"] = tensor binds the tensor itself; both raise as bind().
    """

    def __new__(cls, session: Session) -> Binding:
        made = super().__new__(cls, session)
        made.session = session
        made._orders = {}
        made._tensors = {}
        made._carried = {}
        made._foreign = None
        made._pool = None
        made._inputs = {value.name: (index, value) for index, value in enumerate(session.inputs)}
        made._outputs = {value.name: (index, value) for index, value in enumerate(session.outputs)}
        return made

    def __init__(self, session: Session) -> None:
        """session: whose inputs and outputs are bound."""

    session: Session
    _orders: dict[int, tuple[_tensor.Order, Any]]
    _tensors: dict[int, _tensor.Tensor]
    """RESIDENT inputs that stay: not the first of the states that are carried to other memory"""
    _carried: dict[int, str]
    """inputs that have been carried, and how"""
    _foreign: tuple[int, _tensor.Stream] | None
    """the last stream of another library, and what it was wrapped as: to let go of it is to wait for it"""
    _pool: Any
    _inputs: dict[str, tuple[int, Any]]
    _outputs: dict[str, tuple[int, Any]]

    def bind(self, inputs: Mapping[str, Any] | None = None, *, outputs: Mapping[str, Any] | None = None,
             carry: Mapping[str, str] | None = None, carry_mode: str | None = None) -> None:
        """Bind several at once.

        inputs: {name: value}. An array is copied now, to where the session wants it (SNAPSHOT), and
        has dims that fit the model's; an iobind.Tensor, or a device
        tensor of another library by DLPack, is the input itself (RESIDENT), where the session wants it, and never copied;
        live(array) is read before each run. outputs: {name: a device spec ("cpu": each run's result comes there, FRESH), REUSE or
        REUSE("cpu"), a Tensor or array that is written into, in_place(tensor), None (not fetched)}. Those that are not named are
        FRESH where the session leaves them. carry: {output: input}: the output, which `outputs` does not name, is the next run's input;
        carry_mode: see carry(). What is bound before one of them is refused stays bound.
        Raises NotFound, DTypeError, ShapeError, DeviceError, InvalidArgument, InvalidState.
        """
        both = [name for name in carry or {} if name in (outputs or {})]
        if both:
            raise InvalidArgument(f"bind: {both[0]!r} is in carry and in outputs: expected one of them; a carried output stays where "
                                  "the next run reads it, and numpy() copies it to the host")
        for output, to in (carry or {}).items():
            self.carry(output, to, carry_mode)
        for name, value in (inputs or {}).items():
            self._assign(name, value)
        for name, value in (outputs or {}).items():
            self.set_output(name, value)

    def _input(self, name: str) -> tuple[int, Any]:
        found = self._inputs.get(name)
        if found is None:
            raise NotFound(f"binding: no input {name!r}; there are {', '.join(self._inputs)}")
        return found

    def _assign(self, name: str, value: Any) -> None:
        index, wanted = self._input(name)
        code = _dtypes.BY_NAME.get(wanted.dtype, 0)
        if isinstance(value, _tensor.Tensor):
            self._bind_tensor(index, value, None)
            return
        if isinstance(value, _tensor.Live):
            self._set_input(index, LIVE, as_host_tensor(value.array, code, f"bind: {name!r}"), None)
        elif not isinstance(value, _core.Tensor) and _tensor.is_on_device(value):
            order = _tensor.Order(value)
            tensor = _tensor.from_dlpack(value)
            self._set_input(index, RESIDENT, tensor, order.event)
            self._orders[index] = (order, tensor)
            self._use_order(_order_all(self._orders))
            return
        else:
            self._set_input(index, SNAPSHOT, as_host_tensor(value, code, f"bind: {name!r}"), None)
        self._forget(index)

    def _bind_tensor(self, index: int, tensor: _tensor.Tensor, event: _tensor.Event | None) -> None:
        self._set_input(index, RESIDENT, tensor, event)
        self._forget(index)
        if self._carried.get(index) in (None, "in_place"):
            self._tensors[index] = tensor

    def set_input(self, name: str, value: Any, *, event: _tensor.Event | None = None) -> None:
        """Bind an input as b[name] = value does. event: each run waits for it before it reads a tensor. Raises as bind(), and
        InvalidArgument for an event with anything but a tensor."""
        if event is None:
            self._assign(name, value)
            return
        if not isinstance(value, _tensor.Tensor):
            raise InvalidArgument("set_input: only a tensor is waited for: what is copied is there at once")
        self._bind_tensor(self._input(name)[0], value, event)

    def clear(self) -> None:
        """Unbind everything; outputs are FRESH again. Raises InvalidState while a run is under way."""
        super().clear()
        self._orders.clear()
        self._tensors.clear()
        self._carried.clear()
        self._use_order(None)

    def update(self, name: str, array: Any, *, stream: _tensor.Stream | None = None) -> None:
        """Copy new data, an array of the same dims, into the bound input `name`, behind the runs that are queued on `stream`. Raises
        NotFound, InvalidState (it is not bound), InvalidArgument (the wrong number of bytes), DTypeError, ShapeError (gaps),
        DeviceError (another device's stream)."""
        index, wanted = self._input(name)
        data = _tensor.host_array(array, _dtypes.BY_NAME[wanted.dtype], f"update: {name!r}")
        if index in self._tensors:
            self._tensors[index]._await(stream)
            self._tensors[index]._add_writer(stream)
        self._update_input(index, _tensor.as_bytes(data), stream)

    def set_output(self, name: str, value: Any) -> None:
        """Bind the output `name`; bind() has what its value may be. Raises NotFound, DTypeError, ShapeError, DeviceError, InvalidArgument,
        NotSupported, InvalidState."""
        if name not in self._outputs:
            raise NotFound(f"binding: no output {name!r}; there are {', '.join(self._outputs)}")
        index, wanted = self._outputs[name]
        if value is None:
            self._set_output(index, NONE_MODE, None, 0, None)
        elif isinstance(value, Reuse):
            device, memory = (None, 0) if value.device is None else find_place(value.device)
            self._set_output(index, REUSE_MODE, device, memory, None)
        elif isinstance(value, (str, _core.Device)):
            device, memory = find_place(value)
            self._set_output(index, FRESH_MODE, device, memory, None)
        elif isinstance(value, InPlace):
            self._set_output(index, IN_PLACE_MODE, None, 0, value.tensor)
        elif isinstance(value, _tensor.Tensor):
            self._set_output(index, FIXED_MODE, None, 0, value)
        else:
            self._set_output(index, FIXED_MODE, None, 0, _tensor.wrap(value))

    def fresh(self, name: str) -> None:
        """Leave the output `name` FRESH where the session leaves it, as it is in a new binding. Raises NotFound, InvalidState."""
        if name not in self._outputs:
            raise NotFound(f"binding: no output {name!r}; there are {', '.join(self._outputs)}")
        self._set_output(self._outputs[name][0], FRESH_MODE, None, 0, None)

    def carry(self, output: str, input: str, mode: str | None = None) -> None:
        """Let an output become an input of the next run: a state that never leaves the device. The first state is what is bound.

        mode: "swap" (two buffers of the state's shape: a run that makes another shape raises ShapeError), "move" (new memory in each
        run, of any shape) or "in_place" (one buffer, which only some operators allow: nobody checks). None: "swap" if the model says
        that both have the same shape, otherwise "move". Raises NotFound, InvalidArgument, DTypeError, ShapeError, InvalidState."""
        if output not in self._outputs:
            raise NotFound(f"carry: no output {output!r}; there are {', '.join(self._outputs)}")
        if mode not in (None, *CARRY_MODES):
            raise InvalidArgument(f"carry: mode: expected one of {', '.join(CARRY_MODES)}, got {mode!r}")
        to, wanted = self._input(input)
        number, given = self._outputs[output]
        stays = given.shape is not None and given.shape == wanted.shape and not {None, "?"} & set(given.shape)  # "?" is not a name
        mode = mode or ("swap" if stays else "move")
        self._carry(number, to, CARRY_MODES.index(mode))
        self._carried[to] = mode
        if mode != "in_place":
            self._tensors.pop(to, None)

    def take(self, name: str) -> _tensor.Tensor:
        """The output `name` of the last run, with that run's shape, which no later run overwrites, also one of REUSE, which gets new
        memory. Raises NotFound, InvalidState (no run has finished, or it was taken), DeviceError, and what the run failed with."""
        if name not in self._outputs:
            raise NotFound(f"take: no output {name!r}; there are {', '.join(self._outputs)}")
        return self._take(self._outputs[name][0])

    def set_run_options(self, config: Mapping[str, Any] | None = None, *, tag: str | None = None, log_level: int = 0) -> None:
        """For all later runs. config: ONNX Runtime's run entries, such as {"memory.enable_memory_arena_shrinkage": "gpu:0"}. tag: names
        the runs in its log. log_level: 1 verbose, 2 info, 3 warning, 4 error; 0: the default. Raises InvalidState while a run is
        under way, InvalidArgument."""
        self._set_run_options(*run_options(config, tag, log_level))

    def audit(self) -> Audit:
        """Which bytes move on each run, from where to where, and why: a table in a terminal, HTML in a notebook."""
        return Audit(*self._audit())

    # ---- order ----

    def _forget(self, index: int) -> None:
        self._tensors.pop(index, None)
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
        """As run(), without blocking the event loop; cancelling the task cancels the run. Raises as run(): InvalidState, ShapeError,
        DeviceError, Cancelled, OrtError."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1, "iobind")
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._pool, self.run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():  # the run may begin only after this
                self.cancel()
                await asyncio.wait([running], timeout=0.01)
            running.exception()  # it has been dealt with
            raise


def _order_all(orders: dict[int, tuple[_tensor.Order, Any]]) -> Any:
    """What orders a run behind the producers of its inputs; it does not hold the binding, which holds it."""

    def order_run(stream: _tensor.Stream | None) -> None:
        for order, _ in orders.values():
            order.wait()

    return order_run


__all__ = ["Binding", "InPlace", "InvalidState", "Outputs", "REUSE", "Reuse", "ShapeError", "in_place"]
