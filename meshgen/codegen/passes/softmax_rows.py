"""What a graph takes of the rows of a dot's result: maxima, sums, sums of exponentials, and one element of each.

%m = reduce maximum %v, dims [1]                 of %v, which is made of the dot's result element by element
%s = reduce add exp(%v - broadcast %g)           relative to %g, which has one element for each row and may depend on %m
%l = gather %v, one element of each row
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshgen.codegen.passes.indexed_rows import IndexedRows
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ir.matchers import through
from meshgen.ir.regions import used_by
from meshgen.kernels.matmul import reducible_columns
from meshgen.ops.classes import DOTS, POINTWISE, REDUCTIONS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import common_type, multiplied_as

COLUMNS = 128  # of a part: all of a tile's or half of the largest tiles', which registers hold (`kernels/matmul.py`)
_MOST_NODES = 32  # between a product, and what is taken of its rows (chosen: a logarithm of a softmax has four)
_FLOATS = ("bf16", "f16", "f32", "f64")  # those that have infinity, which stands for what is not looked up


class Row(NamedTuple):
    """A reduction of whole rows of `operand`, or of exp(operand - shift), where `shift` has one element for each row."""

    node: Node
    operand: Value
    shift: Value | None = None


@dataclass(frozen=True)
class LookUp:
    """A gather of one element of each row.

    Attributes:
        way: the element-wise nodes before it that also read values of rows, in program order.
        of_rows: what these read that is broadcast along the rows, and from what: one element for each row, or one of all.
    """

    node: Node
    rows: IndexedRows
    way: tuple[Node, ...] = ()
    of_rows: Mapping[Value, Value] = field(default_factory=dict[Value, Value])


@dataclass
class SoftmaxRows:
    """What is taken of the rows of a dot's result; `are_kept`: something else reads them, or what is made of them."""

    dot: Node
    reductions: dict[Node, Row] = field(default_factory=dict[Node, Row])
    lookups: dict[Node, LookUp] = field(default_factory=dict[Node, LookUp])
    are_kept: bool = False


def softmax_dots(graph: Graph) -> list[Node]:
    """The dots of whose results sums of exponentials of rows are taken, element by element; each may be read in parts of its rows."""
    producers, found = graph.index.producers, dict[Node, None]()
    for node in graph.nodes:
        is_sum = node.op in REDUCTIONS and node.attrs.kind == "add"
        maker = producers.get(through(node.operands[0], producers.get, {"convert"})) if is_sum else None
        if maker is not None and maker.op == "exponential":
            found.update(dict.fromkeys(_dots_behind(maker.operands[0], producers)))
    return [dot for dot in found if _has_parts(dot)]


def _dots_behind(value: Value, producers: Mapping[Value, Node]) -> Iterator[Node]:
    """Dots from which a value is made element by element."""
    seen, stack = set[Value](), [value]
    while stack and len(seen) < _MOST_NODES:
        current = stack.pop()
        node = producers.get(current)
        if node is None or current in seen or current.type.size != value.type.size:
            continue
        seen.add(current)
        if node.op in DOTS:
            yield node
        elif node.op in POINTWISE or node.op == "reshape":
            stack += node.operands


def _has_parts(dot: Node) -> bool:
    """Whether the rows of a dot's result are several parts of equal length, which its kernel may reduce."""
    columns = dot.result.type.sizes[-1] if len(DotDims.of(dot).free[1]) == 1 and is_float(common_type(dot)) else 0
    return columns > COLUMNS and not columns % COLUMNS and COLUMNS in reducible_columns(multiplied_as(dot))


def rows_of(dot: Node, graph: Graph) -> SoftmaxRows | None:
    """What is taken of the rows of a dot's result; None without a softmax."""
    found = _Reading(dot, graph).found
    return found if any(row.shift is not None for row in found.reductions.values()) else None


