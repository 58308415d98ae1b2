"""Choose the tiles that a kernel of matmuls can have, in the order in which they are tried.

1. The tiles of the table (`kernels/matmul.py`) are ranked by their predicted times (`kernels/matmul_time.py`): of one matmul, of several
   that each program computes, or of several side by side, of which each program computes a tile of one.
2. The best of them are tried in several forms: warp-specialized ones that are predicted to take no longer and fit shared memory, then the tile
   with its epilogue at once and in subtiles.
3. `is_usable` drops a form once its operands are described: warp-specialized, but not all operands are TMA tiles.

The first form whose build has no fault is shipped (`building/candidates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.dot_problem import problem_of, uses_tensor_cores
from meshgen.codegen.emit.gemm import Gemm
from meshgen.codegen.fusion.accumulators import Accumulator, joint_products, share_a_loop
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node, Value
from meshgen.kernels.architectures import tensor_cores
from meshgen.kernels.matmul import INTEGER_TILE, Tile, candidates, part_columns, specialized, with_parts
from meshgen.kernels.matmul_time import Product, thread_registers, tile_seconds, together
from meshgen.ops.classes import DOTS
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.precision import multiplied_as

_MOST_TILES = 4  # tiles that are tried where those predicted to be faster spill or do not fit
_MOST_IN_ONE_LOOP = 8  # chosen: matmuls whose epilogues every tile goes through, masked but for its own
_MOST_REGISTERS = 255  # of a thread
_LEAST_COLUMNS = 16  # of a tile that tensor cores multiply, whatever the type (Triton 3.6, tl.dot)
_BARRIER_BYTES = 512  # of shared memory: barriers of all stages, and what sums of several warps need


# ---- the order by predicted time


def rank_tiles(products: Sequence[Product], device: Device, held: int = 0) -> list[tuple[float, Tile]]:
    """Return the tiles with the predicted seconds of products whose main loops follow each other in each program, the least first.

    Args:
        held: how many tiles of results wait in registers, besides the one of the product in hand.
    """
    tiles = candidates(products[0].dtype, device.architecture)
    is_promoted = tensor_cores(device.architecture).promotes(products[0].dtype)
    fitting = [tile for tile in tiles if thread_registers(tile, held, is_promoted) <= _MOST_REGISTERS] or tiles[-1:]
    return _ranked(fitting, lambda tile: sum(tile_seconds(tile, product, device) for product in products))


def rank_joint_tiles(accumulators: Sequence[Accumulator], device: Device) -> list[tuple[float, Tile]]:
    """Return the tiles with the predicted seconds of matmuls that each program computes, without the launch and device memory, the least first.

    Two matmuls that share a main loop are one of as many columns as they have together, and have half the columns of its tile each.
    """
    products = [_product(dot) for each in accumulators for dot in each.products]
    if not share_a_loop(accumulators):
        return rank_tiles(products, device, held=len(accumulators) - 1)
    timed = rank_tiles([products[0]._replace(n=2 * products[0].n)], device)
    return [(seconds, replace(tile, n=tile.n // 2)) for seconds, tile in timed if tile.n // 2 >= _LEAST_COLUMNS]


def rank_side_by_side_tiles(dots: Sequence[Node], device: Device) -> list[tuple[float, Tile]]:
    """Return the tiles with the predicted seconds of matmuls of which each program computes a tile of one, the least first."""
    products = [_product(dot) for dot in dots]

    def seconds(tile: Tile) -> float:
        return max(tile_seconds(tile, product, device) for product in (together(products, tile), *products))

    return _ranked(candidates(products[0].dtype, device.architecture), seconds)


def _ranked(tiles: Iterable[Tile], seconds: Callable[[Tile], float]) -> list[tuple[float, Tile]]:
    """Return the tiles with their predicted seconds, the least first; tiles of equal times stay in the order of the table."""
    return sorted(((seconds(tile), tile) for tile in tiles), key=lambda timed: _rounded(timed[0]))


def _rounded(seconds: float) -> float:
    """Round to three digits: the model tells no finer differences."""
    return float(f"{seconds:.3g}")


def _product(dot: Node) -> Product:
    return Product(*product_extents(dot), multiplied_as(dot))


# ---- the forms of a body's kernel


def matmul_tiles(body: Graph, dots: Sequence[Node], device: Device, columns: int = 0) -> tuple[Tile, ...]:
    """Return the tiles of a body in the order in which they are tried.

    Args:
        dots: dots like the first, of one left operand; of a body whose matmuls each program computes (`joint_products`) they do not count.
        columns: of the parts of rows that the body reduces, which are those of a subtile of the epilogue; 0 if it reduces none.
    """
    accumulators = joint_products(body)
    dots = [dot for each in accumulators for dot in each.products] or dots
    if not uses_tensor_cores(problem_of(dots[0])):
        return (INTEGER_TILE,)
    if accumulators:
        ranked = rank_joint_tiles(accumulators, device)
        return _in_forms(ranked, set(), _joint_forms(body, accumulators, device))
    batch, m, n, k, dtype = _product(dots[0])
    product = Product(batch * len(dots), m, n, k, dtype)
    forms = _forms_of([product], _left_bytes(body, dots[0]), device, _has_wide_tiles(body, dots))
    return _in_forms(rank_tiles([product], device), {columns} - {0}, forms)


def side_by_side_tiles(
    bodies: Sequence[Graph], dots: Sequence[Node], device: Device, columns: AbstractSet[int]
) -> tuple[Tile, ...]:
    """Return the tiles of bodies of one launch, of whose matmuls each program computes a tile of one, in the order in which they are tried.

    Warp-specialized kernels have one main loop for all, so they are for few matmuls.

    Args:
        columns: of the parts of rows that bodies reduce.
    """
    dots_of = [[node for node in body.nodes if node.op in DOTS] for body in bodies]
    is_wide = any(_has_wide_tiles(body, each) for body, each in zip(bodies, dots_of, strict=True))
    forms = _forms_of([_product(dot) for dot in dots], _left_bytes(bodies[0], dots_of[0][0]), device, is_wide)
    tiles = _in_forms(rank_side_by_side_tiles(dots, device), columns, forms)
    return tuple(tile for tile in tiles if len(dots) <= _MOST_IN_ONE_LOOP or not tile.is_specialized)


def _in_forms(
    ranked: Iterable[tuple[float, Tile]], columns: AbstractSet[int], forms: Callable[[Tile], Sequence[Tile]]
) -> tuple[Tile, ...]:
    """Return the forms of the best tiles whose subtiles can have these columns; of them those that have them."""
    tiles = [tile for _, tile in ranked if columns <= part_columns(tile)][:_MOST_TILES]
    return tuple(form for tile in tiles for form in forms(tile) if columns <= {form.n // form.parts})


def _joint_forms(body: Graph, accumulators: Sequence[Accumulator], device: Device) -> Callable[[Tile], Sequence[Tile]]:
    """Return the function that makes the forms of a tile for matmuls that each program computes."""
    dots = [dot for each in accumulators for dot in each.products]
    is_wide, (batch, m, n, k, dtype) = _has_wide_tiles(body, dots), _product(dots[0])
    if len(accumulators) == 1:
        total = Product(batch, m, n, sum(_product(dot).k for dot in dots), dtype)
        return _forms_of([total], _left_bytes(body, dots[0]), device, is_wide)
    if not share_a_loop(accumulators):
        return with_parts
    both = Product(batch, m, 2 * n, k, dtype)

    def forms(tile: Tile) -> list[Tile]:
        # Their accumulators are like those of halves of a tile of 256 columns: half of one of 128 has a loop that is not shorter.
        special = specialized_tiles(replace(tile, n=2 * tile.n), [both], device, is_wide)
        halves = dict.fromkeys(replace(each, n=each.n // 2, parts=1) for each in special if each.n > 128)
        return _with_special(tile, list(halves))

    return forms


def _forms_of(
    products: Sequence[Product], left_bytes: int, device: Device, is_wide: bool
) -> Callable[[Tile], Sequence[Tile]]:
    """Return the function that makes the forms of a tile for one product, or for several side by side.

    Args:
        left_bytes: bytes that are copied for an element of the left operand.
        is_wide: whether some tile of the epilogue has elements of 4 bytes.
    """

    def forms(tile: Tile) -> list[Tile]:
        special = specialized_tiles(tile, products, device, is_wide)
        right_bytes = products[0].item_bytes
        return _with_special(tile, [s for s in special if _fits(s, left_bytes, right_bytes, device, is_wide)])

    return forms


def _with_special(tile: Tile, special: Sequence[Tile]) -> list[Tile]:
    """Return a tile's forms in the order in which they are tried: first one warp-specialized form of each number of subtiles."""
    first = [form for number, form in enumerate(special) if form.parts not in {e.parts for e in special[:number]}]
    return [*first, *with_parts(tile), *(form for form in special if form not in first)]


