"""Tensors, streams, events."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core, _dtypes
from ._errors import DeviceError, DTypeError, Error, InvalidArgument, InvalidState, NotSupported, ShapeError
from ._order import CUDA, VDEV, put_behind
from ._runtime import DeviceSpec
from ._runtime import device as find_device
from ._runtime import place as find_place
from ._runtime import runtime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._external import Semaphore

HOST = 1, 0  # DLPack's numbers of the type of device and of the device

# What to do with an array that has gaps.
COPY_IT = "numpy.ascontiguousarray copies it"
SHARE_DENSE = "its memory is shared, and a dense copy is other memory: make the array dense before it is used"
RESULT_TO_DENSE = ("results written to a copy do not reach it: bind \"cpu\", or a dense array, and after each run "
                   "array[...] = out[name].numpy()")


class Difference(NamedTuple):
    """How a tensor differs from its reference."""

    beyond: int
    """elements that differ by more than they may"""
    first: int
    """the index of the first of them, counted through all dims"""
    absolute: float
    """the largest difference; infinity where only one of two elements is finite"""
    relative: float
    """the same as a part of the right one"""


class Stream(_core.Stream):
    """An ordered queue of copies and runs on a device. Calls that submit to it return at once; see docs/async.md. The end of a block
    `with stream:` blocks until all submitted work is complete, as synchronize() does."""

    def __new__(cls, device: DeviceSpec, options: Mapping[str, Any] | None = None) -> Stream:
        pairs = {key: str(value) for key, value in (options or {}).items()}
        return super().__new__(cls, find_device(device), list(pairs), list(pairs.values()))

    def __init__(self, device: DeviceSpec, options: Mapping[str, Any] | None = None) -> None:
        """device: the device whose work it orders. options: of the execution provider, for its stream. Raises NotFound, DeviceError,
        NotSupported (options on a device without its own streams), OutOfMemory, OrtError."""

    def __repr__(self) -> str:
        return f"<iobind.Stream{f' {self.native:#x}' if self.native else ''} on {self.device}>"

    @classmethod
    def wrap(cls, device: DeviceSpec, handle: int, owner: Any = None) -> Stream:
        """A stream of another library on `device`, by its handle (on CUDA a cudaStream_t). Work submitted here waits for all work that
        the library has previously submitted, and its later work waits for work submitted here; the host does not block. `owner` is
        retained as long as the handle is used. Raises NotSupported for a device without such streams, InvalidState while the stream is
        being captured, DeviceError."""
        target = find_device(device)
        return cls._wrap(target, _native_kind(target), handle, owner)

    def wait_native(self, handle: int) -> None:
        """Make all later work wait for another library's recorded event. handle: on CUDA a cudaEvent_t. Raises NotSupported for a device
        without such events, InvalidState, InvalidArgument, OrtError."""
        self._native_event(_native_kind(self.device), handle, False)

    def signal_native(self, handle: int) -> None:
        """Record another library's event at the current end of this stream. handle and errors: as for wait_native; raises NotSupported,
        InvalidState, InvalidArgument, OrtError."""
        self._native_event(_native_kind(self.device), handle, True)

    def wait_semaphore(self, semaphore: Semaphore, value: int) -> None:
        """Make all later work wait until the value of `semaphore` is `value` or more; the host does not block. If the value is never
        reached, the stream blocks forever; Event.wait() has a timeout. Raises NotSupported (a device without its own streams),
        DeviceError (another device's semaphore), InvalidArgument, TypeError, OrtError."""
        _semaphore(semaphore)._order(self, _value(value), False)

    def signal_semaphore(self, semaphore: Semaphore, value: int) -> None:
        """Set `semaphore` to `value`, which must be greater than its value by then, when this stream has completed all previously
        submitted work. If that work fails, the value may not change. Raises as wait_semaphore: NotSupported, DeviceError,
        InvalidArgument, TypeError, OrtError."""
        _semaphore(semaphore)._order(self, _value(value), True)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(*(() if error is None else (Error,))):  # the block's own exception goes on
            self.synchronize()

    def record(self) -> Event:
        """A new event, recorded at the current end of the stream. Raises OutOfMemory, OrtError."""
        event = Event(self.device)
        event.record(self)
        return event


def _semaphore(given: object) -> _core.Semaphore:
    if not isinstance(given, _core.Semaphore):
        raise TypeError(f"expected an iobind.Semaphore, got {given!r:.60}")
    return given


def _value(given: int) -> int:
    if not 0 <= operator.index(given) < 1 << 64:
        raise InvalidArgument(f"semaphore: value: expected a number of 64 bits, got {given}")
    return given


def _native_kind(device: _core.Device) -> int:
    """The kind of native handles that the device accepts: iobind_native_kind."""
    kind = {"CUDAExecutionProvider": CUDA, "VirtualDeviceExecutionProvider": VDEV}.get(device.ep_name)
    if kind is None:
        raise NotSupported(f"stream: {device} takes no streams of other libraries")
    return kind


class Event(_core.Event):
    """A point in a stream for which others can wait. Waiting for an unrecorded event is a no-op."""

    def __new__(cls, device: DeviceSpec) -> Event:
        return super().__new__(cls, find_device(device))

    def __init__(self, device: DeviceSpec) -> None:
        """device: the device whose streams record it. Raises NotFound, DeviceError, OutOfMemory."""


class Tensor(_core.Tensor):
    """Typed, shaped memory on a device or on the host, created by tensor(), empty(), wrap(), from_dlpack() and by runs."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The NumPy dtype. Packed elements of less than a byte appear as bytes; `dtype_name` has their type."""
        return _dtypes.numpy_dtype(self.dtype_code)

    @property
    def dtype_name(self) -> str:
        """The element type's name, such as "float32", "bfloat16" or "int4"."""
        return _core.dtype_name(self.dtype_code)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a scalar tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("a tensor has no truth value: use the array of numpy()")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, str):
            return NotImplemented
        raise TypeError("tensors cannot be compared, because that may need a copy to the host: compare their arrays, numpy()")

    __hash__ = _core.Tensor.__hash__

    def __repr__(self) -> str:
        pinned = "/pinned" if self.memory else ""
        return f"<iobind.Tensor {self.dtype_name}{list(self.shape)} on {self.device}{pinned}>"

    def __getitem__(self, key: int | slice) -> Tensor:
        """A part of the leading axis, without a copy: t[2:5] or, with one entry, t[3]. Raises ShapeError, IndexError, TypeError,
        NotSupported (a step, several axes, a device without addresses)."""
        if not self.shape:
            raise ShapeError("tensor: a scalar has no axis to slice")
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise NotSupported(f"tensor: expected a range of the leading axis without gaps, got a step of {step}")
            return self._slice(start, max(stop - start, 0))
        if isinstance(key, tuple):
            raise NotSupported("tensor: expected one index or range, of the leading axis: use numpy() for more")
        index = operator.index(key)
        if not -self.shape[0] <= index < self.shape[0]:
            raise IndexError(f"tensor: index {index} for an axis of {self.shape[0]}")
        return self._slice(index % self.shape[0], 1).reshape(self.shape[1:])

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def reshape(self, *shape: Any) -> Tensor:
        """The same memory with another shape: dims or a list of them; one may be -1. Raises InvalidArgument if the number of elements
        differs."""
        dims = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        if dims.count(-1) == 1:
            rest = -math.prod(dims)
            dims[dims.index(-1)] = self.size // rest if rest else 0
        if math.prod(dims) != self.size:
            raise InvalidArgument(f"reshape: expected {self.size} elements, got {dims}")
        return self._view(0, self.dtype_code, dims)

    def view(self, dtype: Any, shape: Sequence[int], offset: int = 0) -> Tensor:
        """A part of the memory with another dtype and shape; `offset` in bytes. Retains this tensor's memory. Raises InvalidArgument for
        a part outside the memory, DTypeError, ShapeError, NotSupported (strings, a device without addresses)."""
        return self._view(offset, _dtypes.code_of(dtype), list(shape))

    def item(self) -> Any:
        """The only element, as Python's number or str; copied if it is on a device. Raises ShapeError unless there is exactly one
        element, OrtError."""
        if self.size != 1:
            raise ShapeError(f"item: expected a tensor of one element, got {list(self.shape)}")
        return self.numpy().reshape(-1).tolist()[0]

    def tolist(self) -> Any:
        """A copy of the elements, as Python's numbers or strings in lists of the tensor's shape. Raises OrtError."""
        return self.numpy().tolist()

    def write(self, array: Any, *, offset: int = 0, stream: Stream | None = None) -> None:
        """Copy host data into the tensor: an array of this dtype and, with offset 0, this shape; or an array of any size into the part
        from `offset` (in bytes) on. With a stream the value must be an array, not a list, and must not change until the stream has
        completed the copy. Strings are written completely, or not at all if one is invalid. Raises DTypeError, ShapeError,
        InvalidArgument, NotSupported (strings with an offset or a stream)."""
        is_text = self.dtype_code == _dtypes.STRING
        if is_text and (offset != 0 or stream is not None):
            raise NotSupported("write: strings are written all at once: expected no offset and no stream")
        if stream is not None:
            array = own_array(array, "write")
        data = host_array(array, self.dtype_code, "write")
        shape = (self.nbytes,) if self.dtype_code in _dtypes.PACKED else self.shape
        if offset == 0 and tuple(data.shape) != shape:
            raise ShapeError(f"write: expected {list(shape)}, got {list(data.shape)}")
        if not is_text:
            self._write_bytes(as_bytes(data), offset, stream)
            return
        for index, text in enumerate(data.ravel()):
            self._set_string(index, text)

    def read(self, out: NDArray[Any] | None = None, *, offset: int = 0, stream: Stream | None = None) -> NDArray[Any]:
        """Copy the data from `offset` (in bytes) on into a NumPy array: `out`, which determines the number of bytes, or a new array,
        which has this shape with offset 0 and is flat otherwise. With a stream, the bytes have arrived after a wait for an event that was
        recorded after the copy. Raises DTypeError, InvalidArgument (an array with gaps, a part outside the tensor), DeviceError (another
        device's stream), NotSupported (strings with `out`, an offset or a stream), OrtError."""
        import numpy

        if self.dtype_code == _dtypes.STRING and (out is not None or offset != 0 or stream is not None):
            raise NotSupported("read: strings are returned in a new array: expected no out, no offset and no stream")
        if out is None:
            if stream is not None:
                raise InvalidArgument("read: with a stream, `out` is required: the array to which the data are copied")
            return self._copy_to_host() if not offset else self.view(
                self.dtype_code, [(self.nbytes - offset) * 8 // _core.dtype_bits(self.dtype_code)], offset)._copy_to_host()
        if not isinstance(out, numpy.ndarray) or not out.flags.c_contiguous or not out.flags.writeable:
            raise InvalidArgument("read: out: expected a dense, writable NumPy array; for one with gaps, out[...] = tensor.read()")
        if _dtypes.numpy_dtype(self.dtype_code) != out.dtype:
            raise DTypeError(f"read: expected an array of {self.dtype_name}, got {out.dtype}")
        if stream is None or out.nbytes == 0 or offset < 0 or offset + out.nbytes > self.nbytes:  # the last two are refused
            self._read_bytes(as_bytes(out), offset, stream)
        else:
            self._read_on(stream, out, offset)
        return out

    def _read_on(self, stream: Stream, out: NDArray[Any], offset: int) -> None:
        """A copy between tensors retains the array until the bytes have arrived, even if the program drops it earlier."""
        try:
            source = self if out.nbytes == self.nbytes else self._view(offset, _dtypes.BY_NAME["uint8"], [out.nbytes])
        except NotSupported:  # no part of this memory is a tensor
            self._read_bytes(as_bytes(out), offset, stream)
            stream.record().wait()
            return
        _core.copy([source], [_core.wrap(find_device("cpu"), 0, source.dtype_code, list(source.shape), as_bytes(out), True)], stream)

    def _view_on_host(self) -> NDArray[Any]:
        """numpy() for element types that have no name in the buffer protocol; their bytes have one."""
        packed = self.dtype_code in _dtypes.PACKED
        data = self._view(0, _dtypes.BY_NAME["uint8"], [self.nbytes]).numpy()
        return data if packed else data.view(_dtypes.numpy_dtype(self.dtype_code)).reshape(self.shape)

    def _copy_to_host(self) -> NDArray[Any]:
        import numpy

        if self.dtype_code == _dtypes.STRING:
            texts = numpy.empty(self.size, object)
            texts[:] = [self._get_string(index) for index in range(self.size)]
            return texts.reshape(self.shape)
        packed = self.dtype_code in _dtypes.PACKED
        array = numpy.empty((self.nbytes,) if packed else self.shape, _dtypes.numpy_dtype(self.dtype_code))
        self._read_bytes(as_bytes(array), 0, None)
        return array

    def to(self, device: DeviceSpec, *, stream: Stream | None = None) -> Tensor:
        """The tensor on another device, as a copy of the same shape and type; the tensor itself if it is already there. device: "cpu",
        "cuda:0", "vdev/pinned" ... stream: the call returns when the copy is submitted to the stream. Raises NotFound, DeviceError,
        NotSupported (strings), OutOfMemory, OrtError."""
        target, memory = find_place(device)
        if target == self.device and memory == self.memory:
            return self
        made = _core.create(target, memory, self.dtype_code, self.shape)
        _core.copy([self], [made], stream)
        return made

    def copy(self, *, stream: Stream | None = None) -> Tensor:
        """A copy on the same device, of the same shape. stream: the call returns when the copy is submitted to the stream. Raises
        NotSupported (strings), OutOfMemory, DeviceError (another device's stream), OrtError."""
        made = _core.create(self.device, self.memory, self.dtype_code, self.shape)
        _core.copy([self], [made], stream)
        return made

    def copy_from(self, source: Tensor, *, stream: Stream | None = None) -> None:
        """Copy the content of `source`, of the same shape and type, between any two memory locations. stream: the call returns when the
        copy is submitted to the stream. Raises DTypeError, ShapeError, InvalidArgument (overlap), NotSupported (strings), DeviceError."""
        _core.copy([source], [self], stream)

    def compare(self, right: Any, *, absolute: float | None = None, relative: float | None = None) -> Difference:
        """How this tensor differs from `right`, a Tensor or an array of the same shape and type; data on a device are copied to the host.
        An element of a floating-point type may differ by absolute + relative * |right|; elements of other types must be equal. By default
        the limits depend on the type, for float32 1e-4 and 1e-3. NaN equals NaN. Raises DTypeError, ShapeError, InvalidArgument,
        OrtError."""
        limits = None if absolute is None and relative is None else (float(absolute or 0), float(relative or 0))
        given = right if isinstance(right, Tensor) else tensor_over(right, False, "compare")
        one, other = (tensor if tensor.host_readable or tensor.dtype_code == _dtypes.STRING else tensor.to("cpu") for tensor in (self, given))
        return Difference(*one._compare(other, limits))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if not self.host_readable and self.dtype_code != _dtypes.STRING:
            raise TypeError(f"the tensor is on {self.device}: NumPy cannot read it there; numpy() copies it to the host")
        if copy is False and not self.host_readable:
            raise ValueError("a tensor of strings cannot be an array without a copy")
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"a tensor of {self.dtype_name} cannot be an array of {dtype} without a copy")
        return array.astype(dtype)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        """A DLPack capsule, without a copy unless one is requested.

        stream: the consumer's stream, by the array API's numbers: on CUDA 1 for the legacy default stream, 2 for that of the thread,
        otherwise a cudaStream_t; on the virtual accelerator a vdev_stream *. The consumer's later work on it waits for the runs and
        copies on iobind's streams that write the tensor; the host does not block. None: the call blocks until they are complete. -1: the
        consumer orders its work itself. max_version: the newest DLPack version that the consumer supports; None: the struct before 1.0.
        dl_device: the device that the consumer wants: the tensor's, or the host, (1, 0), which requires copy=True if the tensor is not
        there. copy: True: a copy of the same shape; otherwise never a copy. Raises InvalidArgument for a stream that the device does not
        have, BufferError for tensors that DLPack cannot represent, such as strings, and OutOfMemory, OrtError of the copy."""
        here = self.__dlpack_device__()
        target = here if dl_device is None else tuple(dl_device)
        if target != here and target != HOST:
            raise BufferError(f"__dlpack__: the tensor is on {self.device}: to() copies it to another device")
        if target != here and not copy:
            raise BufferError(f"__dlpack__: the tensor is on {self.device}: copy=True, or to('cpu'), copies it to the host")
        self._order_consumer(None if copy and stream != -1 else stream)
        source = self if not copy else self.copy() if target == here else self.to("cpu")
        return source._to_dlpack(max_version is None or max_version[0] < 1, bool(copy))

    def _order_consumer(self, stream: Any) -> None:
        if stream is not None and (not isinstance(stream, int) or stream < -1):
            raise InvalidArgument(f"__dlpack__: stream: expected None, -1 or a stream's number, got {stream!r}")
        kind = {2: CUDA, 3: CUDA, 12: VDEV}.get(self.__dlpack_device__()[0])
        if stream not in (None, -1) and (kind is None or stream == 0 or (kind == VDEV and stream <= 2)):
            raise InvalidArgument(f"__dlpack__: stream: {self.device} has no stream {stream}: expected "
                                  + ("None or -1" if kind is None else "None, -1 or a stream's handle" if kind == VDEV else
                                     "None, -1, 1 for the legacy default stream, 2 for that of the thread, or a cudaStream_t"))
        if stream == -1:
            return
        if stream is None:
            self._settle()
            return
        for writer in self._writers():
            if kind is None or writer.native <= 2:  # 2 and less: a default stream that was wrapped
                writer.record().wait()
            elif writer.native != stream:
                put_behind(kind, stream, writer)

    def _settle(self) -> None:
        """Block until all work that writes the tensor is complete."""
        for writer in self._writers():
            writer.record().wait()
        self._await(None)
        if self.dtype_code != _dtypes.STRING:
            self._synchronize()
        self._forget_writers()


class Live:
    """The result of live(): an input whose `array` is read again before each run, with the dims with which it was bound."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        shape = getattr(self.array, "shape", None)
        return f"<iobind.Live {type(self.array).__name__}{'' if shape is None else list(shape)}>"


def live(array: Any) -> Live:
    """Bind data that each run reads when it begins, not when they are bound: b["x"] = iobind.live(a). The dims cannot change. array: a
    NumPy array or a buffer, not of strings; a Tensor; or a device tensor of another library, after whose producer each run is ordered. If
    the session can read the memory, it is not copied: an array must not be written during a run, and Tensor.write waits for the run.
    Otherwise each run copies it. A value that NumPy would have to copy to an array is refused when it is bound."""
    return Live(array)


def as_bytes(array: Any) -> Any:
    """A dense array as bytes: the buffer protocol has no names for some dtypes."""
    import numpy

    return array.reshape(-1).view(numpy.uint8) if array.size else numpy.empty(0, numpy.uint8)


def own_array(value: Any, what: str) -> Any:
    """The array over the memory of `value` itself. If NumPy must convert the value, the array has other memory: writes to it would be
    lost, and new data would not be read."""
    import numpy

    if isinstance(value, (numpy.ndarray, _core.Tensor)):
        return numpy.asarray(value)
    if _has_array(value, what) and not is_on_device(value):
        array = _array_of(value, what)
        if array.size == 0 or numpy.may_share_memory(array, _array_of(value, what)):  # each copy would lie elsewhere
            return array
    raise _not_an_array(value, what)


def host_array(value: Any, code: int, what: str, *, densify: bool = False, advice: str = COPY_IT) -> Any:
    """A dense NumPy array of an element type. Python's numbers and lists are converted. An array of another type, or (unless densify)
    with gaps, is refused with `advice`, because a hidden copy costs time in each call."""
    import numpy

    if code == 0:
        raise NotSupported(f"{what}: the input is not a tensor of a type that can be bound")
    if code == _dtypes.STRING:
        return _texts(value, what)
    wanted = _dtypes.numpy_dtype(code)
    if not isinstance(value, numpy.ndarray) and not _has_array(value, what):
        return _converted(value, wanted, what)
    array = _array_of(value, what)
    if code in _dtypes.PACKED:
        if array.dtype != wanted:
            raise DTypeError(f"{what}: expected bytes of packed {_core.dtype_name(code)}, got {array.dtype}")
    elif array.dtype != wanted:
        raise DTypeError(f"{what}: expected {_core.dtype_name(code)}, got {array.dtype}: {_how_to_convert(array.dtype, wanted)}")
    if not array.flags.c_contiguous and not densify:
        raise ShapeError(f"{what}: expected a dense array, got one with strides {array.strides}: {advice}")
    return array if array.flags.c_contiguous else array.copy()


def _how_to_convert(found: Any, wanted: Any) -> str:
    """Advice for a conversion; any loss is mentioned."""
    if found.kind == "c":
        return "a complex number has two parts, and astype drops one: bind array.real, array.imag, or both, array.view(array.real.dtype)"
    if wanted.kind in "biu" and found.kind not in "biu":
        return f"numpy.rint(array).astype({str(wanted)!r}) rounds it, astype alone truncates fractions"
    return f"convert it, array.astype({str(wanted)!r})"


def _array_of(value: Any, what: str, dtype: Any = None) -> Any:
    """NumPy's array of a value; dtype: for Python's lists."""
    import numpy

    if isinstance(value, numpy.ndarray):
        return numpy.asarray(value)  # of a subclass, the base class's
    if _has_array(value, what):
        if is_on_device(value):
            raise _not_an_array(value, what)
        if not is_of_numpy(value):
            return from_dlpack(value).numpy()
        try:
            return numpy.asarray(memoryview(value) if isinstance(value, bytes) else value)  # NumPy takes bytes for a string
        except TypeError:
            if not is_foreign(value):
                raise
        return from_dlpack(value).numpy()  # PyTorch's bfloat16, which NumPy itself does not have
    try:
        return numpy.asarray(value, dtype)
    except ValueError:
        raise ShapeError(f"{what}: expected lists of one length at each depth, got {value!r:.60}") from None
    except (TypeError, OverflowError) as reason:
        raise DTypeError(f"{what}: expected numbers, got {value!r:.60}: {reason}") from None


def _converted(value: Any, wanted: Any, what: str) -> Any:
    """Python's numbers and lists as an array, if no number changes: NumPy would make 1 of 1.5, inf of 1e300, and a number of None. Only
    digits of a float that a smaller float cannot represent are rounded."""
    import numpy

    found = _array_of(value, what)
    try:
        with numpy.errstate(all="ignore"):
            made = found.astype(wanted) if _can_convert(found, wanted) else None
            if made is not None and _has_numbers(made, found, value):
                return made
    except (TypeError, ValueError, OverflowError):  # NumPy has no conversion
        pass
    raise DTypeError(f"{what}: expected numbers that {wanted} can represent, got {value!r:.60}")


def _can_convert(found: Any, wanted: Any) -> bool:
    """Whether the kinds of numbers allow a conversion. NumPy's kind of ml_dtypes' floats is V, and of very large ints O."""
    import numpy

    kinds = "biu" if wanted.kind in "biu" else "biufVOc" if wanted.kind == "c" else "biufVO"
    return found.size == 0 or (found.dtype.kind in kinds and found.dtype.type is not numpy.void)


def _has_numbers(made: Any, found: Any, value: Any) -> bool:
    """Whether `made` has the numbers of `found`, NumPy's array of `value`: no float became inf or nan, and integers are equal."""
    import numpy

    if made.dtype.kind in "biu" or found.size == 0:
        return bool((made == found).all())
    if made.dtype.kind == "c":
        return True  # ONNX Runtime has no such tensors, which the error says that comes later
    if found.dtype.kind == "O":
        return bool(made.astype(numpy.float64).tolist() == found.tolist())  # Python compares an int with a float exactly
    if found.dtype.kind in "biu":
        return bool((made.astype(found.dtype) == found).all())
    exact = {8: 2.0**53, 4: 2.0**24}.get(made.dtype.itemsize, 8.0)  # smaller whole numbers are in all floats of this size
    if found.dtype == made.dtype and made.dtype.itemsize < 8:
        return True
    before, after = found.astype(numpy.float64), made.astype(numpy.float64)
    if (numpy.isnan(before) != numpy.isnan(after)).any() or (numpy.isinf(before) != numpy.isinf(after)).any():
        return False
    if not (numpy.abs(before) >= exact).any():
        return True
    pairs = zip(numpy.asarray(value, object).ravel(), after.ravel().tolist())  # NumPy makes floats of ints among floats
    return all(not isinstance(one, (int, numpy.integer)) or int(one) == number for one, number in pairs)


def _texts(value: Any, what: str) -> Any:
    """An array of strings. All are checked here, so that an invalid one is found before any is written."""
    import numpy

    found = numpy.asarray(value, object) if isinstance(value, bytes) else _array_of(value, what, object)
    if found.dtype.kind not in "OUST":
        raise DTypeError(f"{what}: expected strings, got {found.dtype}")
    texts = found.astype(object)
    for index, text in enumerate(texts.ravel()):
        if not isinstance(text, str):
            raise DTypeError(f"{what}: element {index}: expected a str, got {type(text).__name__}")
        if "\0" in text or not _is_utf8(text):
            raise InvalidArgument(f"{what}: element {index}: expected a str of UTF-8 without NUL, got {text!r:.60}")
    return texts


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _has_array(value: Any, what: str) -> bool:
    """Whether the value provides an array to NumPy, rather than numbers to convert."""
    if is_of_numpy(value) or (is_foreign(value) and not is_on_device(value)):
        return True
    if hasattr(value, "__dlpack__"):
        raise _not_an_array(value, what)
    return False


def is_of_numpy(value: Any) -> bool:
    """Whether NumPy can make an array from it; from a tensor that supports only DLPack, NumPy makes an array of one object."""
    return hasattr(value, "__array__") or hasattr(value, "__array_interface__") or is_buffer(value)


def _not_an_array(value: Any, what: str) -> InvalidArgument:
    name = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    is_tensor = hasattr(value, "__dlpack__")
    advice = "; iobind.from_dlpack imports a device tensor" if is_tensor else ", which has no memory that can be shared"
    return InvalidArgument(f"{what}: expected a Tensor or an array, got {name}{advice}")


def is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def empty(shape: Sequence[int] | int, dtype: Any = "float32", device: DeviceSpec | None = "cpu") -> Tensor:
    """A tensor without content. shape: its dims, or a single dim. dtype: a name, or a dtype of NumPy or PyTorch. device: "cpu" (or None),
    "cuda:0", "vdev/pinned" (host memory that the device reads directly), a torch.device ... Raises NotFound, DeviceError, DTypeError,
    ShapeError, InvalidArgument, NotSupported, OutOfMemory."""
    target, memory = find_place("cpu" if device is None else device)
    return _core.create(target, memory, _dtypes.code_of(dtype), dims_of(shape))


def dims_of(shape: Sequence[int] | int) -> list[int]:
    """Dims, or a single dim."""
    try:
        return [operator.index(shape)]  # type: ignore[arg-type]
    except TypeError:
        return list(shape)  # type: ignore[arg-type]


def tensor(array: Any, device: DeviceSpec | None = "cpu", dtype: Any = None) -> Tensor:
    """A new tensor on `device` (None: the CPU) with a copy of an array, of the same shape. dtype: of the tensor; an array must have it,
    numbers and lists are converted to it if no number changes except by rounding. None: the array's dtype. Raises DTypeError, ShapeError
    (an array with gaps, lists of different lengths), InvalidArgument, NotFound, DeviceError, OutOfMemory."""
    if dtype is None:
        found = _array_of(array, "tensor")
        dtype = found.dtype
        array = array if dtype.kind in "SU" else found  # which have no NUL at the end of a string
    code = _dtypes.code_of(dtype, "tensor")
    data = host_array(array, code, "tensor")
    shape = [data.size * 8 // _core.dtype_bits(code)] if code in _dtypes.PACKED else data.shape
    made = empty(shape, code, device)
    made.write(data)
    return made


def wrap(array: Any, *, writable: bool = True) -> Tensor:
    """A host tensor over an array's own memory, of the same shape, without a copy; it retains the array. array: a NumPy array, or a
    buffer. writable=False: calls that would write the tensor are refused. Raises ShapeError for an array with gaps, InvalidArgument for a
    read-only array without writable=False and for a value without such memory, such as a list, DTypeError for strings and for numbers in
    another byte order."""
    return tensor_over(array, writable, "wrap")


def tensor_over(array: Any, writable: bool, what: str) -> Tensor:
    """wrap(), with `what` at the beginning of its error messages."""
    held = own_array(array, what)
    if not held.flags.c_contiguous:
        advice = SHARE_DENSE if what == "wrap" or not writable else RESULT_TO_DENSE
        raise ShapeError(f"{what}: expected a dense array, got one with strides {held.strides}: {advice}")
    if writable and not held.flags.writeable:
        advice = "; writable=False is for a tensor that is only read" if what == "wrap" else ""
        raise InvalidArgument(f"{what}: expected a writable array, got a read-only one{advice}")
    code = _dtypes.code_of(held.dtype, what)
    if code == _dtypes.STRING:
        raise DTypeError(f"{what}: strings cannot be wrapped: tensor() copies them")
    if not writable:
        return _core.wrap_read_only(runtime(), as_bytes(held))._view(0, code, list(held.shape))
    return _core.wrap(find_device("cpu"), 0, code, list(held.shape), as_bytes(held), True)


def wrap_address(address: int, shape: Sequence[int], dtype: Any, device: DeviceSpec, *, nbytes: int | None = None,
                 owner: Any = None) -> Tensor:
    """A tensor over the caller's memory on `device`, by its address (on a device without addresses: the handle of its execution
    provider). shape, dtype: of the data there. nbytes: the size of the memory in bytes; None: as many as the shape needs. `owner` is
    retained until the memory is no longer used. Raises NotFound, DeviceError, InvalidArgument (no address, too few bytes), DTypeError
    (strings), ShapeError, NotSupported."""
    target, memory = find_place(device)
    code = _dtypes.code_of(dtype)
    return _core.wrap_address(target, memory, code, list(shape), address,
                              _core.dtype_bytes(code, list(shape)) if nbytes is None else nbytes, owner)


def copy(sources: Sequence[Tensor], targets: Sequence[Tensor], *, stream: Stream | None = None) -> None:
    """Copy the tensors `sources` into `targets`, pair by pair, each of the same shape and type. Copies between the same two devices are
    submitted together. stream: the call returns when the copies are submitted to the stream. After a failure the content of the targets
    is undefined. Raises DTypeError, ShapeError, InvalidArgument (overlap, different numbers of tensors), NotSupported (strings),
    DeviceError."""
    _core.copy(list(sources), list(targets), stream)


def from_dlpack(source: Any, *, device: DeviceSpec | None = None, copy: bool | None = None, stream: Any = None) -> Tensor:
    """A tensor of the same shape over the memory of `source`, a tensor of another library (NumPy, JAX, CuPy, PyTorch) or a DLPack
    capsule, without a copy unless one is requested.

    device: where the tensor should be, "cpu", "cuda:0" ...; None: where the source is. copy: True: always a copy, which may be on another
    device; an array with gaps can be copied only to the host. Otherwise never a copy. By default the call blocks until the producer's
    data are complete. With stream, an iobind.Stream of the device, that stream waits for them instead, and a copy is submitted to it.
    Raises DeviceError for memory that no device of ORT has, or that is not on `device`, DTypeError, ShapeError (gaps), NotSupported,
    VersionError (DLPack 2), InvalidArgument (not a DLPack object, or already used), NotFound, OutOfMemory; and the producer's exceptions,
    such as BufferError."""
    target = None if device is None else find_place(device)
    taken, copied = _take(_capsule_of(source, stream), bool(copy))
    here = taken.device, taken.memory
    if target not in (None, here) and not copy:
        raise DeviceError(f"from_dlpack: the tensor is on {taken.device}: copy=True copies it to {device}")
    if not copy or (copied and target in (None, here)):
        return taken
    made = _core.create(*(target or here), taken.dtype_code, taken.shape)
    _core.copy([taken], [made], stream)
    return made


def _capsule_of(source: Any, stream: Any) -> Any:
    """A capsule whose content is complete for the host, or for work submitted to the stream."""
    if type(source).__name__ == "PyCapsule":
        return source
    if not hasattr(source, "__dlpack__"):
        raise InvalidArgument(f"from_dlpack: {type(source).__name__} has no __dlpack__")
    if not isinstance(source, _core.Tensor) and source.__dlpack_device__()[0] not in (1, 3):
        order = Order(source, stream)
        order.wait(on_host=stream is None)
        return order.capsule()
    try:
        return source.__dlpack__(max_version=(1, 1))
    except TypeError:  # from before DLPack 1.0
        return source.__dlpack__()


def _take(capsule: Any, copy: bool) -> tuple[Tensor, bool]:
    """The capsule's tensor, and whether it is a copy; dense tensors are not copied."""
    try:
        return _core.from_dlpack(runtime(), capsule, False), False
    except ShapeError:
        if not copy:
            raise
    return _core.from_dlpack(runtime(), capsule, True), True


def is_foreign(value: Any) -> bool:
    """Whether it is another library's tensor that supports DLPack, on the host or on a device; NumPy's arrays do not count."""
    import numpy

    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__") and not isinstance(value, (type, numpy.ndarray, _core.Tensor))


def is_on_device(value: Any) -> bool:
    """Whether it is a tensor in a device's memory that supports DLPack."""
    return hasattr(value, "__dlpack_device__") and not isinstance(value, type) and value.__dlpack_device__()[0] not in (1, 3, 11)


class Order:
    """A device tensor of another library, and the order of iobind's work after its producer's: in the array API a consumer names the
    stream that must wait."""

    def __init__(self, source: Any, stream: Stream | None = None) -> None:
        self.source = source
        self.stream = stream or Stream(device_of(*source.__dlpack_device__()))
        self.event = Event(self.stream.device)

    def capsule(self) -> Any:
        """The source's capsule; iobind's stream is ordered after all work that the producer has previously submitted."""
        native = self.stream.native
        try:
            return self.source.__dlpack__(stream=native or None, max_version=(1, 1))
        except TypeError:
            return self.source.__dlpack__(stream=native or None)

    def wait(self, *, on_host: bool = False) -> None:
        """Record the event after all work that the producer has previously submitted."""
        del_capsule = self.capsule()
        del del_capsule
        self.event.record(self.stream)
        if on_host:
            self.event.wait()


def device_of(kind: int, number: int) -> _core.Device:
    """The device of a DLPack device type and number."""
    names = {2: "CUDAExecutionProvider", 13: "CUDAExecutionProvider", 10: "MIGraphXExecutionProvider", 15: "WebGpuExecutionProvider",
             12: "VirtualDeviceExecutionProvider"}
    found = [device for device in runtime().devices() if device.ep_name == names.get(kind)]
    if number < len(found):
        return found[number]
    raise DeviceError(f"from_dlpack: no device of ONNX Runtime has memory of DLPack's device type {kind}, number {number}")


def foreign_stream(stream: Any) -> int | None:
    """The native stream of another library's object; None: it is not a stream."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return None


def synchronize_foreign(stream: Any) -> None:
    """Wait on the host for another library's stream."""
    if not callable(getattr(stream, "synchronize", None)):
        raise InvalidState("run: the stream has no synchronize(): wait for it before the run, or use an iobind.Stream")
    stream.synchronize()
