"""Fused attention (online softmax): one kernel that makes a single pass over the keys.

Each program computes one tile of query rows. In each step over a block of keys it computes the scores and applies
the score function (scale, mask, bias). It then updates three accumulators per row: the largest score so far, the
sum of exponentials relative to it, and the value rows weighted by these exponentials. When the maximum grows, it
rescales both sums. Steps run in a fixed order, so results do not depend on the launch.
"""

from __future__ import annotations

import math

from meshgen.codegen.emit.attention_functions import factored
from meshgen.codegen.emit.attention_operands import LOG2_E, operand_tile
from meshgen.codegen.emit.attention_writer import AttentionWriter, Table, along, power_of_two
from meshgen.codegen.emit.dot_problem import precision_option
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.attention_bounds import Mask
from meshgen.codegen.fusion.attention_loops import Loops, attention_in, multiplied_in
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import integer, lanes, minimum
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
from meshgen.kernels.attention import tiles
from meshgen.ops.classes import EXPENSIVE
from meshgen.ops.factors import FORWARD, KEYS, QUERIES, VALUES, Names
from meshgen.ops.precision import multiplied
from meshgen.ops.triton.registers import Code, both, rounded

# Names of the variables in the generated source of this template.
_NAMES = ("high", "higher", "shift", "weights", "rescale", "total", "d_col", "d_row", "e", "rows_sum")


