"""Conversion of element-wise operations of arith, math, linalg and tosa.

The same functions convert operations on whole tensors and operations on the scalars in the body of a linalg operation.
Such a scalar becomes a tensor with one dim per loop that it depends on. A scalar that depends on no loop stays 0-d, and
is broadcast when an operation combines it with a larger tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.affine_maps import mapped
from meshgen.mlir.arith.builder import Builder, mnemonic, scalar_of
from meshgen.mlir.arith.functions import FUNCTIONS
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.textual_forms import ROUNDING

NODES = {
    "negf": "negate", "absf": "abs", "absi": "abs", "exp": "exponential", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt",
    **{name: name for name in ("sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh", "erfc")},
    "tanh": "tanh", "sin": "sine", "cos": "cosine", "tan": "tan", "floor": "floor", "ceil": "ceil", "erf": "erf",
    "expm1": "exponential_minus_one", "log1p": "log_plus_one", "ctpop": "popcnt", "ctlz": "count_leading_zeros",
    "roundeven": "round_nearest_even", "round": "round_nearest_afz",
    "addf": "add", "addi": "add", "subf": "subtract", "subi": "subtract", "mulf": "multiply", "muli": "multiply",
    "divf": "divide", "divsi": "divide", "remf": "remainder", "remsi": "remainder", "powf": "power", "ipowi": "power", "atan2": "atan2",
    "maximumf": "maximum", "maxsi": "maximum", "minimumf": "minimum", "minsi": "minimum", "andi": "and", "ori": "or", "xori": "xor",
    "shli": "shift_left", "shrsi": "shift_right_arithmetic", "shrui": "shift_right_logical",
    # Operation names of tosa:
    "abs": "abs", "clz": "count_leading_zeros", "sigmoid": "logistic", "logical_not": "not", "bitwise_not": "not",
    "add": "add", "sub": "subtract", "intdiv": "divide", "pow": "power", "maximum": "maximum", "minimum": "minimum",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "logical_left_shift": "shift_left", "logical_right_shift": "shift_right_logical",
}  # fmt: skip
# Integer operation -> logical operation that computes it on booleans (integers modulo 2; as a signed number, true is
# -1)
OF_BITS = {"addi": "xor", "subi": "xor", "muli": "and", "maxsi": "and", "minsi": "or", "maxui": "or", "minui": "and"}
COMPARE = {
    "eq": "EQ", "ne": "NE", "slt": "LT", "sle": "LE", "sgt": "GT", "sge": "GE", "ult": "LT", "ule": "LE", "ugt": "GT",
    "uge": "GE", "oeq": "EQ", "ogt": "GT", "oge": "GE", "olt": "LT", "ole": "LE", "une": "NE",
}  # fmt: skip
# Unordered float comparison -> the opposite ordered comparison. Its negation is true also if an operand is NaN.
OPPOSITE = {"ugt": "LE", "uge": "LT", "ult": "GE", "ule": "GT"}
TOSA_COMPARE = {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}
PREDICATES = {
    "cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "cmpf": ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
}  # fmt: skip


def apply_operation(builder: Builder, op: Operation, operands: Sequence[Value]) -> list[Value] | None:
    """Emit the element-wise operation `op` on `operands`. Returns its results, or None if the operation is unknown."""
    name = mnemonic(op)
    _check_rounding(builder, op)
    if name in OF_BITS and operands[0].type.dtype == "i1":
        return [builder.apply(OF_BITS[name], *operands)]
    if name in NODES:
        return [builder.apply(NODES[name], *operands)]
    if name in FUNCTIONS:
        return FUNCTIONS[name](builder, operands)
    function = SPECIAL.get(name)
    return None if function is None else [function(builder, op, operands)]


def _check_rounding(builder: Builder, op: Operation) -> None:
    """Report a fault for any rounding mode except to-nearest-even. In the generic form, the mode is an integer."""
    mode = op.properties.get("roundingmode")
    mode_number = scalar_of(mode)
    word = string_of(mode)
    if mode_number is not None and 0 <= mode_number < len(ROUNDING):
        word = ROUNDING[int(mode_number)]
    if mode is not None and word != ROUNDING[0]:
        message = f"{op.name} with rounding mode {word or str(mode)} is not supported"
        builder.importer.fault("MG0103", message, op, f"the supported mode is {ROUNDING[0]}")


def constant(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit the constant of `arith.constant`."""
    value, kind = op.properties["value"], builder.importer.type(op.results[0])
    if isinstance(value, DenseElements):
        return builder.lazy("constant", [], kind, value=value.data.array)
    return builder.constant(scalar_of(value) or 0, kind)


