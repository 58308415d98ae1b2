"""Gradients of a fused attention in one pass: over the rows for keys and values, or over the keys for queries.

Each program computes one tile of a result. In each step it recomputes the scores and applies their function,
relative to the log-sum-exp of each row. It then multiplies these weights by a tile of an operand and adds the
result to an accumulator. Steps run in a fixed order, so results do not depend on the launch. An f32 accumulation
whose operand is stored as bf16 takes two bf16 matmuls: one with the weights rounded to bf16, and one with the
rounding errors. Together they use 16 bits of each weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.attention_functions import factored
from meshgen.codegen.emit.attention_mask import widen_bounds_for_low_rows
from meshgen.codegen.emit.attention_operands import LOG2_E, operand_tile, source_of
from meshgen.codegen.emit.attention_writer import AttentionWriter, Table, along, power_of_two
from meshgen.codegen.emit.dot_problem import precision_option
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.attention_bounds import Mask
from meshgen.codegen.fusion.attention_loops import Loops, attention_in, multiplied_in, stored_type
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.specialize import specialized
from meshgen.codegen.index_code import lanes
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.attention import gradient_tiles
from meshgen.ops.factors import (
    DELTA,
    GRADIENT,
    KEY_GRADIENT,
    KEYLESS,
    KEYS,
    QUERIES,
    QUERY_GRADIENT,
    ROWS,
    VALUES,
    Names,
)
from meshgen.ops.precision import TF32, multiplied
from meshgen.ops.triton.registers import Code, rounded


def _match(body: Graph, device: Device) -> KernelPlan | None:
    matched = attention_in(body, QUERY_GRADIENT) or attention_in(body, KEY_GRADIENT)
    if matched is None:
        return None
    node, space = matched
    loops = Loops.of(node)
    candidates = gradient_tiles(
        loops.rows, loops.steps, loops.batch, max(loops.depth, loops.width), len(_accumulators(node, body)),
        multiplied_in(node), device.multiprocessors,
    )  # fmt: skip
    return KernelPlan(ATTENTION_GRADIENT, space, {"composite": node}, candidates)


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel and return its launch parameters."""
    del device
    node = plan.roles["composite"]
    assert isinstance(node, Node), "it was matched"
    loops = Loops.of(node)
    outer = {name: Var(f"outer_{name}", 0, loops.factors.sizes[name] - 1) for name in loops.outer}
    writer = _Gradient(evaluator, body, plan, {name: along(var) for name, var in outer.items()})
    writer.head()
    for var in outer.values():
        evaluator.loop(var.text, var.high + 1)
    writer.before_steps()
    writer.sum(writer.widen)
    for _ in outer:
        evaluator.close()
    writer.results()
    return writer.launch({f"BLOCK_{size}": size for size in writer.widths})


ATTENTION_GRADIENT = Template("attention-gradient", _match, _emit, KernelForm.ATTENTION, fuses=False)


class _Accumulator(NamedTuple):
    """An accumulator of the gradient kernel, which sums operand rows weighted by probabilities or score gradients.

    Attributes:
        result: the result of the op that is accumulated.
        operand: index of the operand whose rows are summed.
        weighted_by_probabilities: whether the weights are probabilities instead of score gradients.
    """

    result: Value
    operand: int
    weighted_by_probabilities: bool = False


def _accumulators(node: Node, body: Graph) -> list[_Accumulator]:
    """Return the accumulators of those results of `node` that the kernel uses."""
    accumulators = [_Accumulator(node.results[0], KEYS if node.op == QUERY_GRADIENT else QUERIES)]
    accumulators += [_Accumulator(value, GRADIENT, True) for value in node.results[1:]]
    used = {*body.outputs, *(value for inner in body.nodes for value in inner.operands)}
    return [accumulator for accumulator in accumulators if accumulator.result in used]


_TileOf = Callable[[int, str], str]  # returns the tile of an operand, given the operand's index and a dtype


