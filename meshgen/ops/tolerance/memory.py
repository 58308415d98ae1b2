"""Estimate of the memory that `error_bound` needs, so that an infeasible request fails before any computation."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.ir.graph import Graph, Node, Value, is_complex, is_inexact
from meshgen.ir.regions import used_by
from meshgen.ops.evaluate.evaluator import last_uses
from meshgen.ops.tolerance.bounds import SAMPLES

_F64 = 8  # Bytes per element of errors, magnitudes and samples, which are f64.
# Ops without storage: their results and samples are NumPy views of the operand.
_VIEWS = frozenset(
    ["reshape", "view", "subview", "join", "broadcast_in_dim", "slice", "transpose", "reverse", "annotate", "tuple"]
)
# Ops that copy elements without rounding: their samples differ only if the samples of an operand do.
_EXACT = frozenset(["concatenate", "pad", "gather", "dynamic_slice", "dynamic_update_slice", "update_in_place", "select", "constant", "iota"])  # fmt: skip


@dataclass(frozen=True)
class Most:
    """The peak number of live bytes, and the node after which it occurs, or None if the graph inputs are the peak."""

    bytes: int
    at: Node | None = None


def most_bytes(graph: Graph) -> Most:
    """Return a lower bound on the memory that `error_bound` needs for a graph with known sizes.

    Each value counts from its definition to its last use, with its error, magnitude and distinct samples. Temporaries
    inside an op are not counted. For an op with regions, the largest region is added.
    """
    inputs = dict.fromkeys(graph.inputs, False)
    return _most(graph, inputs, {value: _bytes(value, False, False) for value in inputs})


def _most(graph: Graph, differs: dict[Value, bool], alive: dict[Value, int]) -> Most:
    """Return the peak of the live bytes during the evaluation of a graph.

    Args:
        differs: for each value, whether its samples may differ from one another.
        alive: the bytes of each live value.
    """
    live_bytes, dying_values = sum(alive.values()), last_uses(graph)
    peak = Most(live_bytes)
    for index, node in enumerate(graph.nodes):
        operands_differ = any(differs.get(value, True) for value in used_by(node))
        regions = (_most(region, differs | dict.fromkeys(region.inputs, True), {}) for region in node.regions)
        largest_region = max(
            regions, key=lambda most: most.bytes, default=Most(0)
        )  # A region's operands are live already.
        before = Most(live_bytes + largest_region.bytes, largest_region.at)
        for result_index, value in enumerate(node.results):
            differs[value] = operands_differ or node.op not in _VIEWS | _EXACT
            alive[value] = 0 if _is_carried(node, result_index) else _bytes(value, node.op in _VIEWS, differs[value])
            live_bytes += alive[value]
        peak = max(peak, before, Most(live_bytes, node), key=lambda most: most.bytes)
        for value in dying_values.get(index, ()):
            live_bytes -= alive.pop(value, 0)
    return peak


def _is_carried(node: Node, index: int) -> bool:
    """Whether a `while` returns its operand `index` unchanged as a result."""
    return node.op == "while" and node.regions[1].outputs[index] is node.regions[1].inputs[index]


def _bytes(value: Value, is_view: bool, differs: bool) -> int:
    kind = value.type
    samples = (SAMPLES if differs else 1) * is_inexact(kind.dtype) * _F64 * (1 + is_complex(kind.dtype))
    return kind.size * 2 * _F64 + (0 if is_view else kind.nbytes + kind.size * samples)
