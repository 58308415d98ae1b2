"""Group collectives by cause, for summaries.

Collectives that repeat over layers, loop iterations or parameters form one group, with total bytes and seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.reports.collectives import ReshardingCollective, served
from meshgen.reports.comms import numbers_text, total_of
from meshgen.reports.filters import ALL, Filter
from meshgen.reports.interface import Compiled
from meshgen.reports.merged_reasons import joined, skeleton
from meshgen.reports.sentences import sentence_of
from meshgen.reports.tables import bytes_text, seconds_text

_PYTHON_LINE = re.compile(r"\.py:\d+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Group:
    """Collectives of one kind, over the same axes, for the same reason. Bytes and seconds are totals per device and
    step.

    Attributes:
        numbers: indices of the collectives in execution order.
        way: "over tp" for a collective over axis `tp`; "to @b" or "from @b" for a transfer to or from mesh `b`.
        operands: the distinct operand types, those that move the most bytes first.
        scope: the user's name for the part of the program, `layer_*/attn`; empty if unnamed.
        places: source locations of the collectives, ordered by the bytes moved.
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
        """Return the group as a title, such as `64 x all_reduce sum over tp, layer_*/attn`.

        The count is the number of executions per step. It is omitted if the cost model does not count the branch.
        """
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
        """Return the bytes, time and exposed time of the group, such as `1.61 GB, 2.7 ms, 1.3 ms of it not hidden`."""
        if self.exposed_seconds < 1e-12:
            share = "hidden"
        elif self.exposed_seconds > 0.999 * self.seconds:
            share = "not hidden"
        else:
            share = f"{seconds_text(self.exposed_seconds)} of it not hidden"
        return f"{bytes_text(self.ring_bytes)}, {seconds_text(self.seconds)}, {share}"

    def record(self) -> dict[str, Any]:
        """Return the group as a JSON-serializable dict, for `--json` and the HTML page."""
        return asdict(self) | {"title": self.title, "figures": self.figures, "shown": numbers_text(self.numbers)}


def groups_of(executable: Compiled, selection: Filter = ALL) -> list[Group]:
    """Group the collectives of all meshes that match the filter `selection`.

    Groups are ordered by decreasing exposed time, then by decreasing total time.
    """
    alike: dict[tuple[object, ...], list[tuple[ReshardingCollective, str]]] = {}
    for collective in served(executable):
        if selection.matches(collective):
            sentence = sentence_of(collective)
            alike.setdefault(_group_key(collective, sentence), []).append((collective, sentence))
    groups = [_group([collective for collective, _ in rows], [text for _, text in rows]) for rows in alike.values()]
    return sorted(groups, key=lambda group: (-group.exposed_seconds, -group.seconds, group.numbers))


def _group_key(collective: ReshardingCollective, sentence: str) -> tuple[object, ...]:
    """Return the key by which collectives are grouped."""
    row, (scope, backward) = collective.row, collective.scope
    kind = (collective.mesh, row.kind, row.reduction, row.axes, row.peer)
    lines = tuple(_PYTHON_LINE.findall(sentence))
    return *kind, backward, _NUMBER.sub("*", scope), skeleton(sentence), lines


def _group(collectives: Sequence[ReshardingCollective], sentences: Sequence[str]) -> Group:
    rows = [collective.row for collective in collectives]
    first, total = collectives[0], total_of(rows)
    largest = sorted(rows, key=lambda row: -row.ring_bytes)
    return Group(
        numbers=tuple(collective.number for collective in collectives),
        kind=first.row.kind,
        reduction=first.row.reduction,
        axes=first.row.axes,
        way=first.row.way,
        mesh=first.mesh,
        operands=tuple(dict.fromkeys(row.operand for row in largest)),
        scope=joined([collective.scope[0] for collective in collectives]),
        backward=first.scope[1],
        places=tuple(dict.fromkeys(row.source for row in largest)),
        sentence=joined(sentences),
        times=total.times,
        ring_bytes=total.ring_bytes,
        seconds=total.seconds,
        exposed_seconds=total.exposed_seconds,
    )
