"""DTensor's placements, one per mesh axis, and shardings, which have the axes of each tensor dim.

[Shard(0), Replicate()] on a mesh (dp, tp)      P("dp", None)
[Shard(1), Shard(1)]                            P(None, ("dp", "tp")): the first axis is major
[Partial(), Shard(0)]                           P("tp", partial="dp")
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from meshgen.errors import Diagnostic, MissingError, ShardingError
from meshgen.mesh import Mesh
from meshgen.packages import install
from meshgen.spec import Sharding

_KINDS = {"sum": "sum", "max": "max", "min": "min", "product": "product"}  # DTensor's reductions


def is_placements(given: Any) -> bool:
    """Whether this is a list or tuple of DTensor's placements, by what they have."""
    return isinstance(given, list | tuple) and bool(given) and all(hasattr(each, "is_replicate") and hasattr(each, "is_partial") for each in given)  # fmt: skip


def from_placements(given: Sequence[Any], rank: int, mesh: Mesh) -> Sharding:
    """The sharding of a tensor of this rank. Raises ShardingError MG0204 for placements that do not fit mesh and tensor."""
    if len(given) != len(mesh.axes):
        text = f"{list(given)} are {len(given)} placements, but {mesh} has {len(mesh.axes)} axes"
        raise ShardingError(Diagnostic("MG0204", text, hint="give a placement for each mesh axis, in order"))
    dims: list[list[str]] = [[] for _ in range(rank)]
    partial: list[tuple[str, str]] = []
    for axis, each in zip(mesh.names, given, strict=True):
        if each.is_partial():
            kind = _KINDS.get(each.reduce_op)
            if kind is None:
                raise ShardingError(Diagnostic("MG0204", f"{each} is not supported", hint=f"the reductions are {', '.join(_KINDS)}"))  # fmt: skip
            partial.append((axis, kind))
        elif not each.is_replicate():
            if type(each).__name__ != "Shard" or not -rank <= each.dim < rank:
                raise ShardingError(Diagnostic("MG0204", f"{each} does not fit a tensor of rank {rank}", hint="give Shard(dim) of one of its dims"))  # fmt: skip
            dims[each.dim].append(axis)
    return Sharding(tuple(map(tuple, dims)), tuple(partial))


def to_placements(sharding: Sharding, mesh: Mesh) -> tuple[Any, ...]:
    """DTensor's placements of a sharding, one for each axis of the mesh.

    Raises ShardingError MG0204 for shardings that placements cannot say: parts of axes, a dim that a later mesh axis splits first, halos
    and unequal tiles; MissingError MG0602 without torch.
    """
    try:
        kinds: Any = import_module("torch.distributed.tensor")
    except ImportError as error:
        raise MissingError(Diagnostic("MG0602", "placements are torch's, which is not installed", hint=install("torch"))) from error  # fmt: skip
    order = [mesh.names.index(axis) if axis in mesh.names else -1 for axes in sharding.dims for axis in axes]
    is_sorted = all([*map(mesh.names.index, axes)] == sorted(map(mesh.names.index, axes)) for axes in sharding.dims if {*axes} <= {*mesh.names})  # fmt: skip
    if -1 in order or not is_sorted or sharding.halo or sharding.offsets:
        raise ShardingError(Diagnostic("MG0204", f"{sharding} on {mesh} has no placements", hint="split dims over whole mesh axes, in the order of the mesh"))  # fmt: skip
    found: dict[str, Any] = {axis: kinds.Shard(dim) for dim, axes in enumerate(sharding.dims) for axis in axes}
    found |= {axis: kinds.Partial(kind) for axis, kind in sharding.partial}
    return tuple(found.get(axis, kinds.Replicate()) for axis in mesh.names)
