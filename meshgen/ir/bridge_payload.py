"""Element-wise operations of arith, math, linalg and tosa on values of the graph.

The same functions serve whole tensors and the scalars of a `linalg` body: there every scalar is a tensor over
the iteration space, or a 0-d one, which is broadcast where it meets the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, StringAttr
from xdsl.dialects.builtin import TensorType as TextType
from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.ir.bridge import Importer
from meshgen.ir.dense import DenseElements
from meshgen.ir.graph import DTYPES, TensorType, Value

LAZY = "lazy"  # attribute of nodes that are dropped again where nothing uses them
MOVEMENT = ("constant", "broadcast_in_dim", "convert", "reshape", "transpose", "iota", "bitcast_convert")
UNARY = {
    "negf": "negate", "absf": "abs", "absi": "abs", "abs": "abs", "exp": "exponential", "log": "log", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "cbrt": "cbrt", "tanh": "tanh", "sin": "sine", "cos": "cosine", "tan": "tan", "floor": "floor",
    "ceil": "ceil", "erf": "erf", "expm1": "exponential_minus_one", "log1p": "log_plus_one", "ctpop": "popcnt",
    "ctlz": "count_leading_zeros", "roundeven": "round_nearest_even", "round": "round_nearest_afz",
    "sigmoid": "logistic", "negate": "negate", "logical_not": "not", "identity": "",
}  # fmt: skip
BINARY = {
    "addf": "add", "addi": "add", "add": "add", "subf": "subtract", "subi": "subtract", "sub": "subtract",
    "mulf": "multiply", "muli": "multiply", "mul": "multiply", "divf": "divide", "divsi": "divide", "div": "divide",
    "remf": "remainder", "remsi": "remainder", "powf": "power", "pow": "power", "atan2": "atan2",
    "maximumf": "maximum", "maxsi": "maximum", "maximum": "maximum", "max": "maximum",
    "minimumf": "minimum", "minsi": "minimum", "minimum": "minimum", "min": "minimum",
    "andi": "and", "ori": "or", "xori": "xor", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "shli": "shift_left", "shrsi": "shift_right_arithmetic", "shrui": "shift_right_logical",
}  # fmt: skip
UNSIGNED = {"divui": "divide", "remui": "remainder", "maxui": "maximum", "minui": "minimum"}
COMPARE = {
    "eq": "EQ", "ne": "NE", "slt": "LT", "sle": "LE", "sgt": "GT", "sge": "GE", "ult": "LT", "ule": "LE", "ugt": "GT",
    "uge": "GE", "oeq": "EQ", "ogt": "GT", "oge": "GE", "olt": "LT", "ole": "LE", "une": "NE",
}  # fmt: skip
OPPOSITE = {"ugt": "LE", "uge": "LT", "ult": "GE", "ule": "GT"}  # true where unordered: not the ordered opposite
TOSA_COMPARE = {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}


def kind_of(importer: Importer, attribute: Attribute) -> TensorType:
    """The type of a tensor or scalar; an index is an i64."""
    element = attribute.element_type if isinstance(attribute, TextType) else attribute
    if isinstance(element, IndexType):
        shape = attribute.get_shape() if isinstance(attribute, TextType) else ()
        return TensorType(tuple(None if size < 0 else size for size in shape), "i64")
    return importer.reading.type(attribute)


def finish(importer: Importer, op: Operation, value: Value) -> None:
    """Bind the only result of an operation, with the location and encoding of its type."""
    (result,) = op.results
    importer.bind(result, value)


@dataclass(frozen=True)
class Builder:
    """Adds nodes in place of the operation `source`."""

    importer: Importer
    source: Operation

    def node(self, op: str, operands: Sequence[Value], result: TensorType, /, **attrs: Any) -> Value:
        """The result of one node."""
        (value,) = self.importer.emit(op, operands, [result], attrs, self.source)
        if op in MOVEMENT:  # an option is meant for what the operation computes
            self.importer.graph.nodes[-1].attrs.pop("sharding_option", None)
        return value

    def constant(self, number: float, kind: TensorType) -> Value:
        """A tensor of one number."""
        array = np.broadcast_to(np.asarray(number).astype(kind.numpy_dtype), kind.sizes)
        return self.node("constant", [], kind, value=array, **{LAZY: True})

    def convert(self, value: Value, dtype: str) -> Value:
        """The value in another element type."""
        return (
            value if value.type.dtype == dtype else self.node("convert", [value], TensorType(value.type.shape, dtype))
        )

    def bits(self, value: Value, dtype: str) -> Value:
        """The same bits as another element type of the same width."""
        kind = TensorType(value.type.shape, dtype)
        return value if value.type.dtype == dtype else self.node("bitcast_convert", [value], kind)

    def broadcast(self, value: Value, shape: Sequence[int | None], dims: Sequence[int] = ()) -> Value:
        """The value as a tensor of `shape` whose dims `dims` are its own."""
        if value.type.shape == tuple(shape) and list(dims) == list(range(len(shape))):
            return value
        return self.node("broadcast_in_dim", [value], value.type.with_shape(shape), dims=tuple(dims), **{LAZY: True})

    def together(self, values: Sequence[Value]) -> list[Value]:
        """The values over one shape: 0-d ones are broadcast."""
        shape = next((value.type.shape for value in values if value.type.rank), ())
        return [value if value.type.rank or not shape else self.broadcast(value, shape) for value in values]

    def apply(self, op: str, *operands: Value, dtype: str | None = None, **attrs: Any) -> Value:
        """An element-wise node; the result's element type is the first operand's unless given."""
        values = self.together(operands)
        kind = TensorType(values[0].type.shape, dtype or values[0].type.dtype)
        return self.node(op, values, kind, **attrs)

    def compare(self, direction: str, left: Value, right: Value) -> Value:
        kind = "FLOAT" if left.type.dtype.startswith(("f", "bf")) else ""
        return self.apply("compare", left, right, dtype="i1", direction=direction, compare_type=kind)

    def select(self, condition: Value, left: Value, right: Value) -> Value:
        a, b = self.together([left, right])
        if condition.type.rank and not a.type.rank:
            a, b = (self.broadcast(x, condition.type.shape) for x in (a, b))
        return self.node("select", [condition, a, b], a.type)


def mnemonic(op: Operation) -> str:
    """Name without the dialect."""
    return op.name.partition(".")[2]


def attribute_of(op: Operation, name: str) -> Attribute | None:
    """An attribute or property."""
    return op.attributes.get(name) or op.properties.get(name)


def scalar_of(attribute: Attribute | None) -> float | int | None:
    """The number of an integer or float attribute."""
    return attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else None


def apply_operation(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value | None:
    """The value of an element-wise operation on the given operands; None if there is no such operation."""
    name = mnemonic(op)
    if name in UNARY and len(operands) == 1:
        return builder.apply(UNARY[name], *operands) if UNARY[name] else operands[0]
    if name in BINARY and len(operands) == 2:
        return builder.apply(BINARY[name], *operands)
    if name in UNSIGNED:
        dtype = operands[0].type.dtype
        wide = [builder.bits(x, f"u{dtype}") for x in operands]
        return builder.bits(builder.apply(UNSIGNED[name], *wide), dtype)
    function = SPECIAL.get(name)
    return None if function is None else function(builder, op, operands)


def constant(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`arith.constant`"""
    value, kind = op.properties["value"], kind_of(builder.importer, op.results[0].type)
    if isinstance(value, DenseElements):
        return builder.node("constant", [], kind, value=value.data.array, **{LAZY: True})
    number = scalar_of(value)
    if number is None:
        builder.importer.fault("MG0103", "this constant is not supported", op, "write a number or dense<...>")
    array = np.asarray(0 if number is None else number)
    return builder.node("constant", [], kind, value=array.astype(kind.numpy_dtype), **{LAZY: True})


