"""Disjoint sub-axes of mesh axes, which propagation and checks work on, and merging them again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

MAX_REF = 1024  # characters of a reference to an axis
NO_DIVISION = "an axis would have to be factored in two ways at once, as 6 devices into 2 x 3 and 3 x 2"


class AxisParts(NamedTuple):
    """The finest sub-axes of the mesh's axes that some references name, so that no two overlap.

    Not all references have such parts: an axis of 6 is 2 x 3 or 3 x 2. `fits` tells whether they do.
    """

    mesh: Mesh
    parts: dict[str, tuple[str, ...]]  # axis name -> its parts, major to minor

    @staticmethod
    def of(mesh: Mesh, refs: Sequence[str]) -> AxisParts:
        """The parts that references name; one that does not nest in those before it is skipped."""
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
        """Whether all these references are products of the parts."""
        return all(map(self._ref_fits, refs))

    def _ref_fits(self, ref: str) -> bool:
        name, pre, size = split_ref(ref)
        whole = self.mesh.axis(name).size
        if size is None or size == 1 or whole is None:
            return True
        ends = {whole, *(split_ref(part)[1] for part in self.parts[name])}
        return pre in ends and pre * size in ends

    def refine(self, refs: Sequence[str]) -> tuple[str, ...]:
        """References of one dim in terms of the parts; they must fit. Those to parts of an axis of unknown size stay."""
        refs = merge(refs, self.mesh)
        assert self.fits(*refs), f"{refs} do not nest in {self.parts}"
        found: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            if self.mesh.axis(name).size is None:
                found.append(ref)
            elif size is None or len(self.parts[name]) == 1:
                found += self.parts[name] if size != 1 else ()
            else:
                found += [part for part in self.parts[name] if pre <= split_ref(part)[1] < pre * size]
        return tuple(found)

    def cover(self, refs: Sequence[str]) -> tuple[str, ...]:
        """The parts that determine a device's coordinate along these references: all parts of the axis for one that does not fit."""
        return tuple(
            dict.fromkeys(
                part
                for ref in refs
                for part in (self.refine((ref,)) if self.fits(ref) else self.parts[split_ref(ref)[0]])
            )
        )

    def normal(self, sharding: Sharding) -> Sharding:
        """The sharding in terms of the parts, so that equal ones are written alike (`x` and its two halves).

        Its `merged` form must fit.
        """
        sharding = merged(sharding, self.mesh)
        kinds = tuple((part, kind) for axis, kind in sharding.partial for part in self.refine((axis,)))
        dims = tuple(self.refine(axes) for axes in sharding.dims)
        return replace(sharding, dims=dims, partial=kinds)

    def merge(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Neighbouring parts joined again: the inverse of refine."""
        return merge(refs, self.mesh)

    def all(self) -> list[str]:
        """All parts of all axes of known size above 1, in mesh order."""
        return [
            p
            for a in self.mesh.axes
            if a.size is not None and a.size > 1
            for p in self.parts[a.name]
            if self.mesh.axis_size(p) > 1
        ]


def merge(refs: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    """References to neighbouring parts of an axis, major to minor, as one."""
    if not any(":" in ref for ref in refs):  # they are all whole
        return tuple(refs)
    found: list[str] = []
    for ref in refs:
        name, pre, size = split_ref(ref)
        if found and size is not None:
            last, last_pre, last_size = split_ref(found[-1])
            if last == name and last_size is not None and last_pre * last_size == pre:
                found[-1] = f"{name}:({last_pre}){last_size * size}"
                continue
        found.append(ref)
    whole = {f"{a.name}:(1){a.size}": a.name for a in mesh.axes}
    return tuple(whole.get(ref, ref) for ref in found)


def merged(sharding: Sharding, mesh: Mesh) -> Sharding:
    """The sharding with neighbouring parts of an axis as one, so that equal ones are written alike.

    Unlike `AxisParts.normal` this needs no common parts of two shardings.
    """
    plain = sharding.canonical(mesh)
    if not any(":" in axis for axis in plain.used_axes):  # they are all whole
        return plain
    runs = itertools.groupby(plain.partial, lambda pair: pair[1])
    partial = tuple((axis, kind) for kind, run in runs for axis in merge([axis for axis, _ in run], mesh))
    return replace(plain, dims=tuple(merge(axes, mesh) for axes in plain.dims), partial=partial)


def is_ref(text: str) -> bool:
    """Whether a text from a file can refer to an axis, or to a part of one that has a size."""
    if len(text) > MAX_REF:
        return False
    _, before, size = split_ref(text)
    return before > 0 and size != 0
