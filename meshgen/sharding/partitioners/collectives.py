"""Partitioners of collectives. A collective stays as it is, without axes of size 1. It is removed if all of its axes
have size 1.

A collective between two shardings is legal only if its result is what its name says. The axes that it moves must be the
minor-most axes of their dim, and tiles must nest, so that each device's new tile is the one that the op computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshgen.ccl.exchange import summand_axes
from meshgen.ir.axis_parts import NO_DIVISION, AxisParts, merged
from meshgen.ir.graph import Value
from meshgen.mesh import Mesh
from meshgen.ops.classes import REDUCING
from meshgen.sharding.partitioners.local_moves import cut_locally
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of
from meshgen.spec import Sharding

# op -> the attribute that names the dim from which the op removes axes
_GATHERS = {"all_gather": "dim", "all_to_all": "concat_dim"}
# op -> the attribute that names the dim to which the op adds axes
_SPLITS = {"all_slice": "dim", "reduce_scatter": "dim", "all_to_all": "split_dim"}
_IN_PLACE = ("all_reduce", "to_partial")  # element-wise collectives, so tiles may have any sizes


@partitioner("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "to_partial")
def collective(site: Site) -> list[Value]:
    axes = tuple(axis for axis in site.node.attrs.axes if site.mesh.axis_size(axis) > 1)
    _check(site, axes)
    return site.clone(axes=axes) if axes else site.operands


@partitioner("permute", "retile")
def move(site: Site) -> list[Value]:
    """Write a reshard whose attributes are its source and target sharding.

    If each device already holds all rows of its new tile, the rows are sliced from the buffer instead.
    """
    attrs = site.node.attrs
    source, target = _ends(site, attrs.source, attrs.target)
    if summand_axes(source, target, site.mesh) is None:
        ends = f"{site.sharding(0)} -> {sharding_of(site.node.result)}"
        raise site.refuse(f"it cannot reduce, as {ends} requires", "use all_reduce or reduce_scatter")
    if source == target:
        return site.operands
    sliced = cut_locally(site.builder, site.operands[0], source, target, attrs.shape)
    return [sliced] if sliced else site.clone()


@partitioner("update_halo")
def update_halo(site: Site) -> list[Value]:
    """Write a halo exchange. The operand has stale halo rows, or no halo yet."""
    target_halo = site.node.attrs.sharding
    start = target_halo if site.sharding(0).canonical(site.mesh).halo else replace(target_halo, halo=())
    source, target = _ends(site, start, target_halo)
    # a halo exchange between equal shardings is kept, because the halo rows of the operand may be stale
    if source == target:
        return site.clone()
    sliced = cut_locally(site.builder, site.operands[0], source, target, site.node.attrs.shape)
    return [sliced] if sliced else site.clone()


def _ends(site: Site, source: Sharding, target: Sharding) -> tuple[Sharding, Sharding]:
    """Return the two shardings that the attributes of a reshard name, with parts of axes joined.

    Raises ShardingError unless they equal the shardings of the reshard's operand and result.
    """
    ends = site.sharding(0), sharding_of(site.node.result)
    joined, named = ([merged(sharding, site.mesh) for sharding in pair] for pair in (ends, (source, target)))
    if joined != named:
        raise site.refuse(f"it names {source} -> {target}, but its values have shardings {ends[0]} -> {ends[1]}")
    return named[0], named[1]


@dataclass
class _Layout:
    """A sharding that is being changed step by step."""

    dims: list[tuple[str, ...]]
    partial: dict[str, str]


def _check(site: Site, axes: tuple[str, ...]) -> None:
    """Raise ShardingError unless the collective turns the operand's sharding into the result's."""
    op, attrs, ends = site.node.op, site.node.attrs, (site.sharding(0), sharding_of(site.node.result))
    ends_axes = [axis for sharding in ends for axis in merged(sharding, site.mesh).used_axes]
    parts = AxisParts.of(site.mesh, [*axes, *ends_axes])
    if not parts.fits(*axes, *ends_axes):
        raise site.refuse(f"over {list(axes)} it cannot go from {ends[0]} to {ends[1]}: {NO_DIVISION}", "use retile")
    source, target = (parts.normal(sharding) for sharding in ends)
    irregular = [s for s in (source, target) if s.halo or any(s.offsets)]
    if irregular and (op not in _IN_PLACE or source.without_partial() != target.without_partial()):
        raise site.refuse(f"it cannot go from {ends[0]} to {ends[1]}: it works on equal tiles", "use retile")
    layout, moved = _Layout(list(source.dims), dict(source.partial)), parts.refine(axes)
    reached = all(
        [
            op not in _GATHERS or _drop(layout.dims, attrs[_GATHERS[op]], moved),
            op not in REDUCING or _reduce(layout.partial, moved, attrs.kind, site.mesh),
            op != "to_partial" or _add_partial(layout.partial, moved, attrs.kind, site.mesh),
        ]
    )
    if op in _SPLITS:
        dim = attrs[_SPLITS[op]]
        layout.dims[dim] = (*layout.dims[dim], *moved)
    end = replace(source, dims=tuple(layout.dims), partial=tuple(layout.partial.items())).canonical(site.mesh)
    if not reached or end != target:
        raise site.refuse(f"over {list(axes)} it cannot go from {ends[0]} to {ends[1]}", "use retile")
    _check_nesting(site, source, target)


def _drop(dims: list[tuple[str, ...]], dim: int, axes: tuple[str, ...]) -> bool:
    keep = len(dims[dim]) - len(axes)
    if keep < 0 or dims[dim][keep:] != axes:
        return False
    dims[dim] = dims[dim][:keep]
    return True


def _reduce(partial: dict[str, str], axes: tuple[str, ...], kind: str, mesh: Mesh) -> bool:
    return all(partial.pop(axis, None) == kind for axis in axes) and _is_innermost(partial, axes, kind, mesh)


def _add_partial(partial: dict[str, str], axes: tuple[str, ...], kind: str, mesh: Mesh) -> bool:
    fresh = not any(axis in partial for axis in axes) and _is_innermost(partial, axes, kind, mesh)
    partial.update(dict.fromkeys(axes, kind))
    return fresh


def _is_innermost(partial: dict[str, str], axes: tuple[str, ...], kind: str, mesh: Mesh) -> bool:
    """Whether `axes` are inside of all partial axes of other kinds. Kinds do not commute, and inner ones are reduced
    first.
    """
    other_orders = [mesh.order(axis) for axis, other_kind in partial.items() if other_kind != kind]
    return not other_orders or max(other_orders) < min(map(mesh.order, axes))


def _check_nesting(site: Site, source: Sharding, target: Sharding) -> None:
    """Raise unless, in each dim, the coarser tile is the entire dim or a multiple of the finer tile."""
    for dim, size in enumerate(site.node.result.type.sizes):
        few, many = sorted((source.parts(dim, site.mesh), target.parts(dim, site.mesh)))
        coarse, fine = -(-size // few), -(-size // many)
        if 1 < few < many and coarse != fine * (many // few):
            raise site.refuse(
                f"dim {dim} of size {size} has tiles of {coarse} rows over {few} shards and of {fine} over {many}; "
                f"they do not nest ({coarse} is not {many // few} x {fine})",
                "use retile",
            )
