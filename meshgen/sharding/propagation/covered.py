"""Loops of which other axes split all that is major to them: only so are their tiles tiles of a dim.

Of 30 = 3 x 10 rows two devices can have 5 each of the 10 where other axes split the 3, one each. What one axis so relies on, a later
decision on another may take away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.mesh import Mesh
from meshgen.sharding.propagation.labels import Label, is_expressible, whole_label
from meshgen.sharding.propagation.reach import Covered
from meshgen.sharding.propagation.sites import Site

Splits = dict[Site, dict[int, int]]
Labels = Mapping[str, Sequence[Label]]  # per axis, one for each site


def splits(sites: Sequence[Site], labels: Labels, mesh: Mesh) -> Splits:
    """By how much axes split each factor of each site; 0: nothing else may split it."""
    found: Splits = {}
    for axis, chosen in labels.items():
        for site, label in zip(sites, chosen, strict=True):
            if label.factor is not None:
                table = found.setdefault(site, {})
                size = 0 if label.is_pick(site) else mesh.axis_size(axis)
                table[label.factor] = table.get(label.factor, 1) * size
    return found


def covers(split: Splits) -> Covered:
    """Whether a factor is split completely."""
    return lambda site, factor: split.get(site, {}).get(factor, 1) == site.rule.factors[factor].size


def without_uncovered(sites: Sequence[Site], labels: Labels, mesh: Mesh) -> dict[str, tuple[Label, ...]]:
    """The labels, with sites whole along an axis whose split relied on what other axes do not split in the end."""
    found = {axis: list(chosen) for axis, chosen in labels.items()}
    joined = [number for number, site in enumerate(sites) if _is_joined(site)]
    is_new = bool(joined)
    while is_new:  # each time at least one more is whole
        is_new = False
        for axis, chosen in found.items():
            covered = covers(splits(sites, {other: each for other, each in found.items() if other != axis}, mesh))
            for number in joined:
                if _is_uncovered(sites[number], chosen[number], covered):
                    chosen[number], is_new = whole_label(sites[number]), True
    return {axis: tuple(chosen) for axis, chosen in found.items()}


def _is_joined(site: Site) -> bool:
    """Whether a dim is made of several loops. What the user asks of the op itself is not changed, but refused where it must be."""
    return site.option is None and site.is_joined


def _is_uncovered(site: Site, label: Label, covered: Covered) -> bool:
    return label.factor is not None and not is_expressible(site, label.factor, covered)
