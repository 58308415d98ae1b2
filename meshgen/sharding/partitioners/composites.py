"""Partitioner of composites with a decomposition in factor notation: writes the decomposition on tiles, with the
exchange between devices.

    normalize %x {factors = "t d -> t d, t, t"}, d split over x    %u, %s = mean and squares of the tile
                                                                   all_gather %u, %s over x   ...   the mean and squares
                                                                   of all
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from meshgen.ir.graph import TensorType, Value
from meshgen.ops.decompositions.writer import TILES, FactorWriter, Finish, Spread
from meshgen.ops.factors import Names, parsed
from meshgen.ops.registry import OPS
from meshgen.ops.rules.rule import reduction_kind
from meshgen.sharding.partitioners.candidates import combine_candidates
from meshgen.sharding.partitioners.local_moves import table_entry
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("normalize", "normalize_gradient", "scaled_dot", "softmax_cross_entropy")
def by_factors(site: Site) -> list[Value]:
    """Write the decomposition of a composite for the device's tiles."""
    decompose = OPS[site.node.op].decompose
    assert decompose is not None
    return list(decompose(TileWriter(site)))


def factor_axes(site: Site) -> dict[str, tuple[str, ...]]:
    """Return the mesh axes, of more than one device, that split each factor of the node."""
    node, axes_by_factor = site.node, dict[str, tuple[str, ...]]()
    operands, results = parsed(node.attrs.factors)
    for names, value in zip((*operands, *results), (*node.operands, *node.results), strict=True):
        for name, axes in zip(names, sharding_of(value).canonical(site.mesh).dims, strict=True):
            axes_by_factor[name] = axes or axes_by_factor.get(name, ())
    return axes_by_factor


class TileWriter(FactorWriter):
    """Writes decompositions for a device that has tiles of the operands.

    Attributes:
        axes: the mesh axes that split each factor.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site.node, site.builder, site.operands)
        self.site, self.axes = site, factor_axes(site)

    def positions(self, factor: str, dtype: str) -> Spread:
        builder, tile = self.site.builder, self._tile(factor)
        positions = Spread(builder.emit("iota", [], TensorType((tile,), dtype), dim=0), (factor,))
        if not (axes := self.axes[factor]):
            return positions
        return self.apply("add", positions, self.convert(Spread(builder.tile_start(axes, tile), ()), dtype))

    def masked(self, part: Spread, over: Names, fill: float) -> Spread:
        value = part.value
        for f in over:
            if f in part.names:
                dim = part.names.index(f)
                value = self.site.builder.mask_rows(value, dim, self.axes[f], self.sizes[f], fill)
        return Spread(value, part.names)

    def total(self, combiner: str, part: Spread, over: Names) -> Spread:
        tile = self.reduced(combiner, part, over)
        if not (axes := self._axes_of(over)):
            return tile
        kind, why = reduction_kind(combiner), self.site.why("the sums of other tiles")
        total = self.site.builder.communicate("all_reduce", tile.value, tile.value.type, why, axes=axes, kind=kind)
        return Spread(total, tile.names)

    def tile_count(self, over: Names, dtype: str) -> Spread | float:
        if not any(map(self._is_uneven, over)):
            return math.prod(self._tile(f) for f in over)
        counts = np.maximum(self._counts(over), 1)
        return self.convert(Spread(table_entry(self.site.builder, self._axes_of(over), counts), ()), dtype)

    def tile_counts(self, over: Names, dtype: str) -> Spread:
        counts = self._counts(over)
        return Spread(self.site.builder.splat(counts, TensorType(counts.shape, dtype)), (TILES,))

    def combined(self, parts: Sequence[Spread], over: Names, finish: Finish) -> Sequence[Spread]:
        axes = self._axes_of(over)
        if not axes:
            return parts
        builder = self.site.builder

        def finish_rows(values: list[Value]) -> list[Value]:
            return [part.value for part in finish([Spread(value, ("rows", TILES)) for value in values])]

        rows = [builder.reshape(part.value, (*part.value.type.sizes, 1)) for part in parts]
        combined = combine_candidates(self.site, rows, axes, finish_rows, 0)
        return [Spread(value, part.names) for value, part in zip(combined, parts, strict=True)]

    def _axes_of(self, over: Names) -> tuple[str, ...]:
        return tuple(axis for f in over for axis in self.axes[f])

    def _devices(self, factor: str) -> int:
        return self.site.mesh.group_size(self.axes[factor])

    def _tile(self, factor: str) -> int:
        return -(-self.sizes[factor] // self._devices(factor))

    def _is_uneven(self, factor: str) -> bool:
        return self.sizes[factor] % self._devices(factor) != 0

    def _counts(self, over: Names) -> np.ndarray:
        """Return the number of elements along the factors `over` on each device of the group that splits them."""
        starts = [np.arange(self._devices(f)) * self._tile(f) for f in over]
        tiles = [np.clip(self.sizes[f] - start, 0, self._tile(f)) for f, start in zip(over, starts, strict=True)]
        return reduce(np.multiply.outer, tiles).ravel()
