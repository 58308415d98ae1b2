"""What passes note about a node beside what it means: two nodes that differ in their notes alone compute the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from meshgen.spec import Sharding


class Slot(NamedTuple):
    """When an item runs. `hidden` / `exposed` (s) belong to collectives: how much of it hides behind kernels.

    `source` is the place of the program that it comes from.
    """

    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None
    seconds: float = 0.0
    start: float = 0.0
    exposure: tuple[float, float] | None = None
    source: str = ""


class Place(NamedTuple):
    """The place of a value: number of its buffer, kind, the buffer whose bytes it shares, byte offset, and source location."""

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
        why: the reason of a collective or transfer, as text.
        edges: numbers of the edges of stage `materialize` (a value on its way to a use that needs it otherwise) that a
            collective serves.
        hint: how what a transfer carries is sharded on the other mesh, for propagation on this one.
        reduces: the axes over which the reduction was that an annotation was written as.
        lazy: made by a reader in case something reads it; it goes again where nothing does.
        in_memory: a copy that is made for the sake of its place in memory, so that no reader computes it in its stead.
        trips: how often a loop is taken to run, where its condition does not say it; 1 at least.
        slot: when a node of a schedule runs.
        places: where the results of a node of a schedule lie.
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
