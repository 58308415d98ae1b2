"""Shardings as users write them: `mg.P`, its text, names or numbers of axes per dim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from meshgen.mesh import Mesh
from meshgen.spec import Sharding, axes_of_dim, fit, from_indices, no_sharding, parse_sharding

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


def sharding_of(given: SpecLike, rank: int, mesh: Mesh) -> Sharding:
    """A user's sharding at a tensor's rank, with axes by name. Raises ShardingError MG0202, MG0204."""
    written = axes_by_dim(given)
    if isinstance(written, Sharding):
        return fit(written, rank)
    rows = [[mesh.names.index(a) if isinstance(a, str) and a in mesh.names else a for a in axes] for axes in written]
    if all(isinstance(a, int) for axes in rows for a in axes):
        return from_indices([[a for a in axes if isinstance(a, int)] for axes in rows], mesh, rank)
    return fit(Sharding(tuple(tuple(str(a) for a in axes) for axes in rows)), rank)
