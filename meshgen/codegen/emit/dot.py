"""GEMM template: each program computes a tile of the result with a main loop over the contracted dims and an epilogue.

The template flattens any number of free, batch and contracted dims. It folds index maps of the operands (transpose,
reshape, slice, padding masks, ...) into their loads (`dot_operands.py`), and computes other operands in registers.
If one block fills a multiprocessor and there are more tiles than multiprocessors, each program computes several
tiles (a persistent kernel).
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.emit.epilogue_reduction import begin_part, reduce_parts, span_of
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.gemm import Gemm, gemm_of
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.matmul_tiles import is_usable, matmul_tiles
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of, where
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import Int, integer, lanes, minimum, program_id
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
from meshgen.kernels.matmul import GROUP_M
from meshgen.ops.classes import DOTS
from meshgen.ops.triton.registers import Code, register_type


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Match dots that share their left operand, or whose results have equal sizes and are inputs of one epilogue."""
    space = common_space(body, [node for node in loops_of(body) if node.op in DOTS])
    if space is None or (node := space.dot) is None:
        return None
    tiles = matmul_tiles(body, space.dots, device, space.columns)
    return KernelPlan(DOT, space, {"dot": node}, tiles) if tiles else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch | None:
    assert plan.space is not None
    gemm = gemm_of(evaluator, body, plan.space, plan.candidates[0], device)
    return GemmWriter(evaluator, gemm).emit() if is_usable(gemm) else None


