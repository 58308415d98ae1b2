"""Find splits of minor factors whose major factors the other axes no longer split completely, and undo them.

Example: `reshape f32[3,10] -> f32[30]` on y=3, x=2. If y splits the factor of 3, x may split the factor of 10: a device has
5 rows, [{y, x}]. If y is decided again and leaves the 3 whole, a device's 5 of each 10 rows are not contiguous in the 30, so
x must leave them whole as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.mesh import Mesh
from meshgen.sharding.propagation.labels import Label, is_expressible, whole_label
from meshgen.sharding.propagation.reach import Covered
from meshgen.sharding.propagation.sites import Site

Splits = dict[Site, dict[int, int]]
Labels = Mapping[str, Sequence[Label]]  # per axis, one label per site


def splits(sites: Sequence[Site], labels: Labels, mesh: Mesh) -> Splits:
    """Into how many parts axes split each factor of each site; 0: no other axis may split it."""
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
    """The labels; sites whose split needs major factors that no other axis splits in the end are whole along the axis."""
    found = {axis: list(chosen) for axis, chosen in labels.items()}
    joined = [number for number, site in enumerate(sites) if _is_joined(site)]
    is_new = bool(joined)
    while is_new:  # terminates: each round makes at least one more site whole
        is_new = False
        for axis, chosen in found.items():
            covered = covers(splits(sites, {other: each for other, each in found.items() if other != axis}, mesh))
            for number in joined:
                if _is_uncovered(sites[number], chosen[number], covered):
                    chosen[number], is_new = whole_label(sites[number]), True
    return {axis: tuple(chosen) for axis, chosen in found.items()}


def _is_joined(site: Site) -> bool:
    """Whether a dim is made of several loops. The user's option of an op is not changed; if it is illegal it is refused elsewhere."""
    return site.option is None and site.is_joined


def _is_uncovered(site: Site, label: Label, covered: Covered) -> bool:
    return label.factor is not None and not is_expressible(site, label.factor, covered)
