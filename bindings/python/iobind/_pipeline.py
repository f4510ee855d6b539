"""Session.map: many items, their copies and runs at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _core, _dtypes, _tensor
from ._errors import InvalidArgument, NotFound
from ._session import Session, as_host_tensor


def run_all(session: Session, items: Iterable[Mapping[str, Any]], slots: int, constants: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """See Session.map. What is wrong with the constants is raised here, before the first item."""
    inputs, outputs = session.inputs, session.outputs
    known = {value.name: _dtypes.BY_NAME.get(value.dtype, 0) for value in inputs}
    for name in constants:
        if name not in known:
            raise NotFound(f"map: no input {name!r}; there are {', '.join(known)}")
    fixed: list[Any] = [None] * len(inputs)
    for index, value in enumerate(inputs):
        if value.name in constants:
            given = constants[value.name]
            fixed[index] = given if isinstance(given, _tensor.Tensor) else as_host_tensor(given, known[value.name], "map").to(value.device)
    pipeline = _core.Pipeline(session=session, slots=slots, flags=0, constants=fixed if constants else None)
    return _drain(pipeline, items, slots or 3, known, constants, [value.name for value in outputs])


def _drain(pipeline: _core.Pipeline, items: Iterable[Mapping[str, Any]], slots: int, known: Mapping[str, int],
           constants: Mapping[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    waiting = 0
    for number, item in enumerate(items):
        for name in item:
            if name not in known or name in constants:
                raise NotFound(f"map: item {number}: {name!r} is not an input that items bring")
        missing = [name for name in known if name not in item and name not in constants]
        if missing:
            raise InvalidArgument(f"map: item {number}: input {missing[0]!r} is missing")
        if waiting == slots:
            waiting -= 1
            yield _next(pipeline, names)
        pipeline.submit([None if name in constants else as_host_tensor(item[name], code, f"map: item {number}: {name!r}")
                         for name, code in known.items()])
        waiting += 1
    while waiting > 0:
        waiting -= 1
        yield _next(pipeline, names)


def _next(pipeline: _core.Pipeline, names: list[str]) -> dict[str, Any]:
    _, _, tensors = pipeline.next()
    return {name: tensor for name, tensor in zip(names, tensors) if tensor is not None}
