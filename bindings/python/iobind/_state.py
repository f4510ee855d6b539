"""Saved states: the content of a binding's carried inputs at one time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core, _tensor
from ._errors import NameNotFound
from ._session import as_path


class State(_core.State, Mapping[str, _tensor.Tensor]):
    """The content of a binding's carried inputs at one time, by name: state["past"] is a read-only Tensor. Binding.save() and
    Session.load_state() create states; Binding.restore() continues from one, any number of times and in any number of bindings. A state
    never changes, and is thread-safe. The end of a block `with state:` closes it."""

    __slots__ = ()

    def __getitem__(self, name: str) -> _tensor.Tensor:
        """The tensor of the carried input `name`, with its shape. If the run that produces it is in flight, this returns at once on a
        device, where uses of the tensor are ordered after the run; on the host it blocks until the run is complete. Raises NameNotFound,
        InvalidState (it is closed), and the failure of that run."""
        names = self._names()
        if name not in names:
            raise NameNotFound(f"state: no carried input {name!r}; there are {', '.join(names)}")
        return self._tensor(names.index(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, which Session.load_state() reads, also in another process, on another device, and with another
        version of ONNX Runtime. An existing file is replaced; no reader sees a partial file. Blocks until the run that produces the state
        is complete. path: the file. Raises FileError for a file that cannot be written, or a model file that has changed since the
        session was created; NotSupported for a model that is not known (Session(..., identify=True)); InvalidState (it is closed),
        InvalidArgument, the failure of that run, OutOfMemory, OrtError."""
        self._save_to(as_path(path, "save: path"))

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        holds = "closed" if self._is_closed else f"of {', '.join(self)}, {self.nbytes} bytes"
        return f"<iobind.State {holds}>"
