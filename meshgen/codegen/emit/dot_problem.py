"""What a kernel of matrix products computes, as sizes and types, and the tiles that suit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.joint_time import timed_tiles
from meshgen.codegen.fusion.accumulators import Accumulator, share_a_loop
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node, Value, is_float
from meshgen.kernels.matmul import Tile, part_columns, with_parts
from meshgen.kernels.matmul_time import Product, ranked_tiles, specialized_tiles
from meshgen.ops.dot_dims import DotDims, product_extents
from meshgen.ops.precision import common_type, multiplied_as

_BARRIER_BYTES = 512  # of shared memory: barriers of all stages, and what sums of several warps need
MOST_TILES = 4  # tiles that are tried where those predicted to be faster spill or do not fit


class Problem(NamedTuple):
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


def tiles_of(body: Graph, dots: Sequence[Node], device: Device, columns: int = 0) -> tuple[Tile, ...]:
    """Tiles for dots like the first in one launch, the best predicted first: each warp-specialized, then with its epilogue at once and in subtiles.

    `columns`: of the parts of rows that are reduced, if any: those of a part of the epilogue.
    """
    if not uses_tensor_cores(problem_of(dots[0])):
        return (Tile(32, 32, 1, 4, 1, 1.0),)
    batch, m, n, k = product_extents(dots[0])
    product = Product(batch * len(dots), m, n, k, multiplied_as(dots[0]))
    tiles = [tile for tile in ranked_tiles(product, device) if not columns or columns in part_columns(tile)]
    forms = [form for tile in tiles[:MOST_TILES] for form in forms_of(tile, body, dots, [product], device)]
    return tuple(form for form in forms if columns in (0, form.n // form.parts))


def forms_of(
    tile: Tile, body: Graph, dots: Sequence[Node], products: Sequence[Product], device: Device, is_wide: bool = False
) -> list[Tile]:
    """A tile of products in one launch, of which `dots` of a body are one together: warp-specialized, then with its epilogue at once and in subtiles.

    `is_wide`: whether some tile of another body's epilogue has elements of 4 bytes.
    """
    is_wide, left = is_wide or has_wide_tiles(body, dots), _left_bytes(body, dots[0])
    special, right = specialized_tiles(tile, products, device, is_wide), products[0].item_bytes
    return _forms(tile, [each for each in special if _fits(each, left, right, device, is_wide)])


def joint_tiles_of(body: Graph, found: Sequence[Accumulator], device: Device) -> tuple[Tile, ...]:
    """The same for dots of which each program computes all."""
    dots = [dot for each in found for dot in each.products]
    if not uses_tensor_cores(problem_of(dots[0])):
        return (Tile(32, 32, 1, 4, 1, 1.0),)
    tiles = [tile for _, tile in timed_tiles(found, device)][:MOST_TILES]
    batch, m, n, k = product_extents(dots[0])
    if len(found) == 1:
        product = Product(batch, m, n, sum(product_extents(dot)[3] for dot in dots), multiplied_as(dots[0]))
        return tuple(form for tile in tiles for form in forms_of(tile, body, dots, [product], device))
    if not share_a_loop(found):
        return tuple(each for tile in tiles for each in with_parts(tile))
    both, forms = Product(batch, m, 2 * n, k, multiplied_as(dots[0])), list[Tile]()
    for tile in tiles:
        # Their accumulators are like those of halves of a tile of 256 columns: half of one of 128 has a loop that is not shorter.
        special = specialized_tiles(replace(tile, n=2 * tile.n), [both], device, has_wide_tiles(body, dots))
        halves = dict.fromkeys(replace(each, n=each.n // 2, parts=1) for each in special if each.n > 128)
        forms += _forms(tile, list(halves))
    return tuple(forms)


def _forms(tile: Tile, special: Sequence[Tile]) -> list[Tile]:
    """A tile's forms in the order in which they are tried: first one warp-specialized form of each number of subtiles."""
    first = [each for number, each in enumerate(special) if each.parts not in {e.parts for e in special[:number]}]
    return [*first, *with_parts(tile), *(each for each in special if each not in first)]


def _fits(tile: Tile, left: int, right: int, device: Device, is_wide: bool) -> bool:
    """Whether shared memory has the operands of all stages, of so many bytes an element, and a changed layout (of half a tile: Triton 3.6)."""
    staged = (tile.m * left + tile.n * right) * tile.k * tile.num_stages
    return staged + tile.m * tile.n * (2 if is_wide else 1) + _BARRIER_BYTES <= device.shared_bytes


def _left_bytes(body: Graph, dot: Node) -> int:
    """Bytes that are copied for an element of the left operand, which may be computed from several."""
    producer, size = body.index.producers, dot.operands[0].type.size
    read, stack = dict[Value, None](), [dot.operands[0]]
    while stack:
        value = stack.pop()
        node = producer.get(value)
        if node is not None:
            stack += node.operands
        elif value.type.size >= size:
            read[value] = None
    return sum(DTYPES[value.type.dtype].itemsize for value in read) or DTYPES[dot.operands[0].type.dtype].itemsize


def has_wide_tiles(body: Graph, dots: Sequence[Node]) -> bool:
    """Whether a result, or what is read after the products, has as many elements as these and 4 bytes for each."""
    producer, size, made = body.index.producers, dots[0].result.type.size, {dot.result for dot in dots}
    read, stack = dict.fromkeys(body.outputs), [*body.outputs]
    while stack:
        value = stack.pop()
        node = producer.get(value)
        if node is None:
            read[value] = None
        elif value not in made:
            stack += node.operands
    return any(value.type.size >= size and DTYPES[value.type.dtype].itemsize > 2 for value in read)


def precision_option(multiplied: str) -> str:
    """The option of `tl.dot` that says how f32 is multiplied; nothing for other types."""
    words = {"f32": "ieee", "tf32": "tf32", "tf32x3": "tf32x3"}
    return f', input_precision="{words[multiplied]}"' if multiplied in words else ""
