"""Element-wise operations of arith, math, linalg and tosa on values of the graph.

The same functions serve whole tensors and the scalars of a `linalg` body: there every scalar is a tensor over
the loops that it depends on, or a 0-d one, which is broadcast where it meets the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.affine_maps import mapped
from meshgen.mlir.arith.functions import FUNCTIONS
from meshgen.mlir.arith.payload import Builder, mnemonic, scalar_of
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.plain_ops import ROUNDING

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
    # Names of tosa:
    "abs": "abs", "clz": "count_leading_zeros", "sigmoid": "logistic", "logical_not": "not", "bitwise_not": "not",
    "add": "add", "sub": "subtract", "intdiv": "divide", "pow": "power", "maximum": "maximum", "minimum": "minimum",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "logical_left_shift": "shift_left", "logical_right_shift": "shift_right_logical",
}  # fmt: skip
# Booleans are integers modulo 2; as a signed number, true is -1.
OF_BITS = {"addi": "xor", "subi": "xor", "muli": "and", "maxsi": "and", "minsi": "or", "maxui": "or", "minui": "and"}
COMPARE = {
    "eq": "EQ", "ne": "NE", "slt": "LT", "sle": "LE", "sgt": "GT", "sge": "GE", "ult": "LT", "ule": "LE", "ugt": "GT",
    "uge": "GE", "oeq": "EQ", "ogt": "GT", "oge": "GE", "olt": "LT", "ole": "LE", "une": "NE",
}  # fmt: skip
OPPOSITE = {"ugt": "LE", "uge": "LT", "ult": "GE", "ule": "GT"}  # true where unordered: not the ordered opposite
TOSA_COMPARE = {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}
PREDICATES = {
    "cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "cmpf": ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
}  # fmt: skip


def apply_operation(builder: Builder, op: Operation, operands: Sequence[Value]) -> list[Value] | None:
    """The results of an element-wise operation on the given operands; None for an unknown operation."""
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
    """A fault for any rounding mode but to-nearest-even; generic text has numbers for the modes."""
    mode = op.properties.get("roundingmode")
    number = scalar_of(mode)
    word = string_of(mode)
    if number is not None and 0 <= number < len(ROUNDING):
        word = ROUNDING[int(number)]
    if mode is not None and word != ROUNDING[0]:
        message = f"{op.name} with rounding mode {word or str(mode)} is not supported"
        builder.importer.fault("MG0103", message, op, f"the supported mode is {ROUNDING[0]}")


def constant(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`arith.constant`"""
    value, kind = op.properties["value"], builder.importer.type(op.results[0])
    if isinstance(value, DenseElements):
        return builder.lazy("constant", [], kind, value=value.data.array)
    return builder.constant(scalar_of(value) or 0, kind)


