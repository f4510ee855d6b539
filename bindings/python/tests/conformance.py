"""The conformance rows of the C tests through this package: conformance.py DEVICE CASES AT_LEAST, or ALL_WRONG for AT_LEAST if no row may
pass. Exits as the C runner does: 0, 1, or 77 if the device is not there.

A step makes the call that a program makes. Where the package knows names only, an index that does not exist is a name that does not exist;
where it chooses a mode by what it is given, the mode is asked for by the method beneath it. WITHOUT lists the rows for which Python has no
way, each with its reason; all others must be interpreted, and must hold.
"""

import ctypes
import fnmatch
import os
import pathlib
import re
import sys
import threading
import weakref

import numpy

import iobind
from iobind import _core, _errors, _runtime
from rows import STRING, Mirror, Tensor, Wrong, make_model, numpy_dtype, parse_type, read_rows, reference, require, text_of, words_of
from state_steps import StateSteps

BUILD = pathlib.Path(iobind.__file__).parents[3]
INPUT_MODES = ["resident", "snapshot", "live"]
STOP, TIMES = 1, 2  # iobind_pipeline_flags
HOST_MEMORY, PINNED, ADDRESSABLE, STREAMS = 1, 2, 16, 32  # of what device.info() calls flags
FAULTS = ["fail_copy", "fail_compute", "fail_alloc", "fail_pinned"]
WITHOUT = {
    "view-outside/18446744073709551612:*": "an offset is a Py_ssize_t: Python raises OverflowError",
    "part-outside/*18446744073709551615*": "offsets and sizes are Py_ssize_t: Python raises OverflowError",
    "tensor-no-pinned-memory": "a place is a device's spec, which is found wrong by itself: DEVICE",
    "no-pinned-output": "a place is a device's spec, which is found wrong by itself: DEVICE",
    "string-has-no-bytes": "numpy() gives strings as objects",
    "look-as-another-type": "NumPy's array has the tensor's own dtype",
    "look-into-device-memory": "NumPy's protocol wants a TypeError; `check` sees that it comes",
    "take-after-a-change/get": "Outputs that a program holds keep what a run has left",
    "take-after-a-failed-run/get": "Outputs that a program holds keep what a run has left",
    "clear": "Outputs that a program holds keep what a run has left",
}
WITHOUT_ON = {"cuda": {"unbound-passthrough": "a race of ONNX Runtime's own: tests/vcuda/conformance.sh"}}


class Slot:
    """An input or output of a binding: what it must hold."""

    def __init__(self):
        self.value = self.place = None
        self.taken = self.due = False
        self.mode = "fresh"
        self.carried_to = None


class Bound:
    """A binding and its mirror."""

    def __init__(self, session, spec):
        self.session, self.spec = session, spec
        self.input_values, self.output_values = session.inputs, session.outputs
        self.handle = iobind.Binding(session)
        self.outputs_of_run = None
        self.empty()

    def empty(self):
        self.inputs = [Slot() for _ in self.input_values]
        self.outputs = [Slot() for _ in self.output_values]


class Line:
    """A pipeline, what its items were when they were submitted, and what it has lent."""

    def __init__(self, handle, bound, constants, times):
        self.handle, self.spec, self.outputs, self.constants, self.times = handle, bound.spec, bound.output_values, constants, times
        self.items, self.lent = [], []


def name_of(values, index):
    """The name at an index; the index itself, which is no name, if there is none."""
    return values[int(index)].name if 0 <= int(index) < len(values) else index


