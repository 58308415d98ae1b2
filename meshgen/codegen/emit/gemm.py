"""Description of a GEMM kernel with one tile size: the work of each program, before any source is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.dot_operands import one
from meshgen.codegen.emit.dot_problem import Problem, problem_of
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.plan import spread
from meshgen.codegen.emit.tile import Lanes
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.accumulators import Accumulator, can_share_main_loop, joint_products
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.index_code import integer
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node, Value
from meshgen.kernels.matmul import Tile, staged_bytes
from meshgen.ops.dot_dims import DotDims


@dataclass(frozen=True)
class Accumulation:
    """An accumulated value, and the main loops that add to it."""

    total: Value
    loops: tuple[MainLoop, ...]


@dataclass(frozen=True)
class Gemm:
    """Description of a GEMM kernel with one tile size.

    Attributes:
        problem: sizes and dtypes of the first matmul.
        dots: the dots with a common left operand, of which each program computes one. Other kernels list the first dot.
        accumulations: the values that each program accumulates.
        shares_loop: whether one main loop adds to all accumulators.
        m, n: the row and column variables of the result.
        edges: the conditions under which m and n are inside the result, or "" if they always are.
        table: the variables of `space` (dims of the result), expressed in the batch variable, m and n.
        most_programs: the number of programs of a persistent kernel, in which each program computes several tiles. None
            for other kernels.
    """

    body: Graph
    space: Space
    tile: Tile
    problem: Problem
    dots: tuple[Node, ...]
    accumulations: tuple[Accumulation, ...]
    shares_loop: bool
    m: Var
    n: Var
    edges: dict[Var, str]
    table: dict[Var, Expr]
    most_programs: int | None = None

    @property
    def loops(self) -> list[MainLoop]:
        return [loop for accumulation in self.accumulations for loop in accumulation.loops]

    @property
    def lanes(self) -> dict[Var, Lanes]:
        """Return m and n, each as the sum of the tile's first row or column and an offset per lane."""
        return {v: Lanes(Var(f"{v.text}_first", 0, v.high), Var(f"{v.text}_lane", 0, v.high)) for v in (self.m, self.n)}

    @property
    def tile_rows(self) -> int:
        """Return the number of tiles along m, including partial tiles where groups of rows start or end."""
        return -(-self.problem.m // self.tile.m) + self.loops[0].more_rows

    @property
    def tile_columns(self) -> int:
        """Return the number of tiles along n."""
        return -(-self.problem.n // self.tile.n)

    @property
    def blocks(self) -> int:
        """Return the number of tiles over all dots and batch elements."""
        return self.tile_rows * self.tile_columns * self.problem.batch * len(self.dots)

    @property
    def programs(self) -> int:
        return self.blocks if self.most_programs is None else min(self.blocks, self.most_programs)


def gemm_of(evaluator: Evaluator, body: Graph, space: Space, tile: Tile, device: Device,
            loop: type[MainLoop] = MainLoop, masks_all: bool = False) -> Gemm:  # fmt: skip
    """Describe the GEMM kernel of a body for tiles of shape `tile`.

    Args:
        evaluator: emitter of the kernel; index maps of the operands may add kernel parameters to it.
        loop: the class of the main loops.
        masks_all: whether rows and columns are bounds-checked even if tiles divide the result evenly.
    """
    assert space.dot is not None
    problem, joint = problem_of(space.dot), joint_products(body)
    batch, m, n = ex.variable("batch", problem.batch), _tile_var("m", problem.m), _tile_var("n", problem.n)
    edges: dict[Var, str] = {var: integer(var.text).below(var.high + 1) if masks_all or (var.high + 1) % block else ""
             for var, block in ((m, tile.m), (n, tile.n))}  # fmt: skip
    dots = (space.dot,) if joint else tuple(space.dots)
    accumulators = joint or [Accumulator((space.dot,), space.dot.result)]
    shares_loop, accumulations = can_share_main_loop(accumulators), list[Accumulation]()
    for accumulator in accumulators:
        loops = (loop(evaluator, dot, tile, batch, (m, n), edges, device) for dot in accumulator.products)
        accumulations.append(Accumulation(accumulator.total, tuple(loops)))
    if shares_loop:
        accumulations[1].loops[0].drop_left_load()
    table = _table(space, batch, m, n)
    gemm = Gemm(body, space, tile, problem, dots, tuple(accumulations), shares_loop, m, n, edges, table)
    is_plain = loop.reuses_descriptors and not evaluator.is_part and problem.batch == len(dots) == 1
    is_persistent = is_plain and _fills_multiprocessor(gemm, device)
    return replace(gemm, most_programs=device.multiprocessors) if is_persistent else gemm


def _tile_var(text: str, size: int) -> Var:
    """Return a tile variable with `size` values. Unlike `ex.variable`, this function also returns a variable if `size`
    is 1.
    """
    return Var(text, 0, size - 1)


def _fills_multiprocessor(gemm: Gemm, device: Device) -> bool:
    """Whether a persistent kernel is beneficial: one block fills a multiprocessor, and the block uses TMA descriptors.

    A persistent kernel writes each descriptor only once per block.
    """
    columns = gemm.tile.n * (2 if gemm.shares_loop else 1)
    shared = staged_bytes(replace(gemm.tile, n=columns), DTYPES[gemm.problem.dtype].itemsize)
    return any(loop.is_described for loop in gemm.loops) and 2 * shared > device.shared_bytes


def _table(space: Space, batch: Expr, m: Var, n: Var) -> dict[Var, Expr]:
    """Return the variables of `space` (dims of the result), each expressed in `batch`, `m` and `n`."""
    assert space.dot is not None
    dims = DotDims.of(space.dot)
    free = len(dims.free[0])
    count = space.dot.result.type.rank - free - len(dims.free[1])
    groups = ((0, count, batch), (count, count + free, one(m)), (count + free, None, one(n)))
    result_index = space.index[space.dot.result]
    table = {v: one(v) for v in space.parts}
    for start, stop, position in groups[: 2 if table else 3]:
        variables = tuple(v for e in result_index[start:stop] for v in ex.variables(e))
        table |= spread(variables, position)
    return table
