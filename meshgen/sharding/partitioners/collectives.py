"""Partitioners of collectives: they keep their axes; those in groups of one device vanish.

A collective between two shardings must mean what its name says: the axes it moves are the minor-most of
their dim, and tiles nest, so that a device's new tile is where the op puts it.
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

_GATHERS = {"all_gather": "dim", "all_to_all": "concat_dim"}  # the attribute with the dim that loses the axes
_SPLITS = {"all_slice": "dim", "reduce_scatter": "dim", "all_to_all": "split_dim"}  # ... that gets them
_IN_PLACE = ("all_reduce", "to_partial")  # element by element, so tiles may be of any sizes


@partitioner("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "to_partial")
def collective(site: Site) -> list[Value]:
    axes = tuple(axis for axis in site.node.attrs.axes if site.mesh.axis_size(axis) > 1)
    _check(site, axes)
    return site.clone(axes=axes) if axes else site.operands


@partitioner("permute", "retile")
def move(site: Site) -> list[Value]:
    """These carry their shardings; rows that a device already has are sliced out of its buffer."""
    attrs = site.node.attrs
    source, target = _ends(site, attrs.source, attrs.target)
    if summand_axes(source, target, site.mesh) is None:
        ends = f"{site.sharding(0)} -> {sharding_of(site.node.result)}"
        raise site.refuse(f"it cannot reduce, as {ends} requires", "use all_reduce or reduce_scatter")
    if source == target:
        return site.operands
    found = cut_locally(site.builder, site.operands[0], source, target, attrs.shape)
    return [found] if found else site.clone()


@partitioner("update_halo")
def update_halo(site: Site) -> list[Value]:
    """The operand has the halo rows to be refreshed, or none yet."""
    wide = site.node.attrs.sharding
    start = wide if site.sharding(0).canonical(site.mesh).halo else replace(wide, halo=())
    source, target = _ends(site, start, wide)
    if source == target:  # the rows that it has may be stale
        return site.clone()
    found = cut_locally(site.builder, site.operands[0], source, target, site.node.attrs.shape)
    return [found] if found else site.clone()


def _ends(site: Site, source: Sharding, target: Sharding) -> tuple[Sharding, Sharding]:
    """The shardings that a move names, with parts of axes joined. They must be those of its values."""
    ends = site.sharding(0), sharding_of(site.node.result)
    joined, named = ([merged(sharding, site.mesh) for sharding in pair] for pair in (ends, (source, target)))
    if joined != named:
        raise site.refuse(f"it names {source} -> {target}, but its values have shardings {ends[0]} -> {ends[1]}")
    return named[0], named[1]


@dataclass
class _Layout:
    """A sharding being changed step by step."""

    dims: list[tuple[str, ...]]
    partial: dict[str, str]


def _check(site: Site, axes: tuple[str, ...]) -> None:
    """Raises ShardingError unless the collective leads from the operand's sharding to the result's."""
    op, attrs, ends = site.node.op, site.node.attrs, (site.sharding(0), sharding_of(site.node.result))
    ends_axes = [axis for sharding in ends for axis in merged(sharding, site.mesh).used_axes]
    parts = AxisParts.of(site.mesh, [*axes, *ends_axes])
    if not parts.fits(*axes, *ends_axes):
        raise site.refuse(f"over {list(axes)} it cannot go from {ends[0]} to {ends[1]}: {NO_DIVISION}", "use retile")
    source, target = (parts.normal(sharding) for sharding in ends)
    unequal = [s for s in (source, target) if s.halo or any(s.offsets)]
    if unequal and (op not in _IN_PLACE or source.without_partial() != target.without_partial()):
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
    """Whether partial axes of other kinds are outside of all of these: kinds do not commute, inner ones come first."""
    others = [mesh.order(axis) for axis, other in partial.items() if other != kind]
    return not others or max(others) < min(map(mesh.order, axes))


def _check_nesting(site: Site, source: Sharding, target: Sharding) -> None:
    """The coarser tile of each dim must be a whole number of the finer ones, or be the whole dim."""
    for dim, size in enumerate(site.node.result.type.sizes):
        few, many = sorted((source.parts(dim, site.mesh), target.parts(dim, site.mesh)))
        coarse, fine = -(-size // few), -(-size // many)
        if 1 < few < many and coarse != fine * (many // few):
            raise site.refuse(
                f"dim {dim} of size {size} has tiles of {coarse} rows over {few} shards and of {fine} over {many}; "
                f"they do not nest ({coarse} is not {many // few} x {fine})",
                "use retile",
            )
