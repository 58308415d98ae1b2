"""Estimate what an operation takes on one device under a strategy: the arithmetic of its tiles or their traffic with memory.

Example, `%h = dot_general %x, %w : bf16[128,4096], bf16[4096,16384]` on an H100, x=4: 56 us

    x splits rows of %x, %h            a quarter of the arithmetic, but every device reads all of %w: 53 us
    x splits columns of %w, %h         a quarter of both: 14 us

Products take what the model of kernels says; of other operations most traffic is fused away, and propagation's rates count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from meshgen.codegen.roofline.kernel_time import memory_seconds
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import TensorType
from meshgen.kernels.matmul_time import Product, product_seconds
from meshgen.ops.classes import CONTRACTIONS, MATRIX_PRODUCTS
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.precision import multiplied_as
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State

Placing = tuple[State, ...]  # the state of a value along each axis


@dataclass(frozen=True)
class TileWork:
    """Of the tiles along some axes, on a device."""

    links: Sequence[Link]
    device: Device
    _known: dict[Product, float] = field(default_factory=dict[Product, float])

    def seconds(self, site: Site, placings: Sequence[Placing], share: float) -> float:
        """Seconds per step.

        Args:
            placings: of the operands and results, in this order.
            share: of its loops, that a device runs.
        """
        if not site.seconds:
            return 0.0
        tiles = [tile_of(value.type, each, self.links) for value, each in zip(site.values, placings, strict=True)]
        nbytes = sum(tile.nbytes for tile in tiles)
        multiplied = multiplied_as(site.node) if site.node.op in MATRIX_PRODUCTS else ""
        if multiplied in self.device.peaks:
            types = dict(zip(site.values, tiles, strict=True))
            product = Product(*product_extents(site.node, types.__getitem__), multiplied)
            return site.times * max(self._multiplying(product), memory_seconds(nbytes, self.device))
        weights = DEFAULT.propagation
        is_product = site.node.op in CONTRACTIONS
        rate = weights.product_bytes_per_second if is_product else weights.bytes_per_second
        return max(site.seconds * share, site.times * nbytes / rate)

    def _multiplying(self, product: Product) -> float:
        if product not in self._known:
            self._known[product] = product_seconds(product, self.device)
        return self._known[product]


def tile_of(kind: TensorType, placing: Placing, links: Sequence[Link]) -> TensorType:
    """The type of the largest tile of a value."""
    parts = [
        math.prod(link.size for link, state in zip(links, placing, strict=True) if state == dim)
        for dim in range(kind.rank)
    ]
    return kind.with_shape(tuple(-(-size // number) for size, number in zip(kind.sizes, parts, strict=True)))
