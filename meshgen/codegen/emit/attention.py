"""Attention in one pass over the keys: the online softmax.

A program has a tile of rows. For each step of keys it multiplies, applies the function of the scores (scale, mask, bias),
and keeps per row the largest score so far, the sum of exponentials relative to it, and the sum of values weighted by them. All three are
rescaled when the maximum grows. Steps run in order, so results do not depend on the launch.
"""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.attention_mask import write_ends
from meshgen.codegen.emit.attention_operands import (
    LOG2_E,
    along,
    dependent,
    factored,
    input_precision,
    operand_tile,
    power_of_two,
)
from meshgen.codegen.emit.attention_shape import Shape, attention_in, shape_of, value_dims
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, where
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention import Attention
from meshgen.codegen.fusion.attention_indices import operand_index, places, query_side
from meshgen.codegen.fusion.attention_mask import Mask, mask_of
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.index_code import Operand, integer, lanes, minimum, program_id
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.attention import AttentionTile, tiles
from meshgen.ops.classes import EXPENSIVE
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.triton.registers import Code, both, rounded

_NAMES = (  # of variables, beside those of all templates
    "last", "begin", "end", "whole", "full_begin", "full_end", "is_low", "high", "higher", "shift", "weights", "rescale",
    "total", "d_col", "d_row", "e", "n_row", "block",
)  # fmt: skip


