"""How long products of one launch take, and the tiles that suit them: each program computes all of them, or one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.codegen.fusion.accumulators import Accumulator, joint_products, share_a_loop
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, is_float
from meshgen.kernels.matmul import Tile
from meshgen.kernels.matmul_time import Product, joint_tiles, tiles_side_by_side
from meshgen.ops.classes import DOTS
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.ops.segments import segments

_LEAST_COLUMNS = 16  # of a tile that tensor cores multiply, whatever the type (Triton 3.6, tl.dot)


def timed_tiles(found: Sequence[Accumulator], device: Device) -> list[tuple[float, Tile]]:
    """Predicted times of the products, without the launch and without device memory, by tile: the least first.

    Two products that share a main loop are one of as many columns as they have together, and have half the columns of its tile each.
    """
    products = [_product(dot) for each in found for dot in each.products]
    if not share_a_loop(found):
        return joint_tiles(products, device, held=len(found) - 1)
    timed = joint_tiles([products[0]._replace(n=2 * products[0].n)], device)
    return [(seconds, replace(tile, n=tile.n // 2)) for seconds, tile in timed if tile.n // 2 >= _LEAST_COLUMNS]


def apart_products(body: Graph) -> list[Node]:
    """The dots of segments of a body each of which multiplies one, or several of one left operand; empty for other bodies."""
    dots, parts = [node for node in body.nodes if node.op in DOTS], segments(body)
    plain = all(any(node.op in DOTS for node in part.nodes) and not joint_products(part) for part in parts)
    types = {(common_type(dot), multiplied_as(dot)) for dot in dots}
    return dots if dots and plain and len(types) == 1 and is_float(common_type(dots[0])) else []


def tiles_apart(dots: Sequence[Node], device: Device) -> list[tuple[float, Tile]]:
    """As `timed_tiles`, of dots of which each program computes a tile of one."""
    return tiles_side_by_side([_product(dot) for dot in dots], device)


def gain_together(first: Sequence[Node], second: Sequence[Node], device: Device) -> bool:
    """Whether one launch of the products of two is predicted to take no longer."""
    if len({(common_type(dot), multiplied_as(dot)) for dot in (*first, *second)}) > 1:
        return False
    together, *alone = (tiles_apart(dots, device)[0][0] for dots in ([*first, *second], first, second))
    return together <= sum(alone) + device.launch_seconds


def _product(dot: Node) -> Product:
    return Product(*product_extents(dot), multiplied_as(dot))