# ---- warp-specialized forms


def specialized_tiles(tile: Tile, products: Sequence[Product], device: Device, is_wide: bool) -> list[Tile]:
    """Return the warp-specialized forms of a tile of products in one launch that are predicted to take no longer, the fastest first.

    Of forms that take equally long the one with the shorter loop comes first.

    Args:
        is_wide: whether some tile of the epilogue has elements of 4 bytes.
    """
    if not tensor_cores(device.architecture).specializes_warps:
        return []
    forms = specialized(tile, products[0].dtype, is_wide)
    (usual, _), *timed = (
        (_rounded(tile_seconds(form, together(products, form), device)), form) for form in (tile, *forms)
    )
    return [form for seconds, form in sorted(timed, key=lambda pair: pair[0]) if seconds <= usual]


def _fits(tile: Tile, left_bytes: int, right_bytes: int, device: Device, is_wide: bool) -> bool:
    """Whether shared memory has the operands of all stages, of so many bytes an element, and a changed layout (of half a tile: Triton 3.6)."""
    staged = (tile.m * left_bytes + tile.n * right_bytes) * tile.k * tile.num_stages
    return staged + tile.m * tile.n * (2 if is_wide else 1) + _BARRIER_BYTES <= device.shared_bytes


def _left_bytes(body: Graph, dot: Node) -> int:
    """Return the bytes that are copied for an element of the left operand, which may be computed from several."""
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


