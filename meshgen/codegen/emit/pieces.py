"""Concatenations in pieces: each is a range of programs that reads one part, so its loads need no masks and are vectors.

    concatenate(a f32[8,64], b f32[8,192])  along dim 1      piece = tl.program_id(0); if (piece >= 0) & (piece < 1): ... a ...
                                                             piece = tl.program_id(0) - 1; ...                         b ...

With one tile over all of it, every element would load from every part under a mask. Pieces with equally many programs take turns, so that what
several of them read (both halves of a rotation) is still in a cache; others that share an operand stay one tile.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.map_tiles import Box, Tile
from meshgen.codegen.index_code import all_of, integer
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import values_behind
from meshgen.ir.walks import reachable
from meshgen.ops.classes import POINTWISE

_VECTOR = 4  # elements of f32 that one load has: pieces begin and end between them
_MOST = 64  # pieces


class Pieces(NamedTuple):
    """Ranges along a dim of the outputs of a body, all of one shape, in each of which concatenations have one part."""

    dim: int
    ranges: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    @property
    def are_equal(self) -> bool:
        return len({stop - start for start, stop in self.ranges}) == 1

    @property
    def boxes(self) -> list[Box]:
        """The elements of an output that each piece has."""
        return [
            Box(
                tuple(start if d == self.dim else 0 for d in range(len(self.sizes))),
                tuple(stop - start if d == self.dim else size for d, size in enumerate(self.sizes)),
            )
            for start, stop in self.ranges
        ]


def pieces_of(body: Graph) -> Pieces | None:
    """The pieces of a body whose outputs are made of concatenations at the same index; None where they are not worth it."""
    sizes, made = body.outputs[0].type.sizes, body.index.producers
    ends: dict[int, set[int]] = {}
    is_shared = False

    def read_elementwise(value: Value) -> Iterable[Value]:
        node = made.get(value)
        return () if node is None or node.op not in POINTWISE else (v for v in node.operands if v.type.sizes == sizes)

    for value in reachable(body.outputs, read_elementwise):
        node = made.get(value)
        if node is not None and node.op == "concatenate":
            parts = itertools.accumulate(v.type.sizes[node.attrs.dim] for v in node.operands)
            ends.setdefault(node.attrs.dim, {0}).update(parts)
            is_shared |= _share(body, made, node)
    if len(ends) != 1 or any(v.type.sizes != sizes for v in body.outputs):
        return None
    ((dim, places),) = ends.items()
    ranges = tuple((a, b) for a, b in itertools.pairwise(sorted(places)))
    inner = math.prod(sizes[dim + 1 :])
    is_aligned = all(place * inner % _VECTOR == 0 for place in places)
    found = Pieces(dim, ranges, sizes)
    return found if is_aligned and 1 < len(ranges) <= _MOST and (found.are_equal or not is_shared) else None


def _share(body: Graph, made: Mapping[Value, Node], node: Node) -> bool:
    """Whether several parts of a concatenation are made of one operand."""
    reads: Counter[Value] = Counter()
    for part in dict.fromkeys(node.operands):
        reached = {*values_behind([part], made.get)}
        reads.update(value for value in body.inputs if value in reached and value.type.rank)
    return any(count > 1 for count in reads.values())


def emit_pieces(evaluator: Evaluator, tiles: Sequence[Tile], emit: Callable[[Tile], None]) -> int:
    """Write a branch for each piece; the number of programs. `emit` writes a tile, in programs `piece`."""
    programs, count = 0, len(tiles)
    takes_turns = len({tile.programs for tile in tiles}) == 1
    if takes_turns:
        evaluator.let("turn", evaluator.program % count)
        evaluator.let("piece", evaluator.program // count)
    for number, tile in enumerate(tiles):
        if takes_turns:
            evaluator.branch(integer("turn").compared("==", number))
        else:
            evaluator.let("piece", evaluator.program - programs if programs else evaluator.program)
            evaluator.branch(all_of([integer("piece").compared(">=", 0), integer("piece").below(tile.programs)]))
        emit(tile)
        evaluator.close()
        programs += tile.programs
    return programs
