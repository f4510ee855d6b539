"""Models over the rows of a Spark DataFrame, from Python (docs/spark.md).

    from iobind import spark as iob
    classify = iob.predictor(iob.SessionSpec("cls.onnx", device="cuda:{gpu}"), columns={"x": "pixels"}, keep=["id"])
    df.mapInArrow(classify.map_arrow, "id long, scores array<float>", profile=iob.gpu_profile())
    predict_batch_udf(classify, return_type=ArrayType(FloatType()), batch_size=64, input_tensor_shapes=[[3, 48, 192]])

Each Python worker that has a task of the job creates a session on first use, and keeps it for later tasks. The package must be installed
on the executors; the job itself provides pyspark and pyarrow."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _dtypes
from ._binding import Binding
from ._errors import DTypeError, InvalidArgument, InvalidState, NotFound, ShapeError
from ._session import Session, Value
from ._tensor import Tensor, live

KEPT = 3
"""maximum number of sessions that a Python worker keeps, as for Spark's predict_batch_udf; the least recently used one is closed"""
WAIT = 90.0
"""seconds that a worker waits until another worker closes its session: Spark ends a Python worker that was idle for 60"""


@dataclass(frozen=True)
class SessionSpec:
    """The description of a Spark job's session. It has only text and numbers, so that Spark can send it to its executors."""

    model: str | bytes
    """a file on each executor; the name of a file sent by `spark-submit --files` or SparkContext.addFile; or the model's bytes"""
    device: str = "cpu"
    """a device spec; {gpu} in it is the address of the resource `gpu` that Spark gave the task: "cuda:{gpu}" """
    threads: int = 1
    """threads of one operator: 1, because Spark runs a task for each core; 0: all cores"""
    sessions: int = 4
    """maximum number of Python workers of a machine with a session of this model on the same device other than the CPU, each with a copy of
    the weights; another worker waits, and fails after WAIT seconds; 0: no limit"""
    strict: bool = False
    """whether a node that the device does not run is an error"""
    ep_options: Mapping[str, Any] = field(default_factory=dict)
    """of the execution provider, as iobind.Session has them"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """ONNX Runtime's session entries"""
    dims: Mapping[str, int] = field(default_factory=dict)
    """values for open dims of the model, by name"""

    def task_device(self) -> str:
        """The device in this task, with the addresses of the task's resources filled in. Raises NotFound if it has no such resource."""
        if "{" not in self.device:
            return self.device
        from pyspark import TaskContext  # type: ignore[import-not-found]

        context = TaskContext.get()
        resources = {} if context is None else context.resources()
        try:
            return self.device.format_map({name: found.addresses[0] for name, found in resources.items()})
        except (KeyError, IndexError) as missing:
            raise NotFound(f"spark: {self.device!r}: the task has no resource {missing}, only {', '.join(resources) or 'cores'}: set "
                           "spark.task.resource.gpu.amount and spark.executor.resource.gpu.amount, or give the job gpu_profile()") from None


def predictor(spec: SessionSpec, *, columns: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None,
              keep: Sequence[str] = (), prepare: Mapping[str, Callable[[Any], Any]] | None = None, batch_size: int = 64) -> Predictor:
    """An object that runs a model over a DataFrame: pass it to predict_batch_udf, or its map_arrow to mapInArrow.

    spec: the model and its device. The other arguments are for mapInArrow. columns: {input: column}; default: the inputs' names. outputs:
    {column: output}; default: all outputs by their names. keep: columns that are passed on. prepare: {input: a function that makes the
    input from the column's values}; its argument is a read-only array over Arrow's own memory, of shape [rows, values of a row].
    batch_size: the maximum number of rows in a run. Raises InvalidArgument for a batch_size below 1."""
    if batch_size < 1:
        raise InvalidArgument(f"predictor: batch_size: expected 1 or more, got {batch_size}")
    return Predictor(spec, columns, outputs, tuple(keep), dict(prepare or {}), batch_size)


