"""Conversions between xDSL attributes and Python integers, booleans, strings and lists of these."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.ir.graph import is_inexact
from meshgen.mlir.dense import DenseElements


def integers(attribute: Attribute | None) -> tuple[int, ...]:
    """Return the integers of an `array<i64: ...>`. Older texts have a dense tensor or a list instead, which are also
    accepted.
    """
    if isinstance(attribute, builtin.ArrayAttr):
        return tuple(integer_of(item) for item in attribute.data)
    if isinstance(attribute, DenseElements):
        return tuple(int(element) for element in attribute.data.array.reshape(-1))
    if isinstance(attribute, builtin.DenseArrayBase):
        return tuple(int(element) for element in attribute.get_values())
    return ()


def is_integers(attribute: Attribute) -> bool:
    """Whether `integers` accepts the attribute and all its elements are integers."""
    if isinstance(attribute, builtin.ArrayAttr):
        return all(isinstance(item, builtin.IntegerAttr) for item in attribute.data)
    if isinstance(attribute, builtin.DenseArrayBase):
        return isinstance(attribute.elt_type, builtin.IntegerType)
    return isinstance(attribute, DenseElements) and not is_inexact(attribute.data.dtype)


def is_strings(attribute: Attribute) -> bool:
    """Whether the attribute is a list of strings."""
    return isinstance(attribute, builtin.ArrayAttr) and all(isinstance(item, builtin.StringAttr) for item in attribute)


def string_of(attribute: Attribute | None, default: str = "") -> str:
    """Return the value of a string attribute, or `default` for other attributes."""
    return attribute.data if isinstance(attribute, builtin.StringAttr) else default


def name_of(attribute: Attribute | None) -> str:
    """Return the name in a symbol reference or string attribute, or "" for other attributes."""
    return attribute.string_value() if isinstance(attribute, builtin.SymbolRefAttr) else string_of(attribute)


def strings(attribute: Attribute | None) -> tuple[str, ...]:
    """Return the strings of a list attribute, or () for other attributes."""
    items = attribute.data if isinstance(attribute, builtin.ArrayAttr) else ()
    return tuple(item.data for item in items if isinstance(item, builtin.StringAttr))


def array(values: Sequence[int]) -> Attribute:
    """Return the attribute `array<i64: ...>` with these values."""
    return builtin.DenseArrayBase.from_list(builtin.i64, list(values))


def flags(values: Sequence[bool]) -> Attribute:
    """Return the attribute `array<i1: ...>` with these values."""
    return builtin.DenseArrayBase.from_list(builtin.i1, [int(value) for value in values])


def integer(value: int, width: int = 64) -> Attribute:
    """Return the integer attribute `value : i64`, or one of another bit `width`."""
    return builtin.IntegerAttr(value, builtin.IntegerType(width))


def integer_of(attribute: Attribute | None, default: int = 0) -> int:
    """Return the value of an integer attribute, or `default` for other attributes."""
    return attribute.value.data if isinstance(attribute, builtin.IntegerAttr) else default


def boolean_of(attribute: Attribute | None) -> bool:
    """Whether the attribute is a nonzero integer."""
    return isinstance(attribute, builtin.IntegerAttr) and bool(attribute.value.data)
