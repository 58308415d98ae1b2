"""Operations of streams, and graphs of them: a capture records operations, a launch instantiates their work.

A capture begins in one stream, its origin. Streams that wait for an event recorded in it take part (fork); before it ends,
the origin must have waited for all of their work (join).

Source: CUDA C++ programming guide, "Stream capture".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.emulator.cuda.timeline import Timeline, Work
from meshgen.emulator.cuda.types import CallFailed, CUresult


@dataclass(frozen=True)
class Operation:
    """An operation of a stream.

    Attributes:
        kind: `kernel`, `copy`, `set` or `collective`; a node of a graph keeps it when the graph is updated.
        make: creates the work of one execution.
        owner: the communicator of a collective.
    """

    kind: str
    label: str
    make: Callable[[], Work]
    owner: object = None


@dataclass(eq=False)
class Node:
    """An operation in a graph, and the nodes that it comes after."""

    operation: Operation
    after: tuple[Node, ...]


@dataclass(eq=False)
class Capture:
    """A capture that is under way.

    Attributes:
        ends: of each stream that takes part, by handle, the nodes that its next one comes after.
        is_invalid: an illegal call has spoilt it; only ending it is left.
    """

    origin: int
    mode: int
    nodes: list[Node] = field(default_factory=list)
    ends: dict[int, tuple[Node, ...]] = field(default_factory=dict)
    is_invalid: bool = False

    def add(self, stream: int, operation: Operation) -> None:
        """A node at the end of what the stream does. Raises CallFailed."""
        self.require_valid()
        node = Node(operation, self.ends[stream])
        self.nodes.append(node)
        self.ends[stream] = (node,)

    def join(self, stream: int, nodes: Iterable[Node]) -> None:
        """The stream goes on after these nodes as well; it takes part from now on if it did not."""
        self.ends[stream] = tuple(dict.fromkeys((*self.ends.get(stream, ()), *nodes)))

    def require_valid(self) -> None:
        if self.is_invalid:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)

    def spoil(self, result: CUresult) -> CallFailed:
        """The error of an illegal call, which invalidates the capture."""
        self.is_invalid = True
        return CallFailed(result)

    def finish(self) -> tuple[Node, ...]:
        """All nodes. Raises CallFailed: it is invalid, or a stream has work that the origin does not wait for."""
        self.require_valid()
        joined, found = set[Node](), list(self.ends[self.origin])
        while found:
            node = found.pop()
            if node not in joined:
                joined.add(node)
                found += node.after
        if len(joined) < len(self.nodes):
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        return tuple(self.nodes)


@dataclass(eq=False)
class Graph:
    """A captured graph."""

    nodes: tuple[Node, ...]

    def shape(self) -> list[tuple[str, tuple[int, ...]]]:
        """Kind and predecessors of each node: what an update must not change."""
        number = {node: n for n, node in enumerate(self.nodes)}
        return [(node.operation.kind, tuple(number[other] for other in node.after)) for node in self.nodes]


@dataclass(eq=False)
class GraphExec:
    """A graph that can be launched.

    Attributes:
        last: the end of its last launch; launches of one graph do not overlap.
    """

    graph: Graph
    last: Work | None = None

    def launch(self, timeline: Timeline, after: Sequence[Work]) -> Work:
        """Issue work for every node; the work that is done when all of it is."""
        begin = timeline.issue(Work("the begin of a graph"), [*after, *([self.last] if self.last else [])])
        works: dict[Node, Work] = {}
        for node in self.graph.nodes:
            earlier = [works[other] for other in node.after] or [begin]
            works[node] = timeline.issue(node.operation.make(), earlier)
        self.last = timeline.issue(Work("the end of a graph"), [begin, *works.values()])
        return self.last


def is_captured(owner: object, objects: Iterable[object]) -> bool:
    """Whether among these objects is a graph with operations of a communicator."""
    graphs = (each.graph if isinstance(each, GraphExec) else each for each in objects)
    return any(node.operation.owner is owner for graph in graphs if isinstance(graph, Graph) for node in graph.nodes)
