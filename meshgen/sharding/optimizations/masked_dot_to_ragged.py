"""Replace a dot over groups with a masked operand by a ragged_dot that multiplies rows by their group's matrix only.

    before   %m = select (start[g] <= i < end[g]), %x, 0     bf16[8, 4096, 1024], %x broadcast over the groups g, i: the
    row index
             %y = dot_general %m, %w, contracting_dims = [0, 2] x [0, 1]        bf16[8, 1024, 512] -> bf16[4096, 512]
    after    %y = ragged_dot %x, %w, %start, %end

    before   %d = dot_general %m, %dy, contracting_dims = [1] x [0]             bf16[4096, 512] -> bf16[8, 1024, 512]
    after    %d = ragged_dot %x, %dy, %start, %end {contracts}

The first form is the forward pass of mixture-of-experts layers, the second the gradient of the experts' matrices. JAX
writes `ragged_dot` and its gradients in this form for CPUs. The masked dot multiplies each row by the matrices of other
groups with zeros, which gives NaN if these matrices have infinite elements; the ragged dot does not. Masked dots with
batch dims are not rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value, is_complex
from meshgen.ir.matchers import Dims, layout_source, operand_dims
from meshgen.ir.regions import needed_nodes, program_regions
from meshgen.ops.classes import IMPURE
from meshgen.ops.constants import splat_of
from meshgen.ops.count_ranges import is_ascending
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.ragged_dots import bound_of, matrices_by_group, rows_by_group

Producers = Mapping[Value, Node]
# direction of the comparison of a row index with a number -> start or end of a group, and the offset to add to the
# number
_ENDS = {"GE": ("start", 0), "GT": ("start", 1), "LT": ("end", 0), "LE": ("end", 1)}
_SWAPPED = {"GE": "LE", "GT": "LT", "LT": "GT", "LE": "GE"}


@dataclass(frozen=True)
class _Bound:
    """A bound of a mask: it selects the rows from `number[group]` on, or the rows before `number[group]`.

    `plus` is added to the number, and the 0-d `offsets` are added to the row index.
    """

    is_start: bool
    number: Value
    plus: int
    offsets: tuple[Value, ...]
    group: int
    row: int


@dataclass(frozen=True)
class _Masked:
    """A dot operand that repeats `rows` for each group, with zeros in rows that are outside of the group.

    Attributes:
        rows: the value without the group dim.
        dims: for each dim of `rows`, the dim of the operand.
        dtypes: element types that the rows are converted to in sequence; each conversion rounds.
        bounds: the bounds of the groups.
        group, row: dims of the operand.
    """

    rows: Value
    dims: Dims
    dtypes: tuple[str, ...]
    bounds: tuple[_Bound, ...]
    group: int
    row: int

    def without_groups(self, builder: Builder, sizes: Sequence[int]) -> Value:
        """Return the rows in the operand's dim order without the group dim. The operand has these `sizes`."""
        order = sorted((d for d, dim in enumerate(self.dims) if dim is not None), key=lambda d: self.dims[d] or 0)
        units = [d for d, dim in enumerate(self.dims) if dim is None]
        rows = builder.permuted(reduce(builder.convert, self.dtypes, self.rows), [*order, *units])
        return builder.shaped(rows, [size for d, size in enumerate(sizes) if d != self.group])


@module_pass("masked-dot-to-ragged", "import", "partition", requires_ops=("dot_general",))
def masked_dot_to_ragged(module: Module, context: Compilation) -> Module:
    """Return the module with ragged dots instead of masked dots over groups, in regions as well."""
    graph = _with_ragged_dots(module.graph)
    return module if graph is module.graph else replace(module, graph=graph)


def _with_ragged_dots(graph: Graph) -> Graph:
    groups, written, has_masks = _Groups(graph.index.producers), Graph(graph.name), False
    for node in graph.nodes:
        bodies = [_with_ragged_dots(region) for region in program_regions(node)]
        if any(new is not old for new, old in zip(bodies, node.regions, strict=False)):
            written.nodes.append(replace(node, regions=tuple(bodies)))
        elif node.op == "dot_general" and _write_ragged(Builder(written, node.loc), groups, node):
            has_masks = True
        else:
            written.nodes.append(node)
    if has_masks:
        written.nodes = _without_masks(graph, written.nodes)
    elif all(new is old for new, old in zip(written.nodes, graph.nodes, strict=True)):
        return graph
    return replace(graph, nodes=written.nodes)


