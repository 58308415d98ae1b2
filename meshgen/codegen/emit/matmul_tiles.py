"""Selection of the candidate tiles of a GEMM kernel, in the order in which the compiler tries them.

1. Rank the tiles of the table (`kernels/matmul.py`) by their predicted times (`kernels/matmul_time.py`).
2. List the forms of each of the best tiles. First come warp-specialized forms that fit shared memory and are predicted
   to take no longer. Then come the tile with an undivided epilogue and the tile with its epilogue in subtiles.
3. `is_usable` drops a warp-specialized form if not all operands turn out to be TMA tiles.

The time is predicted for one matmul; for several matmuls that each program computes; or for several matmuls side by
side, of which each program computes one tile. The compiler ships the first form whose build has no fault
(`building/candidates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.dot_problem import problem_of, uses_tensor_cores
from meshgen.codegen.emit.gemm import Gemm
from meshgen.codegen.fusion.accumulators import Accumulator, can_share_main_loop, joint_products
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node, Value
from meshgen.kernels.architectures import tensor_cores
from meshgen.kernels.matmul import INTEGER_TILE, Tile, candidates, specialized, subtile_column_counts, with_parts
from meshgen.kernels.matmul_time import Product, thread_registers, tile_seconds, together
from meshgen.ops.classes import DOTS
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.precision import multiplied_as

# number of best tiles to try; chosen: the fastest predicted tiles may spill registers or exceed shared memory
_MOST_TILES = 4
# most matmuls in one main loop; chosen: each tile executes the epilogues of all matmuls, with all but one masked out
_MOST_IN_ONE_LOOP = 8
# most registers per thread (CUDA C++ programming guide, "Technical specifications per compute capability")
_MOST_REGISTERS = 255
_LEAST_COLUMNS = 16  # columns of a tile; `tl.dot` needs at least 16, whatever the dtype (Triton 3.6)
# bytes of shared memory reserved for the barriers of all pipeline stages and for reductions across warps
_BARRIER_BYTES = 512


# ---- ranking by predicted time


def rank_tiles(products: Sequence[Product], device: Device, held: int = 0) -> list[tuple[float, Tile]]:
    """Return (predicted seconds, tile) pairs, fastest first, for programs that compute all of `products` one after the
    other.

    Args:
        held: the number of result tiles that stay in registers, besides the accumulator of the current matmul.
    """
    tiles = candidates(products[0].dtype, device.architecture)
    is_promoted = tensor_cores(device.architecture).promotes(products[0].dtype)
    fitting = [tile for tile in tiles if thread_registers(tile, held, is_promoted) <= _MOST_REGISTERS] or tiles[-1:]
    return _ranked(fitting, lambda tile: sum(tile_seconds(tile, product, device) for product in products))


def rank_joint_tiles(accumulators: Sequence[Accumulator], device: Device) -> list[tuple[float, Tile]]:
    """Return (predicted seconds, tile) pairs, fastest first, for programs that compute all of `accumulators`.

    The times exclude the launch and device memory. Two matmuls that share a main loop are timed as one matmul
    with the columns of both; each gets half the columns of the tile.
    """
    products = [_product(dot) for accumulator in accumulators for dot in accumulator.products]
    if not can_share_main_loop(accumulators):
        return rank_tiles(products, device, held=len(accumulators) - 1)
    timed = rank_tiles([products[0]._replace(n=2 * products[0].n)], device)
    return [(seconds, replace(tile, n=tile.n // 2)) for seconds, tile in timed if tile.n // 2 >= _LEAST_COLUMNS]


def rank_segmented_tiles(dots: Sequence[Node], device: Device) -> list[tuple[float, Tile]]:
    """Return (predicted seconds, tile) pairs, fastest first, for a launch in which each program computes a tile of one
    dot.
    """
    products = [_product(dot) for dot in dots]

    def seconds(tile: Tile) -> float:
        return max(tile_seconds(tile, product, device) for product in (together(products, tile), *products))

    return _ranked(candidates(products[0].dtype, device.architecture), seconds)


def _ranked(tiles: Iterable[Tile], seconds: Callable[[Tile], float]) -> list[tuple[float, Tile]]:
    """Return (predicted seconds, tile) pairs, fastest first. Tiles with equal times keep the order of the table."""
    return sorted(((seconds(tile), tile) for tile in tiles), key=lambda timed: _rounded(timed[0]))


def _rounded(seconds: float) -> float:
    """Round a predicted time to three digits, because the model is not more precise."""
    return float(f"{seconds:.3g}")


def _product(dot: Node) -> Product:
    return Product(*gemm_extents(dot), multiplied_as(dot))


# ---- forms of a tile


def matmul_tiles(body: Graph, dots: Sequence[Node], device: Device, columns: int = 0) -> tuple[Tile, ...]:
    """Return the candidate tiles of a body with matmuls, in the order in which they are tried.

    Args:
        dots: dots with the same sizes and left operand. Ignored if each program computes several matmuls
            (`joint_products`).
        columns: the number of columns that the epilogue reduces at a time, which each subtile must have. 0 if the
            epilogue reduces nothing.
    """
    accumulators = joint_products(body)
    dots = [dot for accumulator in accumulators for dot in accumulator.products] or dots
    if not uses_tensor_cores(problem_of(dots[0])):
        return (INTEGER_TILE,)
    if accumulators:
        ranked = rank_joint_tiles(accumulators, device)
        return _forms_of_best(ranked, set(), _joint_forms(body, accumulators, device))
    batch, m, n, k, dtype = _product(dots[0])
    product = Product(batch * len(dots), m, n, k, dtype)
    forms = _forms_of([product], _left_bytes(body, dots[0]), device, _has_wide_tiles(body, dots))
    return _forms_of_best(rank_tiles([product], device), {columns} - {0}, forms)


def side_by_side_tiles(
    bodies: Sequence[Graph], dots: Sequence[Node], device: Device, columns: AbstractSet[int]
) -> tuple[Tile, ...]:
    """Return the candidate tiles for several bodies in one launch, in the order in which they are tried.

    Each program computes a tile of one matmul. Warp-specialized kernels have one main loop for all matmuls, so
    they are tried only for at most `_MOST_IN_ONE_LOOP` matmuls.

    Args:
        columns: the number of columns that the epilogues reduce at a time, which each subtile must have.
    """
    dots_of = [[node for node in body.nodes if node.op in DOTS] for body in bodies]
    is_wide = any(_has_wide_tiles(body, body_dots) for body, body_dots in zip(bodies, dots_of, strict=True))
    forms = _forms_of([_product(dot) for dot in dots], _left_bytes(bodies[0], dots_of[0][0]), device, is_wide)
    tiles = _forms_of_best(rank_segmented_tiles(dots, device), columns, forms)
    return tuple(tile for tile in tiles if len(dots) <= _MOST_IN_ONE_LOOP or not tile.is_specialized)


def _forms_of_best(
    ranked: Iterable[tuple[float, Tile]], columns: AbstractSet[int], forms: Callable[[Tile], Sequence[Tile]]
) -> tuple[Tile, ...]:
    """Return the forms of the best tiles in `ranked`, restricted to forms whose subtiles have `columns` columns."""
    tiles = [tile for _, tile in ranked if columns <= subtile_column_counts(tile)][:_MOST_TILES]
    return tuple(form for tile in tiles for form in forms(tile) if columns <= {form.n // form.parts})


def _joint_forms(body: Graph, accumulators: Sequence[Accumulator], device: Device) -> Callable[[Tile], Sequence[Tile]]:
    """Return a function that lists the forms of a tile, for programs that compute all of `accumulators`."""
    dots = [dot for accumulator in accumulators for dot in accumulator.products]
    is_wide, (batch, m, n, k, dtype) = _has_wide_tiles(body, dots), _product(dots[0])
    if len(accumulators) == 1:
        total = Product(batch, m, n, sum(_product(dot).k for dot in dots), dtype)
        return _forms_of([total], _left_bytes(body, dots[0]), device, is_wide)
    if not can_share_main_loop(accumulators):
        return with_parts
    both = Product(batch, m, 2 * n, k, dtype)

    def forms(tile: Tile) -> list[Tile]:
        # For two accumulators, halve a specialized tile of 256 columns. Halves of a tile of 128 columns would not be
        # faster.
        special = specialized_tiles(replace(tile, n=2 * tile.n), [both], device, is_wide)
        halves = dict.fromkeys(replace(form, n=form.n // 2, parts=1) for form in special if form.n > 128)
        return _ordered_forms(tile, list(halves))

    return forms


def _forms_of(
    products: Sequence[Product], left_bytes: int, device: Device, is_wide: bool
) -> Callable[[Tile], Sequence[Tile]]:
    """Return a function that lists the forms of a tile, for one matmul or several matmuls side by side.

    Args:
        left_bytes: bytes that are copied to shared memory per element of the left operand.
        is_wide: whether some tile of the epilogue has elements of 4 bytes.
    """

    def forms(tile: Tile) -> list[Tile]:
        special = specialized_tiles(tile, products, device, is_wide)
        right_bytes = products[0].item_bytes
        return _ordered_forms(tile, [s for s in special if _fits(s, left_bytes, right_bytes, device, is_wide)])

    return forms


def _ordered_forms(tile: Tile, specialized_forms: Sequence[Tile]) -> list[Tile]:
    """Return all forms of a tile in the order in which they are tried.

    The first warp-specialized form for each number of subtiles comes first, then the tile without warp
    specialization, then the other warp-specialized forms.
    """
    first = [
        form
        for i, form in enumerate(specialized_forms)
        if form.parts not in {earlier.parts for earlier in specialized_forms[:i]}
    ]
    return [*first, *with_parts(tile), *(form for form in specialized_forms if form not in first)]


# ---- warp-specialized forms


def specialized_tiles(tile: Tile, products: Sequence[Product], device: Device, is_wide: bool) -> list[Tile]:
    """Return the warp-specialized forms of a tile that are predicted to take no longer than the tile itself, fastest
    first.

    Of forms with equal times, the form with the shorter main loop comes first.

    Args:
        products: the matmuls of one launch.
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
    """Whether shared memory holds the operand tiles of all pipeline stages and the layout conversion of half a result
    tile.

    Triton 3.6 converts the layout of the result in two halves.
    """
    staged = (tile.m * left_bytes + tile.n * right_bytes) * tile.k * tile.num_stages
    return staged + tile.m * tile.n * (2 if is_wide else 1) + _BARRIER_BYTES <= device.shared_bytes


