"""Gradients of an attention in one pass over what they sum: rows for keys and values, keys for queries.

A program has a tile of results. For each step it multiplies for the scores, applies their function, which reads the maximum and the sum of each row, and adds the products
with what it has computed to its sums. Steps run in order, so results do not depend on the launch. A sum in f32 with an operand that is bf16
in memory is one of two products in bf16: of the weights rounded to it, and of the rest, which leaves 16 bits of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.attention_mask import write_ends, write_low_rows
from meshgen.codegen.emit.attention_operands import (
    LOG2_E,
    along,
    dependent,
    factored,
    input_precision,
    operand_tile,
    power_of_two,
    source_of,
)
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.gradient_shape import GradientShape, gradient_shape
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, where
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention_gradient import Gradient, gradient_in
from meshgen.codegen.fusion.attention_indices import operand_index
from meshgen.codegen.fusion.attention_mask import mask_of
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.weighted_sum import WeightedSum, is_index_map, narrow, substituted
from meshgen.codegen.index_code import Operand, integer, lanes, program_id
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.attention import GradientTile, gradient_tiles
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import multiplied_as
from meshgen.ops.triton.registers import Code, rounded

_NAMES = (  # of variables, beside those of all templates
    "last", "begin", "end", "whole", "full_begin", "full_end", "is_low", "n_row", "block",
)  # fmt: skip


def _match(body: Graph, device: Device) -> KernelPlan | None:
    found = gradient_in(body)
    producer = body.index.producers.get
    shape = None if found is None else gradient_shape(found[0], producer)
    if found is None or shape is None:
        return None
    gradient, space = found
    candidates = gradient_tiles(
        shape.rows, shape.steps, shape.batch, _widest(gradient, shape), len(gradient.sums),
        multiplied_as(gradient.first.scores), device.multiprocessors,
    )  # fmt: skip
    roles = {f"sum{i}": each.product for i, each in enumerate(gradient.sums)} | {"scores": gradient.first.scores}
    return KernelPlan(ATTENTION_GRADIENT, space, roles, candidates)


def _widest(gradient: Gradient, shape: GradientShape) -> int:
    depths = [DotDims.of(node).depth(node.operands[0].type) for node, _ in shape.scores]
    return max(*depths, *(math.prod(each.widths) for each in gradient.sums))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel; see the module's text."""
    del device
    found = gradient_in(body)
    assert found is not None and plan.space is not None, "it was matched"
    shape, tile = gradient_shape(found[0], evaluator.producer.get), plan.candidates[0]
    assert shape is not None, "it was matched"
    emitter = _Gradient(evaluator, body, found[0], plan.space, shape, tile)
    emitter.head()
    emitter.sum()
    emitter.results()
    constants = {"BLOCK_M": tile.m, "BLOCK_N": tile.n} | {f"BLOCK_{s}": power_of_two(s) for s in emitter.widths}
    return Launch((-(-shape.rows // tile.m) * shape.batch, 1, 1), constants, tile.num_warps, tile.num_stages)


_TileOf = Callable[
    [Value, Index, Var, str], str
]  # reads a tile of a value at an index, over a variable, in an element type
ATTENTION_GRADIENT = Template("attention-gradient", _match, _emit, KernelForm.ATTENTION, fuses=False)


class _Gradient:
    """State while one kernel is written."""

    def __init__(
        self,
        evaluator: Evaluator,
        body: Graph,
        gradient: Gradient,
        space: Space,
        shape: GradientShape,
        tile: GradientTile,
    ) -> None:
        self.evaluator, self.body, self.gradient = evaluator, body, gradient
        self.space, self.shape, self.tile = space, shape, tile
        evaluator.names.take(*_NAMES)
        self.m, self.n = Var("m", 0, shape.rows - 1), Var("n", 0, shape.steps - 1)
        self.n_row = Var("n_row", 0, shape.steps - 1)
        self.depths = {node: DotDims.of(node).depth(node.operands[0].type) for node, _ in shape.scores}
        self.widths = dict.fromkeys((*self.depths.values(), *(math.prod(each.widths) for each in gradient.sums)))
        self.products = {each.product: f"sum_{i}" for i, each in enumerate(gradient.sums)}
        evaluator.names.take(*self.products.values(), *(f"d{size}" for size in self.widths))
        self.outer = {v: Var(f"outer_{v.text}", 0, v.high) for v in shape.outer}
        self.over = self._table(self.n)
        self.loop_operand = dict(shape.scores)

    def _table(self, loop: Var) -> dict[Var, Expr]:
        """The dims of the scores in terms of the tile's."""
        shape = self.shape
        batch = ex.delinearize(ex.variable("batch", shape.batch), [v.high + 1 for v in shape.programs])
        found = dict(zip(shape.programs, batch, strict=True)) | {v: along(own) for v, own in self.outer.items()}
        return found | {shape.tile: along(self.m), shape.loop: along(loop)}

    def _wide(self, size: int) -> Var:
        return Var(f"d{size}", 0, size - 1)

    # ---- before the loop

    def head(self) -> None:
        shape, write, let, tile = self.shape, self.evaluator.write, self.evaluator.let, integer("tile")
        blocks = -(-shape.rows // self.tile.m)
        let("tile", self.evaluator.widened(program_id()))
        if shape.batch > 1:
            let("batch", tile // blocks if blocks > 1 else tile, f"  # over {shape.batch}")
        tile_m = tile if shape.batch == 1 else tile % blocks
        let("first", tile_m * "BLOCK_M" if blocks > 1 else integer(0))
        let(
            "m",
            (integer("first") + self.evaluator.widened(lanes("BLOCK_M"))).turned("[:, None]"),
            f"  # over {shape.rows}",
        )
        for size in self.widths:
            let(f"d{size}", self.evaluator.widened(lanes(f"BLOCK_{size}")).turned("[None, :]"), f"  # over {size}")
        for each in self.gradient.sums:
            write(f"{self.products[each.product]} = tl.zeros((BLOCK_M, BLOCK_{math.prod(each.widths)}), tl.float32)")
        self.evaluator.tile.edges = self._edges()

    def _edges(self) -> dict[Var, str]:
        shape, tile = self.shape, self.tile
        found: dict[Var, str] = {self.m: integer("m").below(shape.rows) if shape.rows % tile.m else ""}
        found |= {v: integer(v.text).below(shape.steps) if shape.steps % tile.n else "" for v in (self.n_row, self.n)}
        wide = {self._wide(s): integer(f"d{s}").below(s) if s != power_of_two(s) else "" for s in self.widths}
        return found | wide

    def _score_operand(self, node: Node, number: int, loop: Var) -> tuple[Value, Index, Var]:
        """An operand of a product that is computed again: the value, its index, and the variable over what is summed."""
        over = self._wide(self.depths[node])
        sizes = [node.operands[0].type.sizes[d] for d in DotDims.of(node).contract[0]]
        place = substituted(self.gradient.index[node.result], self._table(loop))
        return node.operands[number], operand_index(node, number, place, ex.delinearize(along(over), sizes)), over

    # ---- the loops

    def sum(self) -> None:
        """Take all steps in, those that the mask leaves out only where they count."""
        for own in self.outer.values():
            self.evaluator.loop(own.text, own.high + 1)
        self.before: dict[Node, str] = {}
        for node, number in self.shape.scores:
            value, index, over = self._score_operand(node, 1 - number, self.n)
            block = ("BLOCK_M", f"BLOCK_{over.high + 1}")
            self.before[node] = operand_tile(self.evaluator, value, index, "x", block, over)
        self._rows_of_tile()
        self._steps()
        for _ in self.outer:
            self.evaluator.close()

    def _rows_of_tile(self) -> None:
        """Read what each row or key of the tile has before the loop."""
        producer, inside = self.evaluator.producer, self.gradient.index
        for value, place in inside.items():
            node = producer.get(value)
            if node is None or value in {n.result for n, _ in self.shape.scores}:
                continue
            index = substituted(place, self.over)
            for operand in node.operands:
                at = () if not operand.type.rank else backward(node, index) if is_index_map(node) else index
                if operand not in inside and not any(self.n in ex.variables(e) for e in at):
                    self.evaluator.value(operand, at)

    def _steps(self) -> None:
        shape, n = self.shape, self.tile.n
        whole, blocks = shape.steps // n, -(-shape.steps // n)
        softmaxed, shift = self._exponent()
        mask = mask_of(self.evaluator, softmaxed, self._place(softmaxed), self.n, self.m)
        if mask is None:
            self._loop(0, whole, softmaxed, True)
            if whole < blocks:
                self._loop(whole, blocks, softmaxed, False)
            return
        write_ends(self.evaluator, mask, self.m, whole, blocks)
        write_low_rows(self.evaluator, mask, *self._row_of(shift), self.n, blocks)
        if mask.inner is softmaxed:
            self._loop("begin", "end", softmaxed, False)
            return
        if mask.least:
            self._loop("begin", "full_begin", softmaxed, False)
        self._loop("full_begin", "full_end", mask.inner, True)
        if mask.most or whole < blocks:
            self._loop("full_end", "end", softmaxed, False)

    def _place(self, value: Value) -> Index:
        return substituted(self.gradient.index[value], self.over)

    def _exponent(self) -> tuple[Value, Value]:
        """The value whose softmax was taken, and what is subtracted from it."""
        node = self.evaluator.producer[self.gradient.first.exponential.operands[0]]
        return node.operands[0], node.operands[1]

    def _row_of(self, shift: Value) -> tuple[Value, Index]:
        """What a value is broadcast from, and its index."""
        value, index = shift, self._place(shift)
        while value in self.gradient.index and (node := self.evaluator.producer.get(value)) and is_index_map(node):
            value, index = node.operands[0], backward(node, index)
        return value, index

    def _loop(self, begin: Operand, end: Operand, softmaxed: Value, is_whole: bool) -> None:
        """Take blocks of steps in.

        Args:
            softmaxed: the value whose softmax was taken, for these steps: without the mask where it holds in all of them.
            is_whole: no block reaches past the last step.
        """
        evaluator, edges = self.evaluator, self.evaluator.tile.edges
        if is_whole:
            evaluator.tile.edges = edges | {self.n: "", self.n_row: ""}
        masked = self._selects() if softmaxed is not self._exponent()[0] else []
        for node in masked:
            identity = {"perm": tuple(range(node.result.type.rank))}
            evaluator.producer[node.result] = Node("transpose", [node.operands[1]], node.results, identity, node.loc)
        evaluator.loop("block", begin, end)
        position = integer("block") * "BLOCK_N" + evaluator.widened(lanes("BLOCK_N"))
        evaluator.let("n", position.turned("[None, :]"))
        evaluator.let("n_row", position.turned("[:, None]"))
        self._step(softmaxed)
        evaluator.close()
        evaluator.producer.update((node.result, node) for node in masked)
        evaluator.tile.edges = edges

    def _selects(self) -> list[Node]:
        """What chooses by the mask of the scores."""
        condition = self.evaluator.producer[self._exponent()[0]].operands[0]
        return [node for node in self.body.nodes if node.op == "select" and node.operands[0] is condition]

    def _step(self, softmaxed: Value) -> None:
        evaluator = self.evaluator
        read: dict[tuple[Value, Index, str], str] = {}

        def tile_of(value: Value, index: Index, over: Var, dtype: str) -> str:
            key = (*source_of(evaluator.producer.get, value, index), dtype)
            if key not in read:
                block = ("BLOCK_N", f"BLOCK_{over.high + 1}")
                read[key] = operand_tile(evaluator, value, index, "y", block, self.n_row, dtype)
            return read[key]

        for each in self.gradient.sums:
            for node in each.products(evaluator.producer.get):
                if node.result not in evaluator.placed:
                    self._multiply_again(node, tile_of)
                    if node is self.gradient.first.scores:
                        self._exponentials(softmaxed)
            self._add(each, tile_of)
        for value in (self.gradient.first.exponential.result, *(node.result for node, _ in self.shape.scores)):
            del evaluator.placed[value]

    def _multiply_again(self, node: Node, tile_of: _TileOf) -> None:
        """A block of a product that a sum needs."""
        evaluator, number = self.evaluator, self.loop_operand[node]
        value, index, over = self._score_operand(node, number, self.n_row)
        other = tile_of(value, index, over, value.type.dtype)
        text = f"tl.dot({self.before[node]}, tl.trans({other}){input_precision(node)})"
        code = Code(evaluator.assign("scores", text), node.result.type.dtype)
        evaluator.placed[node.result] = (self._place(node.result), code)

    def _exponentials(self, softmaxed: Value) -> None:
        """Powers of two, whose argument is one multiplication and subtraction where the scores are only scaled."""
        evaluator, shift = self.evaluator, self._exponent()[1]
        value, factor = factored(evaluator.producer.get, softmaxed, self.gradient.first.scores)
        text = evaluator.value(value, self._place(softmaxed)).text
        low = evaluator.value(shift, self._place(shift)).text
        argument = f"{text} * {factor * LOG2_E!r} - {low} * {LOG2_E!r}" if factor else f"({text} - {low}) * {LOG2_E!r}"
        result = self.gradient.first.exponential.result
        name = evaluator.assign("exponential", f"tl.exp2({argument})")
        evaluator.placed[result] = (self._place(result), Code(name, result.type.dtype))

    def _add(self, each: WeightedSum, tile_of: _TileOf) -> None:
        """Add a block's product to a sum."""
        evaluator, write, dot = self.evaluator, self.evaluator.write, each.product
        weights, other = dot.operands[each.side], dot.operands[1 - each.side]
        index = operand_index(dot, 1 - each.side, each.result, each.keys(self.gradient.index))
        index = substituted(index, self._table(self.n_row) | self._elements(each))
        dtype = narrow(dot, 1 - each.side, evaluator.producer.get).type.dtype
        right = tile_of(other, index, self._wide(math.prod(each.widths)), dtype)
        text = evaluator.value(weights, self._place(weights)).text
        if edge := evaluator.tile.edges[self.n]:
            text = f"tl.where({edge}, {text}, 0.0)"
        name = self.products[dot]
        if dtype == weights.type.dtype:
            text, helpers = rounded(text, dtype)
            for helper in helpers:
                evaluator.helper(helper)
            write(f"{name} = tl.dot({text}, {right}, {name}{input_precision(dot)})")
            return
        whole = evaluator.assign("weights", text)
        high = evaluator.assign("high", f"{whole}.to(tl.bfloat16)")
        write(f"{name} = tl.dot({high}, {right}, {name})")
        write(f"{name} = tl.dot(({whole} - {high}.to(tl.float32)).to(tl.bfloat16), {right}, {name})")

    def _elements(self, each: WeightedSum) -> dict[Var, Expr]:
        """The dims of a sum's elements in terms of the tile's."""
        parts = ex.delinearize(along(self._wide(math.prod(each.widths))), each.widths)
        return {Var(f"e{i}", 0, size - 1): part for i, (size, part) in enumerate(zip(each.widths, parts, strict=True))}

    # ---- after the loop

    def results(self) -> None:
        evaluator = self.evaluator
        for each in self.gradient.sums:
            over, table = self._wide(math.prod(each.widths)), self.over | self._elements(each)
            place, code = (
                substituted(each.result, table),
                Code(self.products[each.product], each.product.result.type.dtype),
            )
            evaluator.placed[each.product.result] = (place, code)
            evaluator.tile.edges = {v: edge for v, edge in self._edges().items() if v in (self.m, over)}
            mine = dependent(each.product.result, self.body)
            for number, value in enumerate(self.body.outputs):
                if value in mine:
                    evaluator.store(number, where(self.space, value, table), (self.m, over))
