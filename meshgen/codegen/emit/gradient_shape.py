"""The iteration space of the gradient of an attention: a tile of rows, or of keys, and a loop over the others."""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.attention import Producer
from meshgen.codegen.fusion.attention_gradient import Gradient, contracted
from meshgen.codegen.fusion.attention_indices import operand_index
from meshgen.codegen.fusion.space import Index
from meshgen.ir.graph import Node
from meshgen.ops.dot_dims import DotDims
from meshgen.records import dataclass


@dataclass(frozen=True)
class GradientShape:
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
        return math.prod(_size(v) for v in self.programs)

    @property
    def rows(self) -> int:
        return _size(self.tile)

    @property
    def steps(self) -> int:
        return _size(self.loop)


def _size(var: Var) -> int:
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
    tile, loop = max(free, key=_size), max(sorted(first.summed, key=lambda v: v.text), key=_size)
    scores = list[tuple[Node, int]]()
    for value, place in gradient.index.items():
        node = producer(value)
        if node in {n for each in gradient.sums for n in each.products(producer)}:
            assert node is not None, "it is a product"
            number = _loop_operand(node, place, tile, loop)
            if number is None:
                return None
            scores.append((node, number))
    if not all(_is_over_loop(each.product, each.side, each.result, gradient.index, tile, loop) for each in gradient.sums):
        return None
    outer = tuple(v for v in everything if v in first.summed and v is not loop and v != loop)
    programs = tuple(v for v in everything if v not in first.summed and v != tile)
    return GradientShape(programs, tile, outer, loop, tuple(scores))


def _loop_operand(dot: Node, place: Index, tile: Var, loop: Var) -> int | None:
    """The operand that varies with the loop and not with the tile, where the other one does the opposite."""
    reads = [{v for e in operand_index(dot, number, place, contracted(dot)) for v in ex.variables(e)} for number in (0, 1)]
    for number in (0, 1):
        mine, other = reads[number], reads[1 - number]
        if loop in mine and tile not in mine and tile in other and loop not in other:
            return number
    return None


def _is_over_loop(dot: Node, side: int, result: Index, index: object, tile: Var, loop: Var) -> bool:
    """Whether the operand beside the weights varies with the loop, and not with the tile."""
    del index, loop
    batch = len(DotDims.of(dot).batch[0])
    own = DotDims.of(dot).free[1 - side]
    del own
    return all(tile not in ex.variables(e) for e in result[:batch])