def _cast(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit a cast. A cast of unsigned integers bitcasts to or from the unsigned type of the same width."""
    (value,), name = operands, mnemonic(op)
    dtype = builder.importer.type(op.results[0]).dtype
    source = value.type.dtype
    if name == "index_cast" and (counted := _iota_as(builder, value, dtype)) is not None:
        return counted
    if name == "bitcast":
        return builder.bits(value, dtype)
    # A truncation to i1 keeps the lowest bit, whereas `convert` would compare with 0.
    if dtype == "i1" and source.startswith("i") and source != dtype:
        value = builder.apply("and", value, builder.constant(1, value.type.with_shape(())))
    if name in ("extui", "uitofp", "index_castui") and source != "i1":
        value = builder.bits(value, f"u{source}")
    if name in ("extui", "fptoui", "index_castui") and dtype != "i1":
        return builder.bits(builder.convert(value, f"u{dtype}"), dtype)
    if name in ("extsi", "sitofp", "index_cast") and source == "i1":  # As a signed number, true is -1.
        return builder.apply("negate", builder.convert(value, dtype))
    return builder.convert(value, dtype)


def _iota_as(builder: Builder, value: Value, dtype: str) -> Value | None:
    """Return an `iota` with element type `dtype` if `value` is an `iota`, which saves a conversion. Returns None for
    other values.
    """
    producer = next((node for node in reversed(builder.importer.graph.nodes) if value in node.results), None)
    if producer is None or producer.op != "iota":
        return None
    return builder.lazy("iota", [], TensorType(value.type.shape, dtype), dim=producer.attrs.dim)


def predicate_of(op: Operation) -> str:
    """Return the name of the predicate of the comparison `op`. In the generic form, the predicate is an integer."""
    predicate = op.properties.get("predicate")
    words = PREDICATES.get(mnemonic(op), ())
    if isinstance(predicate, StringAttr):
        return predicate.data
    predicate_number = scalar_of(predicate)
    return words[int(predicate_number)] if predicate_number is not None and 0 <= predicate_number < len(words) else ""


def _comparison_value(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit the comparison `arith.cmpf` or `arith.cmpi`, according to its predicate."""
    left, right = operands
    text = predicate_of(op)
    if mnemonic(op) == "cmpi":
        if left.type.dtype == "i1":
            left, right = (right, left) if text.startswith("s") else (left, right)
        elif text.startswith("u"):
            left, right = (builder.bits(x, f"u{x.type.dtype}") for x in operands)
    elif text in OPPOSITE:
        return builder.apply("not", builder.compare(OPPOSITE[text], left, right))
    if text in COMPARE:
        return builder.compare(COMPARE[text], left, right)
    if text in ("true", "false"):
        return builder.constant(text == "true", TensorType(left.type.shape, "i1"))
    ordered = builder.apply("and", builder.compare("EQ", left, left), builder.compare("EQ", right, right))
    unequal = builder.apply("and", ordered, builder.compare("NE", left, right))
    result = {"ord": ordered, "one": unequal}.get(text)
    if result is None and text in ("uno", "ueq"):
        result = builder.apply("not", ordered if text == "uno" else unequal)
    if result is None:
        builder.importer.fault("MG0103", f"predicate '{text}' of {op.name} is not supported", op)
    return result or ordered


def _select(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.select(*operands)


def _tosa_compare(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.compare(TOSA_COMPARE[mnemonic(op)], *operands)


def _rounded_shift(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit `tosa.arithmetic_right_shift`. With `round`, add the last bit that is shifted out to the result."""
    value, amount = operands
    shifted = builder.apply("shift_right_arithmetic", value, amount)
    if not scalar_of(op.properties.get("round")):
        return shifted
    one = builder.constant(1, value.type.with_shape(()))
    last = builder.apply("shift_right_arithmetic", value, builder.apply("subtract", amount, one))
    last = builder.apply("and", last, one)
    none = builder.compare("EQ", amount, builder.constant(0, value.type.with_shape(())))
    return builder.apply("add", shifted, builder.select(none, builder.constant(0, value.type.with_shape(())), last))


def scaled(builder: Builder, op: Operation, value: Value, factor: Value, shift: Value) -> Value:
    """Emit `value * factor / 2^shift` on 64-bit integers, rounded as the attributes of `op` say."""
    one = builder.constant(1, TensorType((), "i64"))
    half = builder.apply("shift_left", *builder.together([one, builder.apply("subtract", shift, one)]))
    is_double = string_of(op.properties.get("rounding_mode")) == "DOUBLE_ROUND"
    if is_double or scalar_of(op.properties.get("double_round")):
        half = builder.apply("add", *builder.together([half, _double_rounding_addend(builder, value, shift)]))
    product = builder.apply("add", *builder.together([builder.apply("multiply", value, factor), half]))
    return builder.apply("shift_right_arithmetic", *builder.together([product, shift]))


def _double_rounding_addend(builder: Builder, value: Value, shift: Value) -> Value:
    """Return the addend of tosa's double rounding: 2^30 away from 0 if more than 31 bits are shifted out, else 0."""
    scalar = TensorType((), "i64")
    step, zero = builder.constant(1 << 30, scalar), builder.constant(0, scalar)
    away = builder.select(builder.compare("GE", value, zero), step, builder.apply("negate", step))
    is_long = builder.compare("GT", *builder.together([shift, builder.constant(31, scalar)]))
    if not is_long.type.rank:
        is_long = builder.broadcast(is_long, away.type.shape)
    return builder.select(is_long, away, builder.broadcast(zero, away.type.shape))


def _apply_scale(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit `tosa.apply_scale`. Its operands are the value, the multiplier and the shift."""
    return builder.convert(scaled(builder, op, *(builder.convert(x, "i64") for x in operands)), "i32")


SPECIAL: dict[str, Callable[[Builder, Operation, Sequence[Value]], Value]] = {
    "constant": constant, "cmpf": _comparison_value, "cmpi": _comparison_value, "select": _select,
    "arithmetic_right_shift": _rounded_shift, "apply_scale": _apply_scale,
    **dict.fromkeys(("apply", "min", "max"), mapped),  # of affine
    **dict.fromkeys(TOSA_COMPARE, _tosa_compare),
    **dict.fromkeys(("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui",
                     "index_cast", "index_castui", "bitcast"), _cast),
}  # fmt: skip
"""Mnemonic -> function that emits an operation which depends on more than its operands, for example on attributes."""


def elementwise(builder: Builder, *operands: Value) -> Sequence[Value]:
    """Emit the arith or math operation `builder.source` on tensors or scalars outside of the body of a linalg
    operation.
    """
    results = apply_operation(builder, builder.source, operands)
    if results is None:
        raise Refused("MG0103", "not supported here")
    return results
