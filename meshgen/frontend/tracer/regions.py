"""Functions traced into regions of ops: bodies of loops and branches, and what reductions, sorts and scatters do with elements."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import CURRENT, Trace, current, user_location
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import captured, rewired_graph


@contextmanager
def recording(trace: Trace) -> Generator[None]:
    """Record into this trace."""
    token = CURRENT.set(trace)
    try:
        yield
    finally:
        CURRENT.reset(token)


def region(types: Sequence[TensorType]) -> tuple[Trace, list[Tensor]]:
    """A trace for a region inside the current one, and its inputs."""
    around = current()
    graph = Graph("body", [Value(kind, loc=user_location()) for kind in types])
    trace = replace(around, graph=graph, constants={}, around=around)
    with recording(trace):
        return trace, [Tensor(value) for value in graph.inputs]


def body(function: Callable[..., Any], *types: TensorType) -> Graph:
    """A function of elements as a region: it returns a tensor, or several."""
    trace, inputs = region(types)
    with recording(trace):
        found = function(*inputs)
        trace.graph.outputs = [tensor(each).value for each in (found if isinstance(found, (tuple, list)) else (found,))]
    return trace.graph


def emit_regions(op: str, operands: Sequence[Tensor], results: Sequence[TensorType], regions: Sequence[Graph],
                 attrs: Mapping[str, Any] | None = None) -> list[Tensor]:  # fmt: skip
    """Append a node with regions, which use their own values only; its results."""
    loc = user_location()
    values = [Value(kind, loc=loc) for kind in results]
    operands = [tensor(each) for each in operands]
    current().graph.nodes.append(
        Node(op, [each.value for each in operands], values, dict(attrs or {}), loc, regions=tuple(regions))
    )
    return [Tensor(value) for value in values]


def closed(op: str, regions: Sequence[Graph]) -> tuple[list[Graph], list[Tensor]]:
    """The regions with what they capture as further inputs, the same of all, and these tensors from around."""
    outside = captured(Node(op, [], [], {}, None, regions=tuple(regions)))
    done: list[Graph] = []
    for graph in regions:
        inside = {value: Value(value.type, value.name, loc=value.loc) for value in outside}
        graph.inputs += inside.values()
        done.append(rewired_graph(graph, inside))
    return done, [Tensor(value) for value in outside]
