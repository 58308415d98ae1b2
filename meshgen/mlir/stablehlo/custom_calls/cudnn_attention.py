"""Import cuDNN's fused attention, as `jax.nn.dot_product_attention(..., implementation="cudnn")` emits it.

    before   %o, %l, %w = custom_call @__cudnn$fmhaSoftmax(%q, %k, %v)
                              {backend_config = "{... mask_type: CAUSAL, fmha_scale: 0.125 ...}"}
    after    %o, %l = attention(%q, %k, %v)
                          {factors = "b t h g d, b s h d, b s h e -> b h g t e, b h g t", positions = [t, s]}

Operands are queries, keys and values, [batch, rows, heads, width] or with heads before rows, then a bias [batch, heads,
rows, keys] and the sequence lengths [batch]. Results are [batch, heads, rows, width], the log-sum-exp of each row and a
workspace. The result of a query beyond the end of its sequence is 0. Dropout, fp8, paged keys and packed sequences are
not supported.

Source: JAX, `jax/_src/cudnn/fused_attention_stablehlo.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import Operation

from meshgen.ir.builder import Builder as GraphBuilder
from meshgen.ir.graph import Graph, TensorType, Value, is_float
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Importer, Refused
from meshgen.ops.factors import FORWARD, KEY_GRADIENT, QUERY_GRADIENT, Names, notation
from meshgen.ops.types.attention import POSITION, STATISTIC

_MASKS = ("NO_MASK", "PADDING", "CAUSAL", "PADDING_CAUSAL")
_LENGTH = "i32"
Spread = tuple[Value, Names]


@dataclass(frozen=True)
class _Config:
    """The parts of the backend configuration of an attention call that meshgen uses.

    Attributes:
        scale: factor of the scores.
        mask: name of cuDNN's mask type, such as CAUSAL.
        window: number of keys that a query attends to, which end at its own position; 0 means all keys.
        heads_first: whether the head dim precedes the row dim in the operands.
    """

    scale: float
    mask: str
    window: int
    heads_first: bool

    @property
    def has_lengths(self) -> bool:
        return "PADDING" in self.mask


def _config_of(operation: Operation) -> _Config:
    try:
        document: Any = json.loads(string_of(operation.properties.get("backend_config")))
        config = document["cudnn_fmha_backend_config"]
        scale, mask = config["fmha_scale"], config["mask_type"]
        window, segments = config.get("sliding_window_length", 0), config.get("max_seg_per_batch", 1)
        side = "grad_gemm1" if "bmm1_grad_gemm1_dot_dimension_numbers" in config else ""
        dims = config[f"bmm{2 if side else 1}{'_grad_gemm2' if side else ''}_dot_dimension_numbers"]
        heads = dims["rhs_batch_dimensions"]
        is_valid = (
            type(scale) in (int, float) and math.isfinite(scale) and type(window) is int and 0 <= window < 1 << 31
        )
        if not is_valid or heads not in (["0", "1"], ["0", "2"]):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise Refused("MG0104", "backend_config is not a valid attention configuration") from error
    if mask not in _MASKS or segments != 1 or config.get("is_paged_attention", False) or config.get("dropout_rate", 0):
        text = f"is supported for masks {', '.join(_MASKS)}, without dropout, paged keys and packed sequences"
        raise Refused("MG0103", text, 'lower the program with implementation="xla"')
    return _Config(float(scale), mask, window, heads == ["0", "1"])


class _Call:
    """The nodes of an attention call or its gradient. Query heads are grouped by the key head that they share.

    Args:
        first: queries, keys and values.
        bias: bias of the scores, or None.
        lengths: lengths of the query sequences and of the key sequences, or nothing if all rows are valid.
    """

    def __init__(self, builder: Builder, config: _Config, first: Sequence[Value], bias: Value | None, lengths: Sequence[Value]) -> None:  # fmt: skip
        self.builder, self.config = builder, config
        heads, row = (1, 2) if config.heads_first else (2, 1)
        shapes = [value.type.shape for value in first]
        if any(len(shape) != 4 or None in shape for shape in shapes) or not all(is_float(v.type.dtype) for v in first):
            raise Refused("MG0104", "needs queries, keys and values of four dims and known sizes, of floats")
        (queries, keys, values) = ([cast("int", n) for n in shape] for shape in shapes)
        groups, remainder = divmod(queries[heads], max(1, keys[heads]))
        are_compatible = queries[0] == keys[0] and queries[3] == keys[3] and keys[:3] == values[:3]
        if remainder or not groups or not are_compatible:
            raise Refused("MG0104", "queries, keys and values do not fit each other")
        self.sizes = {"b": keys[0], "h": keys[heads], "g": groups, "t": queries[row], "s": keys[row], "d": keys[3], "e": values[3]}  # fmt: skip
        self.queries, self.keys, self.values = (
            self.spread(value, self.order(names)) for value, names in zip(first, ("btd", "bsd", "bse"), strict=True)
        )
        self.bias = None if bias is None else self._bias(bias)
        self.lengths = [self.spread(builder.convert(value, _LENGTH), ("b",)) for value in lengths]

    def order(self, names: str) -> Names:
        """Return the factors of queries, keys or values in the order of the call's dims. `names` are batch, row and
        width.
        """
        heads = ("h", "g") if "t" in names else ("h",)
        batch, row, width = names
        return (batch, *heads, row, width) if self.config.heads_first else (batch, row, *heads, width)

    def spread(self, value: Value, names: Names) -> Spread:
        """Return `value` reshaped to one dim per factor in `names`. Raises Refused if it has an unexpected shape."""
        shape = tuple(self.sizes[f] for f in names)
        if value.type.shape != self._call_shape(names):
            raise Refused(
                "MG0104", f"has an operand {value.type}, which must have the shape {[*self._call_shape(names)]}"
            )
        return self.builder.shaped(value, shape), names

    def _call_shape(self, names: Names) -> tuple[int, ...]:
        """Return the shape that a value with the factors `names` has in the call, where all heads form one dim."""
        return tuple(self.sizes[f] * (self.sizes["g"] if f == "h" and "g" in names else 1) for f in names if f != "g")

    def _bias(self, bias: Value) -> Spread:
        """Return the bias without the dims of size 1, along which it is broadcast."""
        full = self._call_shape(("b", "h", "g", "t", "s"))
        if bias.type.rank != 4 or any(
            size not in (1, full_size) for size, full_size in zip(bias.type.shape, full, strict=True)
        ):
            raise Refused("MG0104", f"has a bias {bias.type} for scores {[*full]}")
        names = [("b",), ("h", "g"), ("t",), ("s",)]
        varying = [
            dim_factors
            for dim_factors, size, full_size in zip(names, bias.type.sizes, full, strict=True)
            if size == full_size
        ]
        factors = tuple(f for dim_factors in varying for f in dim_factors)
        return self.builder.shaped(bias, [self.sizes[f] for f in factors]), factors

    # ---- Regions that compute on single scores

    @property
    def elements(self) -> list[Spread]:
        """The operands of which the regions take one element per score: the bias and the lengths."""
        return [*([] if self.bias is None else [self.bias]), *self.lengths]

    @property
    def positions(self) -> tuple[str, ...]:
        return ("t", "s") if self.config.mask != "NO_MASK" or self.config.window else ()

    def region(self, count: int, write: Callable[[GraphBuilder, Sequence[Value]], Value]) -> Graph:
        """Return a region that takes `count` floats, one element of each of `elements`, and the positions of row and
        key.
        """
        kinds = [TensorType((), STATISTIC)] * count + [value.type.with_shape(()) for value, _ in self.elements]
        graph = Graph("region", [Value(kind) for kind in (*kinds, *([POSITION] * len(self.positions)))])
        graph.outputs = [write(GraphBuilder(graph, self.builder.loc), graph.inputs)]
        return graph

    def _score(self, builder: GraphBuilder, args: Sequence[Value]) -> Value:
        score, *arguments = args
        score = builder.elementwise("multiply", score, builder.splat(self.config.scale, score.type))
        if self.bias is not None:
            score = builder.elementwise("add", score, builder.convert(arguments.pop(0), STATISTIC))
        if not self.positions:
            return score
        row, key, tests = arguments[-2], arguments[-1], list[Value]()
        if self.config.has_lengths:
            tests += [builder.compare("LT", row, arguments[0]), builder.compare("LT", key, arguments[1])]
        if "CAUSAL" in self.config.mask:
            tests.append(builder.compare("GE", row, key))
        if self.config.window:
            distance = builder.elementwise("subtract", row, key)
            tests.append(builder.compare("LT", distance, builder.splat(self.config.window, distance.type)))
        is_visible = tests[0]
        for test in tests[1:]:
            is_visible = builder.elementwise("and", is_visible, test)
        return builder.elementwise("select", is_visible, score, builder.splat(-math.inf, score.type))

    def _regions(self) -> tuple[Graph, Graph]:
        value = self.values[0].type.dtype
        return self.region(1, self._score), self.region(1, lambda builder, args: builder.convert(args[0], value))

    # ---- nodes

    def attention(self, results: Sequence[TensorType]) -> list[Value]:
        """Return the result of the attention and the log-sum-exp of each row, with all heads in one dim."""
        out, rows = ("b", "h", "g", "t", "e"), ("b", "h", "g", "t")
        operands = [self.queries, self.keys, self.values, *self.elements]
        return self._emit(FORWARD, operands, [out, rows], [results[0].dtype, STATISTIC], self._regions())

    def gradients(self, rows: Value, out: Value, change: Value) -> list[Value]:
        """Return the gradients of queries, keys and values.

        Args:
            rows: log-sum-exp of each row.
            out: result of the attention.
            change: gradient of the loss with respect to that result.
        """
        operands, regions = self._of_gradient(rows, out, change)
        query, key = self.queries[0].type.dtype, self.keys[0].type.dtype

        def scaled(builder: GraphBuilder, args: Sequence[Value]) -> Value:
            return builder.convert(
                builder.elementwise("multiply", args[0], builder.splat(self.config.scale, args[0].type)), query
            )

        regions = (*regions, self.region(2, scaled))
        of_keys = [("b", "h", "s", "d"), ("b", "h", "s", "e")]
        gradients = self._emit(QUERY_GRADIENT, operands, [("b", "h", "g", "t", "d")], [query], regions)
        return gradients + self._emit(KEY_GRADIENT, operands, of_keys, [key, self.values[0].type.dtype], regions)

    def _of_gradient(self, rows: Value, out: Value, change: Value) -> tuple[list[Spread], tuple[Graph, Graph]]:
        builder, order = self.builder, ("b", "h", "g", "t")
        names = self.order("bte")
        sides = [builder.convert(self.spread(value, names)[0], STATISTIC) for value in (out, change)]
        moved = [builder.permuted(side, [names.index(f) for f in (*order, "e")]) for side in sides]
        kind = TensorType(tuple(self.sizes[f] for f in order), STATISTIC)
        zero = builder.splat(0, TensorType((), STATISTIC))
        delta = builder.emit("reduce", [builder.elementwise("multiply", *moved), zero], kind, kind="add", dims=(4,))
        statistics = [self.spread(rows, order), (delta, order)]
        operands = [self.queries, self.keys, self.values, *statistics, self.spread(change, names), *self.elements]
        return operands, self._regions()

    def _emit(self, op: str, operands: Sequence[Spread], results: Sequence[Names], dtypes: Sequence[str],
              regions: tuple[Graph, ...]) -> list[Value]:  # fmt: skip
        kinds = [TensorType(tuple(self.sizes[f] for f in names), t) for names, t in zip(results, dtypes, strict=True)]
        attrs = {
            "factors": notation([names for _, names in operands], results),
            "positions": self.positions,
            "zero_empty": True,
        }
        values = self.builder.append(op, [value for value, _ in operands], kinds, attrs, regions)
        return [self.builder.shaped(v, self._call_shape(names)) for v, names in zip(values, results, strict=True)]


def _forward(importer: Importer, operation: Operation, has_bias: bool) -> None:
    config, builder = _config_of(operation), Builder(importer, operation)
    operands, results = importer.values(operation.operands), [importer.type(result) for result in operation.results]
    if len(operands) != 3 + has_bias + 2 * config.has_lengths or len(results) not in (2, 3):
        raise Refused("MG0104", f"has {len(operands)} operands and {len(results)} results")
    attended, optional = operands[:3], operands[3:]
    call = _Call(builder, config, attended, optional[0] if has_bias else None, optional[has_bias:])
    _bind(importer, operation, call.attention(results)[: len(results) - 1])


def _backward(importer: Importer, operation: Operation, has_bias: bool) -> None:
    config, builder = _config_of(operation), Builder(importer, operation)
    operands = importer.values(operation.operands)
    if len(operands) != 6 + has_bias + 2 * config.has_lengths or len(operation.results) not in (4, 4 + has_bias):
        raise Refused("MG0104", f"has {len(operands)} operands and {len(operation.results)} results")
    queries, keys, values, rows, change, *optional = operands
    bias = optional.pop(0) if has_bias else None
    out, *lengths = optional
    call = _Call(builder, config, (queries, keys, values), bias, lengths)
    _bind(importer, operation, call.gradients(rows, out, change))


def _bind(importer: Importer, operation: Operation, values: Sequence[Value]) -> None:
    """Bind the results of the call to `values`, and its workspace to zeros. Raises Refused if a type differs."""
    for result, value in zip(operation.results, values, strict=False):
        kind = importer.type(result)
        if kind != value.type:
            raise Refused("MG0104", f"has a result {kind}, which must be {value.type}")
        importer.bind(result, value)
    *gradient_of_bias, workspace = operation.results[len(values) :]
    for gradient in gradient_of_bias:
        if gradient.uses:
            message = "has the gradient of a bias as a result, which is not supported"
            raise Refused("MG0103", message, 'lower the program with implementation="xla"')
        importer.bind(gradient, Value(importer.type(gradient)))
    importer.bind(workspace, Builder(importer, operation).constant(0, importer.type(workspace)))


TARGETS: dict[str, Callable[[Importer, Operation], None]] = {
    "__cudnn$fmhaSoftmax": lambda importer, operation: _forward(importer, operation, has_bias=False),
    "__cudnn$fmhaScaleBiasSoftmax": lambda importer, operation: _forward(importer, operation, has_bias=True),
    "__cudnn$fmhaSoftmaxBackward": lambda importer, operation: _backward(importer, operation, has_bias=False),
    "__cudnn$fmhaScaleBiasSoftmaxBackward": lambda importer, operation: _backward(importer, operation, has_bias=True),
}
