"""Concatenations split into ranges: the programs of a range read only one operand, so their loads need no
masks and are vectors.

    concatenate(a f32[8,64], b f32[8,192]) along dim 1       piece = tl.program_id(0)
                                                             if (piece >= 0) & (piece < 1):
                                                                 ... a ...
                                                             piece = tl.program_id(0) - 1
                                                             if (piece >= 0) & (piece < 2):
                                                                 ... b ...

With one tile over the entire output, every element would load from every operand under a mask. If all
ranges have equally many programs, consecutive programs alternate between the ranges: what several ranges
read (both halves of a rotation) is then still in a cache. Concatenations with unequal ranges that share an
operand keep one tile.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.emit.elementwise_tiles import Box, Tile
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.index_code import all_of, integer
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ir.walks import reachable
from meshgen.ops.classes import POINTWISE

_VECTOR = 4  # Elements. Ranges start and end at multiples of this number, so that a load is a 16-byte vector of f32.
_MOST = 64  # most ranges of one kernel; chosen: the source has one branch per range


class Pieces(NamedTuple):
    """A split of the outputs into ranges along a dim, such that every concatenation reads one operand within a range.

    All outputs have the same shape.
    """

    dim: int
    ranges: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    @property
    def are_equal(self) -> bool:
        return len({stop - start for start, stop in self.ranges}) == 1

    @property
    def boxes(self) -> list[Box]:
        """Return the box of output elements of each range."""
        return [
            Box(
                tuple(start if d == self.dim else 0 for d in range(len(self.sizes))),
                tuple(stop - start if d == self.dim else size for d, size in enumerate(self.sizes)),
            )
            for start, stop in self.ranges
        ]


def pieces_of(body: Graph) -> Pieces | None:
    """Return the ranges of a body whose outputs are element-wise functions of concatenations.

    Returns None if one tile over the entire output is better, or if the body has no such concatenations.
    """
    sizes, producers = body.outputs[0].type.sizes, body.index.producers
    ends: dict[int, set[int]] = {}
    is_shared = False

    def read_elementwise(value: Value) -> Iterable[Value]:
        node = producers.get(value)
        return () if node is None or node.op not in POINTWISE else (v for v in node.operands if v.type.sizes == sizes)

    for value in reachable(body.outputs, read_elementwise):
        node = producers.get(value)
        if node is not None and node.op == "concatenate":
            offsets = itertools.accumulate(v.type.sizes[node.attrs.dim] for v in node.operands)
            ends.setdefault(node.attrs.dim, {0}).update(offsets)
            is_shared |= _share(body, producers, node)
    if len(ends) != 1 or any(v.type.sizes != sizes for v in body.outputs):
        return None
    ((dim, bounds),) = ends.items()
    ranges = tuple((a, b) for a, b in itertools.pairwise(sorted(bounds)))
    inner = math.prod(sizes[dim + 1 :])
    is_aligned = all(bound * inner % _VECTOR == 0 for bound in bounds)
    pieces = Pieces(dim, ranges, sizes)
    return pieces if is_aligned and 1 < len(ranges) <= _MOST and (pieces.are_equal or not is_shared) else None


def _share(body: Graph, producers: Mapping[Value, Node], node: Node) -> bool:
    """Whether several operands of a concatenation are computed from the same input."""
    reads: Counter[Value] = Counter()
    for operand in dict.fromkeys(node.operands):
        reached = {*transitive_operands([operand], producers.get)}
        reads.update(value for value in body.inputs if value in reached and value.type.rank)
    return any(count > 1 for count in reads.values())


def emit_pieces(evaluator: Evaluator, tiles: Sequence[Tile], emit: Callable[[Tile], None]) -> int:
    """Write a branch for each range of the outputs, and return the number of programs of the kernel.

    Args:
        emit: writes a tile; the variable `piece` is the index of the program within its range.
    """
    programs, count = 0, len(tiles)
    alternates = len({tile.programs for tile in tiles}) == 1
    if alternates:
        evaluator.let("turn", evaluator.program % count)
        evaluator.let("piece", evaluator.program // count)
    for i, tile in enumerate(tiles):
        if alternates:
            evaluator.branch(integer("turn").compared("==", i))
        else:
            evaluator.let("piece", evaluator.program - programs if programs else evaluator.program)
            evaluator.branch(all_of([integer("piece").compared(">=", 0), integer("piece").below(tile.programs)]))
        emit(tile)
        evaluator.close()
        programs += tile.programs
    return programs
