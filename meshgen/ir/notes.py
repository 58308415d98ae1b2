"""Notes of passes on a node, apart from its semantics: nodes that differ only in notes compute the same function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from meshgen.spec import Sharding


class Slot(NamedTuple):
    """The schedule slot of a launch or collective.

    Attributes:
        waits: indices of the events to wait for; `records` is the event that it records.
        seconds: the predicted duration; `start` is the predicted start.
        exposure: of a collective, the seconds that are (hidden behind kernels, exposed).
        source: the source location of the operation.
    """

    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None
    seconds: float = 0.0
    start: float = 0.0
    exposure: tuple[float, float] | None = None
    source: str = ""


class Place(NamedTuple):
    """The buffer assignment of a value.

    Attributes:
        number: index of the buffer.
        storage: index of the buffer whose bytes it shares, at byte `offset`.
        source: the source location of the value.
    """

    number: int
    name: str
    kind: str
    storage: int
    offset: int
    source: str = ""


@dataclass(frozen=True)
class Notes:
    """Notes on one node.

    Attributes:
        why: the reason for a collective or transfer, as text.
        edges: indices of the `materialize` edges that a collective implements. An edge leads from a value to a use that
            needs another sharding.
        hint: for a transfer, the sharding of the value on the other mesh; propagation on this mesh uses it.
        reduces: the axes of the reduction, if an annotation came from one in the text.
        lazy: created by the parser in case another op reads it; removed if it stays unused.
        in_memory: a copy that exists to have its own storage; users may not recompute it.
        trips: the assumed trip count (at least 1) of a loop whose condition does not determine it.
        slot: when a scheduled node runs.
        places: the buffers of the results of a scheduled node.
    """

    why: str = ""
    edges: tuple[int, ...] = ()
    hint: Sharding | None = None
    reduces: tuple[str, ...] = ()
    lazy: bool = False
    in_memory: bool = False
    trips: int | None = None
    slot: Slot | None = None
    places: tuple[Place, ...] = ()


NO_NOTES = Notes()
