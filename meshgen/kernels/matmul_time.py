"""Predicted time of a matmul: a model of a tile's main loop, and of the tiles that each multiprocessor
computes.

A step of the loop takes as long as the slowest of three: tensor cores (or FMA pipes) multiply, the L2 cache
delivers the operands, and copies that were started `num_stages - 1` steps ago arrive. So two stages of a
deep step take more time than three stages of half the depth. Blocks that share a multiprocessor hide each
other's latencies, but not each other's work. `python -m bench.products` compares the model with published
measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES
from meshgen.kernels.architectures import tensor_cores
from meshgen.kernels.matmul import Tile, candidates, staged_bytes

# 32-bit registers of a multiprocessor (CUDA C++ programming guide, "Technical specifications per compute capability")
_REGISTERS = 65536
# Registers of a thread besides the thread's elements of the accumulator, for addresses and descriptors.
_OTHER_REGISTERS = 48


class Product(NamedTuple):
    """The size of a matmul: `batch` times (m x k by k x n), multiplied in the format `dtype`
    (`meshgen/ops/precision.py`).
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str

    @property
    def item_bytes(self) -> int:
        return DTYPES["f32" if self.dtype.startswith("tf32") else self.dtype].itemsize

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k


def together(products: Sequence[Product], tile: Tile) -> Product:
    """Return the matmuls of one launch as a single batched matmul with as many tiles, and with the average k of these
    tiles.

    A single matmul is returned unchanged.
    """
    if len(products) == 1:
        return products[0]
    blocks = [-(-p.m // tile.m) * -(-p.n // tile.n) * p.batch for p in products]
    k = round(sum(count * p.k for count, p in zip(blocks, products, strict=True)) / sum(blocks))
    return Product(sum(blocks), tile.m, tile.n, k, products[0].dtype)


def thread_registers(tile: Tile, held: int, is_promoted: bool) -> float:
    """Return the number of registers of a thread, for the thread's elements of accumulators and for everything else.

    Args:
        held: the number of result tiles that stay in registers, besides the accumulator.
        is_promoted: whether each step has an accumulator that is separate from that of the earlier steps.
    """
    return tile.m * tile.n * (1 + held + is_promoted / tile.parts) / tile.multiplying_threads + _OTHER_REGISTERS


def product_seconds(product: Product, device: Device) -> float:
    """Return the predicted seconds of a matmul with the best tile, without the launch and without device memory."""
    return min(tile_seconds(tile, product, device) for tile in candidates(product.dtype, device.architecture))


def tile_seconds(tile: Tile, product: Product, device: Device) -> float:
    """Return the predicted seconds of all tiles of a matmul.

    Each multiprocessor computes several tiles one after the other or side by side.
    """
    p, model, item_bytes = product, DEFAULT.kernels, product.item_bytes
    blocks = -(-p.m // tile.m) * -(-p.n // tile.n) * p.batch
    steps, blocks_each = -(-p.k // tile.k), -(-blocks // device.multiprocessors)
    peak = device.peaks.get(p.dtype, device.vector_flops) / device.multiprocessors
    multiply = 2 * tile.m * tile.n * tile.k / (peak * model.main_loop_share * tile.speed)
    active = min(blocks, device.multiprocessors)
    # A multiprocessor gets at most twice its share of the L2 bandwidth.
    max_bandwidth = device.l2_bandwidth / (device.multiprocessors // 2)
    delivered = min(device.l2_bandwidth / active, max_bandwidth)
    # Tiles do not load elements past the last row or column.
    nbytes = (min(tile.m, p.m) + min(tile.n, p.n)) * tile.k * item_bytes
    read = nbytes / delivered
    arrive = (model.copy_seconds + nbytes / max_bandwidth) / max(1, tile.num_stages - 1)
    write = min(tile.m, p.m) * min(tile.n, p.n) * max(2, item_bytes) / delivered
    side_by_side = min(blocks_each, _resident(tile, p, device))
    if side_by_side == 1:
        return blocks_each * (steps * max(multiply, read, arrive) + model.start_seconds + write)
    busy = blocks_each * (steps * max(multiply, read) + write) + model.start_seconds
    return max(busy, -(-blocks_each // side_by_side) * (steps * arrive + model.start_seconds + write))


def _resident(tile: Tile, product: Product, device: Device) -> int:
    """Return the number of blocks that share a multiprocessor, as limited by shared memory and registers."""
    is_promoted = tensor_cores(device.architecture).promotes(product.dtype)
    registers = round(thread_registers(tile, 0, is_promoted) * tile.threads)
    return max(1, min(device.shared_bytes // staged_bytes(tile, product.item_bytes), _REGISTERS // registers))