class World(StateSteps):
    """What the rows of a device stand on, and what the present one has made."""

    def __init__(self, device):
        self.device = iobind.device(device)
        self.host = iobind.device("cpu")
        self.sessions = {}
        self.fault_setter = self.find_faults(device)
        self.forget()

    def forget(self):
        self.tensors, self.bindings, self.streams, self.events, self.pipelines, self.wrapped, self.states = {}, {}, {}, {}, {}, {}, {}
        self.kept = []  # arrays that a stream reads or writes
        self.current = self.runner = self.cancelled = None
        self.expected = None  # (status, text) that the step's call must fail with
        self.settled = False
        self.step = ""

    def find_faults(self, device):
        if device.startswith("vdev"):
            return ctypes.CDLL(os.path.join(os.path.dirname(_runtime.library_path()), "libiobind_vdev.so")).vdev_set
        try:  # vcuda's library has it, NVIDIA's has not
            return ctypes.CDLL("libcudart.so.13", os.RTLD_NOW | os.RTLD_NOLOAD).vcuda_set if device.startswith("cuda") else None
        except (OSError, AttributeError):
            return None

    # ---- rows

    def play(self, row):
        """Plays a row; gives what the device lacks for it."""
        for need in row.needs:
            if need != "on-device" and not self.has(need):
                return f"the device has not: {need}"
        if row.model:
            session = self.session(row.model)
            if "on-device" in row.needs and not all((value.device, value.memory) == (self.device, 0) for value in
                                                    session.inputs + session.outputs):
                return "the device has not: on-device"
            self.current = self.bindings["main"] = Bound(session, row.model)
        for text in row.steps.split(";"):
            self.step, self.settled = text.strip(), False
            self.run(words_of(self.step))
        return None

    def end(self):
        """Gives all up that a row has made."""
        if self.runner is not None:
            while self.runner.is_alive():
                for bound in self.bindings.values():
                    bound.handle.cancel()
                self.runner.join(0.01)
        for setting in FAULTS if self.fault_setter else []:
            self.fault_setter(0, setting.encode(), b"0")
        streams = self.streams
        self.pipelines.clear()
        self.states.clear()
        self.forget()
        for stream in streams.values():
            try:
                stream.synchronize()
            except iobind.Error:
                pass  # the failure of a run that the row has told of

    def session(self, spec):
        if spec not in self.sessions:
            self.sessions[spec] = iobind.Session(make_model(BUILD, spec), device=self.device, identify=True)
        return self.sessions[spec]

    def has(self, need):
        if need == "in-c":  # steps that this interpreter has not
            return False
        if need == "faults":
            return self.fault_setter is not None
        if need.startswith("ort:1."):
            return int(iobind.info()["ort_version"].split(".")[1]) >= int(need[6:])
        if need.startswith("computes:"):
            return self.computes(need[9:])
        flags = {"link": (HOST_MEMORY, False), "host-memory": (HOST_MEMORY, True), "pinned": (PINNED, True), "no-pinned": (PINNED, False),
                 "addressable": (ADDRESSABLE, True), "no-addressable": (ADDRESSABLE, False), "streams": (STREAMS, True),
                 "no-streams": (STREAMS, False)}
        if need not in flags:
            raise Wrong(f"'{need}' is nothing that a row can need")
        flag, wanted = flags[need]
        return has_flag(self.device, flag) == wanted

    def computes(self, name):
        """Some devices take a session and say in its first run that they cannot."""
        try:
            self.session(f"scale dtype={name}").run(None, {"x": numpy.zeros(1, numpy_dtype(name))})
        except iobind.Error:
            return False
        return True

    # ---- steps

    def run(self, w):
        if w[0] == "fail":
            self.expected = (w[1], _errors.in_python(w[2]))
            self.run(w[4:])
            if not self.settled:
                raise Wrong("it makes no call that can fail")
            self.expected = None
        elif w[0] == "times":
            for _ in range(int(w[1])):
                self.run(w[3:])
        elif w[0] == "moves":
            before = self.device.counters()
            self.run(w[4:])
            after = self.device.counters()
            linked = self.has("link")
            for name, wanted in (("upload_bytes", w[1]), ("download_bytes", w[2])):
                require(name, int(wanted) if linked else 0, after[name] - before[name])
        else:
            step = getattr(self, "do_" + w[0].replace("-", "_"), None)
            if step is None:
                raise Wrong(f"no step '{w[0]}'")
            step(*w[1:])

    def settle(self, call, *arguments, **keywords):
        """Makes the step's call and compares its outcome with what the step expects: (what it gave,), or () if it failed as expected."""
        self.settled = True
        try:
            result = call(*arguments, **keywords)
        except iobind.Error as error:
            status, message = error.status, str(error)
            if not message.strip() or "\n" in message:
                raise Wrong(f"{status} without a line of text") from None
            if status == "RUNTIME" and error.ort_code == 0:
                raise Wrong("RUNTIME without ONNX Runtime's code") from None
            if self.expected is None or status != self.expected[0]:
                raise Wrong(f"expected {self.expected[0] if self.expected else 'OK'}, got {status}: {message}") from None
            word = self.expected[1]
            if word not in message and f"{word.lower()}()" not in message:  # a mode is a function in Python
                raise Wrong(f"the message does not say '{word}': {message}") from None
            return ()
        if self.expected is not None:
            raise Wrong(f"expected {self.expected[0]}, got OK")
        return (result,)

    # ---- words

    def tensor(self, name):
        if name not in self.tensors:
            raise Wrong(f"no tensor '{name}'")
        return self.tensors[name]

    def stream(self, name):
        if name is not None and name not in self.streams:
            raise Wrong(f"no stream '{name}'")
        return self.streams.get(name)

    def place(self, text):
        """A device and a kind of memory."""
        if text in ("host", "device", "pinned"):
            return (self.host, 0) if text == "host" else (self.device, int(text == "pinned"))
        side, _, index = text.partition(":")
        if side not in ("input", "output") or self.current is None:
            raise Wrong(f"'{text}' is not a place")
        value = (self.current.input_values if side == "input" else self.current.output_values)[int(index)]
        return value.device, value.memory

    # ---- tensors

    def do_create(self, name, kind, place):
        type_name, dims = parse_type(kind)
        at = self.place(place)
        for handle in self.settle(lambda: iobind.empty(dims, dtype_of(type_name), spec_of(at))):
            self.tensors[name] = Tensor(handle, Mirror(type_name, dims), at)

    def do_wrap(self, name, kind, place, size):
        type_name, dims = parse_type(kind)
        at = self.place(place)
        memory = numpy.zeros(int(size) + 16, numpy.uint8)
        freed = self.wrapped[name] = []
        weakref.finalize(memory, freed.append, 1)
        for handle in self.settle(iobind.wrap_address, memory.ctypes.data, dims, dtype_of(type_name), spec_of(at), nbytes=int(size), owner=memory):
            self.tensors[name] = Tensor(handle, Mirror(type_name, dims), at)

    def do_alias(self, name, kind, other, size=None):
        type_name, dims = parse_type(kind)
        of = self.tensor(other)
        for handle in self.settle(iobind.wrap_address, of.handle.address, dims, dtype_of(type_name), spec_of(of.place),
                                  nbytes=of.handle.nbytes if size is None else int(size)):
            self.tensors[name] = Tensor(handle, of.value.part(type_name, dims), of.place)

    def do_view(self, name, other, offset, kind):
        type_name, dims = parse_type(kind)
        of = self.tensor(other)
        for handle in self.settle(of.handle.view, dtype_of(type_name), dims, int(offset)):
            self.tensors[name] = Tensor(handle, of.value.part(type_name, dims, int(offset)), of.place)

    def do_slice(self, name, other, start, count):
        of, first, number = self.tensor(other), int(start), int(count)
        within = of.value.dims and 0 <= first and 0 <= number <= of.value.dims[0] - first
        call = (lambda: of.handle[first:first + number]) if within else (lambda: of.handle._slice(first, number))  # a range is cut otherwise
        for handle in self.settle(call):
            before = Mirror(of.value.name, [first, *of.value.dims[1:]], of.value.memory)
            self.tensors[name] = Tensor(handle, of.value.part(of.value.name, [number, *of.value.dims[1:]], before.nbytes), of.place)

    def do_retain(self, name, other):
        of = self.tensor(other)
        self.tensors[name] = Tensor(of.handle, of.value, of.place)

    def do_release(self, *names):
        for name in names:
            self.tensor(name)
            del self.tensors[name]

    def write(self, of, content, stream=None):
        data = of.value.array(content)
        self.kept.append(data)
        for _ in self.settle(of.handle.write, data, stream=stream):
            of.value.bytes[:] = content

    def do_fill(self, name, seed, stream=None):
        of = self.tensor(name)
        self.write(of, of.value.pattern(int(seed)), self.stream(stream))

    def do_set(self, name, numbers):
        of = self.tensor(name)
        self.write(of, Mirror.encode(of.value.name, [float(number) for number in numbers.split(",")]))

    def do_write(self, name, offset, size, seed, stream=None):
        of = self.tensor(name)
        content = ((int(seed) * 7 + numpy.arange(int(size))) % 100 + 1).astype(numpy.uint8)
        self.kept.append(content)
        for _ in self.settle(of.handle._write_bytes, content, int(offset), self.stream(stream)):
            of.value.bytes[int(offset):int(offset) + len(content)] = content

    def do_read(self, name, offset, size, stream=None):
        of, on, at = self.tensor(name), self.stream(stream), int(offset)
        content = numpy.empty(int(size), numpy.uint8)
        for _ in self.settle(of.handle._read_bytes, content, at, on):
            if on is not None:
                on.synchronize()
            self.compare(name, of.value.bytes[at:at + len(content)], content)

    def do_poke(self, name, seed):
        of = self.tensor(name)
        of.value.bytes[:] = of.value.pattern(int(seed))
        of.handle.numpy()[...] = of.value.array()

    def do_put_string(self, name, index, number):
        of = self.tensor(name)
        for _ in self.settle(of.handle._set_string, int(index), text_of(int(number))):
            of.value.bytes.view("<u4")[int(index)] = int(number)

    def do_get_string(self, name, index):
        of = self.tensor(name)
        for text in self.settle(of.handle._get_string, int(index)):
            require(f"{name}[{index}]", text_of(int(of.value.bytes.view("<u4")[int(index)])), text)

    def do_copy(self, *names):
        stream = None
        if len(names) > 2 and names[-2] == "on":
            stream, names = self.stream(names[-1]), names[:-2]
        pairs = [(self.tensor(source), self.tensor(target)) for source, target in zip(names[::2], names[1::2])]
        for _ in self.settle(iobind.copy, [source.handle for source, _ in pairs], [target.handle for _, target in pairs], stream=stream):
            for source, target in pairs:
                target.value.bytes[:] = source.value.bytes

    def do_check(self, *names):
        for name in names:
            self.check(name, self.tensor(name))

    def check(self, name, of):
        handle, value = of.handle, of.value
        require(name, value.text, f"{handle.dtype_name}[{','.join(map(str, handle.shape))}]")
        require(f"{name} is on", spec_of(of.place), spec_of((handle.device, handle.memory)))
        require(f"{name}.dtype", numpy_dtype(value.name), handle.dtype)
        readable = value.name != STRING and (of.place[1] == 1 or has_flag(of.place[0], HOST_MEMORY))
        require(f"{name}.host_readable", readable or value.name == STRING, handle.host_readable or value.name == STRING)
        if readable:
            self.compare(name, value.bytes, as_bytes(numpy.asarray(handle)))
        elif value.name != STRING:
            try:
                numpy.asarray(handle)
            except TypeError:
                pass
            else:
                raise Wrong(f"{name}: NumPy may look into device memory")
        got = handle.read()
        if value.name == STRING:
            require(name, value.array().tolist(), got.tolist())
        else:
            self.compare(name, value.bytes, as_bytes(got))

    @staticmethod
    def compare(name, wanted, got):
        require(f"{name}: bytes", len(wanted), len(got))
        differs = numpy.flatnonzero(wanted != got)
        if differs.size:
            at = differs[0]
            raise Wrong(f"{name}: byte {at} of {len(wanted)}: expected {wanted[at]}, got {got[at]}")

    def do_same(self, one, other):
        require("same address", True, self.tensor(one).handle.address == self.tensor(other).handle.address)

    def do_differ(self, one, other):
        require("same address", False, self.tensor(one).handle.address == self.tensor(other).handle.address)

    def do_data(self, name, kind):
        handle = self.tensor(name).handle
        for array in self.settle(lambda: numpy.asarray(handle)):
            require(name, numpy_dtype(parse_type(kind)[0]), array.dtype)
            require(f"{name}'s address", handle.address, array.ctypes.data)

    def do_freed(self, name, times):
        if name not in self.wrapped:
            raise Wrong(f"'{name}' is not a wrapped tensor")
        require("freed", int(times), len(self.wrapped[name]))

    # ---- sessions

    def do_open(self, name, *words):
        options, on = {"identify": True}, self.device
        rest = list(words)
        while rest[0].startswith("+"):
            word, _, value = rest.pop(0).partition(":")
            if word == "+cpu":
                on = ()
            elif word == "+dim":
                options["dims"] = {value.split("=")[0]: int(value.split("=")[1])}
            elif word == "+unknown":
                options["identify"] = False
            elif word in ("+strict", "+placement"):
                options[word[1:]] = True
            else:
                raise Wrong(f"{word} is not an option")
        spec = " ".join(rest)
        model = make_model(BUILD, spec)
        for session in self.settle(lambda: iobind.Session(model, device=on, **options)):
            self.current = self.bindings[name] = Bound(session, spec)

    def do_bind(self, name):
        self.current = self.bindings[name] = Bound(self.current.session, self.current.spec)

    def do_use(self, name):
        self.current = self.bindings[name]

    def do_drop_binding(self, name):
        self.bindings[name].handle = self.bindings[name].outputs_of_run = None
        if self.bindings[name] is self.current:
            self.current.session = None
        del self.bindings[name]

    def do_drop_session(self, name):
        self.bindings[name].session = self.bindings[name].handle.session = None

    def do_signature(self, side, index, name, kind=None):
        values = self.current.output_values if side == "output" else self.current.input_values
        if int(index) >= len(values):
            self.settle(self.current.handle.take if side == "output" else self.current.handle._input, index)
            return
        value = values[int(index)]
        got = value.kind
        if got == "tensor":
            dims = ["*"] if value.shape is None else ["?" if dim is None else str(dim) for dim in value.shape]
            got = f"{value.dtype}[{','.join(dims)}]"
        require("signature", (name, kind), (value.name, got))

    def do_find(self, side, name, index):
        values = self.current.output_values if side == "output" else self.current.input_values
        names = [value.name for value in values]
        if name in names:
            require("index", int(index), names.index(name))
        self.settle(lambda: None) if name in names else self.settle(
            self.current.handle.take if side == "output" else self.current.handle._input, name)

    # ---- bindings

    def do_input(self, index, mode, name, event=None):
        bound = self.current
        of = None if name == "null" else self.tensor(name)
        for _ in self.settle(self.set_input, index, mode, of, None if event is None else self.events[event]):
            for state in bound.outputs:
                if state.carried_to == int(index):
                    state.due = False
            bound.inputs[int(index)].value = of.value.copy() if mode == "snapshot" else of.value

    def set_input(self, index, mode, of, event):
        bound = self.current
        name = name_of(bound.input_values, index)
        plain = of is not None and of.handle.host_readable and name in bound.handle._inputs
        if mode == "resident" and of is not None:
            bound.handle.set_input(name, of.handle, event=event)
        elif mode == "live" and of is not None:
            bound.handle[name] = iobind.live(of.handle)
        elif mode == "snapshot" and plain and numpy_dtype(of.value.name) != numpy.uint8:
            bound.handle[name] = of.handle.numpy()
        else:
            self.raw_input(name, mode, of)

    def raw_input(self, name, mode, of):
        index = self.current.handle._input(name)[0]
        self.current.handle._set_input(index, INPUT_MODES.index(mode) if mode in INPUT_MODES else int(mode), of and of.handle, None)

    def advance(self):
        """What the last run left becomes the next one's input."""
        for state in self.current.outputs:
            if state.carried_to is not None and state.due:
                self.current.inputs[state.carried_to].value = state.value
                state.due = False

    def do_carry(self, output, to, mode):
        bound = self.current
        word = "move" if mode in ("default", "0") else mode.replace("-", "_")  # the module has no default; C's is MOVE without a cache
        for _ in self.settle(bound.handle.carry, name_of(bound.output_values, output), name_of(bound.input_values, to), word):
            self.advance()
            slot = bound.outputs[int(output)]
            slot.carried_to, slot.value, slot.taken = int(to), None, False
            slot.mode = "in-place" if word == "in_place" else "fresh"
            wanted = bound.input_values[int(to)]
            slot.place = (wanted.device, wanted.memory)

    def do_output(self, index, mode, where=None):
        bound = self.current
        takes_tensor = mode in ("fixed", "in-place")
        of = self.tensor(where) if takes_tensor and where != "null" else None
        place = self.place(where) if where is not None and not takes_tensor else None
        for _ in self.settle(self.set_output, index, mode, of, place):
            self.advance()
            slot = bound.outputs[int(index)]
            slot.carried_to, slot.mode, slot.taken = None, mode, False
            slot.place, slot.value = (of.place, of.value) if of else (place, None)

    def set_output(self, index, mode, of, place):
        handle = self.current.handle
        name = name_of(self.current.output_values, index)
        if of is not None:
            handle.set_output(name, iobind.in_place(of.handle) if mode == "in-place" else of.handle)
        elif mode in ("fresh", "none") and place is None:
            handle.fresh(name) if mode == "fresh" else handle.set_output(name, None)
        elif mode in ("fresh", "reuse"):
            spec = None if place is None else spec_of(place)
            handle.set_output(name, spec if mode == "fresh" else iobind.REUSE(spec) if spec else iobind.REUSE)
        elif mode in ("fixed", "in-place"):
            handle._set_output(int(index), None, int(mode == "in-place"))
        else:
            handle._place_output(int(index), 2 if mode == "none" else int(mode), None, 0)

    def do_update(self, index, seed, last=None):
        bound = self.current
        self.advance()
        known = int(index) < len(bound.inputs)
        value = bound.inputs[int(index)].value if known else None
        to = value or Mirror("float32", [1])
        content = to.pattern(int(seed))
        stream = None
        if last is not None and last.isdigit():
            content = numpy.resize(content, int(last))
            data = content.view("<f4")
        else:
            data, stream = to.array(content), self.stream(last)
        self.kept.append(data)
        for _ in self.settle(bound.handle.update, name_of(bound.input_values, index), data, stream=stream):
            value.bytes[:] = content

    def do_ready(self):
        self.settle(self.current.handle.check)

    def do_clear(self):
        for _ in self.settle(self.current.handle.clear):
            self.current.empty()

    def do_tag(self, text=None):
        self.settle(self.current.handle.set_run_options, tag=text)

    def compute(self):
        inputs = [slot.value for slot in self.current.inputs]
        if None in inputs:
            raise Wrong("the run succeeded without an input")
        return reference(self.current.spec, inputs)

    def do_run(self, stream=None, event=None):
        bound = self.current
        for outputs in self.settle(bound.handle.run, stream=self.stream(stream), event=None if event is None else self.events[event]):
            bound.outputs_of_run = outputs
            self.advance()
            for slot, computed in zip(bound.outputs, self.compute()):
                if slot.carried_to is not None and slot.mode == "in-place":
                    slot.value = bound.inputs[slot.carried_to].value
                self.apply(slot, computed)
                slot.due = slot.carried_to is not None

    @staticmethod
    def apply(slot, computed):
        """What the run must have left in an output."""
        same = slot.value is not None and slot.value.dims == computed.dims
        keeps = slot.mode in ("fixed", "in-place") or (slot.mode == "reuse" and same and not slot.taken)
        if keeps and not same:
            raise Wrong("the run succeeded with a FIXED output of another shape")
        if keeps:
            slot.value.bytes[:] = computed.bytes
        else:
            slot.value, slot.taken = computed, False

    def do_get(self, name, index):
        outputs = self.current.outputs_of_run
        fetch = self.current.handle.take if outputs is None else outputs.__getitem__  # without a run there are no Outputs to ask
        self.fetched(name, index, self.settle(fetch, name_of(self.current.output_values, index)))

    do_keep = do_get

    def do_take(self, name, index):
        got = self.settle(self.current.handle.take, name_of(self.current.output_values, index))
        self.fetched(name, index, got)
        if got:
            self.current.outputs[int(index)].taken = True

    def fetched(self, name, index, got):
        for handle in got:
            slot, value = self.current.outputs[int(index)], self.current.output_values[int(index)]
            if slot.value is None:
                raise Wrong("an output was given that no run has made")
            self.tensors[name] = Tensor(handle, slot.value, slot.place or (value.device, value.memory))

    def do_unbound(self, name):
        bound = self.current
        self.advance()
        feed = {value.name: slot.value.array() for value, slot in zip(bound.input_values, bound.inputs) if slot.value is not None}
        for results in self.settle(bound.session.run, None, feed):
            for number, (array, computed) in enumerate(zip(results, self.compute(), strict=True)):
                handle = iobind.tensor(array) if computed.name == STRING else iobind.wrap(array)
                self.tensors[f"{name}{number}"] = Tensor(handle, computed, (self.host, 0))

    # ---- pipelines

    def do_pipeline(self, name, *words):
        slots = flags = 0
        constants, tensors = {}, [None] * len(self.current.input_values)
        for word in words:
            key, _, value = word.partition("=")
            if key == "slots":
                slots = int(value)
            elif key.isdigit():
                constants[int(key)] = self.tensor(value).value
                tensors[int(key)] = self.tensor(value).handle
            else:
                flags |= {"stop": STOP, "times": TIMES}[key]
        for handle in self.settle(_core.Pipeline, session=self.current.session, slots=slots, flags=flags, constants=tensors if constants else None):
            self.pipelines[name] = Line(handle, self.current, constants, bool(flags & TIMES))

    def do_submit(self, name, *names):
        line = self.pipelines[name]
        given = [None if one == "null" else self.tensor(one) for one in names]
        for lent in line.lent:
            self.tensors = {key: of for key, of in self.tensors.items() if of is not lent}
        line.lent.clear()
        lent = None  # what is in flight may overwrite what is not held
        for _ in self.settle(line.handle.submit, [of and of.handle for of in given]):
            line.items.append([line.constants[index] if index in line.constants else of.value.copy() for index, of in enumerate(given)])

    def do_next(self, name, number, *names):
        line = self.pipelines[name]
        inputs = line.items.pop(0) if line.items else None
        for index, times, handles in self.settle(line.handle.next):
            require("item", int(number), index)
            ends = [end for end in times if end != 0]
            if times[0] == 0 or ends != sorted(ends) or (times[2] != 0) != line.times:
                raise Wrong(f"the item's times: {times}")
            for want, value, handle, computed in zip(names, line.outputs, handles, reference(line.spec, inputs)):
                if want != "-":
                    self.tensors[want] = Tensor(handle, computed, self.handed_over(value))
                    line.lent.append(self.tensors[want])

    def handed_over(self, value):
        """Where a pipeline hands an output over that the session leaves at a place."""
        if value.memory == 1 or has_flag(value.device, HOST_MEMORY):
            return value.device, value.memory
        return (self.device, 1) if self.has("pinned") else (self.host, 0)

    def do_drop_pipeline(self, name):
        del self.pipelines[name]

    def do_fault(self, setting, value):
        if setting not in FAULTS or self.fault_setter is None or self.fault_setter(0, setting.encode(), value.encode()) != 0:
            raise Wrong(f"'{setting} {value}' is not a fault")

    # ---- streams, events, a run in a thread

    def do_stream(self, name, place="device"):
        for self.streams[name] in self.settle(iobind.Stream, self.place(place)[0]):
            pass

    def do_event(self, name):
        for self.events[name] in self.settle(iobind.Event, self.device):
            pass

    def do_record(self, event, stream):
        self.settle(self.events[event].record, self.stream(stream))

    def do_await(self, stream, event):
        self.settle(self.stream(stream).wait, self.events[event])

    def do_sync(self, stream):
        self.settle(self.stream(stream).synchronize)

    def do_wait(self, event):
        self.settle(self.events[event].wait)

    def do_query(self, event, passed):
        for done in self.settle(self.events[event].query):
            require("passed", passed == "1", done)

    def do_start(self):
        bound, seen = self.current, threading.Event()
        self.failure = None

        def run():
            while True:
                try:
                    bound.handle.run()
                except iobind.InvalidState as error:
                    if not seen.is_set():
                        continue  # the other thread was looking
                    self.failure = error
                except iobind.Error as error:
                    self.failure = error
                return

        self.runner = threading.Thread(target=run)
        self.runner.start()
        while not seen.is_set():
            if not self.runner.is_alive():
                raise Wrong("the run was over before it was seen")
            try:
                bound.handle.check()
            except iobind.InvalidState:
                seen.set()

    def do_cancel(self):
        self.cancelled = self.current.handle if self.runner is not None else None
        self.settle(self.current.handle.cancel)

    def do_join(self):
        # The other thread may have called run() without being in ONNX Runtime yet: then cancel() had nothing to stop.
        while self.cancelled is not None and self.runner.is_alive():
            self.runner.join(0.05)
            self.cancelled.cancel()
        self.runner.join()
        self.runner = self.cancelled = None

        def outcome():
            if self.failure is not None:
                raise self.failure

        self.settle(outcome)


