"""Collectives grouped by cause: those that layers, trips of loops and parameters repeat are one group, with counts and sums."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.reports.alike import joined, skeleton
from meshgen.reports.collectives import edges_of
from meshgen.reports.comms import Collective, numbers_text
from meshgen.reports.filters import ALL, Filter
from meshgen.reports.interface import Compiled
from meshgen.reports.sentences import scope_of, sentence_of
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.reports.values import known_of, link_parts

_PYTHON_LINE = re.compile(r"\.py:\d+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Group:
    """Collectives of one kind, along the same axes, for one reason. Bytes and seconds are sums per device and step.

    Attributes:
        numbers: of the collectives, in the order in which they run.
        way: over which axes, or to or from which mesh.
        operands: the distinct operands, that of most bytes first.
        scope: the user's name of the part of the program, `layer_*/attn`; empty without one.
        places: the places in the program, those of most bytes first.
    """

    numbers: tuple[int, ...]
    kind: str
    reduction: str
    axes: tuple[str, ...]
    way: str
    mesh: str
    operands: tuple[str, ...]
    scope: str
    backward: bool
    places: tuple[str, ...]
    sentence: str
    times: int
    ring_bytes: int
    seconds: float
    exposed_seconds: float

    @property
    def title(self) -> str:
        """`64 x all_reduce sum over tp, layer_*/attn`: how often they run in a step, unless in a branch that does not count."""
        kind = " ".join(filter(None, (self.kind, self.reduction)))
        there = f" on @{self.mesh}" if self.mesh else ""
        scope = f", {self.scope}" if self.scope else ""
        where = f"{there}{scope}{' (backward)' if self.backward else ''}"
        return (
            f"{self.times} x {kind} {self.way}{where}"
            if self.times
            else f"{kind} {self.way}{where}, in a shorter branch"
        )

    @property
    def figures(self) -> str:
        """`1.61 GB, 2.7 ms, 1.3 ms of it exposed`."""
        if self.exposed_seconds < 1e-12:
            share = "hidden"
        elif self.exposed_seconds > 0.999 * self.seconds:
            share = "not hidden"
        else:
            share = f"{seconds_text(self.exposed_seconds)} of it not hidden"
        return f"{bytes_text(self.ring_bytes)}, {seconds_text(self.seconds)}, {share}"

    def record(self) -> dict[str, Any]:
        """For `--json` and the page."""
        return asdict(self) | {"title": self.title, "figures": self.figures, "shown": numbers_text(self.numbers)}


def groups_of(executable: Compiled, asked: Filter = ALL) -> list[Group]:
    """The groups of what is asked for, those that the step waits for longest first, then those that take longest; of all meshes."""
    several = len(executable.parts) > 1
    if several:
        link_parts(executable.parts)
    found: list[Group] = []
    first = 0
    for part in executable.parts:
        found += _of_part(part, first, part.mesh.name if several else "", asked)
        first += len(part.comms)
    return sorted(found, key=lambda group: (-group.exposed_seconds, -group.seconds, group.numbers))


def _of_part(part: Compiled, first: int, mesh: str, asked: Filter) -> Iterator[Group]:
    module = part.stages.get("materialize")
    edges = edges_of(module) if module else {}
    reasons = known_of(part).reasons if "propagate" in part.stages else None
    alike: dict[tuple[object, ...], list[tuple[int, Collective, str, str, bool]]] = {}
    for number, row in enumerate(part.comms):
        scope, backward = scope_of(row, edges)
        if not asked.takes(row, scope):
            continue
        sentence = sentence_of(row, edges, reasons)
        lines = tuple(_PYTHON_LINE.findall(sentence))
        key = (
            row.kind,
            row.reduction,
            row.axes,
            row.peer,
            backward,
            _NUMBER.sub("*", scope),
            skeleton(sentence),
            lines,
        )
        alike.setdefault(key, []).append((number + first, row, sentence, scope, backward))
    for rows in alike.values():
        yield _group(rows, mesh)


def _group(found: Sequence[tuple[int, Collective, str, str, bool]], mesh: str) -> Group:
    rows = [row for _, row, *_ in found]
    first = rows[0]
    largest = sorted(rows, key=lambda row: -row.ring_bytes)
    return Group(
        numbers=tuple(number for number, *_ in found),
        kind=first.kind,
        reduction=first.reduction,
        axes=first.axes,
        way=first.way,
        mesh=mesh,
        operands=tuple(dict.fromkeys(row.operand for row in largest)),
        scope=joined([scope for *_, scope, _ in found]),
        backward=found[0][4],
        places=tuple(dict.fromkeys(row.source for row in largest)),
        sentence=joined([sentence for _, _, sentence, *_ in found]),
        times=sum(row.times for row in rows),
        ring_bytes=sum(row.ring_bytes * row.times for row in rows),
        seconds=sum(row.seconds * row.times for row in rows),
        exposed_seconds=sum(row.exposed_seconds * row.times for row in rows),
    )
