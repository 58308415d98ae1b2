"""The form of most of Shardy's operations: a value, properties, and its type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, operand_def
from xdsl.parser import Parser


class OfOneValue(IRDLOperation, ABC):
    """`%x WHAT IS SAID {attributes} : type`; a result, where there is one, is of the same type."""

    input = operand_def()

    @classmethod
    @abstractmethod
    def parse_said(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse the properties after the value."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        properties = cls.parse_said(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        value = parser.resolve_operand(operand, type)
        results = [type for _ in cls.get_irdl_definition().results]
        return cls.create(operands=[value], result_types=results, properties=properties, attributes=attributes)