def _has_wide_tiles(body: Graph, dots: Sequence[Node]) -> bool:
    """Whether a result, or a value that is read after the dots, has as many elements as these and 4 bytes for each."""
    producer, size, accumulated = body.index.producers, dots[0].result.type.size, {dot.result for dot in dots}
    read, stack = dict.fromkeys(body.outputs), [*body.outputs]
    while stack:
        value = stack.pop()
        node = producer.get(value)
        if node is None:
            read[value] = None
        elif value not in accumulated:
            stack += node.operands
    return any(value.type.size >= size and DTYPES[value.type.dtype].itemsize > 2 for value in read)


def is_usable(gemm: Gemm) -> bool:
    """Whether a kernel can have its tile: its epilogue has the subtiles whose rows the body reduces, and warps can be specialized if they are to be."""
    if gemm.tile.is_specialized and not _can_specialize(gemm):
        return False
    return gemm.space.columns in (0, gemm.tile.n // gemm.tile.parts)


def _can_specialize(gemm: Gemm) -> bool:
    """Whether some warps can copy while others multiply: in one loop, all of whose operands are TMA tiles."""
    loops, first = gemm.loops, gemm.loops[0]
    if not first.is_divisible or first.evaluator.wide:
        return False
    is_one = gemm.shares_loop or len(loops) == 1
    if len(gemm.accumulations) == 1 and not is_one:  # each step takes the TMA tiles of one product
        layouts = {loop.operands.layout for loop in loops}
        is_one = len(layouts) == 1 and len(layouts.pop()) == 2 and type(first) is MainLoop
    return is_one and all(loop.reads_tma_tiles_only for loop in loops)
