"""Base classes of upstream operations, one per textual form. The importers define what the operations do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i1
from xdsl.ir import Attribute
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import TextOperation

_FLAGS = re.compile(r"<[^>]*>")
_SKIPPED = ("fastmath", "overflow", "exact", "nneg")
ROUNDING = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")


class Plain(TextOperation):
    """An operation with operands, attributes and, after a colon, a single type that all operands and results have."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operands, properties = cls._head(parser)
        attributes = cls._attributes(parser)
        parser.parse_punctuation(":")
        types, results = cls._types(parser, len(operands))
        values = parser.resolve_operands(operands, types, parser.pos)
        return cls.of(values, results, attributes, properties)

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        """Parse the operands, and the properties that may stand between them."""
        return parser.parse_values(), {}

    @classmethod
    def _attributes(cls, parser: TextParser) -> dict[str, Attribute]:
        """Parse the attribute dictionary.

        Fast-math and overflow flags are dropped, since they have no effect. A rounding mode is kept.
        """
        rounding: dict[str, Attribute] = {}
        while word := next(filter(parser.parse_optional_keyword, (*_SKIPPED, *ROUNDING)), None):
            if word in ROUNDING:
                rounding["roundingmode"] = StringAttr(word)
            elif parser.at_mark("<"):
                parser.scan(_FLAGS, "expected flags in angle brackets")
        return rounding | parser.parse_optional_attr_dict()

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        """Parse the types after the colon. Returns the types of the `count` operands, and the types of the results."""
        kind = parser.parse_type()
        return [kind] * count, [kind]


class Test(Plain):
    """An element-wise predicate with boolean results: `OP %x : type`."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind] * count, [_truth(kind)]


class TwoResults(Plain):
    """An operation with two results: `OP %a, %b : type`, or `: type, type of the second result`."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind] * count, [kind, _second_type(parser, kind)]


class TwoTypes(Plain):
    """An operation whose second operand may have another type: `OP %a, %b : type, type of the second operand`."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind, _second_type(parser, kind)], [kind]


class Clamp(Plain):
    """An operation of the form `OP %x to [%low, %high] : type`."""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        bounds = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        return [operand, *bounds], {}


class Cast(Plain):
    """A conversion: `OP %x : type to type`."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        source = parser.parse_type()
        parser.parse_keyword("to")
        return [source], [parser.parse_type()]


class Compare(Plain):
    """A comparison: `OP ogt, %a, %b : type`."""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        predicate = StringAttr(parser.parse_identifier())
        parser.parse_punctuation(",")
        return parser.parse_values(), {"predicate": predicate}

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind, kind], [_truth(kind)]


class Select(Plain):
    """A selection: `OP %c, %a, %b : type`, or `: condition type, type`."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind: Attribute = parser.parse_type()
        condition: Attribute = i1
        if parser.parse_optional_punctuation(",") is not None:
            condition, kind = kind, parser.parse_type()
        return [condition, kind, kind], [kind]


def entries(parser: TextParser, value: Callable[[str], Attribute | None]) -> dict[str, Attribute]:
    """Parse an optional attribute dictionary such as `{axis = 1 : i32, nan_mode = PROPAGATE, flag}`.

    The function `value` parses the value of an entry, given its name, if that is not in attribute syntax. It returns
    None for ordinary attributes.
    """
    attributes: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("{") is None:
        return attributes
    while parser.parse_optional_punctuation("}") is None:
        name = parser.parse_identifier()
        if parser.parse_optional_punctuation("=") is None:
            attributes[name] = UnitAttr()
        else:
            attributes[name] = value(name) or parser.parse_attribute()
        if parser.parse_optional_punctuation(",") is None:
            parser.parse_punctuation("}")
            break
    return attributes


def _truth(kind: Attribute) -> Attribute:
    """Return the boolean type with the shape of the type `kind`."""
    return TensorType(i1, kind.get_shape()) if isinstance(kind, TensorType) else i1


def _second_type(parser: TextParser, first: Attribute) -> Attribute:
    return first if parser.parse_optional_punctuation(",") is None else parser.parse_type()
