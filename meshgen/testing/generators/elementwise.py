"""Element-wise ops, each inside its domain."""

from __future__ import annotations

from meshgen.ir.graph import TensorType, Value
from meshgen.testing.generators.writer import INTEGERS, NUMBERS, Writer, floats, has_type

_SMOOTH = ("negate", "abs", "tanh", "logistic", "sine", "cosine", "tan", "exponential", "exponential_minus_one", "cbrt",
           "erf", "erfc", "sinh", "cosh", "asinh", "bessel_i1e")  # fmt: skip
_OF_POSITIVES = ("log", "log_plus_one", "sqrt", "rsqrt")
_STEPS = ("floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign")
_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
_BITS = ("and", "or", "xor")
_SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
_DIRECTIONS = ("GT", "LE", "NE", "EQ", "GE", "LT")


def smooth(writer: Writer) -> None:
    if value := writer.pick(floats, empty=True):
        writer.add(writer.one_of(_SMOOTH), [value])


def of_positives(writer: Writer) -> None:
    if value := writer.pick(floats, empty=True):
        writer.add(writer.one_of(_OF_POSITIVES), [writer.add("abs", [value])])


def of_small(writer: Writer) -> None:
    """Functions of numbers between -1 and 1."""
    if value := writer.pick(floats, empty=True):
        writer.add(writer.one_of(("erf_inv", "asin", "acos", "atanh")), [writer.add("tanh", [value])])


def of_above_one(writer: Writer) -> None:
    """Functions of numbers from 1 on, and of their order."""
    if value := writer.pick(writer.reals(), empty=True):
        above = writer.add("add", [writer.add("abs", [value]), writer.constant(value.type)])
        op = writer.one_of(("acosh", "lgamma", "digamma", "polygamma", "zeta"))
        if op == "polygamma":
            writer.add(op, [writer.constant(value.type), above])
        elif op == "zeta":
            writer.add(op, [_wide(writer, value), above])
        else:
            writer.add(op, [above])


def neighbours(writer: Writer) -> None:
    """The next number of a type, or the nearest of a narrower one."""
    if value := writer.pick(has_type("f32"), exact=True, empty=True):
        if writer.chance(0.5):
            writer.add("next_after", [value, writer.partner(value, exact=True)])
        else:
            writer.add("reduce_precision", [value], None, {"exponent_bits": 6, "mantissa_bits": writer.integer(2, 12)})


def steps(writer: Writer) -> None:
    if value := writer.pick(floats, exact=True, empty=True):
        writer.add(writer.one_of((*_STEPS, "is_finite")), [value])


def arithmetic(writer: Writer) -> None:
    if value := writer.pick(has_type(*NUMBERS), empty=True):
        operands = [value, writer.partner(value)]
        writer.add(writer.one_of(_ARITHMETIC), operands if writer.chance(0.5) else operands[::-1])


def divide(writer: Writer) -> None:
    if value := writer.pick(floats, empty=True):
        writer.add("divide", [value, writer.constant(value.type)])


def divide_exactly(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(), exact=True, empty=True):
        writer.add(writer.one_of(("divide", "remainder")), [value, writer.constant(value.type)])


def power(writer: Writer) -> None:
    """`|x| ** y`, or the angle of (|x|, y): without jumps where x is 0."""
    if value := writer.pick(writer.reals(), empty=True):
        positive, other = writer.add("abs", [value]), writer.constant(value.type)
        if writer.chance(0.5):
            writer.add("power", [positive, other])
        else:
            writer.add("atan2", [value, other])


def logic(writer: Writer) -> None:
    if value := writer.pick(has_type("i1", *INTEGERS), empty=True):
        if writer.chance(0.25):
            writer.add("not", [value])
        else:
            writer.add(writer.one_of(_BITS), [value, writer.partner(value)])


def integers(writer: Writer) -> None:
    if value := writer.pick(has_type("i32"), empty=True):
        if writer.chance(0.6):
            writer.add(writer.one_of(_SHIFTS), [value, writer.constant(value.type)])
        else:
            writer.add(writer.one_of(("popcnt", "count_leading_zeros", "sign")), [value])


def select(writer: Writer) -> None:
    """By a mask of the same shape, or one for all elements."""
    if value := writer.pick(writer.numbers(), exact=True, empty=True):
        if writer.chance(0.2):
            mask = writer.new_input(TensorType((), "i1"))
        else:
            attrs = {"direction": writer.one_of(_DIRECTIONS), "compare_type": ""}
            mask = writer.add("compare", [value, writer.partner(value, exact=True)], None, attrs)
        writer.add("select", [mask, value, writer.partner(value)])


def clamp(writer: Writer) -> None:
    if value := writer.pick(writer.reals(), empty=True):
        low, high = (writer.scalar(end, value.type.dtype) for end in (-0.75, 0.75))
        writer.add("clamp", [low, value, high if writer.chance(0.5) or not value.type.rank else _wide(writer, value)])


def _wide(writer: Writer, value: Value) -> Value:
    return writer.add("add", [writer.constant(value.type), writer.constant(value.type)])


def convert(writer: Writer) -> None:
    if value := writer.pick(has_type("i1", *NUMBERS[1:]), empty=True):
        writer.add("convert", [value], TensorType(value.type.shape, "f32"))


def convert_down(writer: Writer) -> None:
    if value := writer.pick(writer.reals(), exact=True, empty=True):
        writer.add("convert", [value], TensorType(value.type.shape, writer.one_of(("bf16", "f16", "f64"))))


def convert_integer(writer: Writer) -> None:
    """To a wider or a narrower integer, whose bits are cut off."""
    if value := writer.pick(has_type("i1", *INTEGERS), empty=True):
        writer.add("convert", [value], TensorType(value.type.shape, writer.one_of(INTEGERS)))


def bits(writer: Writer) -> None:
    """The bits of an input: as one integer each, or as four."""
    if value := writer.pick(lambda v: v in writer.graph.inputs and v.type.dtype in ("f32", "i32") and v.type.rank < 4):
        if value.type.dtype == "f32":
            writer.add("bitcast_convert", [value], TensorType(value.type.shape, "i32"))
            return
        parts = writer.add("bitcast_convert", [value], TensorType((*value.type.shape, 4), "i8"))
        writer.add("convert", [parts], TensorType(parts.type.shape, "i32"))


def count(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(rank=1), empty=True):
        counted = writer.add("iota", [], value.type, {"dim": writer.integer(0, value.type.rank)})
        writer.add("add", [value, counted])


OPS = (smooth, smooth, smooth, of_positives, of_small, of_above_one, neighbours, steps, *[arithmetic] * 4, divide, divide_exactly, power, logic,
       integers, select, clamp, convert, convert_down, convert_integer, bits, count)  # fmt: skip