class Predictor:
    """A model for Spark's Python workers, created by predictor(). A call returns the function that predict_batch_udf needs. spec,
    columns, outputs, keep, prepare, batch_size: as for predictor(), which checks them."""

    def __init__(self, spec: SessionSpec, columns: Mapping[str, str] | None, outputs: Mapping[str, str] | None, keep: tuple[str, ...],
                 prepare: dict[str, Callable[[Any], Any]], batch_size: int) -> None:
        self.spec = spec
        self.columns = columns
        self.outputs = outputs
        self.keep = keep
        self.prepare = prepare
        self.batch_size = batch_size

    def __call__(self) -> Callable[..., Any]:
        """For predict_batch_udf: a function that takes an array for each input of the model, in its order, and returns the output, or a
        dict of outputs. Spark keeps the function for later tasks, which may have another device, so each call looks up the device. The
        function raises InvalidArgument for the wrong number of columns, and the exceptions of hold() and of a run."""

        def predict(*arrays: Any) -> Any:
            held = hold(self.spec)
            if len(arrays) != len(held.inputs):
                raise InvalidArgument(f"predict: the model has {len(held.inputs)} inputs ({', '.join(held.names)}), got {len(arrays)} "
                                      "columns")
            results = held.run(dict(zip(held.names, arrays)))
            return next(iter(results.values())) if len(results) == 1 else results

        return predict

    def map_arrow(self, batches: Iterator[Any]) -> Iterator[Any]:
        """For DataFrame.mapInArrow: returns result rows in the order of the rows. batches: an iterator over Arrow's record batches. The
        bytes of binary columns, and the values of arrays and numbers, are read in Arrow's memory. Raises ShapeError for a row of another
        size or a null, NotFound for an unknown column or output, DTypeError for a column of another type, and the exceptions of hold()
        and of a run."""
        import pyarrow  # type: ignore[import-not-found]

        held = hold(self.spec)
        columns = {name: (self.columns or {}).get(name, name) for name in held.names}
        outputs = self.outputs or {name: name for name in held.session_outputs}
        for column, name in outputs.items():
            if name not in held.session_outputs:
                raise NotFound(f"predictor: column {column!r}: no output {name!r}; there are {', '.join(held.session_outputs)}")
        before = 0  # rows of the partition
        for whole in batches:
            for first in range(0, whole.num_rows, self.batch_size):
                batch = whole.slice(first, self.batch_size)
                results = held.run({value.name: self._input(value, batch, columns[value.name], before + first) for value in held.inputs})
                made = {name: batch.column(_index(batch, name)) for name in self.keep}
                made.update((column, _column(results[name], batch.num_rows, name)) for column, name in outputs.items())
                yield pyarrow.RecordBatch.from_pydict(made)
            before += whole.num_rows

    def _input(self, value: Value, batch: Any, column: str, first: int) -> Any:
        rows = _rows(batch.column(_index(batch, column)), column, first)
        if value.name in self.prepare:
            return self.prepare[value.name](rows)
        wanted = _dtypes.numpy_dtype(_dtypes.BY_NAME[value.dtype])
        if rows.dtype == "uint8" and wanted != rows.dtype:  # bytes of another type
            if rows.shape[1] % wanted.itemsize:
                raise ShapeError(f"column {column!r}: expected a multiple of {wanted.itemsize} bytes for {value.dtype}, got {rows.shape[1]}")
            rows = rows.reshape(-1).view(wanted).reshape(len(rows), -1)
        dims = list(value.shape or [])[1:]
        open_dims = [number for number, dim in enumerate(dims) if not isinstance(dim, int)]
        if len(open_dims) > 1:
            raise ShapeError(f"column {column!r}: {value.name!r} is {list(value.shape or [])}: expected one open dim at "
                             "most: make the input by `prepare`")
        known = [-1 if number in open_dims else dim for number, dim in enumerate(dims)]
        try:
            return rows.reshape([len(rows), *known])
        except ValueError:
            raise ShapeError(f"column {column!r}: expected rows for {value.name!r}, {list(value.shape or [])}, "
                             f"got {rows.shape[1]} values in a row: make the input by `prepare`") from None


def _index(batch: Any, name: str) -> int:
    found = batch.schema.get_field_index(name)
    if found < 0:
        raise NotFound(f"predictor: no column {name!r}; there are {', '.join(batch.schema.names)}")
    return int(found)