class GemmWriter:
    """Writer of the source of one GEMM kernel.

    Attributes:
        edges: the in-bounds conditions of rows and columns, which mask the stores.
        names: the accumulator variables of each accumulation: one variable, or one per column subtile if the main loop
            multiplies subtiles separately.
    """

    def __init__(self, evaluator: Evaluator, gemm: Gemm) -> None:
        self.evaluator, self.gemm, self.tile = evaluator, gemm, gemm.tile
        self.edges = dict(gemm.edges)
        evaluator.tile.lanes = gemm.lanes
        self.names = [self._names_of(number) for number in range(len(gemm.accumulations))]

    def _names_of(self, position: int) -> list[str]:
        subtiles = self.tile.parts if self.tile.is_specialized else 1
        is_first = position == 0 and subtiles == 1
        return ["acc"] if is_first else [self.evaluator.names.fresh("sum") for _ in range(subtiles)]

    def emit(self) -> Launch:
        """Write the kernel and return its launch parameters."""
        self.head()
        self.loops()
        self.epilogue()
        if self.gemm.programs < self.gemm.blocks:
            self.evaluator.close()
        return Launch((self.gemm.programs, 1, 1), self.evaluator.constants, self.tile.num_warps, self.tile.num_stages)

    def head(self) -> None:
        gemm, t, let = self.gemm, self.tile, self.evaluator.let
        rows, cols = gemm.tile_rows, gemm.tile_columns
        tile = integer("tile")
        for name, size in zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), (t.m, t.n, t.k), strict=True):
            if name != "BLOCK_K" or size > 1:
                self.evaluator.constant(name, size)
        if gemm.programs < gemm.blocks:
            self.evaluator.constant("PROGRAMS", gemm.programs)
            for loop in gemm.loops:
                loop.describe()
            self.evaluator.loop("tile", program_id(), gemm.blocks, "PROGRAMS")
        else:
            let("tile", self.evaluator.widened(self.evaluator.program))
        if len(gemm.dots) > 1:
            self._choose_dot(rows * cols * gemm.problem.batch)
        if gemm.problem.batch > 1:
            let("batch", tile // (rows * cols), f"  # over {gemm.problem.batch}")
            let("tile", tile % (rows * cols))
        self.place(rows, cols)
        inside = gemm.accumulations[0].loops[0].find_rows()
        self.write_lanes()
        if inside:
            self.edges[gemm.m] = "in_rows"
            let("in_rows", inside)

    def write_lanes(self) -> None:
        """Write the row and column indices of the tile at (`tile_m`, `tile_n`)."""
        self._write_lanes(self.gemm.m, integer("tile_m") * "BLOCK_M", integer("BLOCK_M"))
        self._write_lanes(self.gemm.n, integer("tile_n") * "BLOCK_N", integer("BLOCK_N"))

    def _write_lanes(self, var: Var, first: Int, count: Int) -> None:
        names, side = self.gemm.lanes[var], "[:, None]" if var is self.gemm.m else "[None, :]"
        evaluator = self.evaluator
        evaluator.let(names.first.text, first)
        evaluator.let(names.lane.text, evaluator.widened(lanes(count)).turned(side))
        evaluator.let(var.text, integer(names.first.text) + integer(names.lane.text))

    def place(self, rows: int, cols: int) -> None:
        """Write the coordinates (`tile_m`, `tile_n`) of tile number `tile` in a grid of `rows` x `cols` tiles."""
        let, tile = self.evaluator.let, integer("tile")
        if GROUP_M >= rows > 1 and cols > 1:
            let("tile_m", tile % rows)
            let("tile_n", tile // rows)
        elif rows > 1 and cols > 1:
            # Neighboring programs share operands: visit GROUP_M tiles down a column before moving to the next column.
            group, first = GROUP_M, integer("first")
            let("first", tile // (group * cols) * group)
            height = "height" if rows % group else group
            if rows % group:
                let("height", minimum(rows - first, group))
            let("tile_m", first + tile % (group * cols) % height)
            let("tile_n", tile % (group * cols) // height)
        else:
            let("tile_m", tile if rows > 1 else integer(0))
            let("tile_n", tile if rows == 1 and cols > 1 else integer(0))

    def _choose_dot(self, blocks: int) -> None:
        """Write the selection of the dot that the current program computes, if the kernel has several dots with one
        left operand.

        Neighboring programs compute the same tile of different dots, so that they share tiles of the left operand in
        the cache.
        """
        evaluator, dots, outputs = self.evaluator, self.gemm.dots, self.gemm.body.outputs
        pointers = [(evaluator.pointer_of[d.operands[1]], evaluator.targets[outputs.index(d.result)]) for d in dots]
        right, result = evaluator.names.pointer("right"), evaluator.names.pointer("product_out")
        which, tile = integer("which"), integer("tile")
        evaluator.let("which", tile % len(dots))
        evaluator.let("tile", tile // len(dots), f"  # over {blocks}")
        for position, (source, target) in enumerate(pointers):
            if position:
                evaluator.branch(which.compared("==", position))
            evaluator.let(right, integer(source))
            evaluator.let(result, integer(target))
            if position:
                evaluator.close()
        evaluator.pointer_of[dots[0].operands[1]] = right
        evaluator.targets[outputs.index(dots[0].result)] = result

    def loops(self) -> None:
        """Write the main loops: one loop that all matmuls share, or one loop per accumulator, one after the other."""
        evaluator, dtype = self.evaluator, register_type(self.gemm.problem.accumulator)
        columns = f"BLOCK_N // {self.tile.parts}" if len(self.names[0]) > 1 else "BLOCK_N"
        zeroing = f"{{name}} = tl.zeros((BLOCK_M, {columns}), {dtype})"
        if self.gemm.shares_loop:
            for name in (name for names in self.names for name in names):
                evaluator.write(zeroing.format(name=name))
            loops = self.gemm.loops
            loops[0].write(self.names[0], list(zip(loops[1:], self.names[1:], strict=True)))
        else:
            for names, accumulation in zip(self.names, self.gemm.accumulations, strict=True):
                for name in names:
                    evaluator.write(zeroing.format(name=name))
                if self.tile.is_specialized and len(accumulation.loops) > 1:
                    accumulation.loops[0].write_sum(names, accumulation.loops[1:])
                    continue
                for loop in accumulation.loops:
                    loop.write(names)
        for names, accumulation in zip(self.names, self.gemm.accumulations, strict=True):
            for name in names:
                accumulation.loops[-1].convert(name)
        evaluator.tile.edges = self.edges

    def epilogue(self) -> None:
        """Write the epilogue, either for all columns of the tile at once or for one column subtile after the other."""
        self.evaluator.tile.lanes = self.gemm.lanes
        names_by_accumulation = [
            names if len(names) > 1 else self._parts(names[0], self.tile.parts) for names in self.names
        ]
        columns = integer("BLOCK_N") // self.tile.parts
        for subtile, subtile_names in enumerate(zip(*names_by_accumulation, strict=True)):
            if self.gemm.space.parts:
                begin_part(self.evaluator, self.gemm.space, self.gemm.m, self.tile.parts, subtile)
            elif self.tile.parts > 1:
                self._write_lanes(self.gemm.n, integer("tile_n") * "BLOCK_N" + subtile * columns.bracketed(), columns)
            with self.evaluator.scope():
                self._store(subtile_names)

    def _parts(self, name: str, count: int) -> list[str]:
        """Split the columns of accumulator `name` recursively into halves, and return the variables of the `count`
        subtiles.
        """
        if count == 1:
            return [name]
        left, right = (self.evaluator.names.fresh("acc") for _ in range(2))
        columns = f"BLOCK_N // {self.tile.parts // count * 2}"
        halves = f"tl.reshape({name}, (BLOCK_M, 2, {columns})).permute(0, 2, 1)"
        self.evaluator.write(f"{left}, {right} = tl.split({halves})")
        return [subtile for half in (left, right) for subtile in self._parts(half, count // 2)]

    def _store(self, subtiles: Sequence[str]) -> None:
        """Write the epilogue of one subtile of each accumulator, and store the outputs of this subtile."""
        gemm = self.gemm
        for name, accumulation in zip(subtiles, gemm.accumulations, strict=True):
            self.evaluator.spread_over(name, self.evaluator.tile.edges)
            self.evaluator.placed[accumulation.total] = (
                where(gemm.space, accumulation.total, gemm.table),
                Code(name, accumulation.total.type.dtype),
            )
        if gemm.space.parts:
            reduce_parts(self.evaluator, gemm.body, gemm.space, gemm.table)
        for position, value in enumerate(gemm.body.outputs):
            if value in [d.result for d in gemm.dots[1:]]:
                continue  # The kernel stores the results of all dots through the pointer of the first dot.
            index = where(gemm.space, value, gemm.table)
            self.evaluator.store(position, index, span_of(gemm.space, index, gemm.m, gemm.n))


DOT = Template("dot", _match, _emit, KernelForm.GEMM, joins=True)
