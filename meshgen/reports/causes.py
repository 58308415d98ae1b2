"""Collectives grouped by cause: those that layers, trips of loops and parameters repeat are one group, with counts and sums."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.reports.alike import joined, skeleton
from meshgen.reports.collectives import Served, served
from meshgen.reports.comms import numbers_text, total_of
from meshgen.reports.filters import ALL, Filter
from meshgen.reports.interface import Compiled
from meshgen.reports.sentences import sentence_of
from meshgen.reports.tables import bytes_text, seconds_text

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
    alike: dict[tuple[object, ...], list[tuple[Served, str]]] = {}
    for each in served(executable):
        if asked.takes(each):
            sentence = sentence_of(each)
            alike.setdefault(_cause(each, sentence), []).append((each, sentence))
    groups = [_group([each for each, _ in rows], [text for _, text in rows]) for rows in alike.values()]
    return sorted(groups, key=lambda group: (-group.exposed_seconds, -group.seconds, group.numbers))


def _cause(each: Served, sentence: str) -> tuple[object, ...]:
    """Return the key that collectives of one group share."""
    row, (scope, backward) = each.row, each.scope
    kind = (each.mesh, row.kind, row.reduction, row.axes, row.peer)
    lines = tuple(_PYTHON_LINE.findall(sentence))
    return *kind, backward, _NUMBER.sub("*", scope), skeleton(sentence), lines


def _group(found: Sequence[Served], sentences: Sequence[str]) -> Group:
    rows = [each.row for each in found]
    first, total = found[0], total_of(rows)
    largest = sorted(rows, key=lambda row: -row.ring_bytes)
    return Group(
        numbers=tuple(each.number for each in found),
        kind=first.row.kind,
        reduction=first.row.reduction,
        axes=first.row.axes,
        way=first.row.way,
        mesh=first.mesh,
        operands=tuple(dict.fromkeys(row.operand for row in largest)),
        scope=joined([each.scope[0] for each in found]),
        backward=first.scope[1],
        places=tuple(dict.fromkeys(row.source for row in largest)),
        sentence=joined(sentences),
        times=total.times,
        ring_bytes=total.ring_bytes,
        seconds=total.seconds,
        exposed_seconds=total.exposed_seconds,
    )
