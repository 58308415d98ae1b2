"""Tiles of kernels without reductions, over a box of output elements: flat tiles, or squares if an operand is read
transposed.

    x + y                       i = program * BLOCK + tl.arange(0, BLOCK)
    x + transpose(y)            row = ... tl.arange(0, SIDE)[:, None], col = ... tl.arange(0, SIDE)[None, :]

With a square, loads read full memory sectors along the rows of both operands. Triton transposes one of the two tiles
in shared memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.index_code import Int, integer, lanes
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.walks import reachable
from meshgen.ops.classes import JOINING, LAYOUT, LEAVING, POINTWISE

_BLOCK = 1024  # elements of a flat tile: 8 per thread, one 16-byte vector of bf16
_SIDE = 32  # elements along each side of a square; chosen: 32 elements of f32 fill a 128-byte cache line
_LEAST = 4096  # least elements of a transposed operand for a square tile; chosen: smaller operands stay in a cache
# least elements of a row of this operand for a square tile; chosen: 8 elements of f32 fill a 32-byte sector
_LEAST_ROW = 8


@dataclass(frozen=True)
class Box:
    """A box of elements of an output: along each dim `d`, `sizes[d]` elements that start at `starts[d]`."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def index(self, inside: Index) -> Index:
        """Return the index in the output of the box element at index `inside`."""
        return tuple(e + start for e, start in zip(inside, self.starts, strict=True))


def whole(sizes: tuple[int, ...]) -> Box:
    """Return the box that contains all elements of an output of shape `sizes`."""
    return Box((0,) * len(sizes), sizes)


