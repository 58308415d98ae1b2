"""Upstream's dialect tosa as far as meshgen reads it. Its operations are read, never printed."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from meshgen.mlir.parser import TextParser
from meshgen.mlir.plain_ops import Plain, define, entries
from meshgen.mlir.tosa.signatures import SIGNATURES

CONDITION = TensorType(i1, [])
WORDS = ("PROPAGATE", "IGNORE", "SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND", "NEAREST_NEIGHBOR", "BILINEAR")


class Functional(Plain):
    """`%a, %b {attributes} : (types) -> types`; without operands `: () -> type`"""

    @classmethod
    def _head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], dict[str, Attribute]]:
        return parser.parse_values() if parser.at_value() else [], {}

    @classmethod
    def _attributes(cls, parser: TextParser) -> dict[str, Attribute]:
        return entries(parser, lambda name: _word(parser))

    @classmethod
    def _types(cls, parser: TextParser, count: int) -> tuple[list[Attribute], list[Attribute]]:
        kind = parser.parse_function_type()
        return list(kind.inputs.data), list(kind.outputs.data)


def _word(parser: TextParser) -> Attribute | None:
    """A keyword of tosa, without quotes."""
    word = next((word for word in WORDS if parser.parse_optional_keyword(word)), None)
    return None if word is None else StringAttr(word)


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
    values = prop_def(AnyAttr())
    result = result_def(TosaShapeType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConstShapeOp:
        assert isinstance(parser, TextParser)
        parser.parse_punctuation("{")
        parser.parse_keyword("values")
        parser.parse_punctuation("=")
        values = parser.parse_attribute()
        parser.parse_punctuation("}")
        parser.parse_punctuation(":")
        kinds = parser.parse_function_type().outputs.data
        return cls.create(result_types=list(kinds), properties={"values": values})


class Control(IRDLOperation):
    """Two regions over the operands after the first `leading` ones."""

    arguments = var_operand_def(AnyAttr())
    results_ = var_result_def(AnyAttr())
    first = region_def()
    second = region_def()


@irdl_op_definition
class CondIfOp(Control):
    """`%c (%a = %x) : tensor<i1> (type) -> type {^bb0(%a: type): ...} else {...}`, or `%c -> (type) {...} else {...}`"""

    name = "tosa.cond_if"

    @classmethod
    def parse(cls, parser: Parser) -> CondIfOp:
        assert isinstance(parser, TextParser)
        condition = parser.parse_unresolved_operand()
        inner, outer = _assignments(parser)
        kind = None
        if parser.parse_optional_punctuation(":") is not None:
            kind = parser.parse_type()
        inputs: list[Attribute] = []
        results: list[Attribute] = []
        if parser.parse_optional_punctuation("->") is not None:
            results = _types(parser)
        elif (function := parser.parse_optional_function_type()) is not None:
            inputs, results = list(function.inputs.data), list(function.outputs.data)
        first = _region(parser, inner, inputs)
        parser.parse_keyword("else")
        second = _region(parser, inner, inputs)
        kinds = [kind or CONDITION, *inputs]
        operands = parser.resolve_operands([condition, *outer], kinds, parser.pos)
        return cls.create(operands=list(operands), result_types=results, regions=[first, second])


@irdl_op_definition
class WhileLoopOp(Control):
    """`(%a = %x) : (type) -> type {...} do {^bb0(%b: type): ...}`"""

    name = "tosa.while_loop"

    @classmethod
    def parse(cls, parser: Parser) -> WhileLoopOp:
        assert isinstance(parser, TextParser)
        inner, outer = _assignments(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        inputs = list(kind.inputs.data)
        first = _region(parser, inner, inputs)
        parser.parse_keyword("do")
        second = _region(parser, inner, inputs)
        operands = parser.resolve_operands(outer, inputs, parser.pos)
        return cls.create(operands=list(operands), result_types=list(kind.outputs.data), regions=[first, second])


def _assignments(parser: TextParser) -> tuple[list[UnresolvedOperand], list[UnresolvedOperand]]:
    """`(%a = %x, %b = %y)`: the names inside and the values outside."""

    def one() -> tuple[UnresolvedOperand, UnresolvedOperand]:
        inner = parser.parse_unresolved_operand()
        parser.parse_punctuation("=")
        return inner, parser.parse_unresolved_operand()

    pairs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, one) or []
    return [inner for inner, _ in pairs], [outer for _, outer in pairs]


def _types(parser: TextParser) -> list[Attribute]:
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return list(types) if types is not None else [parser.parse_type()]


def _region(parser: TextParser, inner: list[UnresolvedOperand], types: list[Attribute]) -> Region:
    """A region that names its arguments itself (`^bb0(...)`), or has those in front of it."""
    if parser.at_block_label():
        return parser.parse_region()
    return parser.parse_named_region(list(zip(inner, types, strict=False)))


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`tosa.yield %a, %b : type, type`"""

    name = "tosa.yield"
    arguments = var_operand_def(AnyAttr())
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        assert isinstance(parser, TextParser)
        operands: list[SSAValue] = []
        if parser.at_value():
            names, start = parser.parse_values(), parser.pos
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            operands = list(parser.resolve_operands(names, types, start))
        return cls.create(operands=operands)


@irdl_op_definition
class VariableOp(IRDLOperation):
    """`tosa.variable @v = dense<7> : tensor<1xi32>`, or `@v : tensor<1xi32>`"""

    name = "tosa.variable"
    sym_name = prop_def(AnyAttr())
    initial_value = opt_prop_def(AnyAttr())
    type = opt_prop_def(AnyAttr())
    var_shape = opt_prop_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> VariableOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_punctuation("=") is not None:
            properties["initial_value"] = parser.parse_attribute()
        else:
            parser.parse_punctuation(":")
            properties["type"] = parser.parse_type()
        return cls.create(properties=properties, attributes=parser.parse_optional_attr_dict())


class Access(IRDLOperation):
    """`@v`, with `, %x` where it is written, and a type."""

    variable = prop_def(AnyAttr(), prop_name="name")
    arguments = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        name, reads = parser.parse_symbol_name(), cls.name.endswith("read")
        values: list[UnresolvedOperand] = []
        if not reads:
            parser.parse_punctuation(",")
            values = [parser.parse_unresolved_operand()]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        operands = [parser.resolve_operand(value, type) for value in values]
        return cls.create(operands=operands, result_types=[type] if reads else [], properties={"name": name}, attributes=attributes)  # fmt: skip


OPERATIONS: tuple[type[Operation], ...] = (
    ConstShapeOp, CondIfOp, WhileLoopOp, YieldOp, VariableOp,
    *define(Access, "tosa", "variable.read variable.write variable_read variable_write", SIGNATURES),
    *define(
        Functional,
        "tosa",
        "abs add sub mul pow intdiv maximum minimum ceil clz floor exp log tanh sigmoid sin cos erf negate "
        "reciprocal rsqrt logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor "
        "bitwise_not arithmetic_right_shift logical_left_shift logical_right_shift equal greater greater_equal "
        "select clamp cast identity const matmul conv2d conv3d depthwise_conv2d transpose_conv2d avg_pool2d "
        "max_pool2d fully_connected reduce_sum reduce_max reduce_min reduce_product reduce_prod reduce_any "
        "reduce_all argmax transpose reshape concat reverse slice pad tile gather scatter rescale apply_scale resize table fft2d "
        "rfft2d", SIGNATURES),
)  # fmt: skip
ATTRIBUTES = (TosaShapeType,)