def _first_null(values: Any) -> int:
    return int(values.is_null().to_numpy(zero_copy_only=False).argmax())


def _rows(column: Any, name: str, first: int = 0) -> Any:
    """A column's values as an array of [rows, values of a row], over Arrow's memory. first: the number of its first row in the partition."""
    import numpy
    import pyarrow

    kind = column.type
    if column.null_count:
        raise ShapeError(f"column {name!r}: row {first + _first_null(column)} is null")
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        offsets = column.offsets.to_numpy()
        whole = column.values.slice(offsets[0], offsets[-1] - offsets[0])
        if whole.null_count:
            place = int(offsets[0]) + _first_null(whole)
            row = int(numpy.searchsorted(offsets, place, "right")) - 1
            raise ShapeError(f"column {name!r}: row {first + row}: value {place - int(offsets[row])} is null")
        values = whole.to_numpy(zero_copy_only=True)
    elif pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        wide = numpy.int64 if pyarrow.types.is_large_binary(kind) else numpy.int32
        _, positions, data = column.buffers()
        offsets = numpy.frombuffer(positions, wide)[column.offset:column.offset + len(column) + 1]
        values = numpy.frombuffer(data or b"", numpy.uint8)[offsets[0]:offsets[-1]]
    elif pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        return column.to_numpy(zero_copy_only=True).reshape(len(column), 1)
    else:
        raise DTypeError(f"column {name!r}: expected binary, numbers or an array of numbers, got {kind}")
    sizes = numpy.diff(offsets)
    if (sizes != sizes[0]).any():
        odd = int((sizes != sizes[0]).argmax())
        raise ShapeError(f"column {name!r}: the rows of a run have one size: row {first} has {sizes[0]} values, "
                         f"row {first + odd} has {sizes[odd]}")
    rows = values.reshape(len(column), -1)
    rows.flags.writeable = False  # other columns and tasks may have the same memory
    return rows


