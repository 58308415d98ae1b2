"""Trace functions into regions: bodies of loops, branches, reductions, sorts and scatters."""

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
    """Make `trace` the current trace within a `with` block."""
    token = CURRENT.set(trace)
    try:
        yield
    finally:
        CURRENT.reset(token)


def region(types: Sequence[TensorType]) -> tuple[Trace, list[Tensor]]:
    """Return a trace for a region inside the current trace, and the region's inputs, which have the types `types`."""
    outer = current()
    graph = Graph("body", [Value(kind, loc=user_location()) for kind in types])
    trace = replace(outer, graph=graph, constants={}, around=outer)
    with recording(trace):
        return trace, [Tensor(value) for value in graph.inputs]


def body(function: Callable[..., Any], *types: TensorType) -> Graph:
    """Trace a function of tensors of the types `types` into a region. The function returns a tensor or several."""
    trace, inputs = region(types)
    with recording(trace):
        returned = function(*inputs)
        trace.graph.outputs = [
            tensor(result).value for result in (returned if isinstance(returned, (tuple, list)) else (returned,))
        ]
    return trace.graph


def emit_regions(op: str, operands: Sequence[Tensor], results: Sequence[TensorType], regions: Sequence[Graph],
                 attrs: Mapping[str, Any] | None = None) -> list[Tensor]:  # fmt: skip
    """Append an op whose regions capture no values to the graph. Returns the results of the op."""
    loc = user_location()
    values = [Value(kind, loc=loc) for kind in results]
    operands = [tensor(operand) for operand in operands]
    current().graph.nodes.append(
        Node(op, [operand.value for operand in operands], values, dict(attrs or {}), loc, regions=tuple(regions))
    )
    return [Tensor(value) for value in values]


def closed(op: str, regions: Sequence[Graph]) -> tuple[list[Graph], list[Tensor]]:
    """Turn the values that `regions` capture into inputs. All regions get the same inputs, in the same order.

    Returns the regions, and the captured tensors in the order of these inputs.
    """
    captures = captured(Node(op, [], [], {}, None, regions=tuple(regions)))
    closed_regions: list[Graph] = []
    for graph in regions:
        region_inputs = {value: Value(value.type, value.name, loc=value.loc) for value in captures}
        graph.inputs += region_inputs.values()
        closed_regions.append(rewired_graph(graph, region_inputs))
    return closed_regions, [Tensor(value) for value in captures]
