"""A dot over groups whose rows a mask selects multiplies each row by the matrix of its group only.

    before   %m = select (start[g] <= i < end[g]), %x, 0     bf16[8, 4096, 1024], %x broadcast over the groups g, i: the number of the row
             %y = dot_general %m, %w, contracting_dims = [0, 2] x [0, 1]        bf16[8, 1024, 512] -> bf16[4096, 512]
    after    %y = ragged_dot %x, %w, %start, %end

    before   %d = dot_general %m, %dy, contracting_dims = [1] x [0]             bf16[4096, 512] -> bf16[8, 1024, 512]
    after    %d = ragged_dot %x, %dy, %start, %end {contracts}

The first is what experts do, the second the gradient of their matrices; JAX writes `ragged_dot` and its gradients so for CPUs, and
`chlo.ragged_dot` is read as them. The numbers of rows may be those of a tile, and the groups those of a device. What a row had of the
matrices of other groups was zero times them: NaN where they are infinite, which is gone. Left as they are: masked dots with batch dims.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value, is_complex
from meshgen.ir.predicates import is_constant
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.live import without_dead
from meshgen.records import dataclass

Producers = Mapping[Value, Node]
Dims = tuple[int | None, ...]  # for each dim of a value the dim of the mask that it is; None: of size 1
_ENDS = {"GE": ("start", 0), "GT": ("start", 1), "LT": ("end", 0), "LE": ("end", 1)}  # of `row compared with number`
_FAR = 1 << 40  # beyond all rows, and all numbers that are added to them
_TURNED = {"GE": "LE", "GT": "LT", "LT": "GT", "LE": "GE"}


@dataclass(frozen=True)
class _Bound:
    """Rows from `number[g]` on, or before it, for each group g; `plus` is added to the number, the 0-d `offsets` to the row's."""

    is_start: bool
    number: Value
    plus: int
    offsets: tuple[Value, ...]
    group: int
    row: int


@dataclass(frozen=True)
class _Masked:
    """`x` once per group, the dim `group` of it, with zeros in the rows, of dim `row`, that are not of the group."""

    x: Value
    dims: tuple[int, ...]  # what dim of the masked value each dim of x is
    bounds: tuple[_Bound, ...]
    group: int
    row: int

    def arranged(self, builder: Builder, order: Sequence[int]) -> Value:
        """x with its dims in the order of these dims of the masked value."""
        return _in_dim_order(builder, self.x, [self.dims.index(d) for d in order])


@module_pass("masked-dot-to-ragged", "partition")
def masked_dot_to_ragged(module: Module, context: Compilation) -> Module:
    """A local program whose dots over groups that masks select are of groups of rows."""
    return on_graphs(module, _with_ragged_dots)


@dataclass(frozen=True)
class RaggedProducts:
    """The dots of a graph that this pass rewrites, each with its number of groups, and the nodes that are not needed then."""

    groups: Mapping[Node, int]
    unneeded: frozenset[Node]


def ragged_products(graph: Graph) -> RaggedProducts:
    """Return what the pass would rewrite in a graph, whose types may be global."""
    written = _with_ragged_dots(graph)
    if written is graph:
        return RaggedProducts({}, frozenset())
    gone, producer, groups = {*graph.nodes} - {*written.nodes}, graph.index.producers, dict[Node, int]()
    for dot in (node for node in graph.nodes if node in gone and node.op == "dot_general"):
        scratch = Graph("")
        if _emit_ragged(Builder(scratch, dot.loc), dot, producer):
            (ragged,) = (node for node in scratch.nodes if node.op == "ragged_dot")
            groups[dot] = (ragged.result if ragged.attrs.contracts else ragged.operands[1]).type.sizes[0]
    return RaggedProducts(groups, frozenset(gone - groups.keys()))


def _with_ragged_dots(graph: Graph) -> Graph:
    if not any(node.op == "dot_general" for node in graph.nodes) or not any(n.op == "compare" for n in graph.nodes):
        return graph
    producer, found = graph.index.producers, Graph(graph.name, graph.inputs, [], graph.outputs)
    for node in graph.nodes:
        if node.op != "dot_general" or not _emit_ragged(Builder(found, node.loc), node, producer):
            found.nodes.append(node)
    return graph if found.nodes == graph.nodes else without_dead(found)


def _emit_ragged(builder: Builder, dot: Node, producer: Producers) -> bool:
    """Write a masked dot as a ragged one; False, and nothing, for all others."""
    if not dot.result.type.size or is_complex(dot.result.type.dtype):
        return False
    sides, dims = [_masked(value, producer) for value in dot.operands], DotDims.of(dot)
    for side, masked in enumerate(sides):
        if masked is None:
            continue
        other = sides[1 - side]
        if not dims.batch[0] and dims.free[side] == (masked.row,) and masked.group in dims.contract[side]:
            _by_rows(builder, dot, dims, side, masked)
            return True
        if dims.contract[side] != (masked.row,):
            continue
        if not dims.batch[0] and masked.group in dims.free[side]:
            _over_rows(builder, dot, dims, side, masked, None)
            return True
        if dims.batch[side] == (masked.group,) and _is_alike(other, dims, 1 - side):
            _over_rows(builder, dot, dims, side, masked, other)
            return True
    return False