def _left_bytes(body: Graph, dot: Node) -> int:
    """Return the bytes copied to shared memory per element of the left operand, summed over the values it is computed
    from.
    """
    producer, size = body.index.producers, dot.operands[0].type.size
    sources, stack = dict[Value, None](), [dot.operands[0]]
    while stack:
        value = stack.pop()
        node = producer.get(value)
        if node is not None:
            stack += node.operands
        elif value.type.size >= size:
            sources[value] = None
    return sum(DTYPES[value.type.dtype].itemsize for value in sources) or DTYPES[dot.operands[0].type.dtype].itemsize


def _has_wide_tiles(body: Graph, dots: Sequence[Node]) -> bool:
    """Whether some output or epilogue operand has as many elements as a dot's result, with more than 2 bytes per
    element.
    """
    producer, size, accumulated = body.index.producers, dots[0].result.type.size, {dot.result for dot in dots}
    accessed, stack = dict.fromkeys(body.outputs), [*body.outputs]
    while stack:
        value = stack.pop()
        node = producer.get(value)
        if node is None:
            accessed[value] = None
        elif value not in accumulated:
            stack += node.operands
    return any(value.type.size >= size and DTYPES[value.type.dtype].itemsize > 2 for value in accessed)


def is_usable(gemm: Gemm) -> bool:
    """Whether a GEMM kernel supports its tile.

    A warp-specialized tile needs a kernel that can be specialized. Each subtile must have as many columns as the body
    reduces at a time.
    """
    if gemm.tile.is_specialized and not _can_specialize(gemm):
        return False
    return gemm.space.columns in (0, gemm.tile.n // gemm.tile.parts)


def _can_specialize(gemm: Gemm) -> bool:
    """Whether the kernel can be warp-specialized: it has a single main loop, whose operands are all TMA tiles."""
    loops, first = gemm.loops, gemm.loops[0]
    if not first.is_divisible or first.evaluator.wide:
        return False
    is_one = gemm.shares_loop or len(loops) == 1
    # A single loop is possible in which each step copies the TMA tiles of one of the matmuls.
    if len(gemm.accumulations) == 1 and not is_one:
        layouts = {loop.operands.layout for loop in loops}
        is_one = len(layouts) == 1 and len(layouts.pop()) == 2 and type(first) is MainLoop
    return is_one and all(loop.reads_tma_tiles_only for loop in loops)
