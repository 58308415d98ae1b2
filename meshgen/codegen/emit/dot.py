"""Matrix products: a tile of the result per program, a loop over the contracted dims, and an epilogue.

Free, batch and contracted dims of any number are flattened; index maps of the operands (transpose, reshape,
slice, padding masks, ...) are part of the loads (`dot_operands.py`). Other operands are computed in registers. Where one block
fills a multiprocessor, and there are more tiles than of these, each program computes several tiles (a persistent kernel).
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_operands import Operands, Part, one
from meshgen.codegen.emit.dot_problem import Problem, precision_option, problem_of, tiles_of, uses_tensor_cores
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of, spread, where
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Node
from meshgen.kernels.matmul import GROUP_M, Tile, staged_bytes
from meshgen.ops.classes import DOTS
from meshgen.ops.triton.registers import NARROW, Code, register_type


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Dots of one left operand, with element-wise ops after them."""
    space = common_space(body, [node for node in loops_of(body) if node.op in DOTS])
    if space is None or (node := space.dot) is None:
        return None
    return KernelPlan("dot", space, {"dot": node}, tiles_of(node, len(space.dots), device))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    assert plan.space is not None
    node = plan.space.dot
    assert node is not None
    return Dot(evaluator, body, plan.space, node, problem_of(node), plan.candidates[0], device).emit()