def _column(array: Any, rows: int, name: str) -> Any:
    """An output as a column: a number for each row, or a list of numbers; more dims are flattened into one list."""
    import numpy
    import pyarrow

    if array.ndim == 0 or len(array) != rows:
        raise ShapeError(f"output {name!r}: expected {rows} rows, as the input has, got the shape {list(array.shape)}")
    if array.ndim == 1:
        return pyarrow.array(array)
    values = pyarrow.array(array.reshape(-1))
    return pyarrow.ListArray.from_arrays(numpy.arange(rows + 1, dtype=numpy.int32) * (len(values) // rows), values)


def _is_readable_in_place(array: Any) -> bool:
    """Whether live() accepts it: the result of `prepare` may be a list."""
    import numpy

    return isinstance(array, (numpy.ndarray, Tensor)) and array.dtype.kind not in "OUST"


# ---- sessions of this process ------------------------------------------------------------------------------------------

class Held:
    """A session of this Python worker, and a binding of it. spec: describes the session; device: the task's. Raises InvalidState if after
    90 seconds `sessions` other workers of the machine still have one, and the exceptions of iobind.Session: NotFound, DeviceError,
    OrtError."""

    def __init__(self, spec: SessionSpec, device: str) -> None:
        self._slot = None
        on_cpu = device.split(",")[0].strip() == "cpu"
        if spec.sessions and not on_cpu:
            self._slot = _take_slot(spec, device)
        try:
            self.session = Session(_find(spec.model), device=device, threads=spec.threads, strict=spec.strict, ep_options=spec.ep_options,
                                   config=spec.config, dims=spec.dims)
        except BaseException:
            self.close()
            raise
        self.inputs = self.session.inputs
        self.names = [value.name for value in self.inputs]
        self.session_outputs = [value.name for value in self.session.outputs]
        self._binding: Binding | None = None
        self._lock = threading.Lock()

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, as arrays. arrays: {input: an array whose dims fit the model's}. They are read in place, except strings:
        on the CPU by the model, otherwise by the copy to the device. Raises NotFound, DTypeError, ShapeError, OrtError."""
        with self._lock:
            if self._binding is None:
                self._binding = self.session.bind(outputs={name: "cpu" for name in self.session_outputs})
            for name, array in arrays.items():
                self._binding[name] = live(array) if _is_readable_in_place(array) else array
            results = self._binding.run()
            return {name: results[name].numpy() for name in self.session_outputs}

    def close(self) -> None:
        """Release the slot for other workers; the session is destroyed when it is no longer used."""
        self._binding = None
        if self._slot is not None:
            os.close(self._slot)
            self._slot = None


_held: OrderedDict[str, Held] = OrderedDict()
_holding = threading.RLock()


def hold(spec: SessionSpec) -> Held:
    """This worker's session of a spec on the task's device, created on first use. Raises as Held: InvalidState, NotFound, DeviceError,
    OrtError."""
    device = spec.task_device()
    key = _digest(spec, device)
    with _holding:
        found = _held.get(key)
        if found is None:
            while len(_held) >= KEPT:
                _held.popitem(last=False)[1].close()
            found = _held[key] = Held(spec, device)
        _held.move_to_end(key)
        return found


def release() -> None:
    """Release all sessions of this Python worker; the next task creates new ones."""
    with _holding:
        while _held:
            _held.popitem()[1].close()


def _digest(spec: SessionSpec, device: str) -> str:
    text = repr((spec.model, device, spec.threads, spec.strict, sorted(spec.ep_options.items()), sorted(spec.config.items()),
                 sorted(spec.dims.items())))
    return hashlib.sha256(text.encode()).hexdigest()


def _find(model: str | bytes) -> str | bytes:
    if isinstance(model, bytes) or os.path.exists(model):
        return model
    from pyspark import SparkFiles

    path = str(SparkFiles.get(os.path.basename(model)))
    if not os.path.exists(path):
        raise NotFound(f"spark: no file {model!r} on {os.uname().nodename}, nor among the job's files: spark-submit --files {model}")
    return path


def _take_slot(spec: SessionSpec, device: str) -> int:
    """A slot of the limited number of sessions of a model on a device that a machine's workers may have: a locked file, which the system
    unlocks when the process ends in any way."""
    stem = os.path.join(tempfile.gettempdir(), f"iobind-spark-{os.getuid()}-{_digest(spec, device)[:16]}")
    deadline = time.monotonic() + WAIT
    while True:
        for number in range(spec.sessions):
            slot = os.open(f"{stem}.{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return slot
            except BlockingIOError:
                os.close(slot)
        if time.monotonic() >= deadline:
            raise InvalidState(f"spark: {spec.sessions} Python workers of {os.uname().nodename} have a session of this model on {device!r} "
                               "already: give each task a part of a GPU (gpu_profile, spark.task.resource.gpu.amount), or raise `sessions`")
        time.sleep(0.1)


def gpu_profile(tasks_per_gpu: int = 1, *, gpus: int = 0, cores: int = 0, discovery_script: str = "", resource: str = "gpu") -> Any:
    """Spark's resource profile for mapInArrow(..., profile=): so many tasks share a GPU at a time.

    gpus: of an executor; 0: do not change the executors; only the tasks request GPUs, which needs no dynamic allocation. cores: of an
    executor. discovery_script: a program that prints an executor's GPUs, as spark.executor.resource.gpu.discoveryScript. resource:
    Spark's name of the GPUs. Raises InvalidArgument for tasks_per_gpu below 1, ImportError without pyspark."""
    from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests  # type: ignore[import-not-found]

    if tasks_per_gpu < 1:
        raise InvalidArgument(f"gpu_profile: tasks_per_gpu: expected 1 or more, got {tasks_per_gpu}")
    builder = ResourceProfileBuilder().require(TaskResourceRequests().cpus(1).resource(resource, 1 / tasks_per_gpu))
    if gpus:
        executors = ExecutorResourceRequests().resource(resource, gpus, discovery_script)
        builder = builder.require(executors.cores(cores) if cores else executors)
    return builder.build


__all__ = ["Held", "Predictor", "SessionSpec", "gpu_profile", "hold", "predictor", "release"]