def _match(body: Graph, device: Device) -> KernelPlan | None:
    matched = attention_in(body, FORWARD)
    if matched is None:
        return None
    node, space = matched
    loops = Loops.of(node)
    candidates = tiles(
        loops.rows, loops.batch, loops.steps, max(loops.depth, loops.width), multiplied_in(node), device.architecture,
        device.multiprocessors, is_heavy=any(inner.op in EXPENSIVE for inner in node.regions[0].nodes),
    )  # fmt: skip
    return KernelPlan(ATTENTION, space, {"composite": node}, candidates)


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the attention kernel and return its launch parameters."""
    del device
    writer = _Attention(evaluator, body, plan, {})
    writer.head()
    if (mask := writer.sum()) is not None:
        writer.visit_masked_blocks(mask)
    writer.results()
    return writer.launch({"BLOCK_D": writer.loops.depth, "BLOCK_E": writer.loops.width})


ATTENTION = Template("attention", _match, _emit, KernelForm.ATTENTION)


class _Attention(AttentionWriter):
    """Writer of the source of one attention kernel."""

    def head(self) -> None:
        """Write the prologue: the feature indices, the tile of queries and zeroed accumulators."""
        evaluator, loops, let, write = self.evaluator, self.loops, self.evaluator.let, self.evaluator.write
        evaluator.names.take(*_NAMES)
        self.d_col, self.d_row = (Var(name, 0, loops.depth - 1) for name in ("d_col", "d_row"))
        self.e = Var("e", 0, loops.width - 1)
        self.elements = loops.table(self.factors.width, along(self.e))
        self.start()
        let("d_col", evaluator.widened(lanes("BLOCK_D")).turned("[None, :]"), f"  # over {loops.depth}")
        let("d_row", evaluator.widened(lanes("BLOCK_D")).turned("[:, None]"))
        let("e", evaluator.widened(lanes("BLOCK_E")).turned("[None, :]"), f"  # over {loops.width}")
        depth = power_of_two(loops.depth)
        evaluator.tile.edges = self.edges({self.d_row: depth, self.d_col: depth, self.e: power_of_two(loops.width)})
        table = self.by_column | loops.table(self.factors.depth, along(self.d_col))
        self.queries = self._operand_tile(QUERIES, table, "q", ("BLOCK_M", "BLOCK_D"), self.d_col)
        for region in self.node.regions:
            self.functions.prepare(region, self.n)
        write("acc = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)")
        write('high = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)')
        write("total = tl.zeros((BLOCK_M, 1), tl.float32)")

    def _operand_tile(self, operand_index: int, table: Table, name: str, block: tuple[str, str], summed: Var) -> str:
        """Return a register tile of operand `operand_index`, converted to the matmul dtype. Elements past the end of
        the contracted variable `summed` are 0.
        """
        return operand_tile(
            self.evaluator, self.node.operands[operand_index], self.index(operand_index, table), name, block, summed
        )

    # ---- the loops

    def visit_masked_blocks(self, mask: Mask) -> None:
        """Write loops over the masked-out blocks too, for tiles in which some row has no score well above the mask's
        fill value.
        """
        if mask.fill == -math.inf:
            return
        is_low = both([f"high <= {mask.limit!r}", *filter(None, [self.evaluator.tile.edges[self.m]])])
        low_rows = integer("is_low") * self.blocks
        self.evaluator.let("is_low", integer(f"tl.max(tl.max(tl.where({is_low}, 1, 0), 1), 0)").to("tl.int32"))
        if mask.least:
            self.loop(0, minimum(low_rows, "begin"))
        if mask.most:
            self.loop("end", minimum(integer("end") + low_rows, self.blocks))

    def step(self, mask: Mask | None) -> None:
        evaluator, write, node, (score, weight) = self.evaluator, self.evaluator.write, self.node, self.node.regions
        table = self.by_column | self.loops.table(self.factors.depth, along(self.d_row))
        keys = self._operand_tile(KEYS, table, "k", ("BLOCK_D", "BLOCK_N"), self.d_row)
        scores = f"tl.dot({self.queries}, {keys}{self._precision(QUERIES, node.attrs.precision)})"
        self._update_softmax(Code(evaluator.assign("scores", scores), "f32"), self.functions.inside(score, mask))
        weights = self._unnormalized_weights(self.functions.inside(weight, mask))
        values = self._operand_tile(VALUES, self.by_row | self.elements, "v", ("BLOCK_N", "BLOCK_E"), self.n_row)
        write(f"acc = tl.dot({weights}, {values}, acc * rescale{self._precision(VALUES, node.attrs.value_precision)})")
        write("high = higher")

    def _precision(self, operand_index: int, words: Names) -> str:
        return precision_option(multiplied(self.node.operands[operand_index].type.dtype, words))

    def _update_softmax(self, scores: Code, function: Graph) -> None:
        """Write the exponentials of this step's scores relative to the running row maximum, and add the exponentials to
        the running row sums.
        """
        evaluator, write = self.evaluator, self.evaluator.write
        factor = 0.0
        if self.node.operands[QUERIES].type.dtype != "f32":
            function, factor = factored(function)
        text = self.functions.value(function, scores).text
        if edge := evaluator.tile.edges[self.n]:
            text = evaluator.assign("inside", f'tl.where({edge}, {text}, float("-inf"))')
        write(f"higher = tl.maximum(high, tl.max({text}, 1)[:, None]{f' * {factor!r}' if factor else ''})")
        write('shift = tl.where(higher == float("-inf"), 0.0, higher)  # a row without a score yet')
        if factor:
            write(f"weights = tl.exp2({text} * {factor * LOG2_E!r} - shift * {LOG2_E!r})")
        else:
            write(f"weights = tl.exp2(({text} - shift) * {LOG2_E!r})")
        write(f"rescale = tl.exp2((high - shift) * {LOG2_E!r})")
        write("total = total * rescale + tl.sum(weights, 1)[:, None]")

    def _unnormalized_weights(self, function: Graph) -> str:
        """Apply the weight function `function` to the exponentials of this step, and return the result in the dtype of
        the values.

        The weights are not yet divided by the softmax sum. Because the weight function is linear, the kernel may divide
        the attention result instead.
        """
        text = self.functions.value(function, Code("weights", "f32")).text
        text, helpers = rounded(text, self.node.operands[VALUES].type.dtype)
        for helper in helpers:
            self.evaluator.helper(helper)
        return text

    # ---- after the loops

    def results(self) -> None:
        """Divide the accumulators by the softmax sums, and store the outputs."""
        evaluator, write, (out, rows) = self.evaluator, self.evaluator.write, self.node.results
        if self.node.attrs.zero_empty:
            write("acc = acc / tl.where(total == 0.0, 1.0, total)")
        else:
            write('total = tl.where(high == float("-inf"), float("nan"), total)')
            write("acc = acc / total")
        table = self.by_column | self.elements
        self.place(out, "acc", table)
        if len(self.dependent(rows)) > 1 or rows in self.body.outputs:
            write("rows_sum = high + tl.log(total)")
            self.place(rows, "rows_sum", table)
        evaluator.tile.edges = {v: edge for v, edge in evaluator.tile.edges.items() if v in (self.m, self.e)}
        wide = self.dependent(out)
        self.store(wide, table, (self.m, self.e))
        self.store({*self.body.outputs} - wide, table, (self.m,))
