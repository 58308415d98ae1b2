"""Element-wise ops, each inside its domain: what their records say is enough to make them.

Ops with attributes or operands of several types are made by functions of their own.
"""

from __future__ import annotations

from functools import cache

from meshgen.errors import ProgramError
from meshgen.ir.graph import TensorType, Value, is_complex
from meshgen.ops.op import Domain, Op, Trait
from meshgen.ops.registry import OPS as RECORDS
from meshgen.ops.rules import elementwise as rules
from meshgen.ops.types.inference import infer_types
from meshgen.testing.generators.writer import INTEGERS, NUMBERS, Writer, has_type

_PLAIN = tuple(op for op in RECORDS.values() if op.domains)
_FUNCTIONS = tuple(op for op in _PLAIN if len(op.domains) == 1)
_OF_SUMS = tuple(op for op in _PLAIN if len(op.domains) > 1 and op.rule is not rules.WHOLE)
_OTHERS = tuple(op for op in _PLAIN if len(op.domains) > 1 and op.rule is rules.WHOLE)
_DIRECTIONS = ("GT", "LE", "NE", "EQ", "GE", "LT")


@cache
def takes(op: str, dtype: str) -> bool:
    """Whether a plain op takes operands of an element type."""
    try:
        return infer_types(op, {}, [TensorType((), dtype)] * len(RECORDS[op].domains)) is not None
    except ProgramError:
        return False


@cache
def smooth(dtype: str, operands: int) -> tuple[str, ...]:
    """Plain ops that take any numbers of an element type, without poles or jumps."""
    rough = {Trait.POLES, Trait.JUMPS}
    named = [op for op in _PLAIN if op.domains == (Domain.ANY,) * operands and not op.traits & rough]
    return tuple(op.name for op in named if takes(op.name, dtype))


def _add(writer: Writer, op: Op) -> None:
    """One of the plain ops, of a value that it takes. Functions of complex numbers are cut along lines, where they jump."""
    exact = Trait.JUMPS in op.traits

    def fits(value: Value) -> bool:
        return takes(op.name, value.type.dtype) and not is_complex(value.type.dtype)

    if value := writer.pick(fits, exact=exact, empty=True):
        read = sum(domain is not Domain.COUNT for domain in op.domains)
        values = [value, *(writer.partner(value, exact=exact) for _ in range(read - 1))]
        given = iter(values if writer.chance(0.5) else values[::-1])
        counts = (domain is Domain.COUNT for domain in op.domains)
        operands = [writer.constant(value.type) if is_count else next(given) for is_count in counts]
        writer.add(op.name, [_in_domain(writer, *pair) for pair in zip(operands, op.domains, strict=True)])


def _in_domain(writer: Writer, value: Value, domain: Domain) -> Value:
    """An operand in a domain, made of a value; counts are in theirs."""
    match domain:
        case Domain.ANY | Domain.COUNT:
            return value
        case Domain.WITHIN_ONE:
            return writer.add("tanh", [value])
        case Domain.POSITIVE:
            return value if value.type.dtype.startswith("ui") else writer.add("abs", [value])
        case Domain.FROM_ONE:
            return writer.add("add", [_in_domain(writer, value, Domain.POSITIVE), writer.constant(value.type)])
        case Domain.FROM_TWO:
            return writer.add("add", [_in_domain(writer, value, Domain.FROM_ONE), writer.constant(value.type)])


def function(writer: Writer) -> None:
    _add(writer, writer.one_of(_FUNCTIONS))


def of_sums(writer: Writer) -> None:
    """An op that may take partial sums as they are."""
    _add(writer, writer.one_of(_OF_SUMS))


def other(writer: Writer) -> None:
    _add(writer, writer.one_of(_OTHERS))


def precision(writer: Writer) -> None:
    """The nearest number of a narrower type."""
    if value := writer.pick(has_type("f32"), exact=True, empty=True):
        writer.add("reduce_precision", [value], None, {"exponent_bits": 6, "mantissa_bits": writer.integer(2, 12)})


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
        writer.add(
            "clamp", [low, value, high if writer.chance(0.5) or not value.type.rank else _upper_bound(writer, value)]
        )


def _upper_bound(writer: Writer, value: Value) -> Value:
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


OPS = (
    *[function] * 8,
    *[of_sums] * 5,
    *[other] * 4,
    precision,
    select,
    clamp,
    convert,
    convert_down,
    convert_integer,
    bits,
    count,
)
