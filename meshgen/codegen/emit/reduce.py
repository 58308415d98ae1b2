"""Kernels that reduce: rows of kept elements, reduced in registers or in chunks, with element-wise ops around.

All reductions of a kernel reduce the same dims. If these dims fit in one chunk, the kernel loads the tile once and
computes everything in registers. Otherwise the kernel has one loop per level of reductions that depend on
each other, and a last loop for outputs that are not reduced. Partial results over chunks are kept per lane and
combined once, in a fixed order.
"""

from __future__ import annotations

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of, spread, where
from meshgen.codegen.emit.reduced_tile import (
    combined,
    neutral_of,
    partial_result_dtype,
    place_reduced,
    reduced,
    sums_products,
)
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.row_passes import OnlineSum, levels, online_sums
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.tiles import Shape, tile_shape
from meshgen.codegen.index_code import integer, lanes
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import POINTWISE, REDUCTIONS
from meshgen.ops.registry import expression
from meshgen.ops.triton.registers import Code, literal


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Match reductions over the same dims, with element-wise ops before and after them."""
    if not (loops := loops_of(body)) or any(node.op not in REDUCTIONS for node in loops):
        return None
    space = common_space(body, [*loops, *(n for n in body.nodes if n.op in POINTWISE)])
    return KernelPlan(REDUCE, space, candidates=(tile_shape(space, device.multiprocessors),)) if space else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel and return its launch parameters."""
    del device
    assert plan.space is not None
    shape: Shape = plan.candidates[0]
    emitter = Reduction(evaluator, body, plan.space, shape)
    emitter.emit()
    elements = shape.kept_block * shape.reduced_block
    warps = max(1, min(16 if elements > 8192 else 8, elements // 512))
    grid = (-(-shape.kept // shape.kept_block), 1, 1)
    return Launch(grid, evaluator.constants, max(warps, min(4, elements // 64) or 1), 2)


class Reduction:
    """Writer of the source of one reduction kernel."""

    def __init__(self, evaluator: Evaluator, body: Graph, space: Space, shape: Shape) -> None:
        self.evaluator, self.body, self.space, self.shape = evaluator, body, space, shape
        kept, out = ("col", "row") if shape.rows_reduced else ("row", "col")
        self.kept, self.out = ex.variable(kept, shape.kept), ex.variable(out, shape.reduced)
        self.kept_name, self.out_name = kept, out
        self.kept_size = evaluator.constant("KEPT", shape.kept_block) if shape.kept > 1 else ""
        self.out_size = evaluator.constant("REDUCED", shape.reduced_block) if shape.reduced > 1 else ""
        rest = tuple(v for v in space.dims if v not in space.reduced)
        self.online = online_sums(body) if shape.loops else {}
        self.lanes: dict[Node, str] = {}  # variables of the partial results per lane, for each reduction
        self.table: dict[Var, Expr] = spread(rest, self.kept) | spread(space.reduced, self.out)

    @property
    def flat(self) -> bool:
        """Whether the tile has only one dim."""
        return self.shape.kept == 1 or self.shape.reduced == 1

    def slot(self, is_out: bool) -> str:
        """Return the subscript `[:, None]` or `[None, :]` that turns a one-dim range into a column or row of the tile.

        `is_out`: whether the range is over kept elements. Returns "" for a one-dim tile.
        """
        if self.flat:
            return ""
        return "[:, None]" if is_out == self.shape.rows_reduced else "[None, :]"

    def emit(self) -> None:
        shape, evaluator = self.shape, self.evaluator
        self.begin()
        self.reduce()
        unreduced = [n for n, v in enumerate(self.body.outputs) if self._is_unreduced(v)]
        for position in range(len(self.body.outputs)):
            if position not in unreduced:
                self._store(position)
        if unreduced and shape.loops:
            self._open_loop()
        for position in unreduced:
            self._store(position)
        if unreduced and shape.loops:
            evaluator.close()

    def begin(self) -> None:
        """Write the index variables of the tile."""
        shape, evaluator = self.shape, self.evaluator
        if shape.kept > 1:
            first, inside = evaluator.widened(evaluator.program) * self.kept_size, lanes(self.kept_size)
            evaluator.let(self.kept_name, first + inside.turned(self.slot(False)), f"  # {shape.kept} kept")
        if shape.reduced > 1 and not shape.loops:
            inside = evaluator.widened(lanes(self.out_size)).turned(self.slot(True))
            evaluator.let(self.out_name, inside, f"  # {shape.reduced} reduced")
        evaluator.tile.edges = self._edges()

    def reduce(self) -> None:
        """Write the reductions."""
        for nodes in levels(self.body):
            self._level(nodes)

    def _edges(self) -> dict[Var, str]:
        shape = self.shape
        kept = {
            v: integer(v.text).below(shape.kept) if shape.kept % shape.kept_block else ""
            for v in ex.variables(self.kept)
        }
        out = {
            v: integer(v.text).below(shape.reduced) if shape.reduced % shape.reduced_block else ""
            for v in ex.variables(self.out)
        }
        return out | kept if shape.rows_reduced else kept | out

    def _is_unreduced(self, value: Value) -> bool:
        index = where(self.space, value, self.table)
        return any(v in ex.variables(self.out) for e in index for v in ex.variables(e))

    def _store(self, position: int) -> None:
        self.evaluator.store(position, where(self.space, self.body.outputs[position], self.table))

    def _open_loop(self) -> None:
        evaluator, size = self.evaluator, self.out_size
        evaluator.loop("start", 0, self.shape.reduced, size)
        evaluator.let(self.out_name, integer("start") + evaluator.widened(lanes(size)).turned(self.slot(True)))

    def _level(self, nodes: list[Node]) -> None:
        if not self.shape.loops:
            parts = {node: self._operand(node) for node in nodes}
        elif self.online.keys() >= set(nodes):  # The loop of the maximum has already accumulated these online sums.
            parts = {node: self._rescaled(node) for node in nodes}
        else:
            parts = self._looped(nodes)
        for node in nodes:
            self._finish(node, parts[node])

    def _looped(self, nodes: list[Node]) -> dict[Node, str]:
        """Write one loop over the chunks that accumulates the reductions `nodes`.

        Returns:
            The variables of the partial results per lane, of `nodes` and of the online sums that share the loop.
        """
        evaluator = self.evaluator
        sums = {total: online for total, online in self.online.items() if online.maximum in nodes}
        partial = {node: self._initial(node) for node in (*nodes, *sums)}
        self._open_loop()
        parts = {node: self._operand(node) for node in nodes}
        for total, online in sums.items():
            self._add_online(total, online, partial, parts[online.maximum])
        for node in nodes:
            evaluator.write(f"{partial[node]} = {combined(evaluator, node, partial[node], parts[node])}")
        evaluator.close()
        self.lanes |= partial
        return partial

    def _initial(self, node: Node) -> str:
        neutral = literal(neutral_of(node), node.result.type.dtype)
        return self.evaluator.assign("partial", f"tl.full({self._tile()}, {neutral}, {partial_result_dtype(node)})")

    def _add_online(self, total: Node, online: OnlineSum, partial: dict[Node, str], part: str) -> None:
        """Add a chunk to an online sum per lane, and rescale the sum if the lane's maximum grows.

        The exponentials do not subtract a maximum that is infinite.
        """
        evaluator, before = self.evaluator, partial[online.maximum]
        greatest = evaluator.assign("greatest", combined(evaluator, online.maximum, before, part))
        scale = evaluator.assign("scale", f"tl.where(tl.abs({greatest}) == float('inf'), 0.0, {greatest})")
        old = self._exp(online, f"{before} - {scale}")
        new = self._exp(online, f"{part} - {scale}")
        evaluator.write(f"{partial[total]} = {partial[total]} * {old} + {new}")

    def _rescaled(self, node: Node) -> str:
        """Return the partial sums per lane of an online sum, rescaled to the maximum that the exponentials subtract."""
        evaluator, online = self.evaluator, self.online[node]
        index = where(self.space, node.operands[0], self.table)
        shift = evaluator.value(online.shift, index).text
        greatest = self.lanes[online.maximum]
        scale = evaluator.assign("scale", f"tl.where({greatest} == float('inf'), 0.0, {greatest})")
        return evaluator.assign("part", f"{self.lanes[node]} * {self._exp(online, f'{scale} - {shift}')}")

    def _exp(self, online: OnlineSum, text: str) -> str:
        code = Code(self.evaluator.assign("less", text), online.exponential.result.type.dtype)
        text, helpers = expression(online.exponential, [code])
        for name in helpers:
            self.evaluator.helper(name)
        return self.evaluator.assign("exponential", text)

    def _tile(self) -> str:
        sides = [self.kept_size] if self.shape.kept > 1 else []
        sides.insert(0 if self.shape.rows_reduced else len(sides), self.out_size)
        return f"({', '.join(sides)}{',' if len(sides) == 1 else ''})"

    def _operand(self, node: Node) -> str:
        """Return the tile of a reduction's operand, with the neutral element in lanes outside of the operand."""
        index = where(self.space, node.operands[0], self.table)
        code = self.evaluator.value(node.operands[0], index)
        text = f"{code.text}.to(tl.int32)" if code.dtype == "i1" else code.text
        if self.shape.reduced == 1:
            return text
        edge = next((self.evaluator.tile.edges[v] for v in ex.variables(self.out)), "")
        if not edge and not self.shape.loops and sums_products(self.evaluator, node):
            text = self.evaluator.assign("part", f"{text} + 0.0")
        if edge:
            neutral = literal(
                int(neutral_of(node)) if code.dtype == "i1" else neutral_of(node),
                "i32" if code.dtype == "i1" else code.dtype,
            )
            text = self.evaluator.assign("part", f"tl.where({edge}, {text}, {neutral})")
        full = {v.text for v in self.evaluator.tile.edges} <= self.evaluator.spans(text)
        return text if full else f"tl.broadcast_to({text}, {self._tile()})"

    def _finish(self, node: Node, part: str) -> None:
        """Reduce `part` across lanes, combine it with the initial value of the reduction, and bind the result."""
        axis = 0 if self.flat else self.shape.axis
        text = part if self.shape.reduced == 1 else reduced(self.evaluator, node, part, axis, not self.flat)
        place_reduced(self.evaluator, node, text, where(self.space, node.result, self.table))


REDUCE = Template("reduce", _match, _emit, KernelForm.REDUCE, joins=True)
