"""Print element-wise nodes as operations of arith and math on scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from meshgen.ir.graph import Node, is_float
from meshgen.mlir.upstream.element_types import element
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter

_FLOAT = {
    "add": "arith.addf", "subtract": "arith.subf", "multiply": "arith.mulf", "divide": "arith.divf", "remainder": "arith.remf",
    "maximum": "arith.maximumf", "minimum": "arith.minimumf", "negate": "arith.negf", "power": "math.powf", "abs": "math.absf",
    "exponential": "math.exp", "exponential_minus_one": "math.expm1", "log_plus_one": "math.log1p", "sine": "math.sin",
    "cosine": "math.cos", "round_nearest_even": "math.roundeven", "round_nearest_afz": "math.round",
    **{name: f"math.{name}" for name in (
        "log", "sqrt", "rsqrt", "cbrt", "tan", "tanh", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh", "atan2", "erf", "erfc",
        "floor", "ceil",
    )},
}  # fmt: skip
_BITS = {"and": "arith.andi", "or": "arith.ori", "xor": "arith.xori"}
_SIGNED = {
    **_BITS, "add": "arith.addi", "subtract": "arith.subi", "multiply": "arith.muli", "divide": "arith.divsi", "remainder": "arith.remsi",
    "maximum": "arith.maxsi", "minimum": "arith.minsi", "power": "math.ipowi", "abs": "math.absi", "popcnt": "math.ctpop",
    "count_leading_zeros": "math.ctlz", "shift_left": "arith.shli", "shift_right_arithmetic": "arith.shrsi",
    "shift_right_logical": "arith.shrui",
}  # fmt: skip
_UNSIGNED = {name: text for name, text in _SIGNED.items() if name not in ("abs", "power")} | {
    "divide": "arith.divui", "remainder": "arith.remui", "maximum": "arith.maxui", "minimum": "arith.minui",
}  # fmt: skip
_BOOLEAN = {**_BITS, "add": "arith.ori", "maximum": "arith.ori", "multiply": "arith.andi", "minimum": "arith.andi"}
_FLOAT_ORDER = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


def plain_operation(op: str, dtype: str) -> str:
    """Return the name of the operation of arith or math for an element-wise op on elements of type `dtype`.

    Returns "" if several operations are needed, or if LLVM 22 has none.
    """
    if is_float(dtype):
        return _FLOAT.get(op, "")
    table = _BOOLEAN if dtype == "i1" else _UNSIGNED if dtype.startswith("ui") else _SIGNED
    return table.get(op, "")


def write_scalar(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    """Add operations that compute an element-wise node on the scalars `operands`. Returns the name of the result.

    Raises Inexpressible if arith and math lack such an operation.
    """
    dtype = node.operands[0].type.dtype if node.operands else node.result.type.dtype
    if plain := plain_operation(node.op, dtype):
        return printer.temporary(f"{plain} {', '.join(operands)} : {element(dtype)}")
    if node.op not in SPECIAL:
        raise Inexpressible(f"arith and math have no such operation of {dtype}")
    return SPECIAL[node.op](printer, node, operands)


def _constant_scalar(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    return printer.number(node.attrs.value, node.result.type.dtype)


def _compare(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    dtype, direction = node.operands[0].type.dtype, node.attrs.direction
    if node.attrs.compare_type == "TOTALORDER":
        raise Inexpressible("arith has no comparison in total order")
    if is_float(dtype):
        word = f"cmpf {_FLOAT_ORDER[direction]}"
    elif direction in ("EQ", "NE"):
        word = f"cmpi {direction.lower()}"
    else:
        word = f"cmpi {'u' if dtype == 'i1' or dtype.startswith('ui') else 's'}{direction.lower()}"
    return printer.temporary(f"arith.{word}, {', '.join(operands)} : {element(dtype)}")


def _select(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    return printer.temporary(f"arith.select {', '.join(operands)} : {element(node.result.type.dtype)}")


def _clamp(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    (low, value, high), dtype = operands, node.result.type.dtype
    maximum, minimum = (plain_operation(op, dtype) for op in ("maximum", "minimum"))
    raised = printer.temporary(f"{maximum} {value}, {low} : {element(dtype)}")
    return printer.temporary(f"{minimum} {raised}, {high} : {element(dtype)}")


def _negate(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    dtype = node.result.type.dtype
    return printer.temporary(f"arith.subi {printer.number(0, dtype)}, {operands[0]} : {element(dtype)}")


def _not(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    dtype = element(node.result.type.dtype)
    ones = printer.number(1 if dtype == "i1" else -1, dtype)
    return printer.temporary(f"arith.xori {operands[0]}, {ones} : {dtype}")


def _is_finite(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    return printer.temporary(f"math.isfinite {operands[0]} : {element(node.operands[0].type.dtype)}")


def _sign(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    """Add operations that compute the sign of a scalar. Returns the name of the result.

    Positive floats become 1 and negative ones -1; zero and NaN are unchanged. An integer is clamped to [-1, 1].
    """
    dtype, (value,) = node.result.type.dtype, operands
    if not is_float(dtype):
        raised = value
        if not dtype.startswith("ui"):
            raised = printer.temporary(f"arith.maxsi {value}, {printer.number(-1, dtype)} : {element(dtype)}")
        word = plain_operation("minimum", dtype)
        return printer.temporary(f"{word} {raised}, {printer.number(1, dtype)} : {element(dtype)}")
    kind, zero = element(dtype), printer.number(0, dtype)
    one = printer.temporary(f"math.copysign {printer.number(1, dtype)}, {value} : {kind}")
    is_other = printer.temporary(f"arith.cmpf one, {value}, {zero} : {kind}")
    return printer.temporary(f"arith.select {is_other}, {one}, {value} : {kind}")


def _convert(printer: UpstreamPrinter, node: Node, operands: Sequence[str]) -> str:
    return convert_scalar(printer, operands[0], node.operands[0].type.dtype, node.result.type.dtype)


def convert_scalar(printer: UpstreamPrinter, value: str, source: str, target: str) -> str:
    """Add operations that convert a scalar from type `source` to type `target`. Returns the name of the result.

    As in StableHLO, a conversion to a boolean tests for nonzero.
    """
    before, after = element(source), element(target)
    if before == after:
        return value
    if target == "i1":
        zero = printer.number(0, source)
        word = "cmpf une" if is_float(source) else "cmpi ne"
        return printer.temporary(f"arith.{word}, {value}, {zero} : {before}")
    word = _cast_word(source, target)
    if not word:  # Between two float types of the same width, convert through f32.
        wide = printer.temporary(f"arith.extf {value} : {before} to f32")
        return printer.temporary(f"arith.truncf {wide} : f32 to {after}")
    return printer.temporary(f"arith.{word} {value} : {before} to {after}")


def _cast_word(source: str, target: str) -> str:
    """Return the name of the operation that converts between two types, or "" for two float types of the same width."""
    sign = "u" if source == "i1" or source.startswith("ui") else "s"
    if is_float(source) != is_float(target):
        return f"{sign}itofp" if is_float(target) else f"fpto{'u' if target.startswith('ui') else 's'}i"
    before, after = bit_width(source), bit_width(target)
    if is_float(source):
        return "" if before == after else "extf" if after > before else "truncf"
    return f"ext{sign}i" if after > before else "trunci"


def bit_width(dtype: str) -> int:
    """Return the number of bits of a type, for example 8 for `f8E4M3FN`."""
    return int(re.findall(r"\d+", dtype)[0])


SPECIAL: dict[str, Callable[[UpstreamPrinter, Node, Sequence[str]], str]] = {
    "constant": _constant_scalar, "compare": _compare, "select": _select, "clamp": _clamp, "negate": _negate, "not": _not,
    "is_finite": _is_finite, "sign": _sign, "convert": _convert,
}  # fmt: skip
ELEMENTWISE = tuple(dict.fromkeys([*_FLOAT, *_SIGNED, *(op for op in SPECIAL if op != "constant"), "logistic"]))
