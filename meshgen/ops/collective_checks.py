"""Verification of collectives: axes, roots, shapes, element types, and the shardings of operand and result.

Each check yields all faults of a node; messages contain the sizes. Types are local (per-device) shapes, unless operand
and result carry shardings. In that case types are global, and the shardings must differ as the collective prescribes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.attributes.sharding import axes_of, devices_by_role, reduction_of
from meshgen.ir.axis_parts import AxisParts, merged
from meshgen.ir.graph import FETCH_NUMBERS, Node, TensorType
from meshgen.ir.op_names import TEXT_NAMES
from meshgen.mesh import Mesh, nests, overlaps
from meshgen.spec import PARTIAL_KINDS, Sharding

Fault = tuple[str, str]  # diagnostic code, message
DIM_ATTRS = ("dim", "split_dim", "concat_dim")
CHANGES_DTYPE = ("all_reduce", "reduce_scatter", "reduce_to")


def collective_faults(node: Node, mesh: Mesh, *, exact: bool = False) -> list[Diagnostic]:
    """Return all faults of a collective or of another op over mesh axes.

    Args:
        exact: local sizes must divide evenly, as upstream MLIR requires. Otherwise the last tile may be short, and a
            size S over n devices is ceil(S / n) locally.
    """
    faults = list(axis_faults(axes_of(node.attrs), mesh))
    if not faults and node.operands:
        faults += _dim_faults(node)
        faults += _root_faults(node, mesh)
        faults += _kind_faults(node)
        if not faults:
            faults += _type_faults(node, mesh, exact)
        if not faults and node.op == "fetch_rows":
            faults += fetch_faults(node.attrs, node.operands[0].type, node.result.type, mesh)
    return [_diagnostic(node.op, fault, node.loc) for fault in faults]


def _diagnostic(op: str, fault: Fault, loc: Location | None) -> Diagnostic:
    return Diagnostic(fault[0], f"{TEXT_NAMES.get(op, op)}: {fault[1]}", loc)


def axis_faults(axes: Sequence[str], mesh: Mesh) -> Iterator[Fault]:
    """Yield a fault for each axis that the mesh lacks and for each pair of overlapping axes."""
    for index, ref in enumerate(axes):
        try:
            if mesh.axis(ref).size is not None:
                mesh.axis_size(ref)
        except ShardingError as error:
            yield from ((d.code, d.message) for d in error.diagnostics)
            continue
        if overlapping := next((earlier for earlier in axes[:index] if overlaps(ref, earlier)), None):
            problem = "is listed more than once" if nests(ref, overlapping) else f"and '{overlapping}' do not nest"
            yield "MG0203", f"mesh axis '{ref}' {problem} in {list(axes)}"


def _dim_faults(node: Node) -> Iterator[Fault]:
    rank = node.operands[0].type.rank
    for name in DIM_ATTRS:
        dim = node.attrs.get(name, 0 if rank else None)
        if dim is not None and not 0 <= dim < rank:
            yield "MG0104", f"dim {dim} ({name}) is outside a tensor of rank {rank}"


def coordinate_faults(name: str, coordinates: Sequence[int | None], axes: Sequence[str], mesh: Mesh) -> Iterator[Fault]:
    """Yield a fault for each coordinate of a device in its group that is outside its axis.

    A coordinate that is only known at run time is None, and is not checked.
    """
    text = f"[{', '.join('?' if coordinate is None else str(coordinate) for coordinate in coordinates)}]"
    if len(coordinates) != len(axes):
        yield "MG0104", f"{name} {text} has {len(coordinates)} coordinates, but the groups have {len(axes)} axes"
        return
    for ref, coordinate in zip(axes, coordinates, strict=True):
        size = mesh.axis(ref).size and mesh.axis_size(ref)  # None if the size is unknown
        if coordinate is not None and not 0 <= coordinate < (size or coordinate + 1):
            yield "MG0104", f"{name} {text}: coordinate {coordinate} is outside axis '{ref}' of size {size}"


def fetch_faults(attrs: Mapping[str, Any], kind: TensorType, result: TensorType, mesh: Mesh) -> Iterator[Fault]:
    """Yield the faults of a `fetch_rows`: every fetched row must be a row of the tiles of the group, or padding.

    `kind` is the type of one tile.
    """
    tile, axes, numbers = kind.shape[attrs["dim"]], attrs["axes"], attrs.get("parts", ())
    fetched_rows = result.shape[attrs["dim"]]
    if (
        tile is None
        or fetched_rows is None
        or any(mesh.axis(axis).size is None for axis in axes)
        or len(numbers) % FETCH_NUMBERS
    ):
        return
    count, wraps, divisor = mesh.group_size(axes), bool(attrs.get("wrap")), attrs.get("divisor", 1)
    parts = [numbers[i + 1 : i + FETCH_NUMBERS] for i in range(0, len(numbers), FETCH_NUMBERS)]
    for tile_rows, base, step, rows, limit in parts or [
        (tile, attrs["base"], attrs["step"], fetched_rows, attrs["limit"])
    ]:
        group_rows = tile_rows * count
        if not 0 <= limit <= group_rows:
            yield (
                "MG0104",
                f"limit {limit} is not one of 0 to {group_rows}: the tiles of a group have {group_rows} rows together",
            )
        elif wraps and not limit:
            yield "MG0104", "limit 0 leaves zero rows to wrap around"
        near = farthest_start(rows, limit, divisor)
        if abs(step) > near:
            yield (
                "MG0104",
                f"step {step} is longer than the {limit} rows that exist and the {rows} that are fetched, together {near}",
            )
        elif abs(base) > count * abs(step) + near:
            yield "MG0104", f"base {base} is farther than {count} steps of {step} rows from the {limit} rows that exist"


def farthest_start(rows: int, limit: int, divisor: int) -> int:
    """Return a bound on the distance between a fetch's first row and row 0, in units of 1 / `divisor` row.

    Every fetch that overlaps the rows [0, `limit`) satisfies the bound.
    """
    return (limit + rows + 1) * max(1, divisor)


def _root_faults(node: Node, mesh: Mesh) -> Iterator[Fault]:
    axes = axes_of(node.attrs)
    for name, coordinates in devices_by_role(node.attrs).items():
        if isinstance(coordinates, tuple):
            yield from coordinate_faults(name, coordinates, axes, mesh)
    shift = node.attrs.get("shift_axis")
    if shift is not None and shift not in axes:
        yield "MG0104", f"shift axis '{shift}' is not among the axes {list(axes)}"


def _kind_faults(node: Node) -> Iterator[Fault]:
    kind = reduction_of(node.attrs) or "sum"
    if kind not in PARTIAL_KINDS:
        yield "MG0103", f"reduction '{kind}' is not supported; use one of {', '.join(PARTIAL_KINDS)}"


def _type_faults(node: Node, mesh: Mesh, exact: bool) -> Iterator[Fault]:
    source, result = node.operands[0], node.result
    if source.type.dtype != result.type.dtype and node.op not in CHANGES_DTYPE:
        yield "MG0104", f"element type {source.type.dtype} becomes {result.type.dtype}"
    if source.type.rank != result.type.rank:
        yield "MG0104", f"rank {source.type.rank} becomes rank {result.type.rank} ({source.type} -> {result.type})"
    elif source.sharding is not None or result.sharding is not None:
        # Operand or result may have no sharding in its type, which means replicated.
        plain = Sharding.replicated(source.type.rank)
        yield from _global_faults(node, mesh, source.sharding or plain, result.sharding or plain)
    elif node.op not in ("permute", "retile", "update_halo", "fetch_rows"):
        yield from _local_faults(node, mesh, exact)


def _local_faults(node: Node, mesh: Mesh, exact: bool) -> Iterator[Fault]:
    """Yield faults of local shapes.

    A gather must multiply the size of one dim by the group size; a slice or scatter must divide it.
    """
    source, result, axes = node.operands[0].type, node.result.type, axes_of(node.attrs)
    grows, shrinks = changed_dims(node)
    if any(mesh.axis(ref).size is None for ref in axes):
        return  # `infer_sharding.tile_faults` checks again once the size is known
    size = mesh.group_size(axes)
    if grows == shrinks and grows is not None:
        rows = source.shape[grows]
        if exact and rows is not None and rows % size:
            yield (
                "MG0104",
                f"dim {grows} of {source} is not a multiple of the {size} devices of a group ({rows} % {size} = {rows % size})",
            )
        grows = shrinks = None
    for dim, (old, new) in enumerate(zip(source.shape, result.shape, strict=True)):
        if exact and dim == shrinks and old is not None and old % size:
            yield (
                "MG0104",
                f"dim {dim} of {source} cannot be cut into {size} equal parts ({old} % {size} = {old % size})",
            )
        elif exact and dim == grows and old is None and new is not None and new % size:
            yield "MG0104", f"dim {dim} of {result} is not made of {size} equal parts ({new} % {size} = {new % size})"
        if old is None or new is None or (exact and dim == shrinks and old % size):
            continue
        subject = f"dim {dim} of the result"
        if dim == grows and (old * size != new if exact else old != -(-new // size)):
            yield "MG0104", f"{subject} should be {old} * {size} = {old * size}, but is {new} ({source} -> {result})"
        elif dim == shrinks and new != -(-old // size):
            yield (
                "MG0104",
                f"{subject} should be {old} / {size} = {-(-old // size)}, but is {new} ({source} -> {result})",
            )
        elif dim not in (grows, shrinks) and old != new:
            yield "MG0104", f"{subject} should be {old}, but is {new} ({source} -> {result})"


def changed_dims(node: Node) -> tuple[int | None, int | None]:
    """Return (grown dim, shrunk dim): a collective multiplies or divides their local sizes by the group size.

    A member of the pair is None if the collective changes no dim in this way.
    """
    attrs = node.attrs
    if node.op in ("all_gather", "gather_to"):
        return attrs.dim, None
    if node.op in ("all_slice", "reduce_scatter", "scatter_from"):
        return None, attrs.dim
    if node.op == "all_to_all":
        return attrs.concat_dim, attrs.split_dim
    return None, None


def _global_faults(node: Node, mesh: Mesh, source: Sharding, target: Sharding) -> Iterator[Fault]:
    """Yield a fault if the global shapes differ, or if the shardings do not differ as the collective prescribes."""
    shapes: tuple[TensorType, TensorType] = node.operands[0].type, node.result.type
    if shapes[0].shape != shapes[1].shape:
        yield "MG0104", f"global shapes differ: {shapes[0]} -> {shapes[1]}"
    if (expected_result := RELATIONS.get(node.op)) is None:
        return
    axes = tuple(a for a in axes_of(node.attrs) if mesh.axis(a).size is None or mesh.axis_size(a) > 1)
    refs = [*axes, *(axis for sharding in (source, target) for axis in merged(sharding, mesh).used_axes)]
    parts = AxisParts.of(mesh, refs)

    def plain(sharding: Sharding) -> Sharding:
        normalized = parts.normal(sharding)
        return normalized.with_partial(tuple(sorted(normalized.partial)))

    if not parts.fits(*refs) or expected_result(node, plain(source), parts.refine(axes)) != plain(target):
        details = "".join(f", {name} {node.attrs[name]}" for name in (*DIM_ATTRS, "kind") if name in node.attrs.given)
        yield "MG0204", f"over {list(node.attrs.axes)}{details} it does not make {source} into {target}"


def _without_suffix(sharding: Sharding, dim: int, axes: tuple[str, ...]) -> Sharding | None:
    dim_axes = sharding.dims[dim]
    if dim_axes[len(dim_axes) - len(axes) :] != axes:
        return None
    return _with_dim(sharding, dim, dim_axes[: len(dim_axes) - len(axes)])


def _with_dim(sharding: Sharding, dim: int, axes: tuple[str, ...]) -> Sharding:
    return replace(sharding, dims=sharding.dims[:dim] + (axes,) + sharding.dims[dim + 1 :], offsets=())


def _reduced(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    pairs = {(axis, node.attrs.kind) for axis in axes}
    if not pairs <= set(sharding.partial):
        return None
    return sharding.with_partial(tuple(pair for pair in sharding.partial if pair not in pairs))


def _gathered(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    return _without_suffix(sharding, node.attrs.dim, axes)


def _sliced(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    dim = node.attrs.dim
    return None if set(axes) & set(sharding.used_axes) else _with_dim(sharding, dim, sharding.dims[dim] + axes)


def _scattered(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    reduced = _reduced(node, sharding, axes)
    return reduced and _sliced(node, reduced, axes)


def _exchanged(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    gathered = _without_suffix(sharding, node.attrs.concat_dim, axes)
    dim = node.attrs.split_dim
    return gathered and _with_dim(gathered, dim, gathered.dims[dim] + axes)


def _made_partial(node: Node, sharding: Sharding, axes: tuple[str, ...]) -> Sharding | None:
    if set(axes) & set(sharding.used_axes):
        return None
    new_partial = ((axis, node.attrs.kind) for axis in axes)
    return sharding.with_partial(tuple(sorted((*sharding.partial, *new_partial))))


RELATIONS: dict[str, Callable[[Node, Sharding, tuple[str, ...]], Sharding | None]] = {
    "all_gather": _gathered,
    "all_slice": _sliced,
    "all_reduce": _reduced,
    "reduce_scatter": _scattered,
    "all_to_all": _exchanged,
    "to_partial": _made_partial,
}
