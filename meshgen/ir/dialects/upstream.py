"""Payload dialects of upstream MLIR as far as meshgen reads them: arith, math, tosa, linalg, tensor, scf.

xDSL's own definitions lack many of these operations or reject tensors, so they are defined here by the form
of their text; what they mean stands with their importers. They are read, never printed.
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

from xdsl.dialects import scf, tensor
from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    I64,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IndexTypeConstr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from meshgen.ir.parser import TextParser

_SHAPE = re.compile(r"\{\s*values\s*=\s*dense<([^>]*)>\s*:\s*tensor<\d+xindex>\s*\}")


class Plain(IRDLOperation):
    """Any operands and results; in text operands, attributes and one type that all have."""

    arguments = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        return cls._of(parser, operands, [kind] * len(operands), [kind], attributes)

    @classmethod
    def _of(cls, parser: TextParser, operands: list[UnresolvedOperand], types: list[Attribute],
            results: list[Attribute], attributes: dict[str, Attribute]) -> Self:  # fmt: skip
        values = parser.resolve_operands(operands, types, parser.pos)
        return cls.create(operands=list(values), result_types=results, attributes=attributes)


def _attributes(parser: TextParser) -> dict[str, Attribute]:
    """The attribute dictionary; flags of fast math and overflow say nothing that is used, and are skipped."""
    if parser.parse_optional_keyword("fastmath") or parser.parse_optional_keyword("overflow"):
        parser.scan(re.compile(r"<[^>]*>"), "flags in angle brackets expected")
    return parser.parse_optional_attr_dict()


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
        result = TensorType(i1, kind.get_shape()) if isinstance(kind, TensorType) else i1
        return cls._of(parser, operands, [kind, kind], [result], {**attributes, "predicate": predicate})


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


class Functional(Plain):
    """`%a, %b {attributes} : (types) -> types`; without operands `: () -> type`"""

    axis = opt_prop_def(AnyAttr())
    perms = opt_prop_def(AnyAttr())
    values = opt_prop_def(AnyAttr())
    min_val = opt_prop_def(AnyAttr())
    max_val = opt_prop_def(AnyAttr())
    nan_mode = opt_prop_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        first = parser.parse_optional_unresolved_operand()
        operands = [] if first is None else [first]
        while operands and parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        return cls._of(parser, operands, list(kind.inputs.data), list(kind.outputs.data), attributes)


@irdl_attr_definition
class TosaShapeType(ParametrizedAttribute, TypeAttribute):
    """`!tosa.shape<2>`"""

    name = "tosa.shape"
    rank: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer())]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rank.data}>")


@irdl_op_definition
class ConstShapeOp(IRDLOperation):
    """`tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>`"""

    name = "tosa.const_shape"
    values = prop_def(DenseArrayBase[I64])
    result = result_def(TosaShapeType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConstShapeOp:
        assert isinstance(parser, TextParser)
        body = parser.scan(_SHAPE, "{values = dense<...> : tensor<nxindex>} expected")[1]
        parser.parse_punctuation(":")
        kind = parser.parse_function_type().outputs.data[0]
        numbers = [int(word) for word in re.findall(r"-?\d+", body)]
        if isinstance(kind, TosaShapeType) and len(numbers) == 1:
            numbers *= kind.rank.data
        return cls.create(result_types=[kind], properties={"values": DenseArrayBase.from_list(i64, numbers)})

    def print(self, printer: Printer) -> None:
        numbers = ", ".join(str(number) for number in self.values.get_values())
        printer.print_string(f" {{values = dense<[{numbers}]> : tensor<{len(self.values)}xindex>}} : () -> ")
        printer.print_attribute(self.result.type)


class Structured(IRDLOperation):
    """A named operation of linalg: `ins(%a : type) outs(%c : type) dimensions = [1] -> type`.

    `inputs` and `outputs` are its operands in this order; `input_count` says where the outputs begin. A
    combining operation in braces becomes the attribute `combiner`, a region in text is kept.
    """

    arguments = var_operand_def(AnyAttr())
    regions_ = var_region_def()
    results_ = var_result_def(AnyAttr())
    LISTS: ClassVar[tuple[str, ...]] = ("dimensions", "permutation")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        attributes = cls._head(parser)
        inputs, outputs = _group(parser, "ins"), _group(parser, "outs")
        for name in cls.LISTS:
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                attributes[name] = DenseArrayBase.from_list(i64, list(parser.parse_integers()))
        attributes |= parser.parse_optional_attr_dict()
        region = _region(parser)
        results = [value.type for value in outputs if isinstance(value.type, TensorType)]
        if parser.parse_optional_punctuation("->") is not None:
            results = _result_types(parser)
        attributes["input_count"] = IntAttr(len(inputs))
        return cls.create(operands=[*inputs, *outputs], result_types=results, attributes=attributes, regions=region)

    @classmethod
    def _head(cls, parser: TextParser) -> dict[str, Attribute]:
        """What stands before `ins`: attributes, indexing maps, or a combining operation in braces."""
        attributes: dict[str, Attribute] = {}
        if cls.name in ("linalg.map", "linalg.reduce"):
            if parser.parse_optional_punctuation("{") is not None:
                attributes["combiner"] = StringAttr(parser.parse_identifier())
                parser.parse_optional_attr_dict()
                parser.parse_punctuation("}")
            return attributes
        if parser.parse_optional_keyword("indexing_maps") is not None:
            parser.parse_punctuation("=")
            attributes["indexing_maps"] = parser.parse_attribute()
        return attributes | parser.parse_optional_attr_dict()


@irdl_op_definition
class IndexOp(IRDLOperation):
    """`linalg.index 1 : index`"""

    name = "linalg.index"
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(IndexType)
    assembly_format = "$dim attr-dict `:` type($result)"


@irdl_op_definition
class GenericOp(IRDLOperation):
    """`linalg.generic {indexing_maps = ..., iterator_types = ...} ins(...) outs(...) {...} -> types`"""

    name = "linalg.generic"
    inputs = var_operand_def(AnyAttr())
    outputs = var_operand_def(AnyAttr())
    results_ = var_result_def(AnyAttr())
    body = region_def("single_block")
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    iterator_types = prop_def(ArrayAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, parser: Parser) -> GenericOp:
        assert isinstance(parser, TextParser)
        attributes = parser.parse_optional_attr_dict()
        inputs, outputs = _group(parser, "ins"), _group(parser, "outs")
        if parser.parse_optional_keyword("attrs") is not None:
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        region = parser.parse_region()
        results = _result_types(parser) if parser.parse_optional_punctuation("->") is not None else []
        properties = {name: attributes.pop(name, None) for name in ("indexing_maps", "iterator_types")}
        if None in properties.values():
            parser.raise_error("linalg.generic needs indexing_maps and iterator_types")
        return cls(
            operands=[inputs, outputs],
            result_types=[results],
            regions=[region],
            properties=properties,
            attributes=attributes,
        )

    @property
    def reduced(self) -> tuple[int, ...]:
        """The loops that are not parallel."""
        kinds = [str(kind.data) for kind in self.iterator_types if isinstance(kind, StringAttr | IteratorTypeAttr)]
        return tuple(number for number, kind in enumerate(kinds) if kind != "parallel")


def _group(parser: TextParser, word: str) -> list[SSAValue]:
    """`ins(%a, %b : type, type)`"""
    if parser.parse_optional_keyword(word) is None:
        return []
    with parser.in_parens():
        start = parser.pos
        names = parser.parse_values()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return list(parser.resolve_operands(names, types, start))


def _region(parser: TextParser) -> list[Region]:
    """`(%in: f32, %acc: f32) {...}`, if it is there."""
    arguments = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
    return [] if arguments is None else [parser.parse_region(arguments)]


def _result_types(parser: TextParser) -> list[Attribute]:
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return list(types) if types is not None else [parser.parse_type()]


def define(base: type[IRDLOperation], dialect: str, names: str) -> list[type[Operation]]:
    """Operations of one form, by the words of `names`."""
    found: list[type[Operation]] = []
    for name in names.split():
        body = {"name": f"{dialect}.{name}", "__module__": base.__module__}
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
            "maxsi minsi maxui minui andi ori xori shli shrui shrsi",
        ),
        *define(Cast, "arith", "extf truncf extsi extui trunci sitofp uitofp fptosi fptoui index_cast bitcast"),
        *define(Compare, "arith", "cmpf cmpi"),
        *define(Select, "arith", "select"),
    ],
    [FastMathFlagsAttr, IntegerOverflowAttr],
)
MATH = Dialect(
    "math",
    define(
        Plain,
        "math",
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh sin cos tan absf absi floor ceil trunc round "
        "roundeven erf powf atan2 fma ctpop ctlz",
    ),
)
TOSA = Dialect(
    "tosa",
    [
        ConstShapeOp,
        *define(
            Functional,
            "tosa",
            "abs add sub mul pow maximum minimum ceil floor exp log tanh sigmoid sin cos erf negate reciprocal rsqrt "
            "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor equal greater "
            "greater_equal select clamp cast identity const matmul reduce_sum reduce_max reduce_min reduce_product "
            "reduce_any reduce_all transpose reshape concat reverse slice pad",
        ),
    ],
    [TosaShapeType],
)
LINALG_NAMED = (
    "fill copy add sub mul div max min exp log sqrt rsqrt square abs negf tanh ceil floor reciprocal erf powf select "
    "matmul batch_matmul matvec vecmat dot batch_matvec matmul_transpose_a matmul_transpose_b "
    "batch_matmul_transpose_a batch_matmul_transpose_b transpose broadcast reduce map"
)
LINALG = Dialect(
    "linalg", [GenericOp, YieldOp, IndexOp, *define(Structured, "linalg", LINALG_NAMED)], [IteratorTypeAttr]
)
TENSOR = Dialect(
    "tensor",
    [
        tensor.CastOp, tensor.CollapseShapeOp, tensor.ConcatOp, tensor.EmptyOp, tensor.ExpandShapeOp,
        tensor.ExtractSliceOp, tensor.FromElementsOp, tensor.InsertSliceOp, tensor.SplatOp, tensor.PadOp,
        tensor.ExtractOp, tensor.YieldOp,
    ],
)  # fmt: skip
SCF = Dialect("scf", [scf.ForOp, scf.IfOp, scf.YieldOp])
UPSTREAM = (ARITH, MATH, TOSA, LINALG, TENSOR, SCF)