@dataclass(frozen=True)
class Flat:
    """A flat tile: consecutive elements of a box in memory order."""

    box: Box

    @property
    def block(self) -> int:
        """Return the number of elements per program."""
        return min(_BLOCK, 1 << max(0, math.prod(self.box.sizes) - 1).bit_length())

    @property
    def programs(self) -> int:
        return -(-math.prod(self.box.sizes) // self.block)

    @property
    def warps(self) -> int:
        return max(1, self.block // 256)

    def begin(self, evaluator: Evaluator, program: Int) -> Index:
        """Write the index variable of the tile of program `program`, and return the index in the output of the tile's
        elements.
        """
        size, block = math.prod(self.box.sizes), self.block
        if size > 1:
            name = evaluator.constant("BLOCK", block)
            i = evaluator.widened(program) * name + lanes(name)
            evaluator.let("i", i, f"  # [{name}] over {size} elements")
            evaluator.tile.edges = {Var("i", 0, size - 1): integer("i").below(size) if size % block else ""}
        return self.box.index(ex.delinearize(ex.variable("i", size), self.box.sizes))


@dataclass(frozen=True)
class Square:
    """A square tile over the last dim of a box and the dim `across`. The other dims are spread over programs."""

    box: Box
    across: int

    @property
    def last(self) -> int:
        return max(d for d, size in enumerate(self.box.sizes) if size > 1)

    @property
    def other_dims(self) -> list[int]:
        return [d for d in range(len(self.box.sizes)) if d not in (self.across, self.last)]

    @property
    def steps(self) -> tuple[int, int]:
        """Return the number of tiles along both dims."""
        return -(-self.box.sizes[self.across] // _SIDE), -(-self.box.sizes[self.last] // _SIDE)

    @property
    def programs(self) -> int:
        return math.prod(self.steps) * math.prod(self.box.sizes[d] for d in self.other_dims)

    @property
    def warps(self) -> int:
        return 4

    def begin(self, evaluator: Evaluator, program: Int) -> Index:
        """Write the index variables of the tile of program `program`, and return the index in the output of the tile's
        elements.
        """
        sizes, steps, let = self.box.sizes, self.steps, evaluator.let
        rows, cols = sizes[self.across], sizes[self.last]
        outer = [sizes[d] for d in self.other_dims]
        side = evaluator.constant("SIDE", _SIDE)
        tile, inside = integer("tile"), lanes(side)
        let("tile", evaluator.widened(program))
        let(
            "row",
            tile // steps[1] % steps[0] * side + inside.turned("[:, None]"),
            f"  # over {rows}: dim {self.across}",
        )
        let("col", tile % steps[1] * side + inside.turned("[None, :]"), f"  # over {cols}: dim {self.last}")
        let("batch", tile // math.prod(steps), f"  # over {math.prod(outer)}: the other dims")
        evaluator.tile.edges = {
            Var("row", 0, rows - 1): integer("row").below(rows) if rows % _SIDE else "",
            Var("col", 0, cols - 1): integer("col").below(cols) if cols % _SIDE else "",
        }
        coordinates = dict(
            zip(self.other_dims, ex.delinearize(ex.variable("batch", math.prod(outer)), outer), strict=True)
        )
        coordinates |= {self.across: ex.variable("row", rows), self.last: ex.variable("col", cols)}
        return self.box.index(tuple(coordinates[d] for d in range(len(sizes))))


Tile = Flat | Square


def tile_of(body: Graph, box: Box) -> Tile:
    """Return the tile for a box of the outputs: a square if a large operand is read transposed, otherwise a flat tile."""
    across = _transposed_dim(body, box)
    return Flat(box) if across is None else Square(box, across)


def _transposed_dim(body: Graph, box: Box) -> int | None:
    """Return the output dim along which the largest operand is contiguous if that operand is read transposed.

    Returns None if no operand that is as large as the largest one is read transposed, or if it is too small.
    """
    if any(v.type.shape != body.outputs[0].type.shape for v in body.outputs) or len(box.sizes) < 2:
        return None
    inside = tuple(ex.variable(f"d{d}", size) for d, size in enumerate(box.sizes))
    reads = list(dict.fromkeys(_reads(body, box.index(inside))))
    big = max((value.type.size for value, _ in reads), default=0)
    last = next((e.terms[0][0] for e in reversed(inside) if e.terms), None)
    for value, index in reads:
        if value.type.size < max(big, _LEAST):
            continue
        strides = {v: f for v, f in ex.linearize(index, value.type.sizes).terms if isinstance(v, Var)}
        if isinstance(last, Var) and strides.get(last, 0) > 1:
            fast = [d for d, e in enumerate(inside) if e.terms and strides.get(_only(e), 0) == 1]
            if fast and box.sizes[fast[0]] >= _LEAST_ROW:
                return fast[0]
    return None


def _only(expr: Expr) -> Var:
    var = expr.terms[0][0]
    assert isinstance(var, Var)
    return var


def _reads(body: Graph, index: Index) -> Iterator[tuple[Value, Index]]:
    """Yield the inputs of a body that the outputs read at `index`, each with the index that is read.

    Follows element-wise ops, index maps and concatenations. Follows a concatenation only if one of its operands
    contains the entire box.
    """
    producers = body.index.producers

    def read(access: tuple[Value, Index]) -> Iterable[tuple[Value, Index]]:
        value, at = access
        node = producers.get(value)
        if node is None:
            return ()
        if node.op in POINTWISE:
            return [(v, at if v.type.rank else ()) for v in node.operands if v.type.rank in (0, len(at))]
        if node.op in LAYOUT - LEAVING:
            return [(node.operands[0], backward(node, at))]
        return _concatenated_operand(node, at) if node.op in JOINING else ()

    accesses = reachable([(value, index) for value in body.outputs], read)
    return ((value, at) for value, at in accesses if value not in producers)


def _concatenated_operand(node: Node, index: Index) -> list[tuple[Value, Index]]:
    """Return the operand of a concatenation that contains the entire range `index`, with the range inside this operand.

    Returns [] if the range spans several operands.
    """
    dim = node.attrs.dim
    ends = itertools.accumulate((v.type.sizes[dim] for v in node.operands), initial=0)
    low, high = index[dim].bounds
    return [
        (value, (*index[:dim], index[dim] - start, *index[dim + 1 :]))
        for value, start in zip(node.operands, ends, strict=False)
        if start <= low and high < start + value.type.sizes[dim]
    ]