class Dot:
    """State while one kernel is written."""

    def __init__(self, evaluator: Evaluator, body: Graph, space: Space, node: Node, problem: Problem, tile: Tile,
                 device: Device) -> None:  # fmt: skip
        self.evaluator, self.body, self.space = evaluator, body, space
        self.node, self.problem, self.tile = node, problem, tile
        self.batch = self._batch()
        self.m, self.n = _always("m", problem.m), _always("n", problem.n)
        self.operands = Operands(evaluator, node, problem, tile, self.batch, (self.m, self.n), self._parts())
        self.table = self._table()
        self._place()
        self.is_described = uses_tensor_cores(problem) and self.operands.describes(device)
        self.blocks = -(-problem.m // tile.m) * -(-problem.n // tile.n) * problem.batch * len(space.dots)
        is_one = problem.batch == 1 and len(space.dots) == 1 and node.op in DOTS
        shared = staged_bytes(tile, DTYPES[problem.dtype].itemsize)
        fills = self.is_described and is_one and 2 * shared > device.shared_bytes
        self.programs = min(self.blocks, device.multiprocessors) if fills else self.blocks

    def emit(self) -> Launch:
        """Write the kernel, and say how it is launched."""
        self.head()
        self.loop()
        self.epilogue()
        tile = self.tile
        constants = {"BLOCK_M": tile.m, "BLOCK_N": tile.n} | ({"BLOCK_K": tile.k} if tile.k > 1 else {})
        if self.programs < self.blocks:
            constants["PROGRAMS"] = self.programs
            self.evaluator.close()
        return Launch((self.programs, 1, 1), constants, tile.num_warps, tile.num_stages)

    def _batch(self) -> Expr:
        """The number of the product."""
        return ex.variable("batch", self.problem.batch)

    def _parts(self) -> Mapping[Var, Part]:
        """The parts of variables that count, where not all of them do."""
        return {}

    def _place(self) -> None:
        """The edges of the tile's variables, and what the operands are for them."""
        p, t = self.problem, self.tile
        col_k, row_k = self.operands.k
        ends = (self._edge("m", p.m, t.m), self._edge("n", p.n, t.n))
        edge_k = (self._edge("k_col", p.k, t.k), self._edge("k_row", p.k, t.k))
        self.edges = {self.m: ends[0], self.n: ends[1]}
        self.evaluator.tile.edges = {self.m: ends[0], row_k: edge_k[1], self.n: ends[1], col_k: edge_k[0]}
        self.operands.arrange()

    def _table(self) -> dict[Var, Expr]:
        """The space's variables (dims of the result) in terms of batch, m and n."""
        dims = self.operands.dims
        free = len(dims.free[0])
        count = self.node.result.type.rank - free - len(dims.free[1])
        groups = ((0, count, self.batch), (count, count + free, one(self.m)), (count + free, None, one(self.n)))
        table: dict[Var, Expr] = {}
        place = self.space.index[self.node.result]
        for start, stop, position in groups:
            variables = tuple(v for e in place[start:stop] for v in ex.variables(e))
            table |= spread(variables, position)
        return table

    def _edge(self, name: str, size: int, block: int) -> str:
        return f"{name} < {size}" if size % block else ""

    def head(self) -> None:
        p, t, write = self.problem, self.tile, self.evaluator.write
        rows, cols = -(-p.m // t.m), -(-p.n // t.n)
        wide = self.evaluator.wide
        if self.programs < self.blocks:
            self.operands.describe()
            self.evaluator.open(f"for tile in range(tl.program_id(0), {self.blocks}, PROGRAMS):")
        else:
            write(f"tile = tl.program_id(0){wide}")
        if len(self.space.dots) > 1:
            self._choose_dot(rows * cols * p.batch)
        if p.batch > 1:
            write(f"batch = tile // {rows * cols}  # over {p.batch}")
            write(f"tile = tile % {rows * cols}")
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
        write(f"m = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M){wide})[:, None]  # over {p.m}")
        write(f"n = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N){wide})[None, :]  # over {p.n}")

    def _choose_dot(self, blocks: int) -> None:
        """Several dots of one left operand: each program does one of them, neighbours in turn to share its tiles."""
        evaluator, dots = self.evaluator, self.space.dots
        names = [
            (evaluator.pointer_of[d.operands[1]], evaluator.results[self.body.outputs.index(d.result)]) for d in dots
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

    def loop(self) -> None:
        p, evaluator = self.problem, self.evaluator
        kind = register_type(p.accumulator)
        evaluator.write(f"acc = tl.zeros((BLOCK_M, BLOCK_N), {kind})")
        self.sum_products()
        evaluator.tile.edges = self.edges
        dtype = self.node.result.type.dtype
        if dtype not in NARROW and p.accumulator != dtype:
            evaluator.write(f"acc = acc.to({register_type(dtype)})")

    def sum_products(self) -> None:
        """The loop over what is contracted."""
        if uses_tensor_cores(self.problem):
            self._loop_by_tiles()
        else:
            self._loop_by_products(register_type(self.problem.accumulator))

    def steps(self) -> str:
        """What the loop over the contracted dims goes through, without its step."""
        return f"0, {self.problem.k}"

    def _loop_by_products(self, kind: str) -> None:
        """acc += a[m] * b[n] for each k."""
        evaluator = self.evaluator
        evaluator.tile.edges |= dict.fromkeys(self.operands.k, "")
        evaluator.open(f"for k in range({self.steps()}):")
        evaluator.write(f"k_col = {'tl.full([], k, tl.int64)' if evaluator.wide else 'k'}")
        evaluator.write("k_row = k_col")
        sides = [evaluator.value(v, self.operands.index(i)) for i, v in enumerate(self.node.operands)]
        left, right = (self.operands.kept(number, evaluator.in_register(side)) for number, side in enumerate(sides))
        if self.problem.accumulator == "i1":
            evaluator.write(f"acc = acc | ({left.text} & {right.text})")
        else:
            evaluator.write(f"acc += {left.text}.to({kind}) * {right.text}.to({kind})")
        evaluator.close()

    def _loop_by_tiles(self) -> None:
        p, evaluator, operands = self.problem, self.evaluator, self.operands
        if self.is_described and self.programs == self.blocks:
            operands.describe()
        pointers = [operands.pointers(number) for number in (0, 1)]
        evaluator.open(f"for start in range({self.steps()}, BLOCK_K):")
        whole = all(pointer or box for pointer, box in zip(pointers, operands.boxes, strict=True))
        if not whole or (evaluator.tile.edges[operands.k[0]] and not all(operands.boxes)):
            evaluator.write(f"k = start + tl.arange(0, BLOCK_K){evaluator.wide}")
            evaluator.write("k_col = k[None, :]")
            evaluator.write("k_row = k[:, None]")
        a, b = (operands.tile_of(number, pointers[number]) for number in (0, 1))
        precision = precision_option(p.multiplied)
        if p.dtype.startswith("f8"):
            # sm_90 adds products of 8-bit floats in about 14 bits: each step's sum is added to the accumulator in f32.
            precision = ", max_num_imprecise_acc=BLOCK_K"
        kind = ", out_dtype=tl.float64" if p.dtype == "f64" else ", out_dtype=tl.int32" if p.dtype == "i8" else ""
        evaluator.write(f"acc = tl.dot({a}, {b}, acc{precision}{kind})")
        for number, pointer in enumerate(pointers):
            operands.advance(number, pointer)
        evaluator.close()

    def epilogue(self) -> None:
        """What follows the product, for all columns of the tile or for one part of them after the other."""
        names = self._columns("acc", self.tile.parts)
        columns = f"BLOCK_N // {len(names)}"
        for number, name in enumerate(names):
            if len(names) > 1:
                start = f"tile_n * BLOCK_N + {number} * (BLOCK_N // {len(names)})"
                lanes = f"tl.arange(0, {columns}){self.evaluator.wide}"
                self.evaluator.write(f"n = ({start} + {lanes})[None, :]")
            with self.evaluator.scope():
                self._store(name)

    def _columns(self, name: str, count: int) -> list[str]:
        """The accumulator's columns, halved until there are `count` parts."""
        if count == 1:
            return [name]
        left, right = (self.evaluator.names.fresh("acc") for _ in range(2))
        columns = f"BLOCK_N // {self.tile.parts // count * 2}"
        halves = f"tl.reshape({name}, (BLOCK_M, 2, {columns})).permute(0, 2, 1)"
        self.evaluator.write(f"{left}, {right} = tl.split({halves})")
        return [part for half in (left, right) for part in self._columns(half, count // 2)]

    def _store(self, accumulator: str) -> None:
        """The results of one part."""
        result = self.node.result
        place = where(self.space, result, self.table)
        self.evaluator.placed[result] = (place, Code(accumulator, result.type.dtype))
        for number, value in enumerate(self.body.outputs):
            if value in [d.result for d in self.space.dots[1:]]:
                continue  # written through the first dot's pointer
            self.evaluator.store(number, where(self.space, value, self.table), (self.m, self.n))


def _always(text: str, size: int) -> Var:
    """A variable that is kept even if it has one value: it gives tiles their shape."""
    return Var(text, 0, size - 1)


DOT = Template("dot", _match, _emit)