def _is_alike(other: _Masked | None, dims: DotDims, side: int) -> bool:
    """Whether the other operand has a mask along the same dims of the product."""
    return other is not None and dims.batch[side] == (other.group,) and dims.contract[side] == (other.row,)


# ---- what is written


def _by_rows(builder: Builder, dot: Node, dims: DotDims, side: int, masked: _Masked) -> None:
    """Each row by the matrix of its group."""
    other, pairs = dot.operands[1 - side], dims.contract[1 - side]
    place = dims.contract[side].index(masked.group)
    mine = [d for d in dims.contract[side] if d != masked.group]
    theirs = [d for number, d in enumerate(pairs) if number != place]
    rows = _flat(builder, masked.arranged(builder, [masked.row, *mine]), 1)
    turned = _in_dim_order(builder, other, [pairs[place], *theirs, *dims.free[1 - side]])
    matrices = _flat(builder, turned, 1, 1 + len(theirs))
    free = [other.type.sizes[d] for d in dims.free[1 - side]]
    count = rows.type.sizes[0]
    kind = dot.result.type.with_shape((count, matrices.type.sizes[-1]))
    found = builder.emit(
        "ragged_dot", [rows, matrices, *_ends(builder, masked.bounds)], kind, **_attrs(dot, side, False)
    )
    found = _shaped(builder, found, (count, *free))
    if side == 1:
        found = _in_dim_order(builder, found, [*range(1, 1 + len(free)), 0])
    _rename(builder, found, dot)


def _over_rows(builder: Builder, dot: Node, dims: DotDims, side: int, masked: _Masked, other: _Masked | None) -> None:
    """A product per group, summed over its rows; the other operand has its rows as they are, or masked too."""
    free = [[d for d in each if d != masked.group or n != side] for n, each in enumerate(dims.free)]
    mine = masked.arranged(builder, [masked.row, *free[side]])
    if other is None:
        theirs = _in_dim_order(builder, dot.operands[1 - side], [dims.contract[1 - side][0], *free[1 - side]])
    else:
        theirs = other.arranged(builder, [other.row, *free[1 - side]])
    sides = [_flat(builder, value, 1) for value in ((mine, theirs) if side == 0 else (theirs, mine))]
    ends = _ends(builder, (*masked.bounds, *(other.bounds if other else ())))
    groups = dot.operands[side].type.sizes[masked.group]
    kind = dot.result.type.with_shape((groups, *(value.type.sizes[1] for value in sides)))
    found = builder.emit("ragged_dot", [*sides, *ends], kind, **_attrs(dot, 0, True))
    kept = [dot.operands[n].type.sizes[d] for n, each in enumerate(free) for d in each]
    found = _shaped(builder, found, (groups, *kept))
    if other is None:  # groups are among the free dims of their side
        place = dims.free[side].index(masked.group) + (len(dims.free[0]) if side else 0)
        found = _in_dim_order(builder, found, [*range(1, place + 1), 0, *range(place + 1, found.type.rank)])
    _rename(builder, found, dot)


def _attrs(dot: Node, side: int, contracts: bool) -> dict[str, object]:
    words = dot.attrs.precision
    return {"contracts": contracts, "precision": words if side == 0 else tuple(reversed(words))}


def _rename(builder: Builder, found: Value, dot: Node) -> None:
    """Let the last node make the result of the dot."""
    assert found.type.shape == dot.result.type.shape, "a ragged dot has the result of its masked one"
    builder.make(dot.results)


