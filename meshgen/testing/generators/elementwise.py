"""Element-wise ops, generated from the op definitions, with operands inside the domain of each op.

Ops with attributes, or with operands of several types, have separate functions.
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
    """Whether a plain op supports operands of an element type."""
    try:
        return infer_types(op, {}, [TensorType((), dtype)] * len(RECORDS[op].domains)) is not None
    except ProgramError:
        return False


@cache
def smooth(dtype: str, operands: int) -> tuple[str, ...]:
    """Return the plain ops with `operands` operands that accept every number of an element type, without poles or
    discontinuities.
    """
    excluded = {Trait.POLES, Trait.DISCONTINUOUS}
    candidates = [op for op in _PLAIN if op.domains == (Domain.ANY,) * operands and not op.traits & excluded]
    return tuple(op.name for op in candidates if takes(op.name, dtype))


def _add(writer: Writer, op: Op) -> None:
    """Append a plain op on a value of a supported type. Complex types are excluded, because complex functions have
    branch cuts.
    """
    exact = Trait.DISCONTINUOUS in op.traits

    def fits(value: Value) -> bool:
        return takes(op.name, value.type.dtype) and not is_complex(value.type.dtype)

    if value := writer.pick(fits, exact=exact, empty=True):
        operand_count = sum(domain is not Domain.COUNT for domain in op.domains)
        values = [value, *(writer.partner(value, exact=exact) for _ in range(operand_count - 1))]
        remaining = iter(values if writer.chance(0.5) else values[::-1])
        counts = (domain is Domain.COUNT for domain in op.domains)
        operands = [writer.constant(value.type) if is_count else next(remaining) for is_count in counts]
        writer.add(op.name, [_in_domain(writer, *pair) for pair in zip(operands, op.domains, strict=True)])


def _in_domain(writer: Writer, value: Value, domain: Domain) -> Value:
    """Return an operand in `domain` that is computed from `value`. If the domain is counts, `value` is in it
    already.
    """
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


def linear(writer: Writer) -> None:
    """Append a linear op, which a partitioner may apply to partial sums."""
    _add(writer, writer.one_of(_OF_SUMS))


def other(writer: Writer) -> None:
    _add(writer, writer.one_of(_OTHERS))


def precision(writer: Writer) -> None:
    """Append a `reduce_precision`: rounding to a narrower float type."""
    if value := writer.pick(has_type("f32"), exact=True, empty=True):
        writer.add("reduce_precision", [value], None, {"exponent_bits": 6, "mantissa_bits": writer.integer(2, 12)})


def select(writer: Writer) -> None:
    """Append a select by a mask of the same shape or by a scalar mask."""
    if value := writer.pick(writer.numbers(), exact=True, empty=True):
        if writer.chance(0.2):
            mask = writer.new_input(TensorType((), "i1"))
        else:
            attrs = {"direction": writer.one_of(_DIRECTIONS), "compare_type": ""}
            mask = writer.add("compare", [value, writer.partner(value, exact=True)], None, attrs)
        writer.add("select", [mask, value, writer.partner(value)])


def clamp(writer: Writer) -> None:
    if value := writer.pick(writer.reals(), empty=True):
        low, high = (writer.scalar(bound, value.type.dtype) for bound in (-0.75, 0.75))
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
    """Append a conversion to a wider or narrower integer type, which drops high bits."""
    if value := writer.pick(has_type("i1", *INTEGERS), empty=True):
        writer.add("convert", [value], TensorType(value.type.shape, writer.one_of(INTEGERS)))


def bits(writer: Writer) -> None:
    """Append a bitcast of an input: to one integer, or to four."""
    if value := writer.pick(lambda v: v in writer.graph.inputs and v.type.dtype in ("f32", "i32") and v.type.rank < 4):
        if value.type.dtype == "f32":
            writer.add("bitcast_convert", [value], TensorType(value.type.shape, "i32"))
            return
        parts = writer.add("bitcast_convert", [value], TensorType((*value.type.shape, 4), "i8"))
        writer.add("convert", [parts], TensorType(parts.type.shape, "i32"))


def count(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(rank=1), empty=True):
        indices = writer.add("iota", [], value.type, {"dim": writer.integer(0, value.type.rank)})
        writer.add("add", [value, indices])


OPS = (
    *[function] * 8,
    *[linear] * 5,
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