class _Reading:
    """Goes over what depends on a dot's result, in program order.

    `_made` are values with its rows that are made of it element by element and depend on no reduction, `_late` those that depend on
    one, `_others` nodes that read the former and take nothing of rows.
    """

    def __init__(self, dot: Node, graph: Graph) -> None:
        self.found = SoftmaxRows(dot)
        self._dot = dot
        self._position = {node: place for place, node in enumerate(graph.nodes)}
        self._producers, self._users = graph.index.producers, graph.index.uses
        self._made, self._late, self._others = {dot.result}, set[Value](), list[Node]()
        for node in graph.nodes:
            if not self._made.isdisjoint(reads := [*used_by(node)]) or not self._late.isdisjoint(reads):
                self._read(node, reads)
        inside, ends = self._inside()
        is_read = any(node not in inside for node in self._others)
        is_read |= any(user not in inside | ends for node in inside for user, _ in self._users[node.result])
        values = {*self._made, *(node.result for node in inside)}
        self.found.are_kept = is_read or not values.isdisjoint(graph.outputs)

    def _read(self, node: Node, reads: Sequence[Value]) -> None:
        """Take in a node that depends on the dot's result."""
        is_made = node.op in POINTWISE or node.op == "reshape"
        if is_made and self._has_rows(node.result) and self._late.isdisjoint(reads):
            self._made.update(node.results)
            return
        self._late.update(node.results)
        if (row := self._row(node)) is not None:
            self.found.reductions[node] = row
        elif (look_up := self._look_up(node)) is not None:
            self.found.lookups[node] = look_up
        elif not self._made.isdisjoint(reads):
            self._others.append(node)

    def _has_rows(self, value: Value) -> bool:
        """Whether a value has rows as many and as long as the dot's result; their dims may be others."""
        kind, other = value.type, self._dot.result.type
        return kind.rank > 1 and (kind.size, kind.sizes[-1]) == (other.size, other.sizes[-1])

    def _row(self, node: Node) -> Row | None:
        """A node as a reduction of rows that may be taken in parts."""
        if node.op not in REDUCTIONS or node.attrs.kind not in ("add", "maximum", "minimum"):
            return None
        value = node.operands[0]
        if tuple(node.attrs.dims) != (value.type.rank - 1,) or not self._has_rows(value):
            return None
        if value in self._made:
            return Row(node, value)
        way = self._way(node)
        return Row(node, way[0].operands[0], self._shift(way[0])) if way else None

    def _way(self, node: Node) -> list[Node]:
        """The subtraction, the exponential, and conversions after it, whose results a node adds up; empty if it adds up something else."""
        way, maker = list[Node](), self._producers.get(node.operands[0])
        while maker is not None and maker.op == "convert" and is_float(maker.operands[0].type.dtype):
            way.insert(0, maker)
            maker = self._producers.get(maker.operands[0])
        less = self._producers.get(maker.operands[0]) if maker is not None and maker.op == "exponential" else None
        if maker is None or less is None or node.attrs.kind != "add" or less.op != "subtract":
            return []
        is_shifted = less.operands[0] in self._made and self._shift(less) is not None
        return [less, maker, *way] if is_shifted and less.result.type.dtype in _FLOATS else []

    def _shift(self, less: Node) -> Value | None:
        """What a subtraction takes from each row: one element for each, in their order."""
        source = self._of_rows(less.operands[1])
        return source if source is not None and source.type.size > 1 else None

    def _of_rows(self, value: Value) -> Value | None:
        """What is the same in all columns: one element for each row, in their order, or one of all."""
        spread = self._producers.get(value)
        if spread is None or spread.op != "broadcast_in_dim":
            return None
        source, dims, sizes = spread.operands[0], spread.attrs.dims, value.type.sizes
        last = len(sizes) - 1
        is_along = all(n == 1 or (n == sizes[d] and d < last) for n, d in zip(source.type.sizes, dims, strict=True))
        is_whole = source.type.size in (1, math.prod(sizes[:-1])) and sorted(dims) == [*dims]
        return source if is_along and is_whole else None

    def _inside(self) -> tuple[set[Node], set[Node]]:
        """The nodes between the dot's result and its sums of exponentials and look-ups, and these."""
        sums = {node for node, row in self.found.reductions.items() if row.shift is not None}
        ways = [*map(self._way, sums), *(each.way for each in self.found.lookups.values())]
        return {node for way in ways for node in way}, sums | {*self.found.lookups}

    def _look_up(self, node: Node) -> LookUp | None:
        """A node as a gather of one element of each row, in their order."""
        if node.op != "gather" or not self._has_rows(node.operands[0]):
            return None
        attrs, (value, indices) = node.attrs, node.operands
        last = value.type.rank - 1
        way = self._way_to(value)
        if way is None or attrs.offset_dims or set(attrs.slice_sizes) != {1} or value.type.dtype not in _FLOATS:
            return None
        batching = dict(zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True))
        rows = IndexedRows(
            indices, value.type.sizes, attrs.start_index_map, batching, attrs.index_vector_dim, self._producers
        )
        order = [rows.bound.get(d, -1) for d in range(last)]
        is_each = [d for d, _ in rows.looked_for] == [last] and rows.are_apart and order == sorted({*order} - {-1})
        return LookUp(node, rows, *way) if is_each else None

    def _way_to(self, value: Value) -> tuple[tuple[Node, ...], dict[Value, Value]] | None:
        """The element-wise nodes that make a value of what depends on no reduction and of values of rows, and these; None if others do."""
        way, of_rows, stack = dict[Node, None](), dict[Value, Value](), [value]
        while stack:
            current = stack.pop()
            maker = self._producers.get(current)
            if current in self._made:
                continue
            if (source := self._of_rows(current)) is not None:
                of_rows[current] = source
                continue
            if (
                maker is None
                or maker.op not in POINTWISE
                or current.type.shape != value.type.shape
                or len(way) == _MOST_NODES
            ):
                return None
            way[maker] = None
            stack += maker.operands
        return tuple(sorted(way, key=self._position.__getitem__)), of_rows
