"""Upstream's dialects arith and math as far as meshgen reads them."""

from __future__ import annotations

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import AnyAttr, IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.traits import Pure

from meshgen.mlir.arith.signatures import SIGNATURES
from meshgen.mlir.plain_ops import Cast, Clamp, Compare, Plain, Select, Test, TwoResults, TwoTypes, define


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


ARITH: tuple[type[Operation], ...] = (
    ConstantOp,
    *define(
        Plain,
        "arith",
        "addf subf mulf divf remf negf maximumf minimumf maxnumf minnumf addi subi muli divsi divui remsi remui "
        "ceildivsi ceildivui floordivsi maxsi minsi maxui minui andi ori xori shli shrui shrsi",
        SIGNATURES,
    ),
    *define(TwoResults, "arith", "addui_extended mulsi_extended mului_extended", SIGNATURES),
    *define(
        Cast,
        "arith",
        "extf truncf extsi extui trunci sitofp uitofp fptosi fptoui index_cast index_castui bitcast",
        SIGNATURES,
    ),
    *define(Compare, "arith", "cmpf cmpi", SIGNATURES),
    *define(Select, "arith", "select", SIGNATURES),
)
MATH: tuple[type[Operation], ...] = (
    *define(
        Plain,
        "math",
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh sin cos tan sinh cosh asin acos atan asinh acosh "
        "atanh absf absi floor ceil trunc round roundeven erf erfc powf ipowi atan2 copysign fma ctpop ctlz cttz",
        SIGNATURES,
    ),
    *define(Test, "math", "isfinite isinf isnan isnormal", SIGNATURES),
    *define(TwoTypes, "math", "fpowi", SIGNATURES),
    *define(TwoResults, "math", "sincos", SIGNATURES),
    *define(Clamp, "math", "clampf", SIGNATURES),
)
ATTRIBUTES = (FastMathFlagsAttr, IntegerOverflowAttr)
