"""Operations of upstream MLIR by the form of their text; their semantics are in the importers. They are read, never printed."""

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
    """Operands, attributes and, after a colon, one type that all operands and results have."""

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
        """Operands, and properties between them."""
        return parser.parse_values(), {}

    @classmethod
    def _attributes(cls, parser: TextParser) -> dict[str, Attribute]:
        """The attribute dictionary; flags of fast math and overflow say nothing that is used, and are skipped."""
        rounding: dict[str, Attribute] = {}
        while word := next(filter(parser.parse_optional_keyword, (*_SKIPPED, *ROUNDING)), None):
            if word in ROUNDING:
                rounding["roundingmode"] = StringAttr(word)
            elif parser.at_mark("<"):
                parser.scan(_FLAGS, "expected flags in angle brackets")
        return rounding | parser.parse_optional_attr_dict()

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        """Types of operands and results, from the text after the colon."""
        kind = parser.parse_type()
        return [kind] * count, [kind]


class Test(Plain):
    """`%x : type`; the result says for each element whether something holds."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind] * count, [_truth(kind)]


class TwoResults(Plain):
    """`%a, %b : type`, or `: type, type of the second result`"""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind] * count, [kind, _second_type(parser, kind)]


class TwoTypes(Plain):
    """`%a, %b : type, type of the second operand`"""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind, _second_type(parser, kind)], [kind]


class Clamp(Plain):
    """`%x to [%low, %high] : type`"""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        bounds = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        return [operand, *bounds], {}


class Cast(Plain):
    """`%x : type to type`"""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        source = parser.parse_type()
        parser.parse_keyword("to")
        return [source], [parser.parse_type()]


class Compare(Plain):
    """`ogt, %a, %b : type`"""

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
    """`%c, %a, %b : type`, or `: condition type, type`"""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind: Attribute = parser.parse_type()
        condition: Attribute = i1
        if parser.parse_optional_punctuation(",") is not None:
            condition, kind = kind, parser.parse_type()
        return [condition, kind, kind], [kind]


def entries(parser: TextParser, value: Callable[[str], Attribute | None]) -> dict[str, Attribute]:
    """An optional dictionary, as `{axis = 1 : i32, nan_mode = PROPAGATE, flag}`.

    `value` reads what stands for an attribute of that name where it is written otherwise than attributes are.
    """
    found: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("{") is None:
        return found
    while parser.parse_optional_punctuation("}") is None:
        name = parser.parse_identifier()
        if parser.parse_optional_punctuation("=") is None:
            found[name] = UnitAttr()
        else:
            found[name] = value(name) or parser.parse_attribute()
        if parser.parse_optional_punctuation(",") is None:
            parser.parse_punctuation("}")
            break
    return found


def _truth(kind: Attribute) -> Attribute:
    """The type of truth values for the elements of a type."""
    return TensorType(i1, kind.get_shape()) if isinstance(kind, TensorType) else i1


def _second_type(parser: TextParser, first: Attribute) -> Attribute:
    return first if parser.parse_optional_punctuation(",") is None else parser.parse_type()
