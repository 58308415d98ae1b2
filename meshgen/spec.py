"""Shardings: the mesh axes that split each dim, the axes over which a value is partial, halos and offsets.

`Sharding.ranges` alone determines which part of a tensor a device owns. Local shapes, reshards, masks and the oracle's
assembly are computed from it.

A dim of size N split over P devices has tile T = ceil(N / P). The device with in-group index i owns [min(i T, N),
min((i + 1) T, N)), so a last tile may be short or empty. Local buffers always have the size of a tile (plus halo).
Elements beyond a device's range are padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from meshgen.axis_refs import overlap_fault, overlaps
from meshgen.errors import Diagnostic, ShardingError
from meshgen.mesh import Mesh
from meshgen.printable import Shown

PARTIAL_KINDS = ("sum", "max", "min", "product", "and", "or", "xor")
Halo = tuple[int, int]
_MOST_ROWS = 1 << 40  # elements of a value; equals `MAX_ELEMENTS` of meshgen/ir/encode_values.py


@dataclass(frozen=True)
class Sharding(Shown):
    """The distribution of a tensor over a mesh. Equality is exact, including the order of axes.

    Attributes:
        dims: per tensor dim the axes that split it, major to minor.
        partial: (axis, kind) pairs in mesh order; the devices along the axis hold terms, and the value is their
            reduction of kind `kind`.
        halo: per tensor dim the numbers of additional elements (before, after) that a device holds; empty for none.
        offsets: per tensor dim the start of each shard and the end of the last; empty for equal tiles.
        mesh: name of the value's mesh in a user's program on several meshes, if the user names one; else empty.
    """

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[tuple[str, str], ...] = ()
    halo: tuple[Halo, ...] = ()
    offsets: tuple[tuple[int, ...], ...] = ()
    mesh: str = ""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.dims, self.partial, self.halo, self.offsets))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle without the cached hash, because strings hash differently in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @staticmethod
    def replicated(rank: int) -> Sharding:
        """Return the sharding in which every device holds the entire tensor."""
        return Sharding(((),) * rank)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @cached_property
    def split_axes(self) -> tuple[str, ...]:
        """Return the mesh axes that split some dim, ordered by dim."""
        return tuple(axis for axes in self.dims for axis in axes)

    @property
    def partial_axes(self) -> tuple[str, ...]:
        return tuple(axis for axis, _ in self.partial)

    @property
    def used_axes(self) -> tuple[str, ...]:
        return self.split_axes + self.partial_axes

    @property
    def is_replicated(self) -> bool:
        return not self.used_axes and not self.halo

    def without_partial(self) -> Sharding:
        return self.with_partial(())

    def with_partial(self, partial: tuple[tuple[str, str], ...]) -> Sharding:
        """Return the sharding with the same tiles, and `partial` as its partial axes."""
        if partial == self.partial:
            return self
        return Sharding(self.dims, partial, self.halo, self.offsets, self.mesh)

    def with_dims(self, dims: Iterable[Iterable[str]]) -> Sharding:
        """Return a sharding with `dims` and with the partial axes of this one. It has no halo and no offsets."""
        return Sharding(tuple(tuple(axes) for axes in dims), self.partial)

    def canonical(self, mesh: Mesh) -> Sharding:
        """Return the canonical form of the sharding: without axes of size 1, without zero halos, and with partial axes
        in mesh order.
        """

        def keep(ref: str) -> bool:
            return mesh.axis(ref).size is None or mesh.axis_size(ref) > 1

        dims = tuple(tuple(axis for axis in axes if keep(axis)) for axes in self.dims)
        partial = tuple(sorted(((a, k) for a, k in self.partial if keep(a)), key=lambda pair: mesh.order(pair[0])))
        return Sharding(dims, partial, self.halo if any(any(h) for h in self.halo) else (), self.offsets)

    def without_even_offsets(self, shape: Sequence[int | None], mesh: Mesh) -> Sharding:
        """Return the sharding without its offsets, if they equal the offsets of equal tiles. The sharding must be
        valid.
        """
        if not any(self.offsets):
            return replace(self, offsets=())
        offsets = tuple(self._uneven_offsets(dim, size, mesh) for dim, size in enumerate(shape))
        return replace(self, offsets=offsets if any(offsets) else ())

    def _uneven_offsets(self, dim: int, size: int | None, mesh: Mesh) -> tuple[int, ...]:
        if size is None or not self.offsets[dim]:
            return self.offsets[dim]
        count = self.parts(dim, mesh)
        tile = -(-size // count)
        even = tuple(min(i * tile, size) for i in range(count + 1))
        return () if self.offsets[dim] == even else self.offsets[dim]

    def faults(self, shape: Sequence[int | None], mesh: Mesh) -> list[Diagnostic]:
        """Check the sharding for a tensor of `shape` on `mesh`. Returns diagnostics, or an empty list if it is
        valid.
        """
        diagnostics: list[Diagnostic] = []
        if self.rank != len(shape):
            diagnostics.append(
                Diagnostic(
                    "MG0204",
                    f"the sharding has {self.rank} dims, but the tensor has rank {len(shape)}",
                    hint="give one entry per tensor dim, empty where the dim is not split",
                )
            )
        checked: list[str] = []
        for ref in self.used_axes:
            try:
                mesh.axis_size(ref) if mesh.axis(ref).size is not None else None
            except ShardingError as error:
                diagnostics += error.diagnostics
                continue
            if conflicting := next((earlier for earlier in checked if overlaps(earlier, ref)), None):
                diagnostics.append(overlap_fault(conflicting, ref))
            checked.append(ref)
        diagnostics += [
            Diagnostic("MG0204", f"unknown partial kind '{kind}'", hint=f"use one of {', '.join(PARTIAL_KINDS)}")
            for _, kind in self.partial
            if kind not in PARTIAL_KINDS
        ]
        return diagnostics or self._halo_and_offset_faults(shape, mesh)

    def _halo_and_offset_faults(self, shape: Sequence[int | None], mesh: Mesh) -> list[Diagnostic]:
        diagnostics: list[Diagnostic] = []
        if self.halo and any(self.offsets):
            diagnostics.append(Diagnostic("MG0204", "halo sizes and offsets exclude each other"))
        for dim, (before, after) in enumerate(self.halo):
            if (before or after) and not self.dims[dim]:
                diagnostics.append(
                    Diagnostic("MG0204", f"dim {dim} has a halo of ({before}, {after}) but is not split")
                )
            if before < 0 or after < 0:
                diagnostics.append(Diagnostic("MG0204", f"dim {dim} has a negative halo ({before}, {after})"))
            if max(before, after) > _MOST_ROWS:
                message = f"dim {dim} has a halo of ({before}, {after}) rows; the limit is {_MOST_ROWS}"
                diagnostics.append(Diagnostic("MG0204", message))
        for dim, offsets in enumerate(self.offsets):
            if not offsets:
                continue
            if unknown := [axis for axis in self.dims[dim] if mesh.axis(axis).size is None]:
                text = f"dim {dim} has offsets, but the size of mesh axis '{unknown[0]}' that splits it is unknown"
                diagnostics.append(Diagnostic("MG0201", text, hint="give it with --mesh"))
                continue
            parts = mesh.group_size(self.dims[dim])
            if len(offsets) != parts + 1:
                diagnostics.append(
                    Diagnostic(
                        "MG0204",
                        f"dim {dim} is split into {parts} shards and needs {parts + 1} offsets, but has {len(offsets)}",
                    )
                )
            elif any(a > b for a, b in itertools.pairwise(offsets)) or offsets[0] != 0:
                diagnostics.append(Diagnostic("MG0204", f"the offsets {list(offsets)} of dim {dim} must ascend from 0"))
            elif shape[dim] is not None and offsets[-1] != shape[dim]:
                diagnostics.append(
                    Diagnostic(
                        "MG0204", f"the offsets of dim {dim} end at {offsets[-1]}, but the dim has size {shape[dim]}"
                    )
                )
        return diagnostics

    def parts(self, dim: int, mesh: Mesh) -> int:
        """Return the number of shards into which a dim is split."""
        return mesh.group_size(self.dims[dim])

    def tile(self, dim: int, size: int, mesh: Mesh) -> int:
        """Return the size of a dim in the local buffer of every device, without halo."""
        if self.offsets and self.offsets[dim]:
            return max(b - a for a, b in itertools.pairwise(self.offsets[dim]))
        return -(-size // self.parts(dim, mesh))

    def local_shape(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """Return the shape of every device's buffer: the tiles, extended by the halo."""
        halo = self.halo or ((0, 0),) * self.rank
        return tuple(self.tile(d, size, mesh) + sum(halo[d]) for d, size in enumerate(shape))

    def is_even(self, shape: Sequence[int], mesh: Mesh) -> bool:
        """Whether no device has padding."""
        return all(size % self.parts(d, mesh) == 0 for d, size in enumerate(shape)) and not any(self.offsets)

    def core(self, dim: int, size: int, mesh: Mesh, rank: int) -> tuple[int, int]:
        """Return the range [start, stop) of a dim that device `rank` owns, without halo."""
        index = mesh.index(rank, self.dims[dim])
        if self.offsets and self.offsets[dim]:
            return self.offsets[dim][index], self.offsets[dim][index + 1]
        tile = self.tile(dim, size, mesh)
        return min(index * tile, size), min((index + 1) * tile, size)

    def ranges(self, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[tuple[int, int], ...]:
        """Return for each dim the range [start, stop) that device `rank` holds. It includes the halo, clipped to the
        tensor.
        """
        halo = self.halo or ((0, 0),) * self.rank
        dim_ranges: list[tuple[int, int]] = []
        for dim, size in enumerate(shape):
            start, stop = self.core(dim, size, mesh, rank)
            before, after = halo[dim]
            dim_ranges.append((max(0, start - before), min(size, stop + after)))
        return tuple(dim_ranges)

    def __str__(self) -> str:
        text = "[" + ", ".join("{" + ",".join(axes) + "}" for axes in self.dims) + "]"
        if self.partial:
            text += " partial " + ", ".join(f"{kind}({axis})" for axis, kind in self.partial)
        if self.halo:
            text += " halo " + str([list(pair) for pair in self.halo])
        if any(self.offsets):
            text += " offsets " + str([list(row) for row in self.offsets])
        return text + (f" on @{self.mesh}" if self.mesh else "")


AxisEntry = str | Sequence[str] | None


def P(*dims: AxisEntry, partial: str | Mapping[str, str] | Sequence[str] | None = None,
      mesh: str | Mesh = "") -> Sharding:  # fmt: skip
    """Make a sharding from one entry per tensor dim: an axis, a tuple of axes (major to minor) or None.

    Trailing dims may be omitted; `fit` adds them later. `partial="tp"` is a partial sum over `tp`, `partial={"tp":
    "max"}` a partial maximum. `mesh` is for programs on several meshes.

    Raises:
        ShardingError: MG0204 for an entry that is not an axis name, a sequence of names or None.
    """
    entries = tuple(axes_of_dim(d, dims) for d in dims)
    if bad := [axis for axes in entries for axis in axes if not isinstance(axis, str)]:
        raise no_sharding(bad[0], dims)
    pairs = (
        partial.items()
        if isinstance(partial, Mapping)
        else ((a, "sum") for a in ([partial] if isinstance(partial, str) else partial or ()))
    )
    return Sharding(entries, tuple(pairs), mesh=mesh if isinstance(mesh, str) else mesh.name)


def axes_of_dim(entry: Any, dims: Any) -> tuple[Any, ...]:
    """Return the axes in a user's entry for one dim.

    Raises:
        ShardingError: MG0204 for an invalid entry.
    """
    if entry is None or isinstance(entry, str):
        return (entry,) if entry else ()
    if not isinstance(entry, Iterable):
        raise no_sharding(entry, dims)
    return tuple(cast("Iterable[Any]", entry))


def no_sharding(part: object, whole: object) -> ShardingError:
    """Return the error for an entry of a sharding that is not a mesh axis."""
    return ShardingError(
        Diagnostic(
            "MG0204",
            f"expected a mesh axis, got {part!r} in {whole!r}",
            hint='write mg.P("dp", None, ("a", "b")), the text "dp,_,a+b", or axis numbers per dim: [[0], [], [1, 2]]',
        )
    )


def from_indices(dims: Sequence[Sequence[int]], mesh: Mesh, rank: int) -> Sharding:
    """Make a sharding from axis indices per dim, `[[0], [], [1, 2]]`.

    A list after that of the last dim has the axes of partial sums.
    """
    try:
        named = [tuple(mesh.names[index] for index in axes if index >= 0 or _reject(index)) for axes in dims]
    except IndexError as error:
        raise ShardingError(
            Diagnostic(
                "MG0202",
                f"{[list(d) for d in dims]} has an axis number out of range for {mesh}",
                hint=f"axes are numbered 0 to {len(mesh.axes) - 1}",
            )
        ) from error
    if len(named) > rank + 1:
        raise ShardingError(
            Diagnostic("MG0204", f"{[list(d) for d in dims]} has {len(named)} lists, but the tensor has rank {rank}")
        )
    partial = tuple((axis, "sum") for axis in named[rank]) if len(named) == rank + 1 else ()
    return fit(Sharding(tuple(named[:rank]), partial), rank)


def _reject(index: int) -> bool:
    raise IndexError(index)


def fit(sharding: Sharding, rank: int) -> Sharding:
    """Extend a sharding to the rank of a tensor. Omitted trailing dims are not split."""
    return replace(sharding, dims=sharding.dims + ((),) * (rank - sharding.rank))
