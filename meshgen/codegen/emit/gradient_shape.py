"""The iteration space of the gradient of an attention: a tile of rows, or of keys, and a loop over the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.attention import Producer
from meshgen.codegen.fusion.attention_gradient import Gradient
from meshgen.codegen.fusion.attention_indices import operand_index
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.weighted_sum import WeightedSum, contracted
from meshgen.ir.graph import Node, Value
from meshgen.ops.dot_dims import DotDims


class GradientShape(NamedTuple):
    """Which dims of the scores play which part.

    Attributes:
        programs: those that only programs go over; tile: of which a program has some; both are not summed.
        outer, loop: those that are summed, one by one and in blocks.
        scores: the products that are computed again: each with the number of its operand that varies with the loop.
    """

    programs: tuple[Var, ...]
    tile: Var
    outer: tuple[Var, ...]
    loop: Var
    scores: tuple[tuple[Node, int], ...]

    @property
    def batch(self) -> int:
        return math.prod(_size_of_var(v) for v in self.programs)

    @property
    def rows(self) -> int:
        return _size_of_var(self.tile)

    @property
    def steps(self) -> int:
        return _size_of_var(self.loop)


def _size_of_var(var: Var) -> int:
    return var.high + 1


def gradient_shape(gradient: Gradient, producer: Producer) -> GradientShape | None:
    """The iteration space; None if a product has an operand that varies with both sides, or with none."""
    first = gradient.first
    dims, sizes = DotDims.of(first.scores), first.scores.result.type.sizes
    batch, left = len(dims.batch[0]), len(dims.free[0])
    everything = [Var(f"s{d}", 0, size - 1) for d, size in enumerate(sizes) if size > 1]
    free = [v for v in everything if int(v.text[1:]) >= batch and v not in first.summed]
    is_left = all(int(v.text[1:]) < batch + left for v in first.summed)
    free = [v for v in free if (int(v.text[1:]) >= batch + left) == is_left]
    if not free:
        return None
    tile, loop = max(free, key=_size_of_var), max(sorted(first.summed, key=lambda v: v.text), key=_size_of_var)
    scores = list[tuple[Node, int]]()
    for node in dict.fromkeys(n for each in gradient.sums for n in each.products(producer)):
        number = _loop_operand(node, gradient.index[node.result], tile, loop)
        if number is None:
            return None
        scores.append((node, number))
    if not all(_is_over_loop(each, tile, loop, gradient.index) for each in gradient.sums):
        return None
    outer = tuple(v for v in everything if v in first.summed and v != loop)
    programs = tuple(v for v in everything if v not in first.summed and v != tile)
    return GradientShape(programs, tile, outer, loop, tuple(scores))


def _loop_operand(dot: Node, place: Index, tile: Var, loop: Var) -> int | None:
    """The operand that varies with the loop and not with the tile, where the other one does the opposite."""
    left, right = (_varying(operand_index(dot, number, place, contracted(dot))) for number in (0, 1))
    for number, mine, other in ((0, left, right), (1, right, left)):
        if loop in mine and tile not in mine and tile in other and loop not in other:
            return number
    return None


def _is_over_loop(of: WeightedSum, tile: Var, loop: Var, index: Mapping[Value, Index]) -> bool:
    """Whether the operand beside the weights varies with the loop, and not with the tile."""
    varying = _varying(operand_index(of.product, 1 - of.side, of.result, of.keys(index)))
    return loop in varying and tile not in varying


def _varying(index: Index) -> set[Var]:
    return {v for e in index for v in ex.variables(e)}
