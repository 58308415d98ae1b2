"""Matrix products: a tile of the result per program, a loop over the contracted dims, and an epilogue.

Free, batch and contracted dims of any number are flattened; index maps of the operands (transpose, reshape,
slice, padding masks, ...) are part of the loads (`dot_operands.py`). Other operands are computed in registers. Where one block
fills a multiprocessor, and there are more tiles than of these, each program computes several tiles (a persistent kernel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.dot_operands import one
from meshgen.codegen.emit.dot_problem import joint_tiles_of, problem_of, tiles_of
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, UnsuitedError, common_space, loops_of, spread, where
from meshgen.codegen.emit.row_parts import begin_part, reduce_parts, span_of
from meshgen.codegen.emit.tile import Lanes
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.accumulators import Accumulator, joint_products, share_a_loop
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node
from meshgen.kernels.matmul import GROUP_M, Tile, staged_bytes
from meshgen.ops.classes import DOTS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.triton.registers import Code, register_type

_SIDES = ("left", "right")


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Dots of one left operand, or whose results are of equal sizes and in one epilogue."""
    space = common_space(body, [node for node in loops_of(body) if node.op in DOTS])
    if space is None or (node := space.dot) is None:
        return None
    joint = joint_products(body)
    tiles = joint_tiles_of(body, joint, device) if joint else tiles_of(body, space.dots, device, space.columns)
    return KernelPlan(DOT, space, {"dot": node}, tiles) if tiles else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    assert plan.space is not None
    return Dot(evaluator, body, plan.space, plan.candidates[0], device).emit()


