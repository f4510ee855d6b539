"""Sessions: a model on its devices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core, _dtypes, _tensor
from ._errors import DTypeError, InvalidArgument, NameNotFound, NotSupported, ShapeError
from ._ort_session import address_of
from ._runtime import DeviceSpec, is_device, require_file, runtime
from ._runtime import device as find_device
from ._runtime import place as find_place

if TYPE_CHECKING:
    from ._batch import Batch
    from ._binding import Binding
    from ._pipeline import Map
    from ._state import State

POLICIES = ["none", "default", "prefer_cpu", "prefer_npu", "prefer_gpu", "max_performance", "max_efficiency", "min_power"]
OPTIMIZATIONS = ["all", "none", "basic", "extended", "layout"]
KINDS = ["unknown", "tensor", "sequence", "map", "opaque", "sparse", "optional"]
STATE_KINDS = ["unknown", "recurrent", "growing", "window", "capacity"]


class Value(NamedTuple):
    """An input or output of a session: its shape in elements, element type, device and memory."""

    name: str
    """what it is bound by"""
    kind: str
    """"tensor", the one that can be bound, or "sequence", "map", "optional" ..."""
    dtype: str
    """the element type's name"""
    shape: tuple[int | str | None, ...] | None
    """a dim is a number, the name of an open one, or None; no shape at all: None"""
    device: _core.Device
    """where the session wants the input or leaves the output"""
    memory: int
    """of that device. 0: its own; 1: host memory that it reads directly"""
    memory_name: str
    """ONNX Runtime's name of that memory"""


class StateKind(NamedTuple):
    """The kind of a carried state, as found in the model's graph. For most graphs it is "unknown"."""

    kind: str
    """unknown, recurrent (GRU, LSTM, RNN), growing (each run appends to it), window (and drops its oldest part) or capacity (a cache of fixed
    size, whose lengths are other inputs)"""
    axis: int | None
    """of the length; None: not known, or no such kind"""


