"""Numbers, and lists of numbers, as attributes of xDSL."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.ir.graph import is_inexact
from meshgen.mlir.dense import DenseElements


def integers(attribute: Attribute | None) -> tuple[int, ...]:
    """Integers of an `array<i64: ...>` or, in older text, of a dense tensor or a list."""
    if isinstance(attribute, builtin.ArrayAttr):
        return tuple(integer_of(each) for each in attribute.data)
    if isinstance(attribute, DenseElements):
        return tuple(int(element) for element in attribute.data.array.reshape(-1))
    if isinstance(attribute, builtin.DenseArrayBase):
        return tuple(int(element) for element in attribute.get_values())
    return ()


def is_integers(attribute: Attribute) -> bool:
    """Whether `integers` reads all of an attribute."""
    if isinstance(attribute, builtin.ArrayAttr):
        return all(isinstance(each, builtin.IntegerAttr) for each in attribute.data)
    if isinstance(attribute, builtin.DenseArrayBase):
        return isinstance(attribute.elt_type, builtin.IntegerType)
    return isinstance(attribute, DenseElements) and not is_inexact(attribute.data.dtype)


def is_strings(attribute: Attribute) -> bool:
    """Whether an attribute is a list of strings."""
    return isinstance(attribute, builtin.ArrayAttr) and all(isinstance(each, builtin.StringAttr) for each in attribute)


def string_of(attribute: Attribute | None, default: str = "") -> str:
    return attribute.data if isinstance(attribute, builtin.StringAttr) else default


def name_of(attribute: Attribute | None) -> str:
    """The name that a symbol or a string is; empty for other attributes."""
    return attribute.string_value() if isinstance(attribute, builtin.SymbolRefAttr) else string_of(attribute)


def strings(attribute: Attribute | None) -> tuple[str, ...]:
    """The strings of a list; empty for other attributes."""
    items = attribute.data if isinstance(attribute, builtin.ArrayAttr) else ()
    return tuple(item.data for item in items if isinstance(item, builtin.StringAttr))


def array(values: Sequence[int]) -> Attribute:
    """`array<i64: ...>`"""
    return builtin.DenseArrayBase.from_list(builtin.i64, list(values))


def flags(values: Sequence[bool]) -> Attribute:
    """`array<i1: ...>`"""
    return builtin.DenseArrayBase.from_list(builtin.i1, [int(value) for value in values])


def integer(value: int, width: int = 64) -> Attribute:
    """`value : i64`"""
    return builtin.IntegerAttr(value, builtin.IntegerType(width))


def integer_of(attribute: Attribute | None, default: int = 0) -> int:
    return attribute.value.data if isinstance(attribute, builtin.IntegerAttr) else default


def boolean_of(attribute: Attribute | None) -> bool:
    return isinstance(attribute, builtin.IntegerAttr) and bool(attribute.value.data)
