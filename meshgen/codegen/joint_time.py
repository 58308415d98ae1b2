"""How long products take of which each program computes all, and the tiles that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.codegen.fusion.accumulators import Accumulator, share_a_loop
from meshgen.cost_model.kernels import Device
from meshgen.kernels.matmul import Tile
from meshgen.kernels.matmul_time import Product, joint_tiles
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.precision import multiplied_as

_LEAST_COLUMNS = 16  # of a tile that tensor cores multiply, whatever the type (Triton 3.6, tl.dot)


def timed_tiles(found: Sequence[Accumulator], device: Device) -> list[tuple[float, Tile]]:
    """Predicted times of the products, without the launch and without device memory, by tile: the least first.

    Two products that share a main loop are one of as many columns as they have together, and have half the columns of its tile each.
    """
    products = [Product(*product_extents(dot), multiplied_as(dot)) for each in found for dot in each.products]
    if not share_a_loop(found):
        return joint_tiles(products, device, held=len(found) - 1)
    timed = joint_tiles([replace(products[0], n=2 * products[0].n)], device)
    return [(seconds, replace(tile, n=tile.n // 2)) for seconds, tile in timed if tile.n // 2 >= _LEAST_COLUMNS]
