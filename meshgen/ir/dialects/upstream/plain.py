"""Payload dialects of upstream MLIR as far as meshgen reads them: arith, math, tensor, scf.

xDSL's own definitions lack many of these operations or reject tensors, so they are defined here by the form
of their text; what they mean stands with their importers. They are read, never printed.
"""

from __future__ import annotations

import re
from typing import Any, Self

from xdsl.dialects import scf, tensor
from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    IndexType,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from meshgen.ir.parser import TextParser

_FLAGS = re.compile(r"<[^>]*>")
ROUNDING = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
POWERS = ("math.fpowi",)


class Plain(IRDLOperation):
    """Any operands and results; in text operands, attributes and one type that all have."""

    arguments = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    fastmath = opt_prop_def(AnyAttr())
    overflowFlags = opt_prop_def(AnyAttr())
    roundingmode = opt_prop_def(AnyAttr())
    predicate = opt_prop_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        return cls._of(parser, operands, *cls._types(parser, len(operands)), attributes)

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        """Types of operands and results, from what stands behind the colon."""
        kind = parser.parse_type()
        return [kind] * count, [kind]

    @classmethod
    def _of(cls, parser: TextParser, operands: list[UnresolvedOperand], types: list[Attribute],
            results: list[Attribute], attributes: dict[str, Attribute]) -> Self:  # fmt: skip
        values = parser.resolve_operands(operands, types, parser.pos)
        return cls.create(operands=list(values), result_types=results, attributes=attributes)


def _attributes(parser: TextParser) -> dict[str, Attribute]:
    """The attribute dictionary; flags of fast math and overflow say nothing that is used, and are skipped."""
    while any(parser.parse_optional_keyword(word) for word in ("fastmath", "overflow", "exact", "nneg", *ROUNDING)):
        if parser.at_angle():
            parser.scan(_FLAGS, "flags in angle brackets expected")
    return parser.parse_optional_attr_dict()


class Test(Plain):
    """`%x : type`; the result says for each element whether something holds."""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        return [kind] * count, [truth(kind)]


class Two(Plain):
    """`%a, %b : type`, or `: type, type of the second result or operand`"""

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_type()
        other = kind if parser.parse_optional_punctuation(",") is None else parser.parse_type()
        return ([kind, other], [kind]) if cls.name in POWERS else ([kind] * count, [kind, other])


class Clamp(Plain):
    """`%x to [%low, %high] : type`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        bounds = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        return cls._of(parser, [operand, *bounds], *cls._types(parser, 3), attributes)


def truth(kind: Attribute) -> Attribute:
    """The type of truth values for the elements of a type."""
    return TensorType(i1, kind.get_shape()) if isinstance(kind, TensorType) else i1


class Cast(Plain):
    """`%x : type to type`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operand = parser.parse_unresolved_operand()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_keyword("to")
        return cls._of(parser, [operand], [source], [parser.parse_type()], attributes)


class Compare(Plain):
    """`ogt, %a, %b : type`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        predicate = StringAttr(parser.parse_identifier())
        parser.parse_punctuation(",")
        operands = parser.parse_values()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        found = cls._of(parser, operands, [kind, kind], [truth(kind)], attributes)
        found.properties["predicate"] = predicate
        return found


class Select(Plain):
    """`%c, %a, %b : type`, or `: condition type, type`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        kind: Attribute = parser.parse_type()
        condition: Attribute = i1
        if parser.parse_optional_punctuation(",") is not None:
            condition, kind = kind, parser.parse_type()
        return cls._of(parser, operands, [condition, kind, kind], [kind], attributes)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """`arith.constant 1.0 : f32`, `arith.constant dense<0> : tensor<4xi32>`, `arith.constant true`"""

    name = "arith.constant"
    value = prop_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        kind = getattr(value, "type", None) or getattr(getattr(value, "data", None), "type", None)
        if not isinstance(kind, Attribute):
            parser.raise_error("a constant is a number, true, false or dense<...>, with its type")
        return cls.create(result_types=[kind], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)


@irdl_op_definition
class GenerateOp(IRDLOperation):
    """`tensor.generate %n {^bb0(%i: index): ... tensor.yield %x : f32} : tensor<?xf32>`"""

    name = "tensor.generate"
    sizes = var_operand_def(AnyAttr())
    body = region_def("single_block")
    result = result_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> GenerateOp:
        assert isinstance(parser, TextParser)
        names = parser.parse_values() if parser.at_value() else []
        sizes = parser.resolve_operands(names, [IndexType()] * len(names), parser.pos)
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            operands=list(sizes), result_types=[parser.parse_type()], regions=[body], attributes=attributes
        )


def define(base: type[IRDLOperation], dialect: str, names: str, properties: str = "") -> list[type[Operation]]:
    """Operations of one form, by the words of `names`; each may have any of the `properties`."""
    found: list[type[Operation]] = []
    for name in names.split():
        body: dict[str, Any] = {"name": f"{dialect}.{name}", "__module__": base.__module__}
        body |= {word: opt_prop_def(AnyAttr()) for word in properties.split()}
        found.append(irdl_op_definition(type(f"{dialect}_{name}", (base,), body)))
    return found


ARITH = Dialect(
    "arith",
    [
        ConstantOp,
        *define(
            Plain,
            "arith",
            "addf subf mulf divf remf negf maximumf minimumf maxnumf minnumf addi subi muli divsi divui remsi remui "
            "ceildivsi ceildivui floordivsi maxsi minsi maxui minui andi ori xori shli shrui shrsi",
        ),
        *define(Two, "arith", "addui_extended mulsi_extended mului_extended"),
        *define(
            Cast,
            "arith",
            "extf truncf extsi extui trunci sitofp uitofp fptosi fptoui index_cast index_castui bitcast",
        ),
        *define(Compare, "arith", "cmpf cmpi"),
        *define(Select, "arith", "select"),
    ],
    [FastMathFlagsAttr, IntegerOverflowAttr],
)
MATH = Dialect(
    "math",
    [
        *define(
            Plain,
            "math",
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh sin cos tan sinh cosh asin acos atan asinh acosh "
            "atanh absf absi floor ceil trunc round roundeven erf erfc powf ipowi atan2 copysign fma ctpop ctlz cttz",
        ),
        *define(Test, "math", "isfinite isinf isnan isnormal"),
        *define(Two, "math", "fpowi sincos"),
        *define(Clamp, "math", "clampf"),
    ],
)
TENSOR = Dialect(
    "tensor",
    [
        tensor.CastOp, tensor.CollapseShapeOp, tensor.ConcatOp, tensor.DimOp, tensor.EmptyOp, tensor.ExpandShapeOp,
        tensor.ExtractOp, tensor.ExtractSliceOp, tensor.FromElementsOp, tensor.InsertOp, tensor.InsertSliceOp,
        tensor.PadOp, tensor.ReshapeOp, tensor.SplatOp, GenerateOp, tensor.YieldOp,
    ],
)  # fmt: skip
SCF = Dialect(
    "scf", [scf.ForOp, scf.IfOp, scf.WhileOp, scf.ConditionOp, scf.IndexSwitchOp, scf.ExecuteRegionOp, scf.YieldOp]
)
