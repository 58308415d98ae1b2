"""The gradient of an attention as kernels: sums over the same dims of functions of the same scores (`fusion/weighted_sum.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meshgen.codegen.fusion.attention import Producer
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.weighted_sum import WeightedSum, is_index_map, is_recomputed, narrow, weighted_sum
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import DOTS, LOOPS, POINTWISE


@dataclass(frozen=True)
class Gradient:
    """Sums over the same dims of functions of the same scores.

    Attributes:
        index: of everything between, as in each sum.
    """

    sums: tuple[WeightedSum, ...]
    index: Mapping[Value, Index]

    @property
    def first(self) -> WeightedSum:
        return self.sums[0]

    def nodes(self, position: Mapping[Node, int], producer: Producer) -> list[Node]:
        """The nodes that compute something between, or convert an operand of a product, or are one of the sums; by position."""
        inside = {each.product for each in self.sums}
        inside.update(node for each in self.sums for node in conversions(each, producer))
        inside.update(node for value in self.index if (node := producer(value)) and _is_between(node))
        return sorted(inside, key=position.__getitem__)


def positions(graph: Graph) -> dict[Node, int]:
    """The place of each node in program order."""
    return {node: place for place, node in enumerate(graph.nodes)}


def _is_between(node: Node) -> bool:
    return node.op in POINTWISE or is_index_map(node) or is_recomputed(node)


def conversions(of: WeightedSum, producer: Producer) -> list[Node]:
    """The nodes from a narrower operand of a sum's product to it."""
    value, found = of.product.operands[1 - of.side], list[Node]()
    end = narrow(of.product, 1 - of.side, producer)
    while value is not end:
        node = producer(value)
        assert node is not None, "it leads to the end"
        found.append(node)
        value = node.operands[0]
    return found


def gradients_of(sums: Sequence[WeightedSum]) -> list[Gradient]:
    """The sums by what they are computed from and summed over; those that need a value at different indices are apart."""
    found: list[Gradient] = []
    for each in sums:
        for number, gradient in enumerate(found):
            first = gradient.first
            alike = (first.scores, first.exponential, first.summed) == (each.scores, each.exponential, each.summed)
            if alike and all(gradient.index.get(v, place) == place for v, place in each.index.items()):
                found[number] = replace(gradient, sums=(*gradient.sums, each), index={**gradient.index, **each.index})
                break
        else:
            found.append(Gradient((each,), each.index))
    return found


def gradient_space(gradient: Gradient, copied: Producer) -> Space:
    """A space with the results of all sums in it, over the dims of the scores and `e0`, `e1`."""
    space = Space(copied)
    space.start(gradient.first.product)
    for each in gradient.sums:
        space.index[each.product.result] = each.result
        space.fixed.add(each.product.result)
        space.members.add(each.product.result)
    return space


def gradient_in(body: Graph) -> tuple[Gradient, Space] | None:
    """The gradient that a kernel's body is, and the space of its sums; None if it is something else."""
    producer = body.index.producers
    dots = [node for node in body.nodes if node.op in DOTS]
    if len(dots) < 2:
        return None
    found = gradients_of([each for node in dots if (each := weighted_sum(node, producer.get)) is not None])
    if len(found) != 1:
        return None
    (gradient,) = found
    inside = set(gradient.nodes(positions(body), producer.get))
    if any(node.op in LOOPS and node not in inside for node in body.nodes):
        return None
    space = gradient_space(gradient, producer.get)
    for node in body.nodes:
        if node.op in POINTWISE and node not in inside:
            space.add(node)
    return (gradient, space) if all(space.locate(v) is not None for v in body.outputs) else None