class Session(_core.Session):
    """A model on its devices. Bind inputs and outputs by bind(), or run once by run(). The end of a block `with session:` closes it."""

    def __new__(cls, model: str | os.PathLike[str] | bytes, device: DeviceSpec | Sequence[DeviceSpec] | None = None, *,
                ep_options: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None,
                dims: Mapping[str, int] | None = None, policy: str = "none", optimization: str = "all", threads: int = 0,
                inter_threads: int = 0, strict: bool = False, placement: bool = False, memory_reuse: bool = True,
                graphs: int = 0, profile: str | os.PathLike[str] | None = None, stream: Any = None,
                identify: bool = False, verify: int | tuple[int, float, float] = 0) -> Session:
        if policy not in POLICIES or optimization not in OPTIMIZATIONS:
            name, known, got = (("policy", POLICIES, policy) if policy not in POLICIES else
                                ("optimization", OPTIMIZATIONS, optimization))
            raise InvalidArgument(f"session: {name}: expected one of {', '.join(known)}, got {got!r}")
        if not is_device(device) and not isinstance(device, (Iterable, type(None))):
            raise InvalidArgument("session: device: expected a spec such as \"gpu,cpu\", an iobind.Device, or a list of them, "
                                  f"got {device!r:.60}")
        named: list[Any] = [device] if is_device(device) else list(device or ())  # type: ignore[arg-type]
        devices = [find_device(one) for one in named]
        of_ep, of_session = _texts(ep_options, "session: ep_options"), _texts(config, "session: config")
        of_dims = as_dict(dims, "session: dims")
        options: dict[str, Any] = {
            "devices": devices, "stream": None if stream is None else _stream_of(stream, devices),
            "flags": (1 if strict else 0) | (2 if placement else 0) | (0 if memory_reuse else 4) | (8 if identify else 0),
            "policy": POLICIES.index(policy), "optimization": OPTIMIZATIONS.index(optimization),
            "threads": threads, "inter_threads": inter_threads, "graphs": graphs,
            "ep_keys": list(of_ep), "ep_values": list(of_ep.values()),
            "config_keys": list(of_session), "config_values": list(of_session.values()),
            "dim_names": list(of_dims), "dim_values": list(of_dims.values()), "verify": _verified(verify)}
        if profile is not None:
            options["profile"] = as_path(profile, "session: profile")
        if isinstance(model, (str, os.PathLike)):
            path = as_path(model, "session: model")
            require_file(path, "session")
            return cls._make(runtime(), path, None, options)
        if not _tensor.is_buffer(model):
            advice = "; its SerializeToString() makes them" if hasattr(model, "SerializeToString") else ""
            raise InvalidArgument(f"session: model: expected a file, or the bytes of one, got {type(model).__name__}{advice}")
        return cls._make(runtime(), None, model, options)

    def __init__(self, model: str | os.PathLike[str] | bytes, device: DeviceSpec | Sequence[DeviceSpec] | None = None,
                 **options: Any) -> None:
        """model: a file, or the model's bytes. device: a spec such as "gpu,cpu", or devices in order of preference; None: the CPU. Nodes
        that no device takes run on the CPU, unless strict=True. policy: let ONNX Runtime choose the device, "prefer_gpu" and others.
        optimization: of the model's graph, "all", "none", "basic", "extended" or "layout". memory_reuse: let ONNX Runtime reuse buffers
        within a run. ep_options: options of the execution provider, {"cuda.gpu_mem_limit": 1 << 30}. config: ONNX Runtime's session
        config entries. dims: values for open dims of the model, by name. threads: of one operator; inter_threads: of concurrent
        operators; 0: ONNX Runtime's choice. placement: record which provider runs which node, for nodes() and audit(). graphs: capture
        runs as graphs, which later runs replay; at most so many for each binding (docs/graphs.md). profile: write ONNX Runtime's profile
        to files with this prefix. stream: an iobind.Stream, or another library's, such as a torch.cuda.Stream, on which the session
        computes: runs of all its bindings execute there one after another. verify: how many runs of each binding, and of each set of
        dims, the CPU repeats; a run whose outputs differ raises ResultError. (runs, absolute, relative) also sets how far an element may
        differ. 0: the value of the environment variable IOBIND_VERIFY. identify: hash a model that is given as bytes, so that states of
        the session can be kept in files; a model file is hashed when that is needed. Raises FileNotFound, NotFound (no such device or
        dim), FileError, OrtError (ONNX Runtime refuses the model or a device), DeviceError, NotSupported, InvalidArgument, OutOfMemory."""

    @classmethod
    def adopt(cls, session: Any, owner: Any = None) -> Session:
        """Share a session that other code has created with the same ONNX Runtime: an onnxruntime.InferenceSession, after
        attach(onnxruntime), or the address of an OrtSession. `owner`, or the InferenceSession, is retained until it is no longer used.
        Raises NotSupported for a session of another copy of ONNX Runtime, or if the session is not found in the InferenceSession;
        InvalidArgument, OrtError."""
        if hasattr(session, "_sess"):
            return cls._adopt(runtime(), address_of(session), (session._sess, owner))  # set_providers() makes another
        return cls._adopt(runtime(), session, owner)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<iobind.Session {'closed' if self._is_closed else signature(self)}>"

    @property
    def inputs(self) -> list[Value]:
        """The model's inputs, in its order."""
        return [_value(entry) for entry in self._values(False)]

    @property
    def outputs(self) -> list[Value]:
        """The model's outputs, in its order."""
        return [_value(entry) for entry in self._values(True)]

    def get_inputs(self) -> list[Value]:
        """As `inputs`, under onnxruntime's name."""
        return self.inputs

    def get_outputs(self) -> list[Value]:
        """As `outputs`, under onnxruntime's name."""
        return self.outputs

    def info(self) -> dict[str, Any]:
        """The model's description: opset, model_version, producer, graph_name, domain, description."""
        return self._info()

    def metadata(self) -> dict[str, str]:
        """The model's own metadata, such as labels or a vocabulary."""
        return self._metadata()

    def nodes(self) -> list[dict[str, str]]:
        """Which execution provider runs which node, for a session created with placement=True."""
        return self._nodes()

    def allocate(self, shape: Sequence[int] | int, dtype: Any = "float32", *, device: DeviceSpec) -> _tensor.Tensor:
        """A tensor without content in the session's own memory: on CUDA in its arena, which the option gpu_mem_limit limits, and which
        keeps freed memory for later tensors. shape and dtype: as for iobind.empty. device: one of the session's, such as "cuda". Raises
        DeviceError, NotFound, NotSupported (strings), OutOfMemory (also beyond the arena's limit), DTypeError, ShapeError,
        InvalidArgument."""
        target, memory = find_place(device)
        return self._create(target, memory, _dtypes.code_of(dtype), _tensor.dims_of(shape))

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: None = None) -> list[Any]:
        """Run once without a binding, as onnxruntime's InferenceSession.run: arrays in, a list of arrays out. All inputs and outputs
        cross the link in each run; bind() avoids that. output_names: the outputs, in that order; None: all. input_feed: {name: an array
        whose dims fit the model's}; an array that is not dense, such as a transposed one, is copied first. run_options: None; use
        Binding.set_run_options instead. Raises NameNotFound, InvalidArgument (an input is missing), DTypeError, ShapeError, DeviceError,
        NotSupported (run_options), Cancelled, OrtError."""
        if run_options is not None:
            raise NotSupported("run: run_options: expected None; a binding has them: s.bind(...).set_run_options(config, tag=, log_level=)")
        if isinstance(output_names, str):  # whose letters are names, too
            raise InvalidArgument(f"run: output_names: expected a list of names or None, got {output_names!r}")
        known = self._output_index
        for name in output_names or ():
            if name not in known:
                raise NameNotFound(f"run: no output {name!r}; there are {', '.join(known)}")
        results = self._run_arrays(input_feed)
        if results is NotImplemented:  # arrays that must be converted, and tensors
            results = [None if tensor is None else tensor.numpy() for tensor in self._run_tensors(self._feed(input_feed))]
        return [results[known[name]] for name in output_names] if output_names else results

    def _feed(self, given: Mapping[str, Any]) -> list[_tensor.Tensor]:
        """A tensor for each input."""
        if not hasattr(given, "items"):
            raise InvalidArgument(f"run: input_feed: expected a dict by name, got {given!r:.60}")
        inputs = {value.name: value for value in self.inputs}
        missing = [name for name in inputs if name not in given]
        if missing:
            raise InvalidArgument(f"run: input {missing[0]!r} is missing")
        for name in given:
            if name not in inputs:
                raise NameNotFound(f"run: no input {name!r}; there are {', '.join(inputs)}")
        for value in given.values():
            if isinstance(value, _tensor.Tensor):
                value._settle()
        return [as_host_tensor(given[name], _dtypes.BY_NAME.get(value.dtype, 0), f"run: {name!r}", densify=True)
                for name, value in inputs.items()]

    def bind(self, inputs: Mapping[str, Any] | None = None, *, outputs: Mapping[str, Any] | None = None,
             carry: Mapping[str, str] | None = None, carry_mode: str | None = None) -> Binding:
        """A new Binding, with inputs, outputs, carry and carry_mode as for Binding.bind. Raises the same exceptions: NotFound,
        DTypeError, ShapeError, DeviceError, InvalidArgument."""
        from ._binding import Binding

        made = Binding(self)
        made.bind(inputs, outputs=outputs, carry=carry, carry_mode=carry_mode)
        return made

    def batch(self, most_rows: int, *, states: Mapping[str, str] | None = None, axes: Mapping[str, int | None] | None = None,
              first: State | None = None, tolerance: float = 0.0, on_device: bool = False, rows: int = 16, longest: float = 0.001) -> Batch:
        """A new Batch: many independent sequences (callers, sentences, videos) as rows of one run, each with its own state.

        most_rows: the maximum number of rows. states: {output: the input to which it is carried in the row's next step}. axes: {name: the
        batch axis, or None} of each input and output; by default the named open dim that every input of rank 1 or more, and every output,
        has exactly once. first: the initial state of each row, from Row.save(), Binding.save() or load_state(); the default is zeros.
        tolerance: for the test that the model does not mix rows, as a fraction of the range of an output's values; 0: bit for bit.
        on_device: outputs stay in the session's output memory; by default those of all rows are copied to the host together. rows,
        longest: when to make a step of rows that tasks await, as for Batch.step; longest in seconds.

        Raises NameNotFound, InvalidArgument, ShapeError (no batch axis can be found: the message lists the candidates), DTypeError,
        NotSupported (strings, a packed type, a state that grows), OutOfMemory, OrtError."""
        from ._batch import Batch

        return Batch(self, most_rows, states=states, axes=axes, first=first, tolerance=tolerance, on_device=on_device, rows=rows, longest=longest)

    def state_kind(self, output: str, input: str) -> StateKind:
        """The kind of the state that is carried from `output` to `input`. The first call reads the graph from the model's file, without
        its weights. Raises NameNotFound, FileError (the file cannot be read, or has changed since the session was created), InvalidState
        (the session is closed), OutOfMemory."""
        return self._kind_of(self._number(output, self.outputs, "output"), self._number(input, self.inputs, "input"))

    def _kind_of(self, output: int, input: int) -> StateKind:
        kind, axis, _ = self._state_kind(output, input)
        return StateKind(STATE_KINDS[kind], axis)

    @staticmethod
    def _number(name: str, among: list[Value], what: str) -> int:
        for number, value in enumerate(among):
            if value.name == name:
                return number
        raise NameNotFound(f"state_kind: no {what} {name!r}; there are {', '.join(value.name for value in among)}")

    def load_state(self, path: str | os.PathLike[str]) -> State:
        """The state that State.save() wrote to the file `path`, in the memory from which the session reads its inputs, for
        Binding.restore(). The session that saved it must have had the same model, on any device. Raises FileNotFound; FileError for a
        file that cannot be read, is not a state, is truncated or damaged, or is of another model; VersionError (a newer iobind wrote it),
        NotSupported (the model is not known: identify=True), InvalidState (the session is closed), InvalidArgument, OutOfMemory,
        OrtError."""
        from ._state import State

        name = as_path(path, "load_state: path")
        require_file(name, "load_state")
        return State._load(self, name)

    def empty(self, name: str, /, **dims: int) -> _tensor.Tensor:
        """A tensor for an input, in the memory from which the session reads it. `dims` are values of its open dims: s.empty("past",
        length=0). Pass a dim whose name is not a Python identifier in a dict: s.empty("past", **{"past.length": 0}). Raises NameNotFound
        for an unknown input or dim, ShapeError for an open dim without a value, OutOfMemory."""
        value = next((value for value in self.inputs if value.name == name), None)
        if value is None:
            raise NameNotFound(f"empty: no input {name!r}; there are {', '.join(one.name for one in self.inputs)}")
        if value.shape is None:
            raise ShapeError(f"empty: {name!r} has no shape: use iobind.empty")
        unknown = [dim for dim in dims if dim not in value.shape]
        if unknown:
            raise NameNotFound(f"empty: {name!r} has no open dim {unknown[0]!r}; there are "
                           f"{', '.join(dim for dim in value.shape if isinstance(dim, str)) or 'none'}")
        shape = [dims.get(dim, -1) if isinstance(dim, str) else -1 if dim is None else dim for dim in value.shape]
        if -1 in shape:
            dim = value.shape[shape.index(-1)]
            advice = "an open dim has no name: use iobind.empty(shape, dtype, device)" if dim is None else f"give {dim}"
            raise ShapeError(f"empty: {name!r} is {list(value.shape)}: {advice}")
        return _core.create(value.device, value.memory, _dtypes.BY_NAME[value.dtype], shape)

    def map(self, items: Iterable[Any], *, slots: int = 3, constants: Mapping[str, Any] | None = None,
            outputs: Mapping[str, DeviceSpec | None] | None = None, stop: bool = False, times: bool = False,
            run_config: Mapping[str, Any] | None = None, run_tag: str | None = None, run_log_level: int = 0) -> Map:
        """Run the model over many items, whose copies and runs overlap, and iterate over the outputs of each by name, in order.

        items: dicts of inputs by name, or pairs (tag, dict); the results of pairs are pairs (tag, outputs). An input is an array, which
        is copied; or a tensor of iobind or, by DLPack, of another library. A tensor must be where the session reads it: it is read in
        place, and must not be written until the item's outputs were returned. It is read after all work that streams of iobind, or its
        producer, had submitted to write it; (tensor, event) sets another event. slots: items in flight, each with its own memory.
        constants: inputs that all items share, {name: an array, which is copied once, or a tensor, which is read in place}. outputs:
        {name: "cpu" (the default), the device on which the session leaves it (no copy), or None (not fetched)}. A failed item raises its
        exception in its turn; the exception's `item` has its number, `tag` its tag. next() then continues with the following item. An
        exception of `items` itself has neither, and ends the map.

        stop=True: the first failed item ends the map; later items are not returned, and not run if they have not begun. times=True:
        measure when each stage of an item ended, in nanoseconds; see `times` of the map. run_config, run_tag, run_log_level: options of
        all runs, as for Binding.set_run_options. Raises NotFound, DeviceError, DTypeError, ShapeError, InvalidArgument, NotSupported for
        all arguments except the items; next() raises the errors of an item."""
        from ._pipeline import Map

        return Map(self, items, slots, as_dict(constants, "map: constants"), as_dict(outputs, "map: outputs"), stop=stop, times=times,
                   run_options=run_options(run_config, run_tag, run_log_level))


