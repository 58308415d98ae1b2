"""Analysis of the row reductions of a dot's result: maxima, sums, sums of exponentials, and gathers.

%m = reduce maximum %v, dims [1]                 where %v is an element-wise function of the dot's result
%s = reduce add exp(%v - broadcast %g)           relative to %g, which has one element per row and may depend on %m
%l = gather %v, one element of each row
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshgen.codegen.passes.row_indexing import IndexedRows
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ir.matchers import through
from meshgen.ir.regions import used_by
from meshgen.kernels.matmul import reducible_columns
from meshgen.ops.classes import DOTS, POINTWISE, REDUCTIONS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import common_type, multiplied_as

# Columns per block: the columns of a tile, or half the columns of the largest tiles, which fit in registers
# (`kernels/matmul.py`).
COLUMNS = 128
_MAX_NODES = 32  # Largest number of nodes between a dot and a row reduction (chosen: a log-softmax has four).
_FLOATS_WITH_INFINITY = (
    "bf16",
    "f16",
    "f32",
    "f64",
)  # Float types that have an infinity. Masked-out elements are set to minus infinity.


class Row(NamedTuple):
    """A reduction of entire rows of `operand`, or of exp(operand - shift), where `shift` has one element per row."""

    node: Node
    operand: Value
    shift: Value | None = None


@dataclass(frozen=True)
class LookUp:
    """A gather of one element per row of a dot's result, or of an element-wise function of the result.

    Attributes:
        way: the element-wise nodes between the dot and the gather that combine the dot's values with values per row, in
            program order.
        of_rows: for each operand of these nodes that is broadcast along rows, the source of the broadcast. The source
            has one element per row, or is a scalar.
    """

    node: Node
    rows: IndexedRows
    way: tuple[Node, ...] = ()
    of_rows: Mapping[Value, Value] = field(default_factory=dict[Value, Value])


@dataclass
class RowReductions:
    """The row reductions and gathers of a dot's result.

    Attributes:
        are_kept: whether other users read the dot's result, or an element-wise function of it, from memory.
    """

    dot: Node
    reductions: dict[Node, Row] = field(default_factory=dict[Node, Row])
    lookups: dict[Node, LookUp] = field(default_factory=dict[Node, LookUp])
    are_kept: bool = False


def softmax_dots(graph: Graph) -> list[Node]:
    """Return the dots whose result a softmax reduces and whose result's rows consist of several blocks."""
    producers, dots = graph.index.producers, dict[Node, None]()
    for node in graph.nodes:
        is_sum = node.op in REDUCTIONS and node.attrs.kind == "add"
        producer = producers.get(through(node.operands[0], producers.get, {"convert"})) if is_sum else None
        if producer is not None and producer.op == "exponential":
            dots.update(dict.fromkeys(_dots_behind(producer.operands[0], producers)))
    return [dot for dot in dots if _has_blocks(dot)]


def _dots_behind(value: Value, producers: Mapping[Value, Node]) -> Iterator[Node]:
    """Yield the dots of which `value` is an element-wise function."""
    seen, stack = set[Value](), [value]
    while stack and len(seen) < _MAX_NODES:
        current = stack.pop()
        node = producers.get(current)
        if node is None or current in seen or current.type.size != value.type.size:
            continue
        seen.add(current)
        if node.op in DOTS:
            yield node
        elif node.op in POINTWISE or node.op == "reshape":
            stack += node.operands


def _has_blocks(dot: Node) -> bool:
    """Whether the rows of a dot's result consist of several equal blocks that the dot's kernel can reduce."""
    columns = dot.result.type.sizes[-1] if len(DotDims.of(dot).free[1]) == 1 and is_float(common_type(dot)) else 0
    return columns > COLUMNS and not columns % COLUMNS and COLUMNS in reducible_columns(multiplied_as(dot))


def rows_of(dot: Node, graph: Graph) -> RowReductions | None:
    """Return the row reductions and gathers of a dot's result, or None if none of the reductions belongs to a softmax."""
    softmax_rows = _UserVisitor(dot, graph).found
    return softmax_rows if any(row.shift is not None for row in softmax_rows.reductions.values()) else None


