"""Conditionals of scf, whose parsers accept a single result type without parentheses, and assertions of cf."""

from __future__ import annotations

from typing import Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, StringAttr, i1, i64
from xdsl.ir import Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def
from xdsl.parser import Parser

from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.text_operation import result_types


class IfOp(scf.IfOp):
    """The operation `scf.if %c -> type {...} else {...}`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition, types = parser.parse_operand(i1), result_types(parser)
        first = cls.parse_region_with_yield(parser)
        second = cls.parse_region_with_yield(parser) if parser.parse_optional_keyword("else") else Region()
        return cls(condition, types, first, second, parser.parse_optional_attr_dict())


class IndexSwitchOp(scf.IndexSwitchOp):
    """The operation `scf.index_switch %i -> type, type case 0 {...} default {...}`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        index, attributes = parser.parse_operand(IndexType()), parser.parse_optional_attr_dict()
        types = list(result_types(parser))
        while types and parser.parse_optional_punctuation(","):
            types.append(parser.parse_type())
        numbers, regions = list[int](), list[Region]()
        while parser.parse_optional_keyword("case"):
            numbers.append(parser.parse_integer())
            regions.append(parser.parse_region())
        parser.parse_keyword("default")
        cases = DenseArrayBase.from_list(i64, numbers)
        return cls(index, cases, parser.parse_region(), regions, types, attributes)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """The operation `cf.assert %c, "message"`."""

    name = "cf.assert"
    arg = operand_def(i1)
    msg = prop_def(StringAttr)
    assembly_format = "$arg `,` $msg attr-dict"


SIGNATURES = signatures_of("scf", {
    "1.. -> 0": "condition",
    "0 -> n {0 -> n}": "execute_region",
    "3+n -> n {1+n -> n}": "for",
    "(l, u, s, n) -> n {i+n -> 0} <staticLowerBound: integers(i), staticLowerBound: open(l), staticUpperBound: integers(i), "
    "staticUpperBound: open(u), staticStep: integers(i), staticStep: open(s), mapping?: any>": "forall",
    "0 -> 0 {0}": "forall.in_parallel",
    "1 -> n {0 -> n} {0 -> n}?": "if",
    "1 -> n {0 -> n}+": "index_switch",
    "(i, i, i, n) -> n {i -> n}": "parallel",
    "n -> 0 {2 -> 1}n": "reduce",
    "n -> m {n -> 1+m} {m -> n}": "while",
    "_ -> 0": "yield",
})  # fmt: skip