def _cast(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Conversions; unsigned ones go by way of the unsigned type of the same width."""
    (value,), name = operands, mnemonic(op)
    text = op.results[0].type
    dtype = kind_of(builder.importer, text).dtype
    source = value.type.dtype
    if name == "bitcast":
        return builder.bits(value, dtype)
    if name in ("extui", "uitofp") and source != "i1":
        value = builder.bits(value, f"u{source}")
    if name in ("extui", "fptoui") and dtype != "i1":
        return builder.bits(builder.convert(value, f"u{dtype}"), dtype)
    if name in ("extsi", "sitofp") and source == "i1":  # a signed bit that is set is -1
        return builder.apply("negate", builder.convert(value, dtype))
    return builder.convert(value, dtype)


def _compare(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`cmpf` and `cmpi`"""
    left, right = operands
    predicate = attribute_of(op, "predicate")
    text = predicate.data if isinstance(predicate, StringAttr) else ""
    if mnemonic(op) == "cmpi" and text.startswith("u"):
        left, right = (builder.bits(x, f"u{x.type.dtype}") for x in operands)
    elif text in OPPOSITE:
        return builder.apply("not", builder.compare(OPPOSITE[text], left, right))
    if text in COMPARE:
        return builder.compare(COMPARE[text], left, right)
    ordered = builder.apply("and", builder.compare("EQ", left, left), builder.compare("EQ", right, right))
    unequal = builder.apply("and", ordered, builder.compare("NE", left, right))
    found = {"ord": ordered, "one": unequal}.get(text)
    if found is None and text in ("uno", "ueq"):
        found = builder.apply("not", ordered if text == "uno" else unequal)
    if found is None:
        builder.importer.fault("MG0103", f"predicate '{text}' of {op.name} is not supported", op)
    return found or ordered


def _select(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.select(*operands)


def _ignoring_nan(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`maxnumf`, `minnumf`: a NaN gives way to the other operand."""
    left, right = builder.together(operands)
    both = builder.apply("maximum" if mnemonic(op) == "maxnumf" else "minimum", left, right)
    rest = builder.select(builder.compare("NE", right, right), left, both)
    return builder.select(builder.compare("NE", left, left), right, rest)


def _scaled_log(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`log2`, `log10`"""
    log = builder.apply("log", *operands)
    base = 2.0 if mnemonic(op) == "log2" else 10.0
    return builder.apply("divide", log, builder.constant(float(np.log(base)), log.type.with_shape(())))


def _exp2(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    two = builder.constant(2.0, operands[0].type.with_shape(()))
    return builder.apply("power", *builder.together([two, operands[0]]))


def _fma(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.apply("add", builder.apply("multiply", *operands[:2]), operands[2])


def _trunc(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    (value,) = operands
    negative = builder.compare("LT", value, builder.constant(0, value.type.with_shape(())))
    return builder.select(negative, builder.apply("ceil", value), builder.apply("floor", value))


def _square(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.apply("multiply", operands[0], operands[0])


def _reciprocal(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.apply("divide", builder.constant(1, operands[0].type), operands[0])


def _tosa_compare(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.compare(TOSA_COMPARE[mnemonic(op)], *operands)


SPECIAL: dict[str, Callable[[Builder, Operation, Sequence[Value]], Value]] = {
    "constant": constant, "cmpf": _compare, "cmpi": _compare, "select": _select, "fma": _fma, "exp2": _exp2,
    "maxnumf": _ignoring_nan, "minnumf": _ignoring_nan, "log2": _scaled_log, "log10": _scaled_log, "trunc": _trunc,
    "square": _square, "reciprocal": _reciprocal,
    **dict.fromkeys(TOSA_COMPARE, _tosa_compare),
    **dict.fromkeys(("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui",
                     "index_cast", "bitcast"), _cast),
}  # fmt: skip


def import_elementwise(importer: Importer, op: Operation) -> None:
    """An operation of arith or math on tensors or scalars outside of `linalg` bodies."""
    value = apply_operation(Builder(importer, op), op, importer.values(op.operands))
    if value is None:
        importer.fault("MG0103", f"{op.name} is not supported here", op)
        value = Builder(importer, op).constant(0, kind_of(importer, op.results[0].type))
    finish(importer, op, value)


def fill_number(value: SSAValue) -> float | int | None:
    """The number with which `linalg.fill` or a splat constant fills a value; None where there is none."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "linalg.fill":
        inner = owner.operands[0].owner
        if not isinstance(inner, Operation) or inner.name != "arith.constant":
            return None
        return scalar_of(inner.properties["value"])
    if owner.name == "arith.constant" and isinstance(dense := owner.properties["value"], DenseElements):
        array = dense.data.array
        splat = array.size and len(dense.data.raw) == DTYPES[dense.data.dtype].itemsize
        return array.flat[0].item() if splat else None
    return None