def _verified(verify: int | tuple[int, float, float]) -> tuple[int, float, float]:
    given = verify if isinstance(verify, tuple) else (verify, 0.0, 0.0)
    if len(given) != 3 or not isinstance(given[0], int) or not 0 <= given[0] < 1 << 32:
        raise InvalidArgument(f"session: verify: expected a number of runs, or (runs, absolute, relative), got {verify!r:.60}")
    return given[0], float(given[1]), float(given[2])


def _stream_of(stream: Any, devices: list[_core.Device]) -> _core.Stream:
    """The stream itself; a stream of another library as one of the session's only device other than the CPU."""
    if isinstance(stream, _core.Stream):
        return stream
    handle = _tensor.foreign_stream(stream)
    accelerators = [device for device in devices if device.spec != "cpu"]
    if handle is None:
        raise InvalidArgument(f"session: stream: expected a stream, got {type(stream).__name__}: an iobind.Stream, or an object with "
                              "__cuda_stream__, cuda_stream or ptr")
    if len(accelerators) != 1:
        raise InvalidArgument(f"session: stream: expected one device in device=, the stream's, got {len(accelerators)}")
    return _tensor.Stream.wrap(accelerators[0], handle, stream)


def _value(entry: tuple[Any, ...]) -> Value:
    name, kind, dtype, shape, device, memory, memory_name = entry
    return Value(name, KINDS[kind], _core.dtype_name(dtype), shape, device, memory, memory_name)


