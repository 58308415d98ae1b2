"""Warp-specialized products of unequal sizes side by side: one main loop for all.

    for block in range(tl.program_id(0), 640, PROGRAMS):      a program computes several tiles, of any of the products
        tile_m = tl.where(block < 512, ..., ...)              where the tile is
        a_box = a_box_of_the_first                            descriptors are made once, before, and selected
        if block >= 512:
            a_box = a_box_of_the_second
        for start in tl.range(0, tl.where(block < 512, 4096, 2048), BLOCK_K, warp_specialize=True):
            ...
        here = block < 512                                    each epilogue is masked by whether the tile is its own
        tl.store(..., mask=(m < 4096) & (n < 4096) & here)

Triton 3.6 divides no warps in branches that have results, and gives each loop shared memory of its own. Tiles are at the same places as in
a kernel of one product, so neighbours share operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from meshgen.codegen.emit.dot import DOT, GemmWriter
from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.gemm import gemm_of
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.matmul_tiles import is_usable
from meshgen.codegen.index_code import Int, all_of, integer, maximum, minimum, program_id, where
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Value
from meshgen.kernels.matmul import Tile
from meshgen.ops.classes import DOTS
from meshgen.ops.triton.registers import register_type


class _Segment(GemmWriter):
    """One of the products: `first` is the number of its first tile among those of all."""

    first = 0

    @property
    def loop(self) -> MainLoop:
        (loop,) = self.gemm.loops
        return loop

    def write_place(self) -> tuple[str, str]:
        """Names of the place that a tile has if it is one of this product; of others it is some place inside."""
        let, names, block = self.evaluator.let, self.evaluator.names, integer("block")
        last = self.gemm.blocks - 1
        let("tile", maximum(minimum(block - self.first, last), 0) if self.first else minimum(block, last))
        self.place(self.gemm.tile_rows, self.gemm.tile_columns)
        found = names.fresh("tile_m"), names.fresh("tile_n")
        for name, text in zip(found, ("tile_m", "tile_n"), strict=True):
            let(name, integer(text))
        return found

    def write_epilogue(self, accumulators: list[str]) -> None:
        here = self.evaluator.assign(
            "here",
            all_of(
                [integer("block").compared(">=", self.first), integer("block").below(self.first + self.gemm.blocks)]
            ),
        )
        m, n = self.gemm.m, self.gemm.n
        self.edges = {m: all_of([self.edges[m], here]), n: self.edges[n]}
        self.names = [accumulators]
        self.evaluator.tile.edges = self.edges
        self.epilogue()


def emit_in_one_loop(evaluator: Evaluator, bodies: Sequence[Graph], pointers: Mapping[Value, str], tile: Tile,
                     device: Device) -> Launch | None:  # fmt: skip
    """Source for the products of all bodies; None if their operands are not TMA tiles of one layout."""
    singles = [single for body in bodies for single in _singles(body)]
    products: list[_Segment] = []
    for body in singles:
        with _block_part(evaluator, body, pointers):
            if (product := _described(evaluator, body, tile, device)) is None:
                return None
        product.first = sum(each.gemm.blocks for each in products)
        products.append(product)
    if len({each.loop.operands.layout for each in products}) > 1:
        return None
    total = sum(each.gemm.blocks for each in products)
    programs = min(total, device.multiprocessors)
    evaluator.constant("PROGRAMS", programs)
    evaluator.loop("block", program_id(), total, "PROGRAMS")
    accumulators = _multiply(evaluator, products, tile)
    for body, product in zip(singles, products, strict=True):
        with _block_part(evaluator, body, pointers):
            product.write_epilogue(accumulators)
    evaluator.close()
    return Launch((programs, 1, 1), evaluator.constants, tile.num_warps, tile.num_stages)


def _singles(body: Graph) -> list[Graph]:
    """Bodies of one product each: several of one left operand have nothing after them."""
    dots = [node for node in body.nodes if node.op in DOTS]
    if len(dots) == 1:
        return [body]
    return [Graph(body.name, [v for v in body.inputs if v in dot.operands], [dot], [dot.result]) for dot in dots]


def _block_part(evaluator: Evaluator, body: Graph, pointers: Mapping[Value, str]) -> AbstractContextManager[None]:
    own = {value: pointers[value] for value in body.inputs}
    return evaluator.part(body, integer("block"), own, [pointers[value] for value in body.outputs])


def _described(evaluator: Evaluator, body: Graph, tile: Tile, device: Device) -> _Segment | None:
    """A product with its descriptors; None if it has a batch, loops beside the product, or an operand that is not a TMA tile alone."""
    plan = DOT.match(body, device)
    if plan is None or plan.space is None:
        return None
    # The tile may be another product's: rows and columns are compared with sizes even if tiles divide these.
    gemm = gemm_of(evaluator, body, plan.space, tile, device, masks_all=True)
    if gemm.problem.batch > 1 or not is_usable(gemm):
        return None
    segment = _Segment(evaluator, gemm)
    if not all(load and load.tma for load in segment.loop.operands.loads):
        return None
    if not evaluator.constants:
        for name, size in zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), (tile.m, tile.n, tile.k), strict=True):
            evaluator.constant(name, size)
    segment.loop.describe()
    return segment


def _multiply(evaluator: Evaluator, products: Sequence[_Segment], tile: Tile) -> list[str]:
    """The main loop, and the accumulators, one for each part of the columns."""
    write, first = evaluator.write, products[0]
    places = [each.write_place() for each in products]
    for side, name in enumerate(("tile_m", "tile_n")):
        evaluator.let(name, _selected(products, [integer(place[side]) for place in places]))
    descriptors = [evaluator.names.fresh(f"{name}_box") for name in ("a", "b")]
    for number, each in enumerate(products):
        if number:
            evaluator.branch(integer("block").compared(">=", each.first))
        for name, descriptor in zip(descriptors, each.loop.operands.descriptors, strict=True):
            write(f"{name} = {descriptor}")
        if number:
            evaluator.close()
    first.write_lanes()
    loop, operands = first.loop, first.loop.operands
    kind, columns = (
        register_type(first.gemm.problem.accumulator),
        f"BLOCK_N // {tile.parts}" if tile.parts > 1 else "BLOCK_N",
    )
    names = [evaluator.names.fresh("acc") for _ in range(tile.parts)]
    for name in names:
        write(f"{name} = tl.zeros((BLOCK_M, {columns}), {kind})")
    steps = _selected(products, [integer(each.gemm.problem.k) for each in products])
    evaluator.loop("start", 0, steps, "BLOCK_K", call="tl.range", options=", warp_specialize=True")
    left, right = (load.tma if load else None for load in operands.loads)
    a = operands.copied(0, descriptors[0], left)
    for part, name in enumerate(names):
        b = operands.copied(1, descriptors[1], right, part)
        loop.add(name, a, b)
    evaluator.close()
    for name in names:
        loop.convert(name)
    return names


def _selected(products: Sequence[_Segment], values: Sequence[Int]) -> Int:
    """Of a value of each product, that of the one whose tile is in hand."""
    if len(set(values)) == 1:
        return values[0]
    *before, value = values
    for each, own in reversed(list(zip(products[1:], before, strict=True))):
        value = where(integer("block").below(each.first), own, value)
    return value
