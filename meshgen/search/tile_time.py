"""Estimate the time of an operation on one device under a strategy, from the arithmetic or memory traffic of its tiles.

Example, `%h = dot_general %x, %w : bf16[128,4096], bf16[4096,16384]` on an H100, x=4: 56 us

    x splits rows of %x, %h            a quarter of the arithmetic, but every device reads all of %w: 53 us
    x splits columns of %w, %h         a quarter of both: 14 us

GEMMs are costed by the kernel model. Other operations are mostly fused, so the throughput rates of propagation apply to
them.
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
from meshgen.ops.classes import CONTRACTIONS, GEMMS
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.precision import multiplied_as
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State

Placing = tuple[State, ...]  # The state of a value along each axis.


@dataclass(frozen=True)
class TileWork:
    """Estimates the work on tiles of one device; GEMM times are cached."""

    links: Sequence[Link]
    device: Device
    _known: dict[Product, float] = field(default_factory=dict[Product, float])

    def seconds(self, site: Site, placings: Sequence[Placing], share: float) -> float:
        """Return the seconds per step.

        Args:
            placings: the states of the operands, then of the results.
            share: the fraction of the site's loops that each device runs.
        """
        if not site.seconds:
            return 0.0
        tiles = [tile_of(value.type, placing, self.links) for value, placing in zip(site.values, placings, strict=True)]
        nbytes = sum(tile.nbytes for tile in tiles)
        multiplied = multiplied_as(site.node) if site.node.op in GEMMS else ""
        if multiplied in self.device.peaks:
            types = dict(zip(site.values, tiles, strict=True))
            gemm = Product(*gemm_extents(site.node, types.__getitem__), multiplied)
            return site.times * max(self._gemm_seconds(gemm), memory_seconds(nbytes, self.device))
        weights = DEFAULT.propagation
        is_product = site.node.op in CONTRACTIONS
        rate = weights.product_bytes_per_second if is_product else weights.bytes_per_second
        return max(site.seconds * share, site.times * nbytes / rate)

    def _gemm_seconds(self, gemm: Product) -> float:
        if gemm not in self._known:
            self._known[gemm] = product_seconds(gemm, self.device)
        return self._known[gemm]


def tile_of(tensor_type: TensorType, placing: Placing, links: Sequence[Link]) -> TensorType:
    """Return the type of a value's largest tile."""
    parts = [
        math.prod(link.size for link, state in zip(links, placing, strict=True) if state == dim)
        for dim in range(tensor_type.rank)
    ]
    return tensor_type.with_shape(
        tuple(-(-size // part_count) for size, part_count in zip(tensor_type.sizes, parts, strict=True))
    )
