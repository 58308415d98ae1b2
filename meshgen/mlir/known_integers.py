"""Integers of a program that are known when it is read: constants, and arithmetic on them and on sizes of tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, AffineMapAttr, DenseArrayBase, IntegerAttr, ShapedType
from xdsl.ir import Operation, SSAValue

# What arith has under another name; `add` is `addi` and so on.
AS_ARITH = {
    **{name: f"{name}i" for name in ("add", "sub", "mul", "and", "or", "xor", "shl")},
    "divs": "divsi", "divu": "divui", "ceildivs": "ceildivsi", "ceildivu": "ceildivui", "floordivs": "floordivsi",
    "rems": "remsi", "remu": "remui", "maxs": "maxsi", "maxu": "maxui", "mins": "minsi", "minu": "minui",
    "shrs": "shrsi", "shru": "shrui", "casts": "index_cast", "castu": "index_castui", "cmp": "cmpi",
}  # fmt: skip

_PASSES_ON = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "index.casts", "index.castu")
_CONSTANTS = ("arith.constant", "index.constant")
_CHOICES: dict[str, Callable[[Iterable[int]], int]] = {"affine.apply": max, "affine.min": min, "affine.max": max}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "maxsi": max,
    "minsi": min,
}
# Of numbers that are not negative: signed and unsigned division are the same, and round towards zero.
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "divsi": operator.floordiv,
    "divui": operator.floordiv,
    "floordivsi": operator.floordiv,
    "ceildivsi": lambda a, b: -(-a // b),
    "ceildivui": lambda a, b: -(-a // b),
    "remsi": operator.mod,
    "remui": operator.mod,
}


def constant(value: SSAValue) -> int | None:
    """The integer that a value always is; None where that is not known."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name in _CONSTANTS:
        number = owner.properties.get("value")
        return number.value.data if isinstance(number, IntegerAttr) else None
    if owner.name in _PASSES_ON:
        return constant(owner.operands[0])
    if owner.name == "tensor.dim":
        return _static_dim_size(owner)
    if owner.name in _CHOICES:
        return _mapped(owner)
    dialect, _, op = owner.name.partition(".")
    op = AS_ARITH.get(op, op) if dialect == "index" else op
    if dialect not in ("arith", "index") or len(owner.operands) != 2 or op not in (*_ARITHMETIC, *_DIVISIONS):
        return None
    left, right = constant(owner.operands[0]), constant(owner.operands[1])
    if left is None or right is None:
        return None
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](left, right)
    return _DIVISIONS[op](left, right) if left >= 0 and right > 0 else None


def entries(static: DenseArrayBase[I64], dynamic: Sequence[SSAValue]) -> list[int | SSAValue | None]:
    """A list of numbers of which some are operands: those that are not known as values, and None where an operand is missing."""
    rest = iter(dynamic)
    found: list[int | SSAValue | None] = []
    for number in static.get_values():
        value = next(rest, None) if number == DYNAMIC_INDEX else None
        known = int(number) if number != DYNAMIC_INDEX else constant(value) if value is not None else None
        found.append(value if known is None else known)
    return found


def _mapped(op: Operation) -> int | None:
    """The result of an affine map, if all of its operands are known."""
    map, known = op.properties["map"], [constant(operand) for operand in op.operands]
    numbers = [number for number in known if number is not None]
    if len(numbers) < len(known) or not isinstance(map, AffineMapAttr):
        return None
    dims = map.data.num_dims
    try:
        return _CHOICES[op.name](each.eval(numbers[:dims], numbers[dims:]) for each in map.data.results)
    except ZeroDivisionError:
        return None


def _static_dim_size(op: Operation) -> int | None:
    """The size of a tensor's dim, where the type says it."""
    kind, dim = op.operands[0].type, constant(op.operands[1])
    if not isinstance(kind, ShapedType) or dim is None or not 0 <= dim < len(kind.get_shape()):
        return None
    size = kind.get_shape()[dim]
    return None if size == DYNAMIC_INDEX else size
