"""Gradients of an attention in one pass over what they sum: rows for keys and values, keys for queries.

A program has a tile of results. For each step it multiplies for the scores, applies their function, relative to the log-sum-exp of each row, and adds the
products with what it has computed to its sums. Steps run in order, so results do not depend on the launch. A sum in f32 with an operand that is bf16
in memory is one of two products in bf16: of the weights rounded to it, and of the rest, which leaves 16 bits of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.attention_functions import factored
from meshgen.codegen.emit.attention_mask import write_low_rows
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
    found = attention_in(body, QUERY_GRADIENT) or attention_in(body, KEY_GRADIENT)
    if found is None:
        return None
    node, space = found
    loops = Loops.of(node)
    candidates = gradient_tiles(
        loops.rows, loops.steps, loops.batch, max(loops.depth, loops.width), len(_sums(node, body)),
        multiplied_in(node), device.multiprocessors,
    )  # fmt: skip
    return KernelPlan(ATTENTION_GRADIENT, space, {"composite": node}, candidates)


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel; see the module's text."""
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


class _Sum(NamedTuple):
    """A result, the operand whose rows it sums, and whether their weights are probabilities rather than the gradient of the scores."""

    result: Value
    operand: int
    of_values: bool = False


def _sums(node: Node, body: Graph) -> list[_Sum]:
    """What a kernel sums of the results of a node."""
    found = [_Sum(node.results[0], KEYS if node.op == QUERY_GRADIENT else QUERIES)]
    found += [_Sum(value, GRADIENT, True) for value in node.results[1:]]
    read = {*body.outputs, *(value for inner in body.nodes for value in inner.operands)}
    return [each for each in found if each.result in read]


_TileOf = Callable[[int, str], str]  # reads a tile of an operand by its number, in an element type