class _Gradient(AttentionWriter):
    """Writer of the source of one attention-gradient kernel."""

    def head(self) -> None:
        """Write the code before all loops, and set the accumulators to zero."""
        evaluator, is_of_queries = self.evaluator, self.node.op == QUERY_GRADIENT
        self.sums = {accumulator: f"sum_{i}" for i, accumulator in enumerate(_accumulators(self.node, self.body))}
        self.widths = dict.fromkeys((self.loops.depth, self.loops.width))
        evaluator.names.take(*self.sums.values(), *(f"d{size}" for size in self.widths))
        self.before_loop, self.in_loop = ((QUERIES, GRADIENT), (KEYS, VALUES))[:: 1 if is_of_queries else -1]
        self.start()
        for size in self.widths:
            wide = evaluator.widened(lanes(f"BLOCK_{size}")).turned("[None, :]")
            evaluator.let(f"d{size}", wide, f"  # over {size}")
        for accumulator, name in self.sums.items():
            evaluator.write(
                f"{name} = tl.zeros((BLOCK_M, BLOCK_{self._feature_var(accumulator.operand).high + 1}), tl.float32)"
            )
        evaluator.tile.edges = self._edges()

    def _edges(self) -> dict[Var, str]:
        return self.edges({Var(f"d{size}", 0, size - 1): power_of_two(size) for size in self.widths})

    def _feature_var(self, operand_index: int) -> Var:
        """Return the tile variable over the features of operand `operand_index`."""
        size = self.loops.depth if operand_index in (QUERIES, KEYS) else self.loops.width
        return Var(f"d{size}", 0, size - 1)

    def _table(self, operand_index: int, table: Table) -> Table:
        """Return `table` extended with the index expressions of the feature factors of operand `operand_index`."""
        names = self.factors.depth if operand_index in (QUERIES, KEYS) else self.factors.width
        return table | self.loops.table(names, along(self._feature_var(operand_index)))

    def before_steps(self) -> None:
        """Load the tiles and elements that are the same in all steps."""
        self.before = {operand_index: self._tile_before(operand_index) for operand_index in self.before_loop}
        if self.node.op == QUERY_GRADIENT:
            self._row_statistic(ROWS)
            self._row_statistic(DELTA)
        for region in self.node.regions:
            self.functions.prepare(region, self.n)

    def _tile_before(self, operand_index: int) -> str:
        feature, index = (
            self._feature_var(operand_index),
            self.index(operand_index, self._table(operand_index, self.by_column)),
        )
        block = ("BLOCK_M", f"BLOCK_{feature.high + 1}")
        return operand_tile(self.evaluator, self.node.operands[operand_index], index, "x", block, feature)

    def _row_statistic(self, operand_index: int) -> str:
        """Return a register with one number per row.

        `operand_index` is ROWS for the log-sum-exp of each row, or DELTA for the dot product of each result row with
        the gradient of this row.
        """
        return self.evaluator.value(self.node.operands[operand_index], self.index(operand_index, self.by_column)).text

    # ---- the loops

    def widen(self, mask: Mask) -> None:
        """Extend the loop bounds to all blocks if some row of the tile has no score well above the mask's fill value."""
        index = self.index(ROWS, self.by_column)
        widen_bounds_for_low_rows(self.evaluator, mask, self.node.operands[ROWS], index, self.n, self.blocks)

    def step(self, mask: Mask | None) -> None:
        tiles: dict[tuple[Value, Index, str], str] = {}

        def tile_of(operand_index: int, dtype: str) -> str:
            value, over = self.node.operands[operand_index], self._feature_var(operand_index)
            index = self.index(operand_index, self._table(operand_index, self.by_row))
            key = (*source_of(self.evaluator.producer.get, value, index), dtype)
            if key not in tiles:
                block = ("BLOCK_N", f"BLOCK_{over.high + 1}")
                tiles[key] = operand_tile(self.evaluator, value, index, "y", block, self.n_row, dtype)
            return tiles[key]

        score, weight, derivative = (self.functions.inside(region, mask) for region in self.node.regions)
        scores = self._matmul_block(0, self.node.attrs.precision, tile_of)
        probabilities = self._probabilities(scores, score)
        for accumulator in self.sums:
            if accumulator.weighted_by_probabilities:
                self._add(
                    accumulator, self.functions.value(weight, probabilities), self.node.attrs.value_precision, tile_of
                )
            else:
                score_gradient = self._score_gradient(probabilities, weight, tile_of)
                weights = self.functions.value(derivative, score_gradient, scores)
                self._add(accumulator, weights, self.node.attrs.gradient_precision, tile_of)

    def _matmul_block(self, pair: int, precision: Names, tile_of: _TileOf) -> Code:
        """Return a block of the matmul of an operand loaded before the loop with its partner loaded in the loop."""
        before, inside = self.before_loop[pair], self.in_loop[pair]
        dtype = self.node.operands[before].type.dtype
        option = precision_option(multiplied(dtype, precision))
        text = f"tl.dot({self.before[before]}, tl.trans({tile_of(inside, dtype)}){option})"
        return Code(self.evaluator.assign("scores", text), "f32")

    def _probabilities(self, scores: Code, function: Graph) -> Code:
        """Return the block's probabilities, computed as powers of two.

        If the score function only scales, the exponent takes only one multiplication and one subtraction.
        """
        factor = 0.0
        if self.node.operands[QUERIES].type.dtype != "f32":
            function, factor = factored(function)
        text, low = self.functions.value(function, scores).text, self._row_statistic(ROWS)
        if factor:  # The score function only scales, so no row is fully masked.
            argument = f"{text} * {factor * LOG2_E!r} - {low} * {LOG2_E!r}"
        else:
            keys = self.node.attrs.row_keys or self.loops.size(self.factors.keys)
            lost = self.evaluator.assign("lost_sum", f"tl.where({low} < {KEYLESS!r}, {math.log2(max(keys, 1))!r}, 0.0)")
            if self.node.attrs.zero_empty:
                low = self.evaluator.assign("finite", f'tl.where(tl.abs({low}) < float("inf"), {low}, 0.0)')
            argument = f"({text} - {low}) * {LOG2_E!r} - {lost}"
        return Code(self.evaluator.assign("shares", f"tl.exp2({argument})"), "f32")

    def _score_gradient(self, probabilities: Code, weight: Graph, tile_of: _TileOf) -> Code:
        """Return the gradient of the scores, which are the input of the softmax."""
        weight_gradient = self._matmul_block(1, self.node.attrs.value_precision, tile_of)
        last_node = weight.index.producers.get(weight.outputs[0])
        # The derivative of a rounding is 1, so the gradient passes unchanged.
        if last_node is not None and last_node.op == "convert":
            weight = replace(weight, outputs=[last_node.operands[0]])
        # Copy `weight`, because its values already have registers from the evaluation on the probabilities.
        change = self.functions.value(specialized(weight), weight_gradient).text
        text = f"{probabilities.text} * ({change} - {self._row_statistic(DELTA)})"
        return Code(self.evaluator.assign("change", text), "f32")

    def _add(self, accumulator: _Accumulator, weights: Code, precision: Names, tile_of: _TileOf) -> None:
        """Multiply a block of weights by the operand of `accumulator`, and add the result to it."""
        evaluator, write, name = self.evaluator, self.evaluator.write, self.sums[accumulator]
        matmul_dtype = multiplied(weights.dtype, precision)
        stored_dtype = stored_type(self.node.operands[accumulator.operand], evaluator.producer.get)
        is_split = matmul_dtype == TF32 and stored_dtype == "bf16"
        right, text = tile_of(accumulator.operand, "bf16" if is_split else weights.dtype), weights.text
        if edge := evaluator.tile.edges[self.n]:
            text = f"tl.where({edge}, {text}, 0.0)"
        if not is_split:
            text, helpers = rounded(text, weights.dtype)
            for helper in helpers:
                evaluator.helper(helper)
            write(f"{name} = tl.dot({text}, {right}, {name}{precision_option(matmul_dtype)})")
            return
        full_weights = evaluator.assign("weights", text)
        high = evaluator.assign("high", f"{full_weights}.to(tl.bfloat16)")
        write(f"{name} = tl.dot({high}, {right}, {name})")
        write(f"{name} = tl.dot(({full_weights} - {high}.to(tl.float32)).to(tl.bfloat16), {right}, {name})")

    # ---- after the loops

    def results(self) -> None:
        """Store the accumulators and the outputs that depend on them."""
        for accumulator, name in self.sums.items():
            feature, table = self._feature_var(accumulator.operand), self._table(accumulator.operand, self.by_column)
            self.place(accumulator.result, name, table)
            self.evaluator.tile.edges = {v: edge for v, edge in self._edges().items() if v in (self.m, feature)}
            self.store(self.dependent(accumulator.result), table, (self.m, feature))
