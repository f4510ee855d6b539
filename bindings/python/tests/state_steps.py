"""The steps of the conformance rows on saved states, and back to a shorter length."""

import os
import pathlib
import tempfile

import numpy

import iobind
from rows import Mirror, Tensor, require


class Saved:
    """A state, and what it must hold: for the index of an input, that of the output, and a tensor."""

    def __init__(self, handle, values, pairs):
        self.handle, self.pairs = handle, dict(sorted(pairs.items()))
        self.names = [values[index].name for index in self.pairs]
        require("the inputs of the state", self.names, list(handle))
        require("bytes of the state", sum(value.nbytes for _, value, _ in pairs.values()), handle.nbytes)


class StateSteps:
    """Of a world."""

    def do_save(self, name):
        bound = self.current
        for handle in self.settle(bound.handle.save):
            pairs = {}
            for number, slot in enumerate(bound.outputs):
                if slot.carried_to is not None:
                    value = slot.value if slot.due else bound.inputs[slot.carried_to].value
                    pairs[slot.carried_to] = number, value.copy(), slot.place
            self.states[name] = Saved(handle, bound.input_values, pairs)

    def do_restore(self, name):
        bound, saved = self.current, self.states[name]
        for _ in self.settle(bound.handle.restore, saved.handle):
            bound.outputs_of_run = None  # a program that holds them keeps what it has fetched
            for index, (number, value, _) in saved.pairs.items():
                slot, state = bound.inputs[index], bound.outputs[number]
                state.due = False
                if state.mode == "in-place" and slot.value is not None and slot.value.text == value.text:
                    slot.value.bytes[:] = value.bytes
                else:
                    slot.value = value.copy()

    def do_reorder(self, axis, rows):
        bound, at = self.current, int(axis)
        numbers = [] if rows == "-" else [int(row) for row in rows.split(",")]
        for _ in self.settle(bound.handle.reorder, numbers, axis=at):
            bound.outputs_of_run = None  # a program that holds them keeps what it has fetched
            for state in (slot for slot in bound.outputs if slot.carried_to is not None):
                slot = bound.inputs[state.carried_to]
                old = state.value if state.due else slot.value
                array = old.array().reshape(old.dims).take(numbers, at)
                new = Mirror(old.name, array.shape, numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).copy())
                state.due = False
                if state.mode == "in-place" and slot.value is not None and slot.value.text == new.text:
                    slot.value.bytes[:] = new.bytes
                else:
                    slot.value = new

    def do_rewind(self, length, axes):
        bound, count = self.current, int(length)
        for _ in self.settle(bound.handle.rewind, count):
            bound.outputs_of_run = None
            carried = [slot for slot in bound.outputs if slot.carried_to is not None]
            on = [int(axis) for axis in axes.split(",")]
            for number, state in enumerate(carried):
                slot = bound.inputs[state.carried_to]
                old = state.value if state.due else slot.value
                array = old.array().reshape(old.dims).take(range(count), on[min(number, len(on) - 1)])
                new = Mirror(old.name, array.shape, numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).copy())
                if new.text == old.text:
                    continue  # the present length: nothing has changed
                state.due = False
                slot.value = new

    def do_kind(self, output, input, kind, axis=None):
        session, numbers = self.current.session, (int(output), int(input))
        names = [[one.name for one in values] for values in (session.outputs, session.inputs)]
        named = [of[number] if number < len(of) else f"no {what}" for of, number, what in zip(names, numbers, ("output", "input"))]
        for found in self.settle(session.state_kind, *named):
            require("its kind", (kind, None if axis is None else int(axis)), tuple(found))

    def do_state(self, name, saved, index):
        of, number = self.states[saved], int(index)
        for handle in self.settle(of.handle.__getitem__, of.names[list(of.pairs).index(number)]):
            require(f"{name} is read-only", True, handle.read_only)
            self.tensors[name] = Tensor(handle, *of.pairs[number][1:])

    def do_drop_state(self, name):
        del self.states[name]

    def file(self, name):
        """A file of the row's own."""
        return pathlib.Path(tempfile.gettempdir()) / f"iobind-state-{os.getpid()}-{name}"

    def do_write_state(self, name, file):
        self.settle(self.states[name].handle.save, self.file(file))

    def do_read_state(self, name, file, like):
        session, path = self.current.session, self.file(file)
        load = session.load_state if path.exists() else lambda one: iobind.State._load(session, os.fsencode(one))  # it raises FileNotFound
        for handle in self.settle(load, path):
            values = self.current.input_values
            self.states[name] = Saved(handle, values, {index: (number, value.copy(), (values[index].device, values[index].memory))
                                                       for index, (number, value, _) in self.states[like].pairs.items()})

    def do_drop_file(self, name):
        self.file(name).unlink()
