"""The operations of arith, math, index and affine, grouped by their textual form."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, StringAttr, i1
from xdsl.ir import Attribute
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import TextOperation, define
from meshgen.mlir.textual_forms import Cast, Clamp, Compare, Plain, Select, Test, TwoResults, TwoTypes


class Constant(TextOperation):
    """An operation with a constant, such as `arith.constant 1.0 : f32` or `arith.constant dense<0> : tensor<4xi32>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        kind = getattr(value, "type", None) or getattr(getattr(value, "data", None), "type", None)
        if not isinstance(kind, Attribute):
            parser.raise_error("a constant is a number, true, false or dense<...>, with its type")
        return cls.of([], [kind], attributes, {"value": value})


class OfIndices(Plain):
    """An operation on indices, whose types the text omits: `index.add %a, %b`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        names, properties = cls._head(parser)
        operands = parser.resolve_operands(names, [IndexType()] * len(names), parser.pos)
        return cls.of(operands, [i1 if properties else IndexType()], parser.parse_optional_attr_dict(), properties)


class IndexCompare(OfIndices):
    """A comparison of indices: `index.cmp slt(%a, %b)`."""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        predicate = StringAttr(parser.parse_identifier())
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        return operands, {"predicate": predicate}


class IndexConstant(TextOperation):
    """An index or boolean constant: `index.constant 3` or `index.bool.constant true`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        number = int(parser.parse_integer(allow_boolean=True, allow_negative=True))
        value = IntegerAttr(number, IndexType()) if cls.name == "index.constant" else IntegerAttr(number, i1)
        return cls.of([], [value.type], {}, {"value": value})


class Mapped(TextOperation):
    """An affine map applied to indices: `affine.apply affine_map<(d0)[s0] -> (d0 + s0)>(%i)[%s]`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        map = parser.parse_attribute()
        brackets = (parser.Delimiter.PAREN, parser.Delimiter.SQUARE)
        lists = [
            parser.parse_optional_comma_separated_list(bracket, parser.parse_unresolved_operand) for bracket in brackets
        ]
        operands = [parser.resolve_operand(name, IndexType()) for names in lists for name in names or ()]
        if not isinstance(map, AffineMapAttr) or len(operands) != map.data.num_dims + map.data.num_symbols:
            parser.raise_error("expected an affine map, and an index for each of its dims and symbols")
        return cls.of(operands, [IndexType()], parser.parse_optional_attr_dict(), {"map": map})


# Fast-math and overflow flags are parsed and ignored.
FLAGS = "fastmath?: any, overflowFlags?: any, roundingmode?: string|integer"
_PREDICATE = f"predicate: string|integer, {FLAGS}"
ARITH = (
    *define(Constant, "arith", {"0 -> 1 <value: number|elements>": "constant"}),
    *define(Plain, "arith", {
        f"1 float -> 1 float <{FLAGS}>": "negf",
        f"2 float -> 1 <{FLAGS}>": "addf divf maximumf maxnumf minimumf minnumf mulf remf subf",
        f"2 integer -> 1 <{FLAGS}>": "addi andi ceildivsi ceildivui divsi divui floordivsi maxsi maxui minsi minui muli ori "
        "remsi remui shli shrsi shrui subi xori",
    }),
    *define(TwoResults, "arith", {f"2 integer -> 2 <{FLAGS}>": "addui_extended mulsi_extended mului_extended"}),
    *define(Cast, "arith", {
        f"1 -> 1 <{FLAGS}>": "bitcast",
        f"1 float -> 1 float <{FLAGS}>": "extf truncf",
        f"1 float -> 1 integer <{FLAGS}>": "fptosi fptoui",
        f"1 integer -> 1 float <{FLAGS}>": "sitofp uitofp",
        f"1 integer -> 1 integer <{FLAGS}>": "extsi extui index_cast index_castui trunci",
    }),
    *define(Compare, "arith", {f"2 float -> 1 <{_PREDICATE}>": "cmpf", f"2 integer -> 1 <{_PREDICATE}>": "cmpi"}),
    *define(Select, "arith", {f"3 -> 1 <{FLAGS}>": "select"}),
)  # fmt: skip
MATH = (
    *define(Plain, "math", {
        f"1 float -> 1 <{FLAGS}>": "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor log log10 "
        "log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc",
        f"1 integer -> 1 <{FLAGS}>": "absi ctlz ctpop cttz",
        f"2 float -> 1 <{FLAGS}>": "atan2 copysign powf",
        f"2 integer -> 1 <{FLAGS}>": "ipowi",
        f"3 float -> 1 <{FLAGS}>": "fma",
    }),
    *define(Test, "math", {f"1 float -> 1 <{FLAGS}>": "isfinite isinf isnan isnormal"}),
    *define(TwoTypes, "math", {f"2 -> 1 float <{FLAGS}>": "fpowi"}),
    *define(TwoResults, "math", {f"1 float -> 2 <{FLAGS}>": "sincos"}),
    *define(Clamp, "math", {f"3 float -> 1 <{FLAGS}>": "clampf"}),
)  # fmt: skip
INDEX = (
    *define(OfIndices, "index", {
        f"2 integer -> 1 <{FLAGS}>": "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems remu shl shrs "
        "shru sub xor",
    }),
    *define(Cast, "index", {f"1 integer -> 1 integer <{FLAGS}>": "casts castu"}),
    *define(IndexCompare, "index", {f"2 integer -> 1 <{_PREDICATE}>": "cmp"}),
    *define(IndexConstant, "index", {"0 -> 1 integer <value: integer>": "constant bool.constant"}),
)  # fmt: skip
AFFINE = define(Mapped, "affine", {"n -> 1 <map: map(n)>": "apply max min"})
ATTRIBUTES = (FastMathFlagsAttr, IntegerOverflowAttr)
