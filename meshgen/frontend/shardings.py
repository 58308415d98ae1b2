"""Shardings as users write them: `mg.P`, its text, names or numbers of axes per dim; JAX's `PartitionSpec` and `NamedSharding`, DTensor's placements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from meshgen.errors import Diagnostic, ShardingError
from meshgen.frontend.torch.placements import from_placements, is_placements
from meshgen.mesh import Mesh, is_mesh_of_jax
from meshgen.notation import parse_sharding
from meshgen.spec import Sharding, axes_of_dim, fit, from_indices, no_sharding

SpecLike = Sharding | str | Sequence[str | Sequence[str | int] | None]


def axes_by_dim(given: Any) -> Sharding | list[tuple[str | int, ...]]:
    """A user's sharding: a `Sharding`, its text, or per dim axis names, axis numbers or None.

    Names and numbers are kept, because numbers need a mesh to be resolved. Raises ShardingError MG0204.
    """
    if isinstance(given, Sharding):
        return given
    if isinstance(given, str):
        return parse_sharding(given)
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise no_sharding(given, given)
    rows = [axes_of_dim(entry, given) for entry in cast("Iterable[Any]", given)]
    if bad := [axis for axes in rows for axis in axes if isinstance(axis, bool) or not isinstance(axis, (str, int))]:
        raise no_sharding(bad[0], given)
    return rows


def annotated_dims(given: Any, rank: int, mesh: Mesh) -> tuple[Sharding, tuple[bool, ...]]:
    """As `sharding_of`, and which dims are open: those that JAX calls `P.UNCONSTRAINED`.

    Raises ShardingError MG0202 for a `NamedSharding` on a mesh of other sizes.
    """
    if is_placements(given):
        return from_placements(given, rank, mesh), (False,) * rank
    if is_named_sharding(given):
        _require_same_axes(given, mesh)
        given = given.spec
    if isinstance(given, (Sharding, str)) or not isinstance(given, Iterable):
        return sharding_of(given, rank, mesh), (False,) * rank
    entries = list(cast("Iterable[Any]", given))
    is_open = [type(entry).__name__ == "UnconstrainedSingleton" for entry in entries]
    found = sharding_of([None if skip else entry for entry, skip in zip(entries, is_open, strict=True)], rank, mesh)
    partial = tuple((str(axis), "sum") for axis in sorted(getattr(given, "unreduced", ())))
    return replace(found, partial=(*found.partial, *partial)), (*is_open, *(False,) * (found.rank - len(is_open)))


def is_named_sharding(given: Any) -> bool:
    """Whether this is a `jax.sharding.NamedSharding`, by what it has."""
    return hasattr(given, "spec") and is_mesh_of_jax(getattr(given, "mesh", None))


def _require_same_axes(given: Any, mesh: Mesh) -> None:
    own = {axis.name: axis.size for axis in mesh.axes}
    if wrong := [name for name, size in given.mesh.shape.items() if own.get(name) not in (None, size)]:
        text = f"{given} is on a mesh where '{wrong[0]}' has size {given.mesh.shape[wrong[0]]}, but here it has {own[wrong[0]]}"
        raise ShardingError(Diagnostic("MG0202", text, hint="compile for the mesh of the shardings"))


def sharding_of(given: SpecLike, rank: int, mesh: Mesh) -> Sharding:
    """A user's sharding at a tensor's rank, with axes by name. Raises ShardingError MG0202, MG0204."""
    written = axes_by_dim(given)
    if isinstance(written, Sharding):
        return fit(written, rank)
    rows = [[mesh.names.index(a) if isinstance(a, str) and a in mesh.names else a for a in axes] for axes in written]
    if all(isinstance(a, int) for axes in rows for a in axes):
        return from_indices([[a for a in axes if isinstance(a, int)] for axes in rows], mesh, rank)
    return fit(Sharding(tuple(tuple(str(a) for a in axes) for axes in rows)), rank)
