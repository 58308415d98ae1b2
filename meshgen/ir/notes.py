"""Notes of passes on a node. They are not part of its semantics: nodes that differ only in notes compute the same
function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from meshgen.spec import Sharding


class Slot(NamedTuple):
    """The slot of a launch or collective in the schedule.

    Attributes:
        stream: index of the stream.
        waits: indices of the events that must have happened before.
        records: index of the event that marks the end of the operation, or None.
        seconds, start: the predicted duration and start time, in seconds.
        exposure: for a collective, seconds as (overlapped with kernels, not overlapped).
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
    """The buffer of a value in a schedule.

    Attributes:
        number: index of the buffer.
        storage: index of the buffer that owns the bytes: `number`, or the buffer that this one is a view of.
        offset: byte offset in the owning buffer.
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
        hint: for a transfer, the sharding of the value on the other mesh. Propagation on this mesh uses it as a hint.
        reduces: for an annotation that the parser derived from a reduction in the text, the axes of this reduction.
        lazy: the parser created the node in case another op needs its result, and removes the node if no op does.
        in_memory: for a copy, the result must have a buffer that no other value shares, so users must not recompute it.
        trips: the assumed trip count (at least 1) of a loop whose condition does not determine it.
        slot: the slot of a scheduled node.
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
