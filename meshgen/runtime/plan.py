"""What every rank runs in one step: items in one total order on streams, over buffers in one arena of bytes.

Plain frozen values without the compiler: `codegen/schedule.py` makes them, `runtime/checker.py` proves them,
the module file stores them and the engines execute them. The same plan holds for all ranks.

Streams: 0 computes, 1 communicates. A step begins when all streams are idle and the inputs are in place, and
ends when all streams are idle again; between them only stream order and events order anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meshgen.ccl.cost import COMMUNICATIONS
from meshgen.ir.graph import Graph, TensorType

COMPUTE, COMMUNICATION = 0, 1
STREAMS = 2
ALIGNMENT = 256  # bytes: what cudaMalloc guarantees, and a multiple of every vector load

COLLECTIVES = COMMUNICATIONS  # ops that need other ranks; everything else in a plan is a kernel
KINDS = ("input", "constant", "temporary", "output")


def aligned(nbytes: int) -> int:
    """Bytes that a buffer takes in the arena."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Buffer:
    """A tensor in the arena.

    Attributes:
        type: local shape and element type.
        kind: inputs and constants are in place before a step and stay for the next; outputs stay until it ends.
        storage: number of the buffer whose bytes these are: its own number, or for a view the viewed one's.
        offset: byte offset in the arena, a multiple of `ALIGNMENT`.
        source: file and line of the program that it comes from; empty where that is not known.
    """

    name: str
    type: TensorType
    kind: str
    storage: int
    offset: int
    source: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.type.nbytes


@dataclass(frozen=True)
class Item:
    """One launch: a kernel, or a collective over the groups of `attrs["axes"]`.

    Attributes:
        op: `kernel` or one of `COLLECTIVES`.
        kernel: name of the kernel; empty for a collective.
        inputs, outputs: buffer numbers, in operand and result order.
        waits: events that the stream waits for first.
        records: event that is recorded on the stream when the item is done; None: nobody waits for it.
        seconds, start: predicted duration, and start since the beginning of the step.
        source: file and line of the program that it comes from; empty where that is not known.
        edges: numbers of the edges of stage `materialize` that a collective serves.
    """

    op: str
    kernel: str
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None
    seconds: float = 0.0
    start: float = 0.0
    why: str = ""
    source: str = ""
    edges: tuple[int, ...] = ()

    @property
    def end(self) -> float:
        return self.start + self.seconds

    @property
    def is_collective(self) -> bool:
        return self.op != "kernel"

    @property
    def label(self) -> str:
        """What messages call it."""
        if "peer" in self.attrs:
            return f"{self.op} {'to' if self.op == 'transfer_send' else 'from'} @{self.attrs['peer'].name}"
        axes = self.attrs.get("axes")
        return self.kernel or (f"{self.op} over {', '.join(axes) or 'no axis'}" if isinstance(axes, tuple) else self.op)


@dataclass(frozen=True)
class Exposure:
    """How much of a collective's predicted time hides behind kernels: `hidden + exposed` is its duration."""

    item: int
    hidden: float
    exposed: float


@dataclass(frozen=True)
class Schedule:
    """A whole step. `kernels` are the bodies that items name; `inputs` / `outputs` are buffer numbers."""

    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    arena_bytes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernels: Mapping[str, Graph] = field(default_factory=dict)
    step_seconds: float = 0.0
    exposures: tuple[Exposure, ...] = ()

    @property
    def exposed_seconds(self) -> float:
        """Communication during which no kernel runs."""
        return sum(e.exposed for e in self.exposures)

    @property
    def hidden_seconds(self) -> float:
        return sum(e.hidden for e in self.exposures)
