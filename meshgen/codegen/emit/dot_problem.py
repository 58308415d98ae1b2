"""What a kernel of matrix products computes, as sizes and types, and the tiles that suit it."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.fusion.accumulators import Accumulator
from meshgen.codegen.joint_time import timed_tiles
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Node, is_float
from meshgen.kernels.matmul import Tile, with_parts
from meshgen.kernels.matmul_time import Product, ranked_tiles, specialized_tiles
from meshgen.ops.dot_dims import DotDims, product_extents
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.records import dataclass

MOST_TILES = 4  # tiles that are tried where those predicted to be faster spill or do not fit


@dataclass(frozen=True)
class Problem:
    """Sizes of a dot, flattened, of which a program computes a tile, the type that its operands are converted to, and the numbers that are multiplied."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    accumulator: str
    multiplied: str  # as `ops.precision.multiplied_as`


def problem_of(node: Node) -> Problem:
    lhs = node.operands[0].type
    dims, (batch, m, n, k) = DotDims.of(node), product_extents(node)
    if node.op == "ragged_dot":  # the groups are the batch of the result, or that of the tile's own loop
        batch, m, k = (batch, m, dims.depth(lhs)) if node.attrs.contracts else (1, lhs.sizes[0], k)
    dtype = common_type(node)
    accumulator = "f64" if dtype == "f64" else "f32" if is_float(dtype) else node.result.type.dtype
    return Problem(batch, m, n, k, dtype, accumulator, multiplied_as(node))


def uses_tensor_cores(problem: Problem) -> bool:
    """Whether `tl.dot` takes the operands; other integers are multiplied and added one k at a time."""
    return is_float(problem.dtype) or (problem.dtype == "i8" and problem.accumulator == "i32")


def tiles_of(node: Node, count: int, device: Device) -> tuple[Tile, ...]:
    """Tiles for `count` dots like one in one launch, the best predicted first: each with warps of two kinds, with its epilogue at once and in parts."""
    if not uses_tensor_cores(problem_of(node)):
        return (Tile(32, 32, 1, 4, 1, 1.0),)
    batch, m, n, k = product_extents(node)
    product = Product(batch * count, m, n, k, multiplied_as(node))
    ranked = ranked_tiles(product, device)[:MOST_TILES]
    found = list[Tile]()
    for tile in ranked:
        first, others = (special := specialized_tiles(tile, product, device))[:1], special[1:]
        found += [*first, *with_parts(tile), *others]
    return tuple(found)


def joint_tiles_of(found: Sequence[Accumulator], device: Device) -> tuple[Tile, ...]:
    """The same for dots of which each program computes all."""
    if not uses_tensor_cores(problem_of(found[0].products[0])):
        return (Tile(32, 32, 1, 4, 1, 1.0),)
    tiles = [tile for _, tile in timed_tiles(found, device)]
    return tuple(each for tile in tiles[:MOST_TILES] for each in with_parts(tile))


def precision_option(multiplied: str) -> str:
    """The option of `tl.dot` that says how f32 is multiplied; nothing for other types."""
    words = {"f32": "ieee", "tf32": "tf32", "tf32x3": "tf32x3"}
    return f', input_precision="{words[multiplied]}"' if multiplied in words else ""