def spec_of(place):
    device, memory = place
    return device.spec + ("/pinned" if memory == 1 else "")


def has_flag(device, flag):
    return bool(device.info()["flags"] & flag)


def dtype_of(name):
    return int(name) if name.isdigit() else name


def as_bytes(array):
    return array.reshape(-1).view(numpy.uint8) if array.size else numpy.empty(0, numpy.uint8)


def outcome_of(world, row, listed):
    """(what went wrong or None, why it was skipped or None) of a row."""
    for pattern, reason in listed.items():
        if fnmatch.fnmatchcase(row.name, pattern):
            return None, f"Python: {reason}"
    before = world.device.counters()["allocated_bytes"]
    failure = skipped = None
    try:
        skipped = world.play(row)
    except Exception as error:  # whatever comes is the row's failure
        failure = f"{world.step}: {error if isinstance(error, Wrong) else repr(error)}"
    world.end()
    left = world.device.counters()["allocated_bytes"] - before
    if failure is None and skipped is None and left != 0 and not row.model:
        failure = f"{left} bytes of device memory are left behind"
    return failure, skipped


def main(device, cases, wanted, only=""):
    iobind.configure(software_devices=True, log_level="error")
    try:
        world = World(device)
    except iobind.Error as reason:
        print(f"skip: {device}: {reason}")
        return 77
    rows = read_rows(cases)
    listed = {**WITHOUT, **WITHOUT_ON.get(device, {})}
    passed = failed = skipped = 0
    for row in rows:
        if only and not re.search(only, row.name):
            continue
        print(f"row {row.name}", file=sys.stderr, flush=True)  # the last one, if the process ends here
        failure, skip = outcome_of(world, row, listed)
        passed += failure is None and skip is None
        failed += failure is not None
        skipped += skip is not None
        if failure is not None or skip is not None:
            print(f"FAIL {row.name} (line {row.line}): {failure}" if failure is not None else f"skip {row.name}: {skip}")
    if wanted == "ALL_WRONG":
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 0 if passed == 0 and failed >= 25 else 1
    for pattern in listed:
        if not fnmatch.filter([row.name for row in rows], pattern):
            print(f"FAIL: no row is called {pattern}, which is listed as one without a way")
            failed += 1
    if passed < int(wanted):
        print(f"FAIL: {wanted} rows at least are to pass")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed >= int(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