def signature(session: Session) -> str:
    """A session's inputs, outputs and device: (x, y) -> (z) on cuda:0."""
    inputs, outputs = session.inputs, session.outputs
    devices = dict.fromkeys(str(value.device) for value in [*inputs, *outputs] if value.device is not None)
    taken, given = (", ".join(value.name for value in values) for values in (inputs, outputs))
    return f"({taken}) -> ({given}) on {', '.join(devices) or 'no device'}"


def _text(value: Any) -> str:
    return {True: "1", False: "0"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def as_dict(given: Any, what: str) -> Any:
    """The caller's values by name; None becomes an empty dict."""
    if given is not None and not hasattr(given, "items"):
        raise InvalidArgument(f"{what}: expected a dict by name, got {given!r:.60}")
    names = {} if given is None else given
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InvalidArgument(f"{what}: expected a dict by name, got {wrong[0]!r:.60} for a name")
    return names


def _texts(given: Mapping[str, Any] | None, what: str) -> dict[str, str]:
    return {name: _text(value) for name, value in as_dict(given, what).items()}


def as_path(given: Any, what: str) -> bytes:
    """A path's bytes, as the system uses them."""
    try:
        return os.fsencode(given)
    except (TypeError, UnicodeEncodeError) as reason:
        raise InvalidArgument(f"{what}: expected a path, got {given!r:.60}") from reason


def run_options(config: Mapping[str, Any] | None, tag: str | None, log_level: int) -> tuple[int, str | None, list[str], list[str]]:
    """Run options in the form that the C module takes."""
    entries = _texts(config, "run options: config")
    return log_level, tag, list(entries), list(entries.values())


def _foreign_tensor(value: Any, code: int, what: str, densify: bool) -> _tensor.Tensor:
    try:
        taken = _tensor.from_dlpack(value, copy=densify or None)
    except ShapeError:
        raise ShapeError(f"{what}: expected a dense tensor, got one with gaps: make it contiguous first") from None
    if taken.dtype_code != code:
        raise DTypeError(f"{what}: expected {_core.dtype_name(code)}, got {taken.dtype_name}: convert it first")
    return taken


def as_host_tensor(value: Any, code: int, what: str, *, densify: bool = False, advice: str = _tensor.COPY_IT) -> _tensor.Tensor:
    """A host tensor of the caller's value: over an array's own memory, or (densify) over a dense copy of an array with gaps, which is
    otherwise refused with `advice`."""
    if isinstance(value, _tensor.Tensor):
        return value
    by_dlpack = code in _dtypes.ML_NAMES or not _tensor.is_of_numpy(value)  # NumPy needs another package for the type
    if by_dlpack and _tensor.is_foreign(value) and not _tensor.is_on_device(value):
        return _foreign_tensor(value, code, what, densify)
    data = _tensor.host_array(value, code, what, densify=densify, advice=advice)
    if code == _dtypes.STRING:
        return _tensor.tensor(data, "cpu", code)
    shape = data.shape
    if code in _dtypes.PACKED:
        return _core.wrap(find_device("cpu"), 0, code, [data.size * 8 // _core.dtype_bits(code)], _tensor.as_bytes(data), False)
    return _core.wrap(find_device("cpu"), 0, code, list(shape), _tensor.as_bytes(data), False)