def _in_dim_order(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    return value if list(order) == sorted(order) else builder.transpose(value, order)


def _flat(builder: Builder, value: Value, *cuts: int) -> Value:
    """The value with the dims between two cuts, and after the last, as one each."""
    parts = itertools.pairwise([0, *cuts, value.type.rank])
    return _shaped(builder, value, [math.prod(value.type.sizes[start:stop]) for start, stop in parts])


def _shaped(builder: Builder, value: Value, shape: Sequence[int]) -> Value:
    return value if tuple(shape) == value.type.shape else builder.reshape(value, shape)


def _ends(builder: Builder, bounds: Sequence[_Bound]) -> list[Value]:
    """Where the groups start and end: the rows that all bounds let through."""
    found: list[Value] = []
    for is_start in (True, False):
        numbers = dict.fromkeys(
            _number(builder, bound) for bound in dict.fromkeys(bounds) if bound.is_start == is_start
        )
        first, *more = numbers
        for number in more:
            first = builder.elementwise("maximum" if is_start else "minimum", first, number)
        found.append(first)
    return found


def _number(builder: Builder, bound: _Bound) -> Value:
    """The numbers of a bound as i32, for rows that are counted from 0; all beyond the rows of any tensor are alike."""
    number = _shaped(builder, bound.number, (bound.number.type.size,))
    if number.type.dtype == "i32" and not bound.plus and not bound.offsets:
        return number
    number = _within(builder, builder.convert(number, "i64"), -_FAR, _FAR)
    if bound.plus:
        number = builder.elementwise("add", number, builder.splat(bound.plus, number.type))
    for offset in bound.offsets:
        number = builder.elementwise(
            "subtract", number, builder.spread(builder.convert(offset, "i64"), number.type.shape)
        )
    return builder.convert(_within(builder, number, 0, (1 << 31) - 1), "i32")


def _within(builder: Builder, number: Value, low: int, high: int) -> Value:
    number = builder.elementwise("maximum", number, builder.splat(low, number.type))
    return builder.elementwise("minimum", number, builder.splat(high, number.type))


# ---- what is recognised


def _masked(value: Value, producer: Producers) -> _Masked | None:
    """The value as rows that are selected by group, if it is that."""
    node = producer.get(value)
    if node is None or node.op != "select" or not _is_zero(node.operands[2], producer):
        return None
    spread = producer.get(node.operands[1])
    if spread is None or spread.op != "broadcast_in_dim":
        return None
    dims = tuple(spread.attrs.dims)
    bounds = _bounds(node.operands[0], tuple(range(value.type.rank)), producer)
    if bounds is None or {bound.is_start for bound in bounds} != {True, False}:
        return None
    places = {(bound.group, bound.row) for bound in bounds}
    group, row = next(iter(places))
    if len(places) != 1 or sorted((*dims, group)) != list(range(value.type.rank)):
        return None
    sizes = tuple(value.type.sizes[d] for d in dims)
    return _Masked(spread.operands[0], dims, bounds, group, row) if spread.operands[0].type.sizes == sizes else None


def _is_zero(value: Value, producer: Producers) -> bool:
    node = producer.get(value)
    while node is not None and node.op == "broadcast_in_dim":
        node = producer.get(node.operands[0])
    return is_constant(node) and not node.attrs.value.any()


def _bounds(mask: Value, dims: Dims, producer: Producers) -> tuple[_Bound, ...] | None:
    """The bounds that together are a mask; None for a mask of something else."""
    node = producer.get(mask)
    if node is None:
        return None
    if node.op == "broadcast_in_dim":
        return _bounds(node.operands[0], _through(node, dims), producer)
    if node.op == "and":
        sides = [_bounds(operand, dims, producer) for operand in node.operands]
        return None if sides[0] is None or sides[1] is None else (*sides[0], *sides[1])
    if node.op != "compare" or node.attrs.direction not in _ENDS:
        return None
    left, right = node.operands
    direction = node.attrs.direction
    row, number = _counted_dim(left, dims, producer), _per_group(right, dims, producer)
    if row is None or number is None:
        row, number = _counted_dim(right, dims, producer), _per_group(left, dims, producer)
        direction = _TURNED[direction]
    if row is None or number is None or row[0] == number[1] or left.type.dtype not in ("i32", "i64"):
        return None
    side, plus = _ENDS[direction]
    return (_Bound(side == "start", number[0], plus, row[1], number[1], row[0]),)


def _through(node: Node, dims: Dims) -> Dims:
    """The dims of a broadcast's operand."""
    pairs = zip(node.operands[0].type.sizes, node.attrs.dims, strict=True)
    return tuple(None if size != node.result.type.sizes[d] else dims[d] for size, d in pairs)


def _counted_dim(value: Value, dims: Dims, producer: Producers) -> tuple[int, tuple[Value, ...]] | None:
    """The dim along which a value counts from 0, and the 0-d values that are added to it."""
    node = producer.get(value)
    if node is None:
        return None
    if node.op == "broadcast_in_dim":
        return _counted_dim(node.operands[0], _through(node, dims), producer)
    if node.op == "iota":
        dim = dims[node.attrs.dim]
        return None if dim is None else (dim, ())
    for number, operand in enumerate(node.operands if node.op == "add" else ()):
        offset = _scalar(node.operands[1 - number], producer)
        if offset is not None and (found := _counted_dim(operand, dims, producer)) is not None:
            return found[0], (*found[1], offset)
    return None


def _scalar(value: Value, producer: Producers) -> Value | None:
    """The 0-d value that a value is everywhere."""
    node = producer.get(value)
    while value.type.rank and node is not None and node.op == "broadcast_in_dim":
        value = node.operands[0]
        node = producer.get(value)
    return None if value.type.rank else value


def _per_group(value: Value, dims: Dims, producer: Producers) -> tuple[Value, int] | None:
    """A list of numbers, and the dim along which the value has one each."""
    node = producer.get(value)
    while node is not None and node.op == "broadcast_in_dim":
        value, dims = node.operands[0], _through(node, dims)
        node = producer.get(value)
    varied = [d for d, size in zip(dims, value.type.sizes, strict=True) if size > 1]
    if not varied and len(dims) == 1:  # one group
        varied = [*dims]
    group = varied[0] if len(varied) == 1 else None
    return None if group is None else (value, group)
