"""How much memory `error_bound` takes: known before anything is computed, so that what cannot fit is refused."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.ir.graph import Graph, Node, Value, is_complex, is_inexact
from meshgen.ir.regions import used_by
from meshgen.ops.evaluate.evaluator import last_uses
from meshgen.ops.tolerance.bounds import SAMPLES

_F64 = 8  # bytes; errors, magnitudes and samples are f64
# No elements of their own: NumPy gives views of the operand, and so are their samples.
_VIEWS = frozenset(
    ["reshape", "view", "subview", "join", "broadcast_in_dim", "slice", "transpose", "reverse", "annotate", "tuple"]
)
# Elements are taken over, not rounded: samples differ only where those of an operand do.
_EXACT = frozenset(["concatenate", "pad", "gather", "dynamic_slice", "dynamic_update_slice", "update_in_place", "select", "constant", "iota"])  # fmt: skip


@dataclass(frozen=True)
class Most:
    """The most bytes held at once, and the op at which that is (None: on entry)."""

    bytes: int
    at: Node | None = None


def most_bytes(graph: Graph) -> Most:
    """What bounding the errors of a graph holds at the least, from when its inputs are there; sizes are known.

    Counted are values until their last use, with error, magnitude and the samples that differ; what an op needs while
    it runs is not. Of regions it is what the largest holds besides.
    """
    inputs = dict.fromkeys(graph.inputs, False)
    return _most(graph, inputs, {value: _bytes(value, False, False) for value in inputs})


def _most(graph: Graph, differs: dict[Value, bool], alive: dict[Value, int]) -> Most:
    """`differs` says of the values that are known whether their samples differ; `alive` has bytes of what is held."""
    held, last = sum(alive.values()), last_uses(graph)
    best = Most(held)
    for number, node in enumerate(graph.nodes):
        spread = any(differs.get(value, True) for value in used_by(node))
        regions = (_most(region, differs | dict.fromkeys(region.inputs, True), {}) for region in node.regions)
        within = max(regions, key=lambda most: most.bytes, default=Most(0))  # a region is given what is held already
        before = Most(held + within.bytes, within.at)
        for place, value in enumerate(node.results):
            differs[value] = spread or node.op not in _VIEWS | _EXACT
            alive[value] = 0 if _is_carried(node, place) else _bytes(value, node.op in _VIEWS, differs[value])
            held += alive[value]
        best = max(best, before, Most(held, node), key=lambda most: most.bytes)
        for value in last.get(number, ()):
            held -= alive.pop(value, 0)
    return best


def _is_carried(node: Node, number: int) -> bool:
    """Whether a result is what a loop was given: it carries that unchanged."""
    return node.op == "while" and node.regions[1].outputs[number] is node.regions[1].inputs[number]


def _bytes(value: Value, is_view: bool, differs: bool) -> int:
    kind = value.type
    samples = (SAMPLES if differs else 1) * is_inexact(kind.dtype) * _F64 * (1 + is_complex(kind.dtype))
    return kind.size * 2 * _F64 + (0 if is_view else kind.nbytes + kind.size * samples)
