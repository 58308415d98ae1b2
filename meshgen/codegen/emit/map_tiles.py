"""Tiles of kernels without reductions, over a box of elements of the outputs: a flat one, or a square where rows are read across.

    x + y                       i = program * BLOCK + tl.arange(0, BLOCK)
    x + transpose(y)            row = ... tl.arange(0, SIDE)[:, None], col = ... tl.arange(0, SIDE)[None, :]

A square has rows of both operands in whole sectors, and the compiler turns one of them in shared memory.
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
_SIDE = 32  # of a square
_LEAST = 4096  # elements of an operand whose rows are worth a square
_LEAST_ROW = 8  # elements of such a row


@dataclass(frozen=True)
class Box:
    """Elements of an output: so many along each dim, from `starts` on."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def index(self, inside: Index) -> Index:
        """The index in the output of an element of the box."""
        return tuple(e + start for e, start in zip(inside, self.starts, strict=True))


def whole(sizes: tuple[int, ...]) -> Box:
    """All elements of an output."""
    return Box((0,) * len(sizes), sizes)


@dataclass(frozen=True)
class Flat:
    """A run of elements of a box in the order of memory."""

    box: Box

    @property
    def block(self) -> int:
        """Elements of a program."""
        return min(_BLOCK, 1 << max(0, math.prod(self.box.sizes) - 1).bit_length())

    @property
    def programs(self) -> int:
        return -(-math.prod(self.box.sizes) // self.block)

    @property
    def warps(self) -> int:
        return max(1, self.block // 256)

    def begin(self, evaluator: Evaluator, program: Int) -> Index:
        """Write the tile's variable for the program of this number; the index in the output."""
        size, block = math.prod(self.box.sizes), self.block
        if size > 1:
            name = evaluator.constant("BLOCK", block)
            i = evaluator.widened(program) * name + lanes(name)
            evaluator.let("i", i, f"  # [{name}] over {size} elements")
            evaluator.tile.edges = {Var("i", 0, size - 1): integer("i").below(size) if size % block else ""}
        return self.box.index(ex.delinearize(ex.variable("i", size), self.box.sizes))


@dataclass(frozen=True)
class Square:
    """A square of the last dim of a box and dim `across`; the other dims are spread over programs."""

    box: Box
    across: int

    @property
    def last(self) -> int:
        return max(d for d, size in enumerate(self.box.sizes) if size > 1)

    @property
    def others(self) -> list[int]:
        return [d for d in range(len(self.box.sizes)) if d not in (self.across, self.last)]

    @property
    def steps(self) -> tuple[int, int]:
        """Tiles along both dims."""
        return -(-self.box.sizes[self.across] // _SIDE), -(-self.box.sizes[self.last] // _SIDE)

    @property
    def programs(self) -> int:
        return math.prod(self.steps) * math.prod(self.box.sizes[d] for d in self.others)

    @property
    def warps(self) -> int:
        return 4

    def begin(self, evaluator: Evaluator, program: Int) -> Index:
        """Write the tile's variables for the program of this number; the index in the output."""
        sizes, steps, let = self.box.sizes, self.steps, evaluator.let
        rows, cols = sizes[self.across], sizes[self.last]
        outer = [sizes[d] for d in self.others]
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
        parts = dict(zip(self.others, ex.delinearize(ex.variable("batch", math.prod(outer)), outer), strict=True))
        parts |= {self.across: ex.variable("row", rows), self.last: ex.variable("col", cols)}
        return self.box.index(tuple(parts[d] for d in range(len(sizes))))


Tile = Flat | Square


def tile_of(body: Graph, box: Box) -> Tile:
    """The tile of a box of a body's outputs: a square where a big operand is read across its rows."""
    across = _transposed_dim(body, box)
    return Flat(box) if across is None else Square(box, across)


def _transposed_dim(body: Graph, box: Box) -> int | None:
    """The dim of the outputs along which the largest operand that the box is made of is contiguous, if that is not the last."""
    if any(v.type.shape != body.outputs[0].type.shape for v in body.outputs) or len(box.sizes) < 2:
        return None
    inside = tuple(ex.variable(f"d{d}", size) for d, size in enumerate(box.sizes))
    reads = list(dict.fromkeys(_reads(body, box.index(inside))))
    big = max((value.type.size for value, _ in reads), default=0)
    last = next((e.terms[0][0] for e in reversed(inside) if e.terms), None)
    for value, place in reads:
        if value.type.size < max(big, _LEAST):
            continue
        strides = {v: f for v, f in ex.linearize(place, value.type.sizes).terms if isinstance(v, Var)}
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
    """Operands and the indices at which they are read, found through pointwise ops, plain index maps, and parts that the box is inside of."""
    producers = body.index.producers

    def read(access: tuple[Value, Index]) -> Iterable[tuple[Value, Index]]:
        value, place = access
        node = producers.get(value)
        if node is None:
            return ()
        if node.op in POINTWISE:
            return [(v, place if v.type.rank else ()) for v in node.operands if v.type.rank in (0, len(place))]
        if node.op in LAYOUT - LEAVING:
            return [(node.operands[0], backward(node, place))]
        return _concatenated_operand(node, place) if node.op in JOINING else ()

    accesses = reachable([(value, index) for value in body.outputs], read)
    return ((value, place) for value, place in accesses if value not in producers)


def _concatenated_operand(node: Node, index: Index) -> list[tuple[Value, Index]]:
    """The operand of a concatenation that all of an index is in, and where; none if it is in several."""
    dim = node.attrs.dim
    ends = itertools.accumulate((v.type.sizes[dim] for v in node.operands), initial=0)
    low, high = index[dim].bounds
    return [
        (value, (*index[:dim], index[dim] - start, *index[dim + 1 :]))
        for value, start in zip(node.operands, ends, strict=False)
        if start <= low and high < start + value.type.sizes[dim]
    ]
