"""Undo splits of minor factors once the other axes do not split their major factors completely.

Example: `reshape f32[3,10] -> f32[30]` on y=3, x=2. If y splits the factor of 3, x may split the factor of 10:
a device has 5 rows, [{y, x}]. If y is decided again and no longer splits the 3, a device's 5 of each 10 rows are not
contiguous in the 30. Then x must not split the 10 either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.mesh import Mesh
from meshgen.sharding.propagation.labels import Label, is_expressible, whole_label
from meshgen.sharding.propagation.reach import Covered
from meshgen.sharding.propagation.sites import Site

Splits = dict[Site, dict[int, int]]
Labels = Mapping[str, Sequence[Label]]  # axis -> the label of each site


def splits(sites: Sequence[Site], labels: Labels, mesh: Mesh) -> Splits:
    """Return the number of parts into which the axes split each factor of each site.

    The number 0 marks a factor that no further axis may split.
    """
    parts: Splits = {}
    for axis, axis_labels in labels.items():
        for site, label in zip(sites, axis_labels, strict=True):
            if label.factor is not None:
                table = parts.setdefault(site, {})
                size = 0 if label.is_pick(site) else mesh.axis_size(axis)
                table[label.factor] = table.get(label.factor, 1) * size
    return parts


def covers(split: Splits) -> Covered:
    """Return a predicate on (site, factor) that is true if `split` divides the factor into single elements."""
    return lambda site, factor: split.get(site, {}).get(factor, 1) == site.rule.factors[factor].size


def without_uncovered_splits(sites: Sequence[Site], labels: Labels, mesh: Mesh) -> dict[str, tuple[Label, ...]]:
    """Return the labels after replicating each site whose split needs a major factor that no other axis splits."""
    updated = {axis: list(axis_labels) for axis, axis_labels in labels.items()}
    joined_sites = [index for index, site in enumerate(sites) if _is_joined(site)]
    is_changed = bool(joined_sites)
    while is_changed:  # Terminates: each round replicates at least one more site.
        is_changed = False
        for axis, axis_labels in updated.items():
            covered = covers(
                splits(
                    sites, {other: labels_of_axis for other, labels_of_axis in updated.items() if other != axis}, mesh
                )
            )
            for index in joined_sites:
                if _is_uncovered(sites[index], axis_labels[index], covered):
                    axis_labels[index], is_changed = whole_label(sites[index]), True
    return {axis: tuple(axis_labels) for axis, axis_labels in updated.items()}


def _is_joined(site: Site) -> bool:
    """Whether a site has a dim of several factors, and no sharding option of the user.

    Sites with options are not changed here; a later check refuses illegal options.
    """
    return site.option is None and site.is_joined


def _is_uncovered(site: Site, label: Label, covered: Covered) -> bool:
    return label.factor is not None and not is_expressible(site, label.factor, covered)
