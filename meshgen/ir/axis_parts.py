"""The finest parts of mesh axes that annotations name: propagation works on axes that do not overlap."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding


@dataclass(frozen=True)
class AxisParts:
    """The finest parts of the mesh's axes that the annotations name, so that no two overlap."""

    mesh: Mesh
    parts: dict[str, tuple[str, ...]]  # axis name -> its parts, major to minor

    @staticmethod
    def of(mesh: Mesh, refs: Sequence[str]) -> AxisParts:
        table: dict[str, tuple[str, ...]] = {}
        for axis in mesh.axes:
            size = axis.size
            cuts = sorted(
                {
                    c
                    for r in refs
                    for name, pre, part in [split_ref(r)]
                    if name == axis.name and part
                    for c in (pre, pre * part)
                }
                - {1}
            )
            if size is None or not [c for c in cuts if c != size]:
                table[axis.name] = (axis.name,)
                continue
            bounds = [1, *[c for c in cuts if c < size], size]
            table[axis.name] = tuple(f"{axis.name}:({a}){b // a}" for a, b in itertools.pairwise(bounds))
        return AxisParts(mesh, table)

    def refine(self, refs: Sequence[str]) -> tuple[str, ...]:
        """References in terms of the parts."""
        found: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            for part in self.parts[name]:
                _, part_pre, part_size = split_ref(part)
                if size is None or part_size is None or pre <= part_pre < pre * size:
                    found.append(part)
        return tuple(found)

    def normal(self, sharding: Sharding) -> Sharding:
        """The sharding in terms of the parts, so that equal ones are written alike (`x` and its two halves)."""
        kinds = tuple((part, kind) for axis, kind in sharding.partial for part in self.refine((axis,)))
        dims = tuple(self.refine(axes) for axes in sharding.dims)
        return replace(sharding, dims=dims, partial=kinds).canonical(self.mesh)

    def merge(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Neighbouring parts joined again: the inverse of refine."""
        found: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            if found and size is not None:
                last, last_pre, last_size = split_ref(found[-1])
                if last == name and last_size is not None and last_pre * last_size == pre:
                    found[-1] = f"{name}:({last_pre}){last_size * size}"
                    continue
            found.append(ref)
        whole = {f"{a.name}:(1){a.size}": a.name for a in self.mesh.axes}
        return tuple(whole.get(ref, ref) for ref in found)

    def all(self) -> list[str]:
        """All parts of all axes of known size above 1, in mesh order."""
        return [
            p
            for a in self.mesh.axes
            if a.size is not None and a.size > 1
            for p in self.parts[a.name]
            if self.mesh.axis_size(p) > 1
        ]
