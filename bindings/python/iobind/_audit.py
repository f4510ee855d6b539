"""The bytes that each run of a binding moves."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

from . import _core
from ._errors import in_python

KINDS = ["input", "output", "node"]


class Entry(NamedTuple):
    """An input, an output, or a node that runs on the CPU although the session has a device."""

    kind: str
    name: str
    source: _core.Device | None
    target: _core.Device | None
    nbytes: int
    """moved on each run; 0: nothing, or not known"""
    crosses: bool
    """between host and device memory, or two devices"""
    unknown: bool
    """something moves, how much is not known"""
    reason: str
    advice: str


class Audit:
    """The bytes that cross the link in each run. crossing_bytes is their sum, in crossing_count copies; it is a lower bound if
    unknown_count is not 0. entries has the parts."""

    def __init__(self, crossing_bytes: int, crossing_count: int, unknown_count: int, entries: list[tuple[Any, ...]]) -> None:
        self.crossing_bytes = crossing_bytes
        self.crossing_count = crossing_count
        self.unknown_count = unknown_count
        self.entries = [Entry(KINDS[kind], name, source, target, nbytes, bool(flags & 1), bool(flags & 2),
                              in_python(reason), in_python(advice))
                        for kind, flags, name, source, target, nbytes, reason, advice in entries]

    def _rows(self) -> list[tuple[str, str, str, str, str, str]]:
        return [("KIND", "NAME", "FROM", "TO", "BYTES", "WHY")] + [
            (entry.kind, entry.name, str(entry.source or "-"), str(entry.target or "-"),
             "?" if entry.unknown else str(entry.nbytes), ": ".join(filter(None, [entry.reason, entry.advice])))
            for entry in self.entries]

    def _sum(self) -> str:
        bound = "at least " if self.unknown_count else ""
        return f"crosses on each run: {bound}{self.crossing_bytes} bytes in {self.crossing_count} copies"

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[5]]).rstrip() for row in rows]
        return "\n".join([*lines, self._sum()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return (f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{cells}</table>"
                f"<p>{html.escape(self._sum())}</p>")