class _UserVisitor:
    """Visits the transitive users of a dot's result in program order.

    Attributes:
        found: the row reductions and gathers visited so far.
        _rowwise: element-wise functions of the dot's result that depend on no reduction.
        _after_reduction: values that depend on a reduction.
        _other_users: nodes that read values in `_rowwise` and are neither row reductions nor gathers.
    """

    def __init__(self, dot: Node, graph: Graph) -> None:
        self.found = RowReductions(dot)
        self._dot = dot
        self._position = {node: position for position, node in enumerate(graph.nodes)}
        self._producers, self._users = graph.index.producers, graph.index.uses
        self._rowwise, self._after_reduction, self._other_users = {dot.result}, set[Value](), list[Node]()
        for node in graph.nodes:
            if not self._rowwise.isdisjoint(reads := [*used_by(node)]) or not self._after_reduction.isdisjoint(reads):
                self._read(node, reads)
        inside, ends = self._inside()
        is_read = any(node not in inside for node in self._other_users)
        is_read |= any(user not in inside | ends for node in inside for user, _ in self._users[node.result])
        values = {*self._rowwise, *(node.result for node in inside)}
        self.found.are_kept = is_read or not values.isdisjoint(graph.outputs)

    def _read(self, node: Node, reads: Sequence[Value]) -> None:
        """Classify `node`, which reads the values `reads` that depend on the dot's result."""
        is_elementwise = node.op in POINTWISE or node.op == "reshape"
        if is_elementwise and self._has_rows(node.result) and self._after_reduction.isdisjoint(reads):
            self._rowwise.update(node.results)
            return
        self._after_reduction.update(node.results)
        if (row := self._row(node)) is not None:
            self.found.reductions[node] = row
        elif (look_up := self._look_up(node)) is not None:
            self.found.lookups[node] = look_up
        elif not self._rowwise.isdisjoint(reads):
            self._other_users.append(node)

    def _has_rows(self, value: Value) -> bool:
        """Whether a value has as many rows as the dot's result, of the same length. Outer dims may differ."""
        value_type, dot_type = value.type, self._dot.result.type
        return value_type.rank > 1 and (value_type.size, value_type.sizes[-1]) == (dot_type.size, dot_type.sizes[-1])

    def _row(self, node: Node) -> Row | None:
        """Return the row reduction that `node` computes if it can be blocked, or None for other nodes."""
        if node.op not in REDUCTIONS or node.attrs.kind not in ("add", "maximum", "minimum"):
            return None
        value = node.operands[0]
        if tuple(node.attrs.dims) != (value.type.rank - 1,) or not self._has_rows(value):
            return None
        if value in self._rowwise:
            return Row(node, value)
        path = self._way(node)
        return Row(node, path[0].operands[0], self._shift(path[0])) if path else None

    def _way(self, node: Node) -> list[Node]:
        """Return the nodes (subtraction, exponential, conversions) between the rows and `node` if `node` is a softmax
        sum.

        Returns an empty list for other nodes.
        """
        path, producer = list[Node](), self._producers.get(node.operands[0])
        while producer is not None and producer.op == "convert" and is_float(producer.operands[0].type.dtype):
            path.insert(0, producer)
            producer = self._producers.get(producer.operands[0])
        subtraction = (
            self._producers.get(producer.operands[0]) if producer is not None and producer.op == "exponential" else None
        )
        if producer is None or subtraction is None or node.attrs.kind != "add" or subtraction.op != "subtract":
            return []
        is_shifted = subtraction.operands[0] in self._rowwise and self._shift(subtraction) is not None
        return (
            [subtraction, producer, *path]
            if is_shifted and subtraction.result.type.dtype in _FLOATS_WITH_INFINITY
            else []
        )

    def _shift(self, subtraction: Node) -> Value | None:
        """Return the value with one element per row that `subtraction` subtracts from the rows, or None for other
        subtractions.
        """
        source = self._of_rows(subtraction.operands[1])
        return source if source is not None and source.type.size > 1 else None

    def _of_rows(self, value: Value) -> Value | None:
        """Return the source of a broadcast along columns: one element per row, in row order, or a scalar.

        Returns None for other values.
        """
        broadcast = self._producers.get(value)
        if broadcast is None or broadcast.op != "broadcast_in_dim":
            return None
        source, dims, sizes = broadcast.operands[0], broadcast.attrs.dims, value.type.sizes
        last = len(sizes) - 1
        is_along = all(n == 1 or (n == sizes[d] and d < last) for n, d in zip(source.type.sizes, dims, strict=True))
        is_whole = source.type.size in (1, math.prod(sizes[:-1])) and sorted(dims) == [*dims]
        return source if is_along and is_whole else None

    def _inside(self) -> tuple[set[Node], set[Node]]:
        """Return the softmax sums and gathers, and the nodes between them and the dot's result."""
        sums = {node for node, row in self.found.reductions.items() if row.shift is not None}
        paths = [*map(self._way, sums), *(look_up.way for look_up in self.found.lookups.values())]
        return {node for path in paths for node in path}, sums | {*self.found.lookups}

    def _look_up(self, node: Node) -> LookUp | None:
        """Return the gather that `node` computes if it takes one element per row, in row order, or None for other
        nodes.
        """
        if node.op != "gather" or not self._has_rows(node.operands[0]):
            return None
        attrs, (value, indices) = node.attrs, node.operands
        last = value.type.rank - 1
        path = self._elementwise_path(value)
        if (
            path is None
            or attrs.offset_dims
            or set(attrs.slice_sizes) != {1}
            or value.type.dtype not in _FLOATS_WITH_INFINITY
        ):
            return None
        batching = dict(zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True))
        rows = IndexedRows(
            indices, value.type.sizes, attrs.start_index_map, batching, attrs.index_vector_dim, self._producers
        )
        order = [rows.bound.get(d, -1) for d in range(last)]
        is_one_per_row = (
            [d for d, _ in rows.looked_up_dims] == [last]
            and rows.are_rows_disjoint
            and order == sorted({*order} - {-1})
        )
        return LookUp(node, rows, *path) if is_one_per_row else None

    def _elementwise_path(self, value: Value) -> tuple[tuple[Node, ...], dict[Value, Value]] | None:
        """Find the element-wise nodes that compute `value` from values in `_rowwise` and values per row.

        Returns:
            These nodes and the sources of the values per row, or None if `value` depends on anything else.
        """
        path, of_rows, stack = dict[Node, None](), dict[Value, Value](), [value]
        while stack:
            current = stack.pop()
            producer = self._producers.get(current)
            if current in self._rowwise:
                continue
            if (source := self._of_rows(current)) is not None:
                of_rows[current] = source
                continue
            if (
                producer is None
                or producer.op not in POINTWISE
                or current.type.shape != value.type.shape
                or len(path) == _MAX_NODES
            ):
                return None
            path[producer] = None
            stack += producer.operands
        return tuple(sorted(path, key=self._position.__getitem__)), of_rows
