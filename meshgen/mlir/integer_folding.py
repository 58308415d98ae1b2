"""Constant-folding of integers during import: constants, dim sizes, and arithmetic on them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, AffineMapAttr, DenseArrayBase, IntegerAttr, ShapedType
from xdsl.ir import Operation, SSAValue

# Mnemonics of the dialect index -> the equivalent mnemonics of arith, for example `add` -> `addi`.
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
# Valid for nonnegative operands only: signed and unsigned division then agree, and both round toward zero.
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
    """Constant-fold an SSA value to an integer. Returns None if it is not constant."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name in _CONSTANTS:
        attribute = owner.properties.get("value")
        return attribute.value.data if isinstance(attribute, IntegerAttr) else None
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
    """Merge a static list and its dynamic operands, the form in which MLIR stores offsets or sizes.

    Returns:
        For each entry its integer if it is static or can be constant-folded, else its SSA value, or None if the dynamic
        operand is missing.
    """
    operands = iter(dynamic)
    merged: list[int | SSAValue | None] = []
    for static_entry in static.get_values():
        value = next(operands, None) if static_entry == DYNAMIC_INDEX else None
        folded = int(static_entry) if static_entry != DYNAMIC_INDEX else constant(value) if value is not None else None
        merged.append(value if folded is None else folded)
    return merged


def _mapped(op: Operation) -> int | None:
    """Constant-fold the result of an affine op, or return None if an operand is not constant."""
    map, folded = op.properties["map"], [constant(operand) for operand in op.operands]
    numbers = [number for number in folded if number is not None]
    if len(numbers) < len(folded) or not isinstance(map, AffineMapAttr):
        return None
    dims = map.data.num_dims
    try:
        return _CHOICES[op.name](expression.eval(numbers[:dims], numbers[dims:]) for expression in map.data.results)
    except ZeroDivisionError:
        return None


def _static_dim_size(op: Operation) -> int | None:
    """Constant-fold `tensor.dim`, or return None if the size is dynamic."""
    kind, dim = op.operands[0].type, constant(op.operands[1])
    if not isinstance(kind, ShapedType) or dim is None or not 0 <= dim < len(kind.get_shape()):
        return None
    size = kind.get_shape()[dim]
    return None if size == DYNAMIC_INDEX else size
