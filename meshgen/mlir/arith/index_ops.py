"""Upstream's dialects of numbers that say where: index, and affine's maps of indices. Read, never printed."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, StringAttr, i1
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import Pure

from meshgen.mlir.arith.signatures import SIGNATURES
from meshgen.mlir.known_integers import AS_ARITH
from meshgen.mlir.parser import TextParser
from meshgen.mlir.plain_ops import Cast, Plain, define


class Whole(Plain):
    """`%a, %b`: indices, without types."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        names, properties = cls._head(parser)
        operands = parser.resolve_operands(names, [IndexType()] * len(names), parser.pos)
        result = i1 if properties else IndexType()
        attributes = parser.parse_optional_attr_dict()
        return cls.create(operands=list(operands), result_types=[result], properties=properties, attributes=attributes)


class Compare(Whole):
    """`slt(%a, %b)`"""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        predicate = StringAttr(parser.parse_identifier())
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        return operands, {"predicate": predicate}


class Constant(IRDLOperation):
    """`3`, or `true`"""

    value = prop_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        number = parser.parse_integer(allow_boolean=True, allow_negative=True)
        kind: IndexType | None = IndexType() if cls.name == "index.constant" else None
        value: Attribute = IntegerAttr(int(number), kind) if kind else IntegerAttr(int(number), i1)
        return cls.create(result_types=[kind or i1], properties={"value": value})


class Mapped(IRDLOperation):
    """`affine_map<(d0)[s0] -> (d0 + s0)>(%i)[%s]`"""

    mapOperands = var_operand_def(IndexType)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        map = parser.parse_attribute()
        brackets = (parser.Delimiter.PAREN, parser.Delimiter.SQUARE)
        lists = [parser.parse_optional_comma_separated_list(each, parser.parse_unresolved_operand) for each in brackets]
        operands = [parser.resolve_operand(name, IndexType()) for names in lists for name in names or ()]
        if not isinstance(map, AffineMapAttr) or len(operands) != map.data.num_dims + map.data.num_symbols:
            parser.raise_error("expected an affine map, and an index for each of its dims and symbols")
        attributes = parser.parse_optional_attr_dict()
        return cls.create(operands=operands, result_types=[IndexType()], properties={"map": map}, attributes=attributes)


def _constants() -> list[type[Operation]]:
    return [
        irdl_op_definition(type(name.replace(".", "_"), (Constant,), {"name": name, "__module__": __name__}))
        for name in ("index.constant", "index.bool.constant")
    ]


INDEX: tuple[type[Operation], ...] = (
    *define(Whole, "index", " ".join(name for name in AS_ARITH if name not in ("casts", "castu", "cmp")), SIGNATURES),
    *define(Cast, "index", "casts castu", SIGNATURES),
    *define(Compare, "index", "cmp", SIGNATURES),
    *_constants(),
)
AFFINE = tuple(define(Mapped, "affine", "apply min max", SIGNATURES))
