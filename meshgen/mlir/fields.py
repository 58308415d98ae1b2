"""Constructors of `Field` by type. A `Field` says how a property is parsed, printed, and named in the node's
attributes.
"""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.mlir import attributes, literals
from meshgen.mlir.attributes import array, boolean_of, integer, integer_of, integers, string_of
from meshgen.mlir.text_operation import Field, Values


def number(prop: str, attr: str, keyword: str = "", *, width: int = 64, default: int | None = None) -> Field:
    """Declare an integer property of `width` bits. It is optional if it has a default."""
    return Field(
        prop,
        lambda attribute: {attr: integer_of(attribute, default or 0)},
        lambda values: f"{values[attr]} : i{width}",
        keyword,
        lambda parser: integer(parser.parse_integer()),
        lambda values: str(values[attr]),
        default is None,
        "integer",
    )


def listed(prop: str, attr: str, keyword: str = "") -> Field:
    """Declare a property that is a list of integers."""
    return Field(
        prop,
        lambda attribute: {attr: integers(attribute)},
        lambda values: literals.array(values[attr]),
        keyword,
        lambda parser: array(parser.parse_integers()),
        lambda values: str(list(values[attr])),
        kind="integers",
    )


def flag(prop: str, attr: str, keyword: str = "", *, is_required: bool = False) -> Field:
    """Declare a boolean property that defaults to false."""

    def text(values: Values) -> str:
        return literals.boolean(values.get(attr))

    return Field(
        prop,
        lambda attribute: {attr: boolean_of(attribute)},
        text,
        keyword,
        lambda parser: builtin.IntegerAttr.from_bool(parser.parse_boolean()),
        text,
        is_required,
        "integer",
    )


def real(prop: str, attr: str) -> Field:
    """Declare a 64-bit float property."""

    def value(attribute: Attribute | None) -> float:
        assert isinstance(attribute, builtin.FloatAttr)
        return float(attribute.value.data)

    return Field(
        prop,
        lambda attribute: {attr: value(attribute)},
        lambda values: str(builtin.FloatAttr(float(values[attr]), builtin.f64)),
        kind="float",
    )


def string(prop: str, attr: str) -> Field:
    """Declare a string property."""
    return Field(
        prop,
        lambda attribute: {attr: string_of(attribute)},
        lambda values: literals.quoted(values[attr]),
        kind="string",
    )


def strings(prop: str, attr: str) -> Field:
    """Declare a property that is a list of strings. The list is empty if the property is missing."""
    return Field(
        prop,
        lambda attribute: {attr: attributes.strings(attribute)},
        lambda values: literals.listed(map(literals.quoted, words)) if (words := values.get(attr)) else "",
        is_required=False,
        kind="strings",
    )
