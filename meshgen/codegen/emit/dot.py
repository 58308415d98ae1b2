"""Matrix products: a tile of the result per program, a loop over the contracted dims, and an epilogue.

Free, batch and contracted dims of any number are flattened; index maps of the operands (transpose, reshape,
slice, padding masks, ...) are part of the loads. Other operands are computed in registers.
"""

from __future__ import annotations

import re

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_problem import Problem, precision_option, problem_of, tiles_of, uses_tensor_cores
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guards
from meshgen.codegen.emit.index_maps import read_through
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of, spread, where
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.fusion.space import Index, Space
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.kernels.matmul import GROUP_M, Tile
from meshgen.ops.classes import DOTS, LAYOUT
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.triton.registers import NARROW, Code, register_type, rounded, zero
from meshgen.records import dataclass


@dataclass(frozen=True)
class _Load:
    """An operand that is a plain load: where, and by how much the address grows with k (None: not linear)."""

    value: Value
    index: Index
    guards: Guards
    stride: int | None


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Dots of one left operand, with element-wise ops after them."""
    space = common_space(body, [node for node in loops_of(body) if node.op in DOTS])
    if space is None or (node := space.dot) is None:
        return None
    return KernelPlan("dot", space, {"dot": node}, tiles_of(problem_of(node), len(space.dots), device))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    del device
    assert plan.space is not None
    node = plan.space.dot
    assert node is not None
    problem, tile = problem_of(node), plan.candidates[0]
    emitter = _Dot(evaluator, body, plan.space, node, problem, tile)
    emitter.head()
    emitter.loop()
    emitter.epilogue()
    blocks = -(-problem.m // tile.m) * -(-problem.n // tile.n) * problem.batch * len(plan.space.dots)
    constants = {"BLOCK_M": tile.m, "BLOCK_N": tile.n} | ({"BLOCK_K": tile.k} if tile.k > 1 else {})
    return Launch((blocks, 1, 1), constants, tile.num_warps, tile.num_stages)


class _Dot:
    """State while one kernel is written."""

    def __init__(
        self, evaluator: Evaluator, body: Graph, space: Space, node: Node, problem: Problem, tile: Tile
    ) -> None:
        self.evaluator, self.body, self.space = evaluator, body, space
        self.node, self.problem, self.tile = node, problem, tile
        self.batch = ex.variable("batch", problem.batch)
        self.m, self.n = _always("m", problem.m), _always("n", problem.n)
        self.row_k, self.col_k = Var("k_row", 0, problem.k - 1), Var("k_col", 0, problem.k - 1)
        self.dims = DotDims.of(node)
        self.table = self._table()
        self.order = tuple(range(len(self.dims.contract[0])))

    def _contract_order(self) -> tuple[int, ...]:
        """Order of the contracted dims: one in which the addresses of both operands grow evenly with k, if any."""
        places = range(len(self.dims.contract[0]))
        orders = [tuple(places), *(tuple(sorted(places, key=side.__getitem__)) for side in self.dims.contract)]

        def uneven(order: tuple[int, ...]) -> int:
            self.order = order
            loads = [self._plain(number) for number in (0, 1)]
            return sum(load is None or load.stride is None for load in loads)

        return min(dict.fromkeys(orders), key=uneven)

    def _table(self) -> dict[Var, Expr]:
        """The space's variables (dims of the result) in terms of batch, m and n."""
        count, free = len(self.dims.batch[0]), len(self.dims.free[0])
        groups = ((0, count, self.batch), (count, count + free, _one(self.m)), (count + free, None, _one(self.n)))
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
        p, t, evaluator = self.problem, self.tile, self.evaluator
        edges = {self.m: self._edge("m", p.m, t.m), self.n: self._edge("n", p.n, t.n)}
        edge_k = (self._edge("k_col", p.k, t.k), self._edge("k_row", p.k, t.k))
        evaluator.tile.edges = {
            self.m: edges[self.m], self.row_k: edge_k[1], self.n: edges[self.n], self.col_k: edge_k[0],
        }  # fmt: skip
        self.order = self._contract_order()
        kind = register_type(p.accumulator)
        evaluator.write(f"acc = tl.zeros((BLOCK_M, BLOCK_N), {kind})")
        if not uses_tensor_cores(p):
            self._loop_by_products(kind)
        else:
            self._loop_by_tiles()
        evaluator.tile.edges = edges
        dtype = self.node.result.type.dtype
        if dtype not in NARROW and p.accumulator != dtype:
            evaluator.write(f"acc = acc.to({register_type(dtype)})")

    def _loop_by_products(self, kind: str) -> None:
        """acc += a[m] * b[n] for each k."""
        evaluator = self.evaluator
        evaluator.tile.edges[self.row_k] = evaluator.tile.edges[self.col_k] = ""
        evaluator.open(f"for k in range({self.problem.k}):")
        evaluator.write(f"k_col = {'tl.full([], k, tl.int64)' if evaluator.wide else 'k'}")
        evaluator.write("k_row = k_col")
        sides = [evaluator.value(v, self._operand_index(i)) for i, v in enumerate(self.node.operands)]
        left, right = (evaluator.in_register(side) for side in sides)
        if self.problem.accumulator == "i1":
            evaluator.write(f"acc = acc | ({left.text} & {right.text})")
        else:
            evaluator.write(f"acc += {left.text}.to({kind}) * {right.text}.to({kind})")
        evaluator.close()

    def _loop_by_tiles(self) -> None:
        p, t, evaluator = self.problem, self.tile, self.evaluator
        loads = [self._plain(number) for number in (0, 1)]
        whole = all(load is not None and load.stride is not None for load in loads)
        bounded = p.k % t.k != 0
        pointers = [self._pointers(i, load) if load and load.stride is not None else "" for i, load in enumerate(loads)]
        evaluator.open(f"for start in range(0, {p.k}, BLOCK_K):")
        if bounded or not whole:
            evaluator.write(f"k = start + tl.arange(0, BLOCK_K){evaluator.wide}")
            evaluator.write("k_col = k[None, :]")
            evaluator.write("k_row = k[:, None]")
        a, b = (self._operand(i, loads[i], pointers[i]) for i in (0, 1))
        precision = precision_option(p.multiplied)
        if p.dtype.startswith("f8"):
            # sm_90 adds products of 8-bit floats in about 14 bits: each step's sum is added to the accumulator in f32.
            precision = ", max_num_imprecise_acc=BLOCK_K"
        kind = ", out_dtype=tl.float64" if p.dtype == "f64" else ", out_dtype=tl.int32" if p.dtype == "i8" else ""
        evaluator.write(f"acc = tl.dot({a}, {b}, acc{precision}{kind})")
        for pointer, load in zip(pointers, loads, strict=True):
            if pointer and load is not None and load.stride:
                evaluator.write(f"{pointer} += BLOCK_K{'' if load.stride == 1 else f' * {load.stride}'}")
        evaluator.close()

    def _operand_index(self, number: int) -> Index:
        """Index of operand `number` in terms of batch, m or n, and k."""
        shape = self.node.operands[number].type.sizes
        k = Expr((((self.col_k, self.row_k)[number], 1),))
        batch, free = self.dims.batch[number], self.dims.free[number]
        contract = [self.dims.contract[number][place] for place in self.order]
        found: dict[int, Expr] = {}
        for dims, position in ((batch, self.batch), (free, _one((self.m, self.n)[number])), (contract, k)):
            parts = ex.delinearize(position, [shape[d] for d in dims]) if dims else ()
            found |= dict(zip(dims, parts, strict=True))
        return tuple(found[d] for d in range(len(shape)))

    def _plain(self, number: int) -> _Load | None:
        """The operand as one load, seen through index maps; None if something must be computed."""
        value, index, guards = self.node.operands[number], self._operand_index(number), ()
        k, side = (self.col_k, self.row_k)[number], (self.m, self.n)[number]
        producer = self.evaluator.producer
        while (node := producer.get(value)) is not None:
            if node.op not in LAYOUT:
                return None
            read = read_through(self.evaluator, node, index)
            value, index, fill = read.value, read.index, read.fill
            if NEVER in read.conditions or (read.conditions and not (fill is None or self._is_zero(fill))):
                return None
            guards = (*guards, *read.conditions)
        if value.type.dtype != self.problem.dtype:
            return None
        offset = ex.linearize(index, value.type.sizes)
        if set(self.evaluator.over(offset)) != {k, side}:
            return None
        inside = [v for atom, _ in offset.terms if not isinstance(atom, Var) for v in ex.variables(atom.of)]
        linear = k not in inside and not any(k in g.over for g in guards) and not self.evaluator.checked
        return _Load(value, index, guards, dict(offset.terms)[k] if linear else None)

    def _is_zero(self, fill: Value | str) -> bool:
        if isinstance(fill, str):
            return fill in ("0", "0.0")
        node = self.evaluator.producer.get(fill)
        return is_constant(node) and not node.attrs.value.any()

    def _pointers(self, number: int, load: _Load) -> str:
        """Addresses of the first step's tile, before the loop."""
        k = (self.col_k, self.row_k)[number]
        arange = f"tl.arange(0, BLOCK_K){self.evaluator.wide}{'[None, :]' if number == 0 else '[:, None]'}"
        pointer, _ = self.evaluator.address(load.value, load.index)
        return self.evaluator.assign(("a", "b")[number] + "_ptrs", re.sub(rf"\b{k.text}\b", arange, pointer))

    def _operand(self, number: int, load: _Load | None, pointer: str) -> str:
        """The tile of an operand in this step, of the type that is multiplied."""
        name, evaluator = ("a", "b")[number], self.evaluator
        if load is None:
            return self._computed(number)
        if not pointer:
            return evaluator.load(load.value, load.index, load.guards, raw=True).text
        evaluator.next_is_checked()  # advancing pointers are used only if no operand is computed
        _, mask = evaluator.address(load.value, load.index, load.guards)
        other = zero(load.value.type.dtype)
        return evaluator.assign(
            name, f"tl.load({pointer}, mask={mask}, other={other})" if mask else f"tl.load({pointer})"
        )

    def _computed(self, number: int) -> str:
        """An operand that is computed in registers: lanes past the end of k must be 0."""
        evaluator, t = self.evaluator, self.tile
        code = evaluator.in_register(evaluator.value(self.node.operands[number], self._operand_index(number)))
        k, sizes = (self.col_k, self.row_k)[number], ("(BLOCK_M, BLOCK_K)", "(BLOCK_K, BLOCK_N)")[number]
        text = code.text
        if edge := evaluator.tile.edges[k]:
            text = f"tl.where({edge}, {text}, 0.0)"
        if t.k > 0:
            text = f"tl.broadcast_to({text}, {sizes})"
        text, helpers = rounded(text, self.problem.dtype)
        for name in helpers:
            evaluator.helper(name)
        return evaluator.assign(("a", "b")[number], text)

    def epilogue(self) -> None:
        """What follows the product, for all columns of the tile or for one part of them after the other."""
        names = self._parts("acc", self.tile.parts)
        columns = f"BLOCK_N // {len(names)}"
        for number, name in enumerate(names):
            if len(names) > 1:
                start = f"tile_n * BLOCK_N + {number} * (BLOCK_N // {len(names)})"
                lanes = f"tl.arange(0, {columns}){self.evaluator.wide}"
                self.evaluator.write(f"n = ({start} + {lanes})[None, :]")
            with self.evaluator.scope():
                self._store(name)

    def _parts(self, name: str, count: int) -> list[str]:
        """The accumulator's columns, halved until there are `count` parts."""
        if count == 1:
            return [name]
        left, right = (self.evaluator.names.fresh("acc") for _ in range(2))
        columns = f"BLOCK_N // {self.tile.parts // count * 2}"
        halves = f"tl.reshape({name}, (BLOCK_M, 2, {columns})).permute(0, 2, 1)"
        self.evaluator.write(f"{left}, {right} = tl.split({halves})")
        return [part for half in (left, right) for part in self._parts(half, count // 2)]

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


def _one(var: Var) -> Expr:
    return ZERO if var.high == 0 else Expr(((var, 1),))


DOT = Template("dot", _match, _emit)
