"""Splitting of mesh axes into disjoint sub-axes, so that passes can compare references such as `x` and `x:(1)2`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

# Maximum length, in characters, of a reference to an axis or sub-axis. Chosen: far above any real name; it bounds the
# time to parse a forged file.
MAX_REF = 1024
NO_DIVISION = "an axis would have to be factored in two ways at once, as 6 devices into 2 x 3 and 3 x 2"


class AxisParts(NamedTuple):
    """The coarsest split of the mesh axes into sub-axes, such that each of a set of axis references is a run of
    sub-axes.

        references `x` and `x:(1)2` to an axis x of size 4  ->  sub-axes `x:(1)2`, `x:(2)2`

    Some sets of references have no common sub-axes: an axis of size 6 split as 2 x 3 and as 3 x 2. `fits` checks this.
    """

    mesh: Mesh
    parts: dict[str, tuple[str, ...]]  # axis name -> its sub-axes, major to minor

    @staticmethod
    def of(mesh: Mesh, refs: Sequence[str]) -> AxisParts:
        """Return the split for `refs`. A reference that no split has in common with the earlier references is ignored."""
        chains = {axis.name: [1, axis.size] for axis in mesh.axes if axis.size is not None}
        for name, pre, size in map(split_ref, refs):
            if size is None or size == 1 or name not in chains:
                continue
            chain = sorted({*chains[name], pre, pre * size})
            if all(b % a == 0 for a, b in itertools.pairwise(chain)):
                chains[name] = chain
        table: dict[str, tuple[str, ...]] = {axis.name: (axis.name,) for axis in mesh.axes}
        for name, chain in chains.items():
            if len(chain) > 2:
                table[name] = tuple(f"{name}:({a}){b // a}" for a, b in itertools.pairwise(chain))
        return AxisParts(mesh, table)

    def fits(self, *refs: str) -> bool:
        """Whether each reference in `refs` equals a run of adjacent sub-axes."""
        return all(map(self._ref_fits, refs))

    def _ref_fits(self, ref: str) -> bool:
        name, pre, size = split_ref(ref)
        axis_size = self.mesh.axis(name).size
        if size is None or size == 1 or axis_size is None:
            return True
        boundaries = {axis_size, *(split_ref(part)[1] for part in self.parts[name])}
        return pre in boundaries and pre * size in boundaries

    def refine(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Replace each reference in `refs`, the axes of one dim, by its sub-axes. All references must satisfy `fits`.

        References to an axis of unknown size are returned unchanged.
        """
        refs = merge(refs, self.mesh)
        assert self.fits(*refs), f"{refs} do not nest in {self.parts}"
        refined: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            if self.mesh.axis(name).size is None:
                refined.append(ref)
            elif size is None or len(self.parts[name]) == 1:
                refined += self.parts[name] if size != 1 else ()
            else:
                refined += [part for part in self.parts[name] if pre <= split_ref(part)[1] < pre * size]
        return tuple(refined)

    def cover(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Return the sub-axes that determine a device's coordinate along `refs`.

        A reference that is not a run of sub-axes (see `fits`) contributes all sub-axes of its axis.
        """
        return tuple(
            dict.fromkeys(
                part
                for ref in refs
                for part in (self.refine((ref,)) if self.fits(ref) else self.parts[split_ref(ref)[0]])
            )
        )

    def normal(self, sharding: Sharding) -> Sharding:
        """Return the sharding with each axis replaced by its sub-axes, so that equal shardings compare equal.

        For example, `x` and the two halves of `x` become the same. All axes of `merged(sharding)` must satisfy `fits`.
        """
        sharding = merged(sharding, self.mesh)
        partial = tuple((part, kind) for axis, kind in sharding.partial for part in self.refine((axis,)))
        dims = tuple(self.refine(axes) for axes in sharding.dims)
        return replace(sharding, dims=dims, partial=partial)

    def merge(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Merge adjacent sub-axes in `refs`: the inverse of `refine`."""
        return merge(refs, self.mesh)

    def all(self) -> list[str]:
        """Return all sub-axes of the axes with a known size above 1, in mesh order."""
        return [
            part
            for axis in self.mesh.axes
            if axis.size is not None and axis.size > 1
            for part in self.parts[axis.name]
            if self.mesh.axis_size(part) > 1
        ]


def merge(refs: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    """Merge references to adjacent sub-axes of one axis: `x:(1)2`, `x:(2)2` becomes `x` if x has size 4."""
    if not any(":" in ref for ref in refs):  # All references are to entire axes.
        return tuple(refs)
    merged_refs: list[str] = []
    for ref in refs:
        name, pre, size = split_ref(ref)
        if merged_refs and size is not None:
            last, last_pre, last_size = split_ref(merged_refs[-1])
            if last == name and last_size is not None and last_pre * last_size == pre:
                merged_refs[-1] = f"{name}:({last_pre}){last_size * size}"
                continue
        merged_refs.append(ref)
    full_axes = {f"{a.name}:(1){a.size}": a.name for a in mesh.axes}
    return tuple(full_axes.get(ref, ref) for ref in merged_refs)


def merged(sharding: Sharding, mesh: Mesh) -> Sharding:
    """Return the sharding with adjacent sub-axes merged, so that equal shardings compare equal.

    In contrast to `AxisParts.normal`, no common split of the axes is needed.
    """
    plain = sharding.canonical(mesh)
    if not any(":" in axis for axis in plain.used_axes):  # All references are to entire axes.
        return plain
    runs = itertools.groupby(plain.partial, lambda pair: pair[1])
    partial = tuple((axis, kind) for kind, run in runs for axis in merge([axis for axis, _ in run], mesh))
    return replace(plain, dims=tuple(merge(axes, mesh) for axes in plain.dims), partial=partial)


def is_ref(text: str) -> bool:
    """Whether `text`, read from a file, is a valid reference to an axis or to a sub-axis of positive size."""
    if len(text) > MAX_REF:
        return False
    _, pre, size = split_ref(text)
    return pre > 0 and size != 0
