"""CUDA graphs: a stream capture records operations, and each launch of the graph issues their work.

A capture begins in one stream, its origin. A stream that waits for an event recorded in the capture joins it (fork).
Before the capture ends, the origin must wait for the work of all such streams (join).
Source: CUDA C++ programming guide, "Stream capture".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.emulator.cuda.timeline import Timeline, Work
from meshgen.emulator.cuda.types import CallFailed, CUresult


@dataclass(frozen=True)
class Operation:
    """An operation that is issued to a stream.

    Attributes:
        kind: `kernel`, `copy`, `set`, `write` or `collective`; an update of a graph must not change the kind.
        make: function that creates the work item of one execution.
        owner: the communicator of a collective; None for other kinds.
    """

    kind: str
    label: str
    make: Callable[[], Work]
    owner: object = None


@dataclass(eq=False)
class Node:
    """A graph node: an operation and the nodes on which it depends."""

    operation: Operation
    after: tuple[Node, ...]


@dataclass(eq=False)
class Capture:
    """A stream capture in progress.

    Attributes:
        ends: handle of a participating stream -> the nodes on which the next node in the stream depends.
        is_invalid: whether an illegal call has invalidated the capture, so that it can only be ended.
    """

    origin: int
    mode: int
    nodes: list[Node] = field(default_factory=list)
    ends: dict[int, tuple[Node, ...]] = field(default_factory=dict)
    is_invalid: bool = False

    def add(self, stream: int, operation: Operation) -> None:
        """Append a node to the stream. Raises CallFailed if the capture is invalid."""
        self.require_valid()
        node = Node(operation, self.ends[stream])
        self.nodes.append(node)
        self.ends[stream] = (node,)

    def join(self, stream: int, nodes: Iterable[Node]) -> None:
        """Make the next node of the stream depend on `nodes` as well.

        The stream joins the capture if it does not participate yet.
        """
        self.ends[stream] = tuple(dict.fromkeys((*self.ends.get(stream, ()), *nodes)))

    def require_valid(self) -> None:
        if self.is_invalid:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)

    def invalidate(self, result: CUresult) -> CallFailed:
        """Invalidate the capture because of an illegal call, and return the error to raise for that call."""
        self.is_invalid = True
        return CallFailed(result)

    def finish(self) -> tuple[Node, ...]:
        """End the capture and return its nodes.

        Raises:
            CallFailed: the capture is invalid, or a stream has work for which the origin does not wait.
        """
        self.require_valid()
        joined, pending = set[Node](), list(self.ends[self.origin])
        while pending:
            node = pending.pop()
            if node not in joined:
                joined.add(node)
                pending += node.after
        if len(joined) < len(self.nodes):
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        return tuple(self.nodes)


@dataclass(eq=False)
class Graph:
    """A captured graph."""

    nodes: tuple[Node, ...]

    def shape(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the kind and the predecessors of each node: an update must not change them."""
        index_of = {node: n for n, node in enumerate(self.nodes)}
        return [
            (node.operation.kind, tuple(index_of[predecessor] for predecessor in node.after)) for node in self.nodes
        ]


@dataclass(eq=False)
class GraphExec:
    """An executable graph.

    Attributes:
        last: work item that marks the end of the last launch, since launches of one graph do not overlap.
    """

    graph: Graph
    last: Work | None = None

    def launch(self, timeline: Timeline, after: Sequence[Work]) -> Work:
        """Issue a work item for every node, and return a work item that is done when all of them are."""
        begin = timeline.issue(Work("the begin of a graph"), [*after, *([self.last] if self.last else [])])
        works: dict[Node, Work] = {}
        for node in self.graph.nodes:
            earlier = [works[predecessor] for predecessor in node.after] or [begin]
            works[node] = timeline.issue(node.operation.make(), earlier)
        self.last = timeline.issue(Work("the end of a graph"), [begin, *works.values()])
        return self.last


def is_captured(owner: object, objects: Iterable[object]) -> bool:
    """Whether one of the graphs among `objects` contains an operation of the communicator `owner`."""
    graphs = (item.graph if isinstance(item, GraphExec) else item for item in objects)
    return any(node.operation.owner is owner for graph in graphs if isinstance(graph, Graph) for node in graph.nodes)
