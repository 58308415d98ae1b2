"""Warp-specialized matmuls of unequal sizes side by side, with one main loop for all.

    for block in range(tl.program_id(0), 640, PROGRAMS):      a program computes several tiles, of any of the matmuls
        tile_m = tl.where(block < 512, ..., ...)              coordinates of the tile
        a_box = a_box_of_the_first                            descriptors are created before the loop, and selected here
        if block >= 512:
            a_box = a_box_of_the_second
        for start in tl.range(0, tl.where(block < 512, 4096, 2048), BLOCK_K, warp_specialize=True):
            ...
        here = block < 512                                    each epilogue is masked out for tiles of other matmuls
        tl.store(..., mask=(m < 4096) & (n < 4096) & here)

Triton 3.6 does not specialize warps inside branches with results, and allocates separate shared memory for
each loop. Tiles have the same coordinates as in a kernel of one matmul, so neighboring programs share
operands.
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
    """Writer of one of the matmuls. `first` is the index of the matmul's first tile among the tiles of all matmuls."""

    first = 0

    @property
    def loop(self) -> MainLoop:
        (loop,) = self.gemm.loops
        return loop

    def write_coordinates(self) -> tuple[str, str]:
        """Write the coordinates of the current tile in this matmul, and return the variables of the coordinates.

        If the current tile belongs to another matmul, the coordinates are clamped to valid ones.
        """
        let, names, block = self.evaluator.let, self.evaluator.names, integer("block")
        last = self.gemm.blocks - 1
        let("tile", maximum(minimum(block - self.first, last), 0) if self.first else minimum(block, last))
        self.place(self.gemm.tile_rows, self.gemm.tile_columns)
        coordinates = names.fresh("tile_m"), names.fresh("tile_n")
        for name, text in zip(coordinates, ("tile_m", "tile_n"), strict=True):
            let(name, integer(text))
        return coordinates

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
    """Write one kernel for the matmuls of all bodies.

    Returns None, without a kernel, unless all operands are TMA tiles with the same layout.
    """
    singles = [single for body in bodies for single in _singles(body)]
    segments: list[_Segment] = []
    for body in singles:
        with _block_part(evaluator, body, pointers):
            if (segment := _segment_of(evaluator, body, tile, device)) is None:
                return None
        segment.first = sum(member.gemm.blocks for member in segments)
        segments.append(segment)
    if len({member.loop.operands.layout for member in segments}) > 1:
        return None
    total = sum(member.gemm.blocks for member in segments)
    programs = min(total, device.multiprocessors)
    evaluator.constant("PROGRAMS", programs)
    evaluator.loop("block", program_id(), total, "PROGRAMS")
    accumulators = _multiply(evaluator, segments, tile)
    for body, segment in zip(singles, segments, strict=True):
        with _block_part(evaluator, body, pointers):
            segment.write_epilogue(accumulators)
    evaluator.close()
    return Launch((programs, 1, 1), evaluator.constants, tile.num_warps, tile.num_stages)


def _singles(body: Graph) -> list[Graph]:
    """Split a body into bodies with one matmul each. A body with several matmuls must not have an epilogue."""
    dots = [node for node in body.nodes if node.op in DOTS]
    if len(dots) == 1:
        return [body]
    return [Graph(body.name, [v for v in body.inputs if v in dot.operands], [dot], [dot.result]) for dot in dots]


def _block_part(evaluator: Evaluator, body: Graph, pointers: Mapping[Value, str]) -> AbstractContextManager[None]:
    inputs = {value: pointers[value] for value in body.inputs}
    return evaluator.part(body, integer("block"), inputs, [pointers[value] for value in body.outputs])


def _segment_of(evaluator: Evaluator, body: Graph, tile: Tile, device: Device) -> _Segment | None:
    """Write the TMA descriptors of a body's matmul, and return the writer of the matmul.

    Returns None if the matmul has batch dims, if the body has other loops, or if some operand is not a TMA
    tile.
    """
    plan = DOT.match(body, device)
    if plan is None or plan.space is None:
        return None
    # The tile may belong to another matmul: rows and columns need masks even if tiles divide the sizes.
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


def _multiply(evaluator: Evaluator, segments: Sequence[_Segment], tile: Tile) -> list[str]:
    """Write the main loop of all matmuls, and return the accumulators, one per column subtile."""
    write, first = evaluator.write, segments[0]
    coordinates = [segment.write_coordinates() for segment in segments]
    for side, name in enumerate(("tile_m", "tile_n")):
        evaluator.let(name, _selected(segments, [integer(pair[side]) for pair in coordinates]))
    descriptors = [evaluator.names.fresh(f"{name}_box") for name in ("a", "b")]
    for i, segment in enumerate(segments):
        if i:
            evaluator.branch(integer("block").compared(">=", segment.first))
        for name, descriptor in zip(descriptors, segment.loop.operands.descriptors, strict=True):
            write(f"{name} = {descriptor}")
        if i:
            evaluator.close()
    first.write_lanes()
    loop, operands = first.loop, first.loop.operands
    dtype, columns = (
        register_type(first.gemm.problem.accumulator),
        f"BLOCK_N // {tile.parts}" if tile.parts > 1 else "BLOCK_N",
    )
    names = [evaluator.names.fresh("acc") for _ in range(tile.parts)]
    for name in names:
        write(f"{name} = tl.zeros((BLOCK_M, {columns}), {dtype})")
    steps = _selected(segments, [integer(segment.gemm.problem.k) for segment in segments])
    evaluator.loop("start", 0, steps, "BLOCK_K", call="tl.range", options=", warp_specialize=True")
    left, right = (load.tma if load else None for load in operands.loads)
    a = operands.copied(0, descriptors[0], left)
    for subtile, name in enumerate(names):
        b = operands.copied(1, descriptors[1], right, subtile)
        loop.add(name, a, b)
    evaluator.close()
    for name in names:
        loop.convert(name)
    return names


def _selected(segments: Sequence[_Segment], values: Sequence[Int]) -> Int:
    """Return the source that selects the entry of `values` for the current tile's matmul. `values` has one entry per
    matmul.
    """
    if len(set(values)) == 1:
        return values[0]
    *before, value = values
    for segment, earlier in reversed(list(zip(segments[1:], before, strict=True))):
        value = where(integer("block").below(segment.first), earlier, value)
    return value