class _Gradient(AttentionWriter):
    """State while one kernel is written."""

    def head(self) -> None:
        """Write what comes before all loops."""
        evaluator, is_of_queries = self.evaluator, self.node.op == QUERY_GRADIENT
        self.sums = {each: f"sum_{number}" for number, each in enumerate(_sums(self.node, self.body))}
        self.widths = dict.fromkeys((self.loops.depth, self.loops.width))
        evaluator.names.take(*self.sums.values(), *(f"d{size}" for size in self.widths))
        self.before_loop, self.in_loop = ((QUERIES, GRADIENT), (KEYS, VALUES))[:: 1 if is_of_queries else -1]
        self.start()
        for size in self.widths:
            wide = evaluator.widened(lanes(f"BLOCK_{size}")).turned("[None, :]")
            evaluator.let(f"d{size}", wide, f"  # over {size}")
        for each, name in self.sums.items():
            evaluator.write(f"{name} = tl.zeros((BLOCK_M, BLOCK_{self._wide(each.operand).high + 1}), tl.float32)")
        evaluator.tile.edges = self._edges()

    def _edges(self) -> dict[Var, str]:
        return self.edges({Var(f"d{size}", 0, size - 1): power_of_two(size) for size in self.widths})

    def _wide(self, number: int) -> Var:
        """The variable along the rows of an operand."""
        size = self.loops.depth if number in (QUERIES, KEYS) else self.loops.width
        return Var(f"d{size}", 0, size - 1)

    def _table(self, number: int, table: Table) -> Table:
        """The factors of rows and keys, and those of the rows of an operand."""
        names = self.factors.depth if number in (QUERIES, KEYS) else self.factors.width
        return table | self.loops.table(names, along(self._wide(number)))

    def before_steps(self) -> None:
        """Read what is the same in all steps."""
        self.before = {number: self._tile_before(number) for number in self.before_loop}
        if self.node.op == QUERY_GRADIENT:
            self._row(ROWS)
            self._row(DELTA)
        for region in self.node.regions:
            self.functions.prepare(region, self.n)

    def _tile_before(self, number: int) -> str:
        over, index = self._wide(number), self.index(number, self._table(number, self.by_column))
        block = ("BLOCK_M", f"BLOCK_{over.high + 1}")
        return operand_tile(self.evaluator, self.node.operands[number], index, "x", block, over)

    def _row(self, number: int) -> str:
        """The log-sum-exp of each row, or the sum of the elements of its result times those of their gradient."""
        return self.evaluator.value(self.node.operands[number], self.index(number, self.by_column)).text

    # ---- the loops

    def widen(self, mask: Mask) -> None:
        """Take all blocks in where a row has no score well above the fill."""
        index = self.index(ROWS, self.by_column)
        write_low_rows(self.evaluator, mask, self.node.operands[ROWS], index, self.n, self.blocks)

    def step(self, mask: Mask | None) -> None:
        read: dict[tuple[Value, Index, str], str] = {}

        def tile_of(number: int, dtype: str) -> str:
            value, over = self.node.operands[number], self._wide(number)
            index = self.index(number, self._table(number, self.by_row))
            key = (*source_of(self.evaluator.producer.get, value, index), dtype)
            if key not in read:
                block = ("BLOCK_N", f"BLOCK_{over.high + 1}")
                read[key] = operand_tile(self.evaluator, value, index, "y", block, self.n_row, dtype)
            return read[key]

        score, weight, derivative = (self.functions.inside(region, mask) for region in self.node.regions)
        scores = self._multiplied(0, self.node.attrs.precision, tile_of)
        shares = self._shares(scores, score)
        for each in self.sums:
            if each.of_values:
                self._add(each, self.functions.value(weight, shares), self.node.attrs.value_precision, tile_of)
            else:
                change = self._change(shares, weight, tile_of)
                weights = self.functions.value(derivative, change, scores)
                self._add(each, weights, self.node.attrs.gradient_precision, tile_of)

    def _multiplied(self, number: int, precision: Names, tile_of: _TileOf) -> Code:
        """A block of the product of the operands before the loop and in it with this number."""
        before, inside = self.before_loop[number], self.in_loop[number]
        dtype = self.node.operands[before].type.dtype
        option = precision_option(multiplied(dtype, precision))
        text = f"tl.dot({self.before[before]}, tl.trans({tile_of(inside, dtype)}){option})"
        return Code(self.evaluator.assign("scores", text), "f32")

    def _shares(self, scores: Code, function: Graph) -> Code:
        """Probabilities as powers of two, whose argument is one multiplication and subtraction where the scores are only scaled."""
        factor = 0.0
        if self.node.operands[QUERIES].type.dtype != "f32":
            function, factor = factored(function)
        text, low = self.functions.value(function, scores).text, self._row(ROWS)
        if factor:  # nothing is masked
            argument = f"{text} * {factor * LOG2_E!r} - {low} * {LOG2_E!r}"
        else:
            keys = self.node.attrs.row_keys or self.loops.size(self.factors.keys)
            lost = self.evaluator.assign("lost_sum", f"tl.where({low} < {KEYLESS!r}, {math.log2(max(keys, 1))!r}, 0.0)")
            if self.node.attrs.zero_empty:
                low = self.evaluator.assign("finite", f'tl.where(tl.abs({low}) < float("inf"), {low}, 0.0)')
            argument = f"({text} - {low}) * {LOG2_E!r} - {lost}"
        return Code(self.evaluator.assign("shares", f"tl.exp2({argument})"), "f32")

    def _change(self, shares: Code, weight: Graph, tile_of: _TileOf) -> Code:
        """The gradient of what the softmax is taken of."""
        product = self._multiplied(1, self.node.attrs.value_precision, tile_of)
        last = weight.index.producers.get(weight.outputs[0])
        if last is not None and last.op == "convert":  # the gradient of a rounding is not rounded
            weight = replace(weight, outputs=[last.operands[0]])
        change = self.functions.value(specialized(weight), product).text  # apart from that of the probabilities
        text = f"{shares.text} * ({change} - {self._row(DELTA)})"
        return Code(self.evaluator.assign("change", text), "f32")

    def _add(self, each: _Sum, weights: Code, precision: Names, tile_of: _TileOf) -> None:
        """Add a block's product to a sum."""
        evaluator, write, name = self.evaluator, self.evaluator.write, self.sums[each]
        kind = multiplied(weights.dtype, precision)
        narrow = stored_type(self.node.operands[each.operand], evaluator.producer.get)
        is_split = kind == TF32 and narrow == "bf16"
        right, text = tile_of(each.operand, "bf16" if is_split else weights.dtype), weights.text
        if edge := evaluator.tile.edges[self.n]:
            text = f"tl.where({edge}, {text}, 0.0)"
        if not is_split:
            text, helpers = rounded(text, weights.dtype)
            for helper in helpers:
                evaluator.helper(helper)
            write(f"{name} = tl.dot({text}, {right}, {name}{precision_option(kind)})")
            return
        whole = evaluator.assign("weights", text)
        high = evaluator.assign("high", f"{whole}.to(tl.bfloat16)")
        write(f"{name} = tl.dot({high}, {right}, {name})")
        write(f"{name} = tl.dot(({whole} - {high}.to(tl.float32)).to(tl.bfloat16), {right}, {name})")

    # ---- after the loops

    def results(self) -> None:
        """Write what leaves the kernel."""
        for each, name in self.sums.items():
            over, table = self._wide(each.operand), self._table(each.operand, self.by_column)
            self.place(each.result, name, table)
            self.evaluator.tile.edges = {v: edge for v, edge in self._edges().items() if v in (self.m, over)}
            self.store(self.dependent(each.result), table, (self.m, over))