def _without_masks(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes without masks that only rewritten dots used."""
    needed = {value for node in needed_nodes(graph.nodes, graph.outputs, _is_kept) for value in node.results}
    return needed_nodes(nodes, graph.outputs, lambda node: _is_kept(node) or needed.isdisjoint(node.results))


def _is_kept(node: Node) -> bool:
    return node.op in IMPURE or bool(node.regions)


def _write_ragged(builder: Builder, groups: _Groups, dot: Node) -> bool:
    """Write a masked dot as a ragged dot and return True. For any other dot, write nothing and return False."""
    types = [value.type for value in (*dot.operands, dot.result)]
    if dot.option is not None or any(None in tensor_type.shape for tensor_type in types):
        return False
    if not dot.result.type.size or is_complex(dot.result.type.dtype):
        return False
    sides, dims = [_masked(value, groups.producers) for value in dot.operands], DotDims.of(dot)
    for side, masked in enumerate(sides):
        if masked is None:
            continue
        other = sides[1 - side]
        if not dims.batch[0] and dims.free[side] == (masked.row,) and masked.group in dims.contract[side]:
            _write_rows(builder, groups, dot, dims, side, masked)
            return True
        if dims.contract[side] != (masked.row,):
            continue
        if not dims.batch[0] and masked.group in dims.free[side]:
            _write_matrices(builder, groups, dot, dims, side, masked, None)
            return True
        if dims.batch[side] == (masked.group,) and _is_alike(other, dims, 1 - side):
            _write_matrices(builder, groups, dot, dims, side, masked, other)
            return True
    return False


def _is_alike(other: _Masked | None, dims: DotDims, side: int) -> bool:
    """Whether the other operand is masked as well, along the same batch and contracted dim of the dot."""
    return other is not None and dims.batch[side] == (other.group,) and dims.contract[side] == (other.row,)


# ---- writing ragged dots


def _write_rows(builder: Builder, groups: _Groups, dot: Node, dims: DotDims, side: int, masked: _Masked) -> None:
    """Write the dot that multiplies each row by its group's matrix."""
    rows = masked.without_groups(builder, dot.operands[side].type.sizes)
    pairs = list(zip(dims.contract[side], dims.contract[1 - side], strict=True))
    (group,) = (other_dim for dim, other_dim in pairs if dim == masked.group)
    contract = [(_without_group_dim(dim, masked), other_dim) for dim, other_dim in pairs if dim != masked.group]
    words = dot.attrs.precision
    bounds, disjoint = groups.write(builder, masked.bounds)
    result = rows_by_group(
        builder,
        rows,
        dot.operands[1 - side],
        bounds,
        row=_without_group_dim(masked.row, masked),
        contract=([dim for dim, _ in contract], [other_dim for _, other_dim in contract]),
        group=group,
        dtype=dot.result.type.dtype,
        precision=words if side == 0 else words[::-1],
        disjoint=disjoint,
    )
    if side == 1:
        result = builder.permuted(result, [*range(1, result.type.rank), 0])
    _finish(builder, result, dot)


def _write_matrices(
    builder: Builder, groups: _Groups, dot: Node, dims: DotDims, side: int, masked: _Masked, other: _Masked | None
) -> None:
    """Write the dot that computes a matrix per group from the group's rows. The other operand may be masked as well."""
    operands, rows = list(dot.operands), [contract[0] for contract in dims.contract]
    for number, side_mask in ((side, masked), (1 - side, other)):
        if side_mask is not None:
            operands[number] = side_mask.without_groups(builder, dot.operands[number].type.sizes)
            rows[number] = _without_group_dim(side_mask.row, side_mask)
    bounds, disjoint = groups.write(builder, (*masked.bounds, *(other.bounds if other else ())))
    dtype, precision = dot.result.type.dtype, dot.attrs.precision
    result = matrices_by_group(
        builder, operands, bounds, rows=rows, dtype=dtype, precision=precision, disjoint=disjoint
    )
    if other is None:  # the group dim is among the free dims of its side
        position = dims.free[side].index(masked.group) + (len(dims.free[0]) if side else 0)
        result = builder.permuted(result, [*range(1, position + 1), 0, *range(position + 1, result.type.rank)])
    _finish(builder, result, dot)


def _without_group_dim(dim: int, masked: _Masked) -> int:
    """Return the position of an operand's dim after the group dim is removed."""
    return dim - (dim > masked.group)


def _finish(builder: Builder, result: Value, dot: Node) -> None:
    """Make the last appended node, which computes `result`, define the result of `dot`."""
    assert result.type.shape == dot.result.type.shape, "a ragged dot has the result of its masked one"
    builder.make(dot.results)


@dataclass(frozen=True)
class _Groups:
    """Writes the bounds of row groups as nodes.

    `written` maps each bound to its value, so that dots share the nodes.
    """

    producers: Producers
    written: dict[object, Value] = field(default_factory=dict[object, Value])

    def write(self, builder: Builder, bounds: Sequence[_Bound]) -> tuple[list[Value], bool]:
        """Return the first rows and the end rows of the groups, and whether no row is in two groups.

        A group contains the rows that satisfy all `bounds`.
        """
        sides = [
            dict.fromkeys((b.number, b.plus, b.offsets) for b in bounds if b.is_start == is_start)
            for is_start in (True, False)
        ]
        values = [self._limit(builder, op, [*side]) for op, side in zip(("maximum", "minimum"), sides, strict=True)]
        (start, *other_starts), (end, *other_ends) = sides
        is_plain = not other_starts and not other_ends and not start[1] and not end[1] and start[2] == end[2]
        return values, is_plain and _are_consecutive(start[0], end[0], self.producers)

    def _limit(self, builder: Builder, op: str, numbers: Sequence[tuple[Value, int, tuple[Value, ...]]]) -> Value:
        for bound in numbers:
            if bound not in self.written:
                self.written[bound] = bound_of(builder, *bound)
        limit, key = self.written[numbers[0]], (op, *numbers)
        if len(numbers) > 1 and key not in self.written:
            for bound in numbers[1:]:
                limit = builder.elementwise(op, limit, self.written[bound])
            self.written[key] = limit
        return self.written.get(key, limit)


def _are_consecutive(starts: Value, ends: Value, producers: Producers) -> bool:
    """Whether each group starts where the previous group ends, and no end decreases."""
    node = producers.get(starts)
    if node is None or node.op not in ("concatenate", "pad") or not is_ascending(ends, producers.get):
        return False
    parts = node.operands if node.op == "concatenate" else node.operands[::-1]
    before = producers.get(parts[-1])
    if len(parts) != 2 or before is None or before.op != "slice" or before.operands[0] is not ends:
        return False
    zero, count = splat_of(parts[0], producers.get), ends.type.sizes[0]
    is_first = zero is not None and not zero.any() and starts.type.sizes == (count,)
    is_shifted = node.op == "concatenate" or (tuple(node.attrs.low), tuple(node.attrs.high)) == ((1,), (0,))
    return is_first and is_shifted and (before.attrs.start, before.attrs.limit) == ((0,), (count - 1,))


# ---- recognizing masked dots


def _masked(value: Value, producers: Producers) -> _Masked | None:
    """Return the value as rows that a mask selects by group, or None if it has another form."""
    dtypes, dims, node = tuple[str, ...](), tuple[int | None, ...](range(value.type.rank)), producers.get(value)
    while node is not None and node.op in ("convert", "transpose"):
        if node.op == "convert":
            dtypes = (node.result.type.dtype, *dtypes)
        else:
            dims = operand_dims(node, dims) or ()
        node = producers.get(node.operands[0])
    zero = splat_of(node.operands[2], producers.get) if node is not None and node.op == "select" else None
    if node is None or zero is None or "f8E8M0FNU" in dtypes or zero.any():  # f8E8M0FNU cannot represent zero
        return None
    bounds = _mask_bounds(node.operands[0], dims, producers)
    if bounds is None or {bound.is_start for bound in bounds} != {True, False}:
        return None
    (group, row), *other_pairs = {(bound.group, bound.row): None for bound in bounds}
    rows, dims = layout_source(node.operands[1], dims, producers.get, group)
    other_dims = {d for d, size in enumerate(value.type.sizes) if size > 1 and d != group}
    if (
        other_pairs
        or group in dims
        or not {row, *other_dims} <= {*dims}
        or len({*dims} - {None}) < sum(d is not None for d in dims)
    ):
        return None
    return _Masked(rows, dims, dtypes, bounds, group, row)


def _mask_bounds(mask: Value, dims: Dims, producers: Producers) -> tuple[_Bound, ...] | None:
    """Return the bounds whose conjunction is the mask, or None if the mask has another form."""
    mask, dims = layout_source(mask, dims, producers.get)
    node = producers.get(mask)
    if node is not None and node.op == "and":
        left, right = (_mask_bounds(operand, dims, producers) for operand in node.operands)
        return None if left is None or right is None else (*left, *right)
    if node is None or node.op != "compare" or node.attrs.direction not in _ENDS:
        return None
    left, right = node.operands
    direction = node.attrs.direction
    row, number = _counted_dim(left, dims, producers), _per_group(right, dims, producers)
    if row is None or number is None:
        row, number = _counted_dim(right, dims, producers), _per_group(left, dims, producers)
        direction = _SWAPPED[direction]
    if row is None or number is None or row[0] == number[1] or left.type.dtype not in ("i32", "i64"):
        return None
    side, plus = _ENDS[direction]
    return (_Bound(side == "start", number[0], plus, row[1], number[1], row[0]),)


def _counted_dim(value: Value, dims: Dims, producers: Producers) -> tuple[int, tuple[Value, ...]] | None:
    """Return the dim along which a value counts from 0, and the 0-d values that are added to it, or None for other
    values.
    """
    value, dims = layout_source(value, dims, producers.get)
    node = producers.get(value)
    if node is not None and node.op == "iota":
        dim = dims[node.attrs.dim]
        return None if dim is None else (dim, ())
    operands = node.operands if node is not None and node.op == "add" else ()
    for operand, other in zip(operands, reversed(operands), strict=True):
        offset, _ = layout_source(other, dims, producers.get)
        if not offset.type.rank and (counted := _counted_dim(operand, dims, producers)) is not None:
            return counted[0], (*counted[1], offset)
    return None


def _per_group(value: Value, dims: Dims, producers: Producers) -> tuple[Value, int] | None:
    """Return the 1-d source of a value that varies along one dim only, and that dim, or None if it varies along more
    dims.
    """
    value, dims = layout_source(value, dims, producers.get)
    varied = [d for d, size in zip(dims, value.type.sizes, strict=True) if size > 1]
    if not varied and len(dims) == 1:  # the dim of size 1 is that of a single group
        varied = [*dims]
    group = varied[0] if len(varied) == 1 else None
    return None if group is None else (value, group)
