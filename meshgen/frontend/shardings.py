"""Convert shardings from the notations of users.

The notations are `mg.P` or the text of one, a list with the axis names or numbers of each dim, JAX's `PartitionSpec`
and `NamedSharding`, and the placements of DTensor.
"""

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


def axes_by_dim(spec: Any) -> Sharding | list[tuple[str | int, ...]]:
    """Normalize a user's sharding: a `Sharding`, its text, or a list of axis names, axis numbers or None per dim.

    Axis numbers stay numbers, because only a mesh can resolve them. Raises ShardingError MG0204 for any other value.
    """
    if isinstance(spec, Sharding):
        return spec
    if isinstance(spec, str):
        return parse_sharding(spec)
    if not isinstance(spec, Iterable) or isinstance(spec, Mapping):
        raise no_sharding(spec, spec)
    rows = [axes_of_dim(entry, spec) for entry in cast("Iterable[Any]", spec)]
    if invalid_axes := [
        axis for axes in rows for axis in axes if isinstance(axis, bool) or not isinstance(axis, (str, int))
    ]:
        raise no_sharding(invalid_axes[0], spec)
    return rows


def annotated_dims(spec: Any, rank: int, mesh: Mesh) -> tuple[Sharding, tuple[bool, ...]]:
    """Return a user's sharding with axes by name, and whether each dim is open to further axes.

    JAX writes an open dim as `P.UNCONSTRAINED`.

    Raises:
        ShardingError: MG0202, `spec` is a `NamedSharding` on a mesh whose axis sizes differ from `mesh`.
    """
    if is_placements(spec):
        return from_placements(spec, rank, mesh), (False,) * rank
    if is_named_sharding(spec):
        _require_same_axes(spec, mesh)
        spec = spec.spec
    if isinstance(spec, (Sharding, str)) or not isinstance(spec, Iterable):
        return sharding_of(spec, rank, mesh), (False,) * rank
    entries = list(cast("Iterable[Any]", spec))
    is_open = [type(entry).__name__ == "UnconstrainedSingleton" for entry in entries]
    sharding = sharding_of([None if skip else entry for entry, skip in zip(entries, is_open, strict=True)], rank, mesh)
    partial = tuple((str(axis), "sum") for axis in sorted(getattr(spec, "unreduced", ())))
    return replace(sharding, partial=(*sharding.partial, *partial)), (
        *is_open,
        *(False,) * (sharding.rank - len(is_open)),
    )


def is_named_sharding(spec: Any) -> bool:
    """Whether `spec` has the attributes of a `jax.sharding.NamedSharding`."""
    return hasattr(spec, "spec") and is_mesh_of_jax(getattr(spec, "mesh", None))


def _require_same_axes(named_sharding: Any, mesh: Mesh) -> None:
    axis_sizes = {axis.name: axis.size for axis in mesh.axes}
    if mismatched := [
        name for name, size in named_sharding.mesh.shape.items() if axis_sizes.get(name) not in (None, size)
    ]:
        text = f"{named_sharding} is on a mesh where '{mismatched[0]}' has size {named_sharding.mesh.shape[mismatched[0]]}, but here it has {axis_sizes[mismatched[0]]}"
        raise ShardingError(Diagnostic("MG0202", text, hint="compile for the mesh of the shardings"))


def sharding_of(spec: SpecLike, rank: int, mesh: Mesh) -> Sharding:
    """Return a user's sharding for a tensor of `rank` dims, with axes by name.

    Raises ShardingError MG0202 for an unknown axis, MG0204 for a value that is not a sharding.
    """
    axes_of_dims = axes_by_dim(spec)
    if isinstance(axes_of_dims, Sharding):
        return fit(axes_of_dims, rank)
    rows = [
        [mesh.names.index(a) if isinstance(a, str) and a in mesh.names else a for a in axes] for axes in axes_of_dims
    ]
    if all(isinstance(a, int) for axes in rows for a in axes):
        return from_indices([[a for a in axes if isinstance(a, int)] for axes in rows], mesh, rank)
    return fit(Sharding(tuple(tuple(str(a) for a in axes) for axes in rows)), rank)