def _match(body: Graph, device: Device) -> KernelPlan | None:
    found = attention_in(body)
    if found is None:
        return None
    attention, space = found
    shape = shape_of(attention, body.index.producers)
    candidates = tiles(
        shape.rows, shape.batch, shape.keys, max(shape.depth, shape.width), attention.multiplied, device.architecture,
        device.multiprocessors, is_heavy=any(n.op in EXPENSIVE for n in attention.function),
    )  # fmt: skip
    names = ("scores", "maximum", "exponential", "total", "product")
    return KernelPlan(ATTENTION, space, {name: getattr(attention, name) for name in names}, candidates)


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel; see the module's text."""
    del device
    found = attention_in(body)
    assert found is not None and plan.space is not None, "it was matched"
    attention, tile = found[0], plan.candidates[0]
    shape = shape_of(attention, evaluator.producer)
    emitter = _Attention(evaluator, body, attention, plan.space, shape, tile)
    emitter.head()
    emitter.steps()
    emitter.results()
    constants = {
        "BLOCK_M": tile.m,
        "BLOCK_N": tile.n,
        "BLOCK_D": power_of_two(shape.depth),
        "BLOCK_E": power_of_two(shape.width),
    }
    return Launch((-(-shape.rows // tile.m) * shape.batch, 1, 1), constants, tile.num_warps, tile.num_stages)


ATTENTION = Template("attention", _match, _emit, KernelForm.ATTENTION)


class _Attention:
    """State while one kernel is written."""

    def __init__(
        self, evaluator: Evaluator, body: Graph, attention: Attention, space: Space, shape: Shape, tile: AttentionTile
    ) -> None:
        self.evaluator, self.body, self.attention = evaluator, body, attention
        self.space, self.shape, self.tile = space, shape, tile
        evaluator.names.take(*_NAMES)
        self.m, self.n, self.n_row = (
            Var("m", 0, shape.rows - 1),
            Var("n", 0, shape.keys - 1),
            Var("n_row", 0, shape.keys - 1),
        )
        self.d_col, self.d_row = Var("d_col", 0, shape.depth - 1), Var("d_row", 0, shape.depth - 1)
        self.e = Var("e", 0, shape.width - 1)
        self.result = self._result_index()
        placed = places(attention, evaluator.producer.get, self.result, along(self.n))
        assert placed is not None, "it was matched"
        self.placed = placed
        side = query_side(attention, placed[attention.scores.result], along(self.n))
        assert side is not None, "it was matched"
        self.query = side

    def _result_index(self) -> Index:
        product = self.attention.product
        found = [ex.ZERO] * product.result.type.rank
        values = tuple((d, product.result.type.sizes[d], 1) for d in value_dims(product, self.attention.side))
        batch = ex.variable("batch", self.shape.batch)
        for parts, position in (
            (self.shape.outer, batch),
            (self.shape.inner, along(self.m)),
            (values, along(self.e)),
        ):
            for (d, _, step), part in zip(parts, ex.delinearize(position, [size for _, size, _ in parts]), strict=True):
                found[d] += part * step
        return tuple(found)

    # ---- before the loop

    def head(self) -> None:
        shape, write, let, tile = self.shape, self.evaluator.write, self.evaluator.let, integer("tile")
        blocks = -(-shape.rows // self.tile.m)
        let("tile", self.evaluator.widened(program_id()))
        tile_m = tile if shape.batch == 1 else tile % blocks
        if shape.batch > 1:
            let("batch", tile // blocks if blocks > 1 else tile, f"  # over {shape.batch}")
        let("first", tile_m * "BLOCK_M" if blocks > 1 else integer(0))
        let(
            "m",
            (integer("first") + self.evaluator.widened(lanes("BLOCK_M"))).turned("[:, None]"),
            f"  # over {shape.rows}",
        )
        for name, block, size in (("d", "BLOCK_D", shape.depth), ("e", "BLOCK_E", shape.width)):
            if name == "d":
                let("d_col", self.evaluator.widened(lanes(block)).turned("[None, :]"), f"  # over {size}")
                let("d_row", self.evaluator.widened(lanes(block)).turned("[:, None]"))
            else:
                let("e", self.evaluator.widened(lanes(block)).turned("[None, :]"), f"  # over {size}")
        self.evaluator.tile.edges = self._edges()
        self.queries = self._operand(self.attention.scores, self.query, "q", ("BLOCK_M", "BLOCK_D"), self.d_col)
        write("acc = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)")
        write('high = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)')
        write("total = tl.zeros((BLOCK_M, 1), tl.float32)")

    def _edges(self) -> dict[Var, str]:
        shape, tile = self.shape, self.tile

        def edge(var: Var, size: int, block: int) -> str:
            return integer(var.text).below(size) if size % block else ""

        depth, width = power_of_two(shape.depth), power_of_two(shape.width)
        return {
            self.m: edge(self.m, shape.rows, tile.m), self.n_row: edge(self.n_row, shape.keys, tile.n),
            self.d_row: edge(self.d_row, shape.depth, depth), self.d_col: edge(self.d_col, shape.depth, depth),
            self.n: edge(self.n, shape.keys, tile.n), self.e: edge(self.e, shape.width, width),
        }  # fmt: skip

    # ---- operands of products

    def _operand(self, dot: Node, number: int, name: str, block: tuple[str, str], summed: Var) -> str:
        """A tile of a dot's operand in the type that is multiplied; 0 where `summed` is past its end."""
        return operand_tile(
            self.evaluator, dot.operands[number], self._operand_index(dot, number, summed), name, block, summed
        )

    def _operand_index(self, dot: Node, number: int, summed: Var) -> Index:
        dims = DotDims.of(dot).contract[number]
        parts = ex.delinearize(along(summed), [dot.operands[number].type.sizes[d] for d in dims])
        return operand_index(dot, number, self.placed[dot.result], parts)

    # ---- the loops

    def steps(self) -> None:
        """Take all keys in, those that the mask leaves out only where they count."""
        attention, shape, n = self.attention, self.shape, self.tile.n
        whole, blocks = shape.keys // n, -(-shape.keys // n)
        index = self.placed[attention.softmaxed]
        mask = mask_of(self.evaluator, attention.softmaxed, index, self.n, self.m)
        if mask is None:
            if whole:
                self._loop(0, whole, attention.softmaxed, True)
            if whole < blocks:
                self._loop(whole, blocks, attention.softmaxed, False)
            return
        write_ends(self.evaluator, mask, self.m, whole, blocks)
        if mask.inner is attention.softmaxed:
            self._loop("begin", "end", attention.softmaxed, False)
        else:
            if mask.least:
                self._loop("begin", "full_begin", attention.softmaxed, False)
            self._loop("full_begin", "full_end", mask.inner, True)
            self._loop("full_end", "end", attention.softmaxed, False)
        if mask.fill != -math.inf:
            self._rest(mask, blocks)

    def _rest(self, mask: Mask, blocks: int) -> None:
        """Take in what the mask leaves out where a row has no score well above the fill."""
        is_low = both([f"high <= {mask.limit!r}", *filter(None, [self.evaluator.tile.edges[self.m]])])
        low_rows = integer("is_low") * blocks
        self.evaluator.let("is_low", integer(f"tl.max(tl.max(tl.where({is_low}, 1, 0), 1), 0)").to("tl.int32"))
        if mask.least:
            self._loop(0, minimum(low_rows, "begin"), self.attention.softmaxed, False)
        if mask.most:
            self._loop("end", minimum(integer("end") + low_rows, blocks), self.attention.softmaxed, False)

    def _loop(self, begin: Operand, end: Operand, softmaxed: Value, is_whole: bool) -> None:
        """Take blocks of keys in.

        Args:
            softmaxed: the value whose softmax is taken, for these keys.
            is_whole: no block reaches past the last key.
        """
        evaluator, attention, write = self.evaluator, self.attention, self.evaluator.write
        edges = evaluator.tile.edges
        if is_whole:
            evaluator.tile.edges = edges | {self.n: "", self.n_row: ""}
        evaluator.loop("block", begin, end)
        position = integer("block") * "BLOCK_N" + evaluator.widened(lanes("BLOCK_N"))
        evaluator.let("n", position.turned("[None, :]"))
        evaluator.let("n_row", position.turned("[:, None]"))
        keys = self._operand(attention.scores, 1 - self.query, "k", ("BLOCK_D", "BLOCK_N"), self.d_row)
        product = f"tl.dot({self.queries}, {keys}{input_precision(attention.scores)})"
        name = evaluator.assign("scores", product)
        self._place(attention.scores.result, name)
        self._weigh(softmaxed)
        weights = self._probabilities()
        values = self._operand(attention.product, 1 - attention.side, "v", ("BLOCK_N", "BLOCK_E"), self.n_row)
        write(f"acc = tl.dot({weights}, {values}, acc * rescale{input_precision(attention.product)})")
        write("high = higher")
        evaluator.close()
        evaluator.tile.edges = edges

    def _weigh(self, softmaxed: Value) -> None:
        """The exponentials of this step's scores relative to the maximum so far, and the sums of them."""
        evaluator, write = self.evaluator, self.evaluator.write
        value, factor = factored(evaluator.producer.get, softmaxed, self.attention.scores)
        text = evaluator.value(value, self.placed[self.attention.softmaxed]).text
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

    def _probabilities(self) -> str:
        """What is multiplied with the values, not yet divided by the sums."""
        evaluator, attention = self.evaluator, self.attention
        self._place(attention.exponential.result, "weights")
        for node, number in reversed(attention.scales):  # done after the loop
            inner = node.operands[number]
            evaluator.placed[node.result] = (self.placed[node.result], evaluator.value(inner, self.placed[inner]))
        probabilities = attention.product.operands[attention.side]
        text = evaluator.value(probabilities, self.placed[probabilities]).text
        text, helpers = rounded(text, probabilities.type.dtype)
        for helper in helpers:
            evaluator.helper(helper)
        return text

    def _place(self, value: Value, text: str) -> None:
        self.evaluator.placed[value] = (self.placed[value], Code(text, value.type.dtype))

    # ---- after the loop

    def results(self) -> None:
        """Divide by the sums, and write what leaves the kernel."""
        evaluator, attention, write = self.evaluator, self.attention, self.evaluator.write
        for value in (
            attention.exponential.result,
            attention.scores.result,
            *(node.result for node, _ in attention.scales),
        ):
            del evaluator.placed[value]
        if not attention.keeps_empty:
            write('total = tl.where(high == float("-inf"), float("nan"), total)')
        self._place(attention.maximum.result, "high")
        self._place(attention.total.result, "total")
        for node, number in reversed(attention.scales):
            value = node.operands[1 - number]
            code = evaluator.value(value, self.placed[value])
            write(f"acc = acc {'/' if node.op == 'divide' else '*'} {code.text}")
        self._place(attention.product.result, "acc")
        evaluator.tile.edges = {v: edge for v, edge in evaluator.tile.edges.items() if v in (self.m, self.e)}
        table = self._table()
        of_product = dependent(attention.product.result, self.body)
        for number, value in enumerate(self.body.outputs):
            span = (self.m, self.e) if value in of_product else (self.m,)
            evaluator.store(number, where(self.space, value, table), span)

    def _table(self) -> dict[Var, Expr]:
        """The space's variables (dims of the product's result) in terms of the tile's."""
        pairs = zip(self.space.index[self.attention.product.result], self.result, strict=True)
        return {v: position for e, position in pairs for v in ex.variables(e)}
