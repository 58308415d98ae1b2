"""What a kernel of matrix products computes, as sizes and types, and the tiles that suit it."""

from __future__ import annotations

from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Node, is_float
from meshgen.kernels.matmul import Tile, with_parts
from meshgen.kernels.matmul_time import Product, ranked_tiles
from meshgen.ops.dot_dims import DotDims
from meshgen.records import dataclass

MOST_TILES = 4  # tiles that are tried where those predicted to be faster spill or do not fit


@dataclass(frozen=True)
class Problem:
    """Sizes of a dot_general, flattened, and the type in which its operands are multiplied."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    accumulator: str


def problem_of(node: Node) -> Problem:
    lhs, rhs = node.operands[0].type, node.operands[1].type
    batch, m, n, k = DotDims.of(node).extents(lhs, rhs)
    wide = {lhs.dtype, rhs.dtype}
    dtype = lhs.dtype if len(wide) == 1 else next((t for t in ("f64", "f32") if t in wide), "f32")
    dtype = "f64" if node.result.type.dtype == "f64" else dtype
    accumulator = "f64" if dtype == "f64" else "f32" if is_float(dtype) else node.result.type.dtype
    return Problem(batch, m, n, k, dtype, accumulator)


def uses_tensor_cores(problem: Problem) -> bool:
    """Whether `tl.dot` takes the operands; other integers are multiplied and added one k at a time."""
    return is_float(problem.dtype) or (problem.dtype == "i8" and problem.accumulator == "i32")


def tiles_of(problem: Problem, count: int, device: Device) -> tuple[Tile, ...]:
    """Tiles for `count` dots of one launch, the best predicted first, each with its epilogue at once and in parts."""
    if not uses_tensor_cores(problem):
        return (Tile(32, 32, 1, 4, 1, 1.0),)
    p = problem
    ranked = ranked_tiles(Product(p.batch * count, p.m, p.n, p.k, p.dtype), device)
    return tuple(each for tile in ranked[:MOST_TILES] for each in with_parts(tile))
