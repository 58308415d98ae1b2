"""Conversion between DTensor placements (one per mesh axis) and shardings (mesh axes per tensor dim).

[Shard(0), Replicate()] on a mesh (dp, tp)        P("dp", None)
[Shard(1), Shard(1)]                              P(None, ("dp", "tp")): the first axis is major
[Partial(), Shard(0)]                             P("tp", partial="dp")
[_StridedShard(0, split_factor=4), Shard(0)]      P(("tp", "dp")), with tp = 4: FSDP over a tensor-parallel dim
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from meshgen.errors import Diagnostic, MissingError, ShardingError
from meshgen.mesh import Mesh
from meshgen.packages import install
from meshgen.spec import Sharding

_KINDS = {"sum": "sum", "max": "max", "min": "min", "product": "product"}  # DTensor's names of reductions.


def is_placements(value: Any) -> bool:
    """Whether `value` is a list or tuple of DTensor placements, recognized by their methods."""
    return isinstance(value, list | tuple) and bool(value) and all(hasattr(item, "is_replicate") and hasattr(item, "is_partial") for item in value)  # fmt: skip


def from_placements(placements: Sequence[Any], rank: int, mesh: Mesh) -> Sharding:
    """Return the sharding for DTensor placements of a tensor with `rank` dims.

    Raises ShardingError MG0204 for placements that do not fit the mesh or the tensor.
    """
    if len(placements) != len(mesh.axes):
        text = f"{list(placements)} are {len(placements)} placements, but {mesh} has {len(mesh.axes)} axes"
        raise ShardingError(Diagnostic("MG0204", text, hint="give a placement for each mesh axis, in order"))
    dims: list[list[str]] = [[] for _ in range(rank)]
    partial: list[tuple[str, str]] = []
    for axis, placement in reversed(list(zip(mesh.names, placements, strict=True))):
        if placement.is_partial():
            partial.insert(0, (axis, _reduction(placement)))
        elif not placement.is_replicate():
            if type(placement).__name__ not in ("Shard", "_StridedShard") or not -rank <= placement.dim < rank:
                raise ShardingError(Diagnostic("MG0204", f"{placement} does not fit a tensor of rank {rank}", hint="give Shard(dim) of one of its dims"))  # fmt: skip
            dims[placement.dim].insert(_major_axes(placement, dims[placement.dim], mesh), axis)
    return Sharding(tuple(map(tuple, dims)), tuple(partial))


def _reduction(placement: Any) -> str:
    """Return the name of the reduction of a partial placement. Raises ShardingError MG0204 if it is unsupported."""
    kind = _KINDS.get(placement.reduce_op)
    if kind is None:
        hint = f"the reductions are {', '.join(_KINDS)}"
        if placement.reduce_op == "avg":
            hint = "an average is a sum of values that are divided by the size of the axis: divide them, and give Partial('sum')"
        raise ShardingError(Diagnostic("MG0204", f"{placement} is not supported", hint=hint))
    return kind


def _major_axes(placement: Any, later: Sequence[str], mesh: Mesh) -> int:
    """Return how many of the mesh axes `later` are major to the axis of `placement`; all of them shard the same dim.

    The product of their sizes is the split factor of `placement` (1 if it is not strided).

    Raises:
        ShardingError: MG0204, no leading axes of `later` have this product.
    """
    factor, product = getattr(placement, "split_factor", 1), 1
    for count, axis in enumerate([*later, ""]):
        if product == factor:
            return count
        product *= (axis and mesh.by_name[axis]) or 1
    text = f"{placement} has a factor of {factor}, but the later mesh axes that split its dim are {', '.join(later) or 'none'} of {mesh}"
    raise ShardingError(Diagnostic("MG0204", text, hint="give the placements and the mesh of one DTensor"))


def to_placements(sharding: Sharding, mesh: Mesh) -> tuple[Any, ...]:
    """Return the DTensor placements of a sharding, one for each axis of the mesh.

    Raises:
        ShardingError: MG0204, DTensor cannot express the sharding. It has sub-axes, a dim whose major axis is a later
            mesh axis, halos, or unequal tiles.
        MissingError: MG0602, torch is not installed.
    """
    try:
        kinds: Any = import_module("torch.distributed.tensor")
    except ImportError as error:
        raise MissingError(Diagnostic("MG0602", "placements are objects of torch, which is not installed", hint=install("torch"))) from error  # fmt: skip
    order = [mesh.names.index(axis) if axis in mesh.names else -1 for axes in sharding.dims for axis in axes]
    is_sorted = all([*map(mesh.names.index, axes)] == sorted(map(mesh.names.index, axes)) for axes in sharding.dims if {*axes} <= {*mesh.names})  # fmt: skip
    if -1 in order or not is_sorted or sharding.halo or sharding.offsets:
        raise ShardingError(Diagnostic("MG0204", f"{sharding} on {mesh} has no placements", hint="split dims over entire mesh axes, in the order of the mesh"))  # fmt: skip
    placements: dict[str, Any] = {axis: kinds.Shard(dim) for dim, axes in enumerate(sharding.dims) for axis in axes}
    placements |= {axis: kinds.Partial(kind) for axis, kind in sharding.partial}
    return tuple(placements.get(axis, kinds.Replicate()) for axis in mesh.names)