def _cast(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Conversions; unsigned ones go by way of the unsigned type of the same width."""
    (value,), name = operands, mnemonic(op)
    dtype = builder.importer.type(op.results[0]).dtype
    source = value.type.dtype
    if name == "bitcast":
        return builder.bits(value, dtype)
    if dtype == "i1" and source.startswith("i") and source != dtype:  # the last bit, not whether there is any
        value = builder.apply("and", value, builder.constant(1, value.type.with_shape(())))
    if name in ("extui", "uitofp", "index_castui") and source != "i1":
        value = builder.bits(value, f"u{source}")
    if name in ("extui", "fptoui", "index_castui") and dtype != "i1":
        return builder.bits(builder.convert(value, f"u{dtype}"), dtype)
    if name in ("extsi", "sitofp", "index_cast") and source == "i1":  # a signed bit that is set is -1
        return builder.apply("negate", builder.convert(value, dtype))
    return builder.convert(value, dtype)


def predicate_of(op: Operation) -> str:
    """The word of a comparison; generic text has its number."""
    predicate = op.properties.get("predicate")
    words = PREDICATES.get(mnemonic(op), ())
    if isinstance(predicate, StringAttr):
        return predicate.data
    number = scalar_of(predicate)
    return words[int(number)] if number is not None and 0 <= number < len(words) else ""


def _comparison_value(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`cmpf` and `cmpi`"""
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
    found = {"ord": ordered, "one": unequal}.get(text)
    if found is None and text in ("uno", "ueq"):
        found = builder.apply("not", ordered if text == "uno" else unequal)
    if found is None:
        builder.importer.fault("MG0103", f"predicate '{text}' of {op.name} is not supported", op)
    return found or ordered


def _select(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.select(*operands)


def _tosa_compare(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    return builder.compare(TOSA_COMPARE[mnemonic(op)], *operands)


def _rounded_shift(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`tosa.arithmetic_right_shift`: with rounding the last bit that falls out is added."""
    value, amount = operands
    found = builder.apply("shift_right_arithmetic", value, amount)
    if not scalar_of(op.properties.get("round")):
        return found
    one = builder.constant(1, value.type.with_shape(()))
    last = builder.apply("shift_right_arithmetic", value, builder.apply("subtract", amount, one))
    last = builder.apply("and", last, one)
    none = builder.compare("EQ", amount, builder.constant(0, value.type.with_shape(())))
    return builder.apply("add", found, builder.select(none, builder.constant(0, value.type.with_shape(())), last))


def scaled(builder: Builder, op: Operation, value: Value, factor: Value, shift: Value) -> Value:
    """value * factor / 2^shift of 64-bit integers, rounded as the operation says."""
    one = builder.constant(1, TensorType((), "i64"))
    half = builder.apply("shift_left", *builder.together([one, builder.apply("subtract", shift, one)]))
    is_double = string_of(op.properties.get("rounding_mode")) == "DOUBLE_ROUND"
    if is_double or scalar_of(op.properties.get("double_round")):
        half = builder.apply("add", *builder.together([half, _second(builder, value, shift)]))
    product = builder.apply("add", *builder.together([builder.apply("multiply", value, factor), half]))
    return builder.apply("shift_right_arithmetic", *builder.together([product, shift]))


def _second(builder: Builder, value: Value, shift: Value) -> Value:
    """The first rounding of double rounding: 2^30 away from 0 where more than 31 bits are shifted out."""
    scalar = TensorType((), "i64")
    step, zero = builder.constant(1 << 30, scalar), builder.constant(0, scalar)
    away = builder.select(builder.compare("GE", value, zero), step, builder.apply("negate", step))
    is_long = builder.compare("GT", *builder.together([shift, builder.constant(31, scalar)]))
    if not is_long.type.rank:
        is_long = builder.broadcast(is_long, away.type.shape)
    return builder.select(is_long, away, builder.broadcast(zero, away.type.shape))


def _apply_scale(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """`tosa.apply_scale`: value, multiplier, shift."""
    return builder.convert(scaled(builder, op, *(builder.convert(x, "i64") for x in operands)), "i32")


SPECIAL: dict[str, Callable[[Builder, Operation, Sequence[Value]], Value]] = {
    "constant": constant, "cmpf": _comparison_value, "cmpi": _comparison_value, "select": _select,
    "arithmetic_right_shift": _rounded_shift, "apply_scale": _apply_scale,
    **dict.fromkeys(("apply", "min", "max"), mapped),  # of affine
    **dict.fromkeys(TOSA_COMPARE, _tosa_compare),
    **dict.fromkeys(("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui",
                     "index_cast", "index_castui", "bitcast"), _cast),
}  # fmt: skip
"""By mnemonic: functions of more than the operands."""


def elementwise(builder: Builder, *operands: Value) -> Sequence[Value]:
    """An operation of arith or math on tensors or scalars outside of `linalg` bodies."""
    found = apply_operation(builder, builder.source, operands)
    if found is None:
        raise Refused("MG0103", "not supported here")
    return found
