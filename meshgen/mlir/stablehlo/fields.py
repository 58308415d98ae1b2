"""Properties of StableHLO's operations: their text form, and their form in a node's attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint

from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import (
    IntegersConstraint,
    Struct,
    Word,
    array,
    boolean_of,
    integer,
    integer_of,
    integers,
    precision,
    precision_of,
    struct_fields,
    word_of,
)
from meshgen.records import dataclass

Values = Mapping[str, Any]


def _unwritten(parser: TextParser) -> Attribute:
    """A property without a keyword is in the attribute dictionary."""
    return parser.parse_attribute()


@dataclass(frozen=True)
class Field:
    """The property `prop` of an operation.

    `values` gives the attributes of a node that a property (or none) says, `attribute` the property that says them.
    In the pretty form a property follows its keyword, at a position that the class defines; one without
    a keyword is among the attributes in braces.
    """

    prop: str
    values: Callable[[Attribute | None], Values] = lambda _: {}
    attribute: Callable[[Values], Attribute | None] = lambda _: None
    keyword: str = ""
    read: Callable[[TextParser], Attribute] = _unwritten
    text: Callable[[Attribute], str] = str
    is_required: bool = True
    kind: type[Attribute] | AttrConstraint[Attribute] = field(default=Attribute)


def unread(*names: str) -> tuple[Field, ...]:
    """Properties that mean nothing to a node."""
    return tuple(Field(name, is_required=False) for name in names)


def number(prop: str, attr: str, keyword: str = "", *, width: int = 64, default: int | None = None) -> Field:
    """An integer; with a default it may be left out."""
    kind = builtin.IntegerType(width)
    return Field(
        prop,
        lambda attribute: {attr: integer_of(attribute, default or 0)},
        lambda values: builtin.IntegerAttr(values[attr], kind),
        keyword,
        lambda parser: integer(parser.parse_integer()),
        lambda attribute: str(integer_of(attribute)),
        default is None,
        builtin.IntegerAttr,
    )


def listed(prop: str, attr: str, keyword: str = "") -> Field:
    """A list of integers."""
    return Field(
        prop,
        lambda attribute: {attr: integers(attribute)},
        lambda values: array(values[attr]),
        keyword,
        lambda parser: array(parser.parse_integers()),
        lambda attribute: str(list(integers(attribute))),
        kind=IntegersConstraint(),
    )


def flag(prop: str, attr: str, keyword: str = "", *, is_required: bool = False) -> Field:
    """A boolean; false where it is left out."""
    return Field(
        prop,
        lambda attribute: {attr: boolean_of(attribute)},
        lambda values: boolean(bool(values.get(attr))),
        keyword,
        lambda parser: boolean(parser.parse_boolean()),
        lambda attribute: str(boolean_of(attribute)).lower(),
        is_required,
        builtin.IntegerAttr,
    )


def boolean(value: bool) -> Attribute:
    return builtin.IntegerAttr(int(value), builtin.i1)


def word(prop: str, kind: type[Word], attr: str, keyword: str = "", *, is_required: bool = True) -> Field:
    """A value of an enumeration; one that may be left out is empty then."""
    return Field(
        prop,
        lambda attribute: {attr: word_of(attribute)},
        lambda values: kind(values[attr]) if values.get(attr) else None,
        keyword,
        lambda parser: kind(parser.parse_identifier()),
        word_of,
        is_required,
        kind,
    )


def precisions(read: Callable[[TextParser], Attribute] = _unwritten, keyword: str = "") -> Field:
    """`precision_config`, one word per operand."""
    return Field(
        "precision_config",
        lambda attribute: {"precision": precision_of(attribute)},
        lambda values: precision(values["precision"]) if values.get("precision") else None,
        keyword,
        read,
        lambda attribute: f"[{', '.join(precision_of(attribute))}]",
        is_required=False,
    )


def numbering(prop: str, kind: type[Struct], lists: Mapping[str, str], one: Sequence[str] = (), *,
              is_written: bool = False) -> Field:  # fmt: skip
    """A struct of lists, by attribute of the node, and of numbers; `is_written`: these are printed where they are 0."""

    def values(attribute: Attribute | None) -> Values:
        assert isinstance(attribute, kind)
        found: dict[str, Any] = {attr: attribute.integers(name) for attr, name in lists.items()}
        return found | {name: attribute.integer(name) for name in one}

    def build(attrs: Values) -> Attribute:
        found = {name: attrs[attr] for attr, name in lists.items()} | {name: attrs[name] for name in one}
        return kind(struct_fields(found, one if is_written else ()))

    return Field(prop, values, build, kind=kind)