class Dot:
    """State while one kernel is written.

    Attributes:
        chosen: dots of one left operand of which each program does one; of other kernels the first.
        sums: what each program computes, with the main loops that add to it.
    """

    def __init__(self, evaluator: Evaluator, body: Graph, space: Space, tile: Tile, device: Device,
                 loop: type[MainLoop] = MainLoop) -> None:  # fmt: skip
        assert space.dot is not None
        self._loop = loop
        self.evaluator, self.body, self.space, self.tile, self.node = evaluator, body, space, tile, space.dot
        self.problem = problem = problem_of(self.node)
        self.batch = ex.variable("batch", problem.batch)
        self.m, self.n = _always("m", problem.m), _always("n", problem.n)
        self.edges = {self.m: self._edge("m", problem.m, tile.m), self.n: self._edge("n", problem.n, tile.n)}
        self.lanes = {
            var: Lanes(Var(f"{var.text}_first", 0, var.high), Var(f"{var.text}_lane", 0, var.high))
            for var in self.edges
        }
        evaluator.tile.lanes = self.lanes
        joint = joint_products(body)
        self.chosen = [self.node] if joint else space.dots
        sums = joint or [Accumulator((self.node,), self.node.result)]
        self.shares = share_a_loop(sums)
        self.sums = [(each.total, [self._loop_of(dot, device) for dot in each.products]) for each in sums]
        if self.shares:
            self.sums[1][1][0].without_left()
        self.names = [self._names_of(number) for number in range(len(self.sums))]
        self.table = self._table()
        self.blocks = self.rows * self.columns * problem.batch * len(self.chosen)
        self.programs = min(self.blocks, device.multiprocessors) if self._fills(device) else self.blocks
        if tile.is_specialized and not self._has_two_kinds():
            raise UnsuitedError("warps that only copy need boxes alone to copy")
        if space.columns not in (0, tile.n // tile.parts):
            raise UnsuitedError("the epilogue has other parts of rows than those that are reduced")

    @property
    def rows(self) -> int:
        """Rows of tiles, or of parts of them."""
        return -(-self.problem.m // self.tile.m) + self.sums[0][1][0].more_rows

    @property
    def columns(self) -> int:
        """Columns of tiles."""
        return -(-self.problem.n // self.tile.n)

    def _loop_of(self, dot: Node, device: Device) -> MainLoop:
        return self._loop(self.evaluator, dot, self.tile, self.batch, (self.m, self.n), self.edges, device)

    def _names_of(self, number: int) -> list[str]:
        """Of a sum: one, or one for each part of the columns where these are multiplied apart."""
        parts = self.tile.parts if self.tile.is_specialized else 1
        is_first = number == 0 and parts == 1
        return ["acc"] if is_first else [self.evaluator.names.fresh("sum") for _ in range(parts)]

    def _fills(self, device: Device) -> bool:
        """Whether one block fills a multiprocessor, and descriptors need not be made again for each tile."""
        if self.evaluator.is_part or not self._loop.keeps_boxes:
            return False
        columns = self.tile.n * (2 if self.shares else 1)
        shared = staged_bytes(replace(self.tile, n=columns), DTYPES[self.problem.dtype].itemsize)
        is_described = any(loop.is_described for _, loops in self.sums for loop in loops)
        return is_described and self.problem.batch == len(self.chosen) == 1 and 2 * shared > device.shared_bytes

    def _has_two_kinds(self) -> bool:
        """Whether some warps can copy, and others multiply: in one loop, all of whose operands are boxes."""
        loops = [loop for _, loops in self.sums for loop in loops]
        whole = all(loop.is_boxes_alone for loop in loops)
        is_one = self.shares or len(loops) == 1
        if len(self.sums) == 1 and not is_one:  # each step takes the boxes of one product
            layouts = {loop.operands.layout for loop in loops}
            is_one = len(layouts) == 1 and len(layouts.pop()) == len(_SIDES) and self._loop is MainLoop
        return is_one and whole and loops[0].is_divisible and not self.evaluator.wide

    def _table(self) -> dict[Var, Expr]:
        """The space's variables (dims of the result) in terms of batch, m and n."""
        dims = DotDims.of(self.node)
        free = len(dims.free[0])
        count = self.node.result.type.rank - free - len(dims.free[1])
        groups = ((0, count, self.batch), (count, count + free, one(self.m)), (count + free, None, one(self.n)))
        place = self.space.index[self.node.result]
        table = {v: one(v) for v in self.space.parts}
        for start, stop, position in groups[: 2 if table else 3]:
            variables = tuple(v for e in place[start:stop] for v in ex.variables(e))
            table |= spread(variables, position)
        return table

    def _edge(self, name: str, size: int, block: int) -> str:
        return f"{name} < {size}" if size % block else ""

    def emit(self) -> Launch:
        """Write the kernel, and say how it is launched."""
        self.head()
        self.loops()
        self.epilogue()
        if self.programs < self.blocks:
            self.evaluator.close()
        return Launch((self.programs, 1, 1), self.evaluator.constants, self.tile.num_warps, self.tile.num_stages)

    def head(self) -> None:
        p, t, write = self.problem, self.tile, self.evaluator.write
        rows, cols = self.rows, self.columns
        wide = self.evaluator.wide
        for name, size in zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), (t.m, t.n, t.k), strict=True):
            if name != "BLOCK_K" or size > 1:
                self.evaluator.constant(name, size)
        if self.programs < self.blocks:
            self.evaluator.constant("PROGRAMS", self.programs)
            for loop in (loop for _, loops in self.sums for loop in loops):
                loop.describe()
            self.evaluator.open(f"for tile in range(tl.program_id(0), {self.blocks}, PROGRAMS):")
        else:
            write(f"tile = {self.evaluator.program}{wide}")
        if len(self.chosen) > 1:
            self._choose_dot(rows * cols * p.batch)
        if p.batch > 1:
            write(f"batch = tile // {rows * cols}  # over {p.batch}")
            write(f"tile = tile % {rows * cols}")
        self.place(rows, cols)
        inside = self.sums[0][1][0].find_rows()
        self.write_lanes()
        if inside:
            self.edges[self.m] = "in_rows"
            write(f"in_rows = {inside}")

    def write_lanes(self) -> None:
        """The rows and columns of the tile at `tile_m`, `tile_n`."""
        self._write_lanes(self.m, "tile_m * BLOCK_M", "BLOCK_M")
        self._write_lanes(self.n, "tile_n * BLOCK_N", "BLOCK_N")

    def _write_lanes(self, var: Var, first: str, count: str) -> None:
        names, side = self.lanes[var], "[:, None]" if var is self.m else "[None, :]"
        self.evaluator.write(f"{names.first.text} = {first}")
        self.evaluator.write(f"{names.lane.text} = tl.arange(0, {count}){self.evaluator.wide}{side}")
        self.evaluator.write(f"{var.text} = {names.first.text} + {names.lane.text}")

    def place(self, rows: int, cols: int) -> None:
        """Where number `tile` of so many rows and columns of tiles is."""
        write = self.evaluator.write
        if GROUP_M >= rows > 1 and cols > 1:
            write(f"tile_m = tile % {rows}")
            write(f"tile_n = tile // {rows}")
        elif rows > 1 and cols > 1:
            # Neighbouring programs share operands: go down GROUP rows of tiles before moving a column on.
            group = GROUP_M
            write(f"first = tile // {group * cols} * {group}")
            height = "height" if rows % group else group
            if rows % group:
                write(f"height = tl.minimum({rows} - first, {group})")
            write(f"tile_m = first + tile % {group * cols} % {height}")
            write(f"tile_n = tile % {group * cols} // {height}")
        else:
            write(f"tile_m = {'tile' if rows > 1 else '0'}")
            write(f"tile_n = {'tile' if rows == 1 and cols > 1 else '0'}")

    def _choose_dot(self, blocks: int) -> None:
        """Several dots of one left operand: each program does one of them, neighbours in turn to share its tiles."""
        evaluator, dots = self.evaluator, self.chosen
        names = [
            (evaluator.pointer_of[d.operands[1]], evaluator.targets[self.body.outputs.index(d.result)]) for d in dots
        ]
        right, result = evaluator.names.pointer("right"), evaluator.names.pointer("product_out")
        evaluator.write(f"which = tile % {len(dots)}")
        evaluator.write(f"tile = tile // {len(dots)}  # over {blocks}")
        for number, (source, target) in enumerate(names):
            if number:
                evaluator.write(f"if which == {number}:")
            indent = "    " if number else ""
            evaluator.write(f"{indent}{right} = {source}")
            evaluator.write(f"{indent}{result} = {target}")
        evaluator.pointer_of[dots[0].operands[1]] = right
        evaluator.targets[self.body.outputs.index(dots[0].result)] = result

    def loops(self) -> None:
        """The main loops: one of all products that share it, or those of each sum one after the other."""
        evaluator, kind = self.evaluator, register_type(self.problem.accumulator)
        columns = f"BLOCK_N // {self.tile.parts}" if len(self.names[0]) > 1 else "BLOCK_N"
        start = f"{{name}} = tl.zeros((BLOCK_M, {columns}), {kind})"
        if self.shares:
            for name in (name for names in self.names for name in names):
                evaluator.write(start.format(name=name))
            loops = [loop for _, (loop,) in self.sums]
            loops[0].write(self.names[0], list(zip(loops[1:], self.names[1:], strict=True)))
        else:
            for names, (_, loops) in zip(self.names, self.sums, strict=True):
                for name in names:
                    evaluator.write(start.format(name=name))
                if self.tile.is_specialized and len(loops) > 1:
                    loops[0].write_sum(names, loops[1:])
                    continue
                for loop in loops:
                    loop.write(names)
        for names, (_, loops) in zip(self.names, self.sums, strict=True):
            for name in names:
                loops[-1].convert(name)
        evaluator.tile.edges = self.edges

    def epilogue(self) -> None:
        """What follows the products, for all columns of the tile or for one part of them after the other."""
        self.evaluator.tile.lanes = self.lanes
        rows = [names if len(names) > 1 else self._parts(names[0], self.tile.parts) for names in self.names]
        columns = f"BLOCK_N // {self.tile.parts}"
        for number, parts in enumerate(zip(*rows, strict=True)):
            if self.space.parts:
                begin_part(self.evaluator, self.space, self.m, self.tile.parts, number)
            elif self.tile.parts > 1:
                self._write_lanes(self.n, f"tile_n * BLOCK_N + {number} * ({columns})", columns)
            with self.evaluator.scope():
                self._store(parts)

    def _parts(self, name: str, count: int) -> list[str]:
        """The accumulator's columns, halved until there are `count` parts."""
        if count == 1:
            return [name]
        left, right = (self.evaluator.names.fresh("acc") for _ in range(2))
        columns = f"BLOCK_N // {self.tile.parts // count * 2}"
        halves = f"tl.reshape({name}, (BLOCK_M, 2, {columns})).permute(0, 2, 1)"
        self.evaluator.write(f"{left}, {right} = tl.split({halves})")
        return [part for half in (left, right) for part in self._parts(half, count // 2)]

    def _store(self, parts: Sequence[str]) -> None:
        """The results of one part of the columns of each accumulator."""
        for name, (total, _) in zip(parts, self.sums, strict=True):
            self.evaluator.spread_over(name, self.evaluator.tile.edges)
            self.evaluator.placed[total] = (where(self.space, total, self.table), Code(name, total.type.dtype))
        if self.space.parts:
            reduce_parts(self.evaluator, self.body, self.space, self.table)
        for number, value in enumerate(self.body.outputs):
            if value in [d.result for d in self.chosen[1:]]:
                continue  # written through the first dot's pointer
            place = where(self.space, value, self.table)
            self.evaluator.store(number, place, span_of(self.space, place, self.m, self.n))


def _always(text: str, size: int) -> Var:
    """A variable that is kept even if it has one value: it gives tiles their shape."""
    return Var(text, 0, size - 1)


DOT = Template("dot", _match, _emit, KernelForm.GEMM, joins=True)
