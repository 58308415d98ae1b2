"""The supported operations of tosa, grouped by their textual form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import TextOperation, Yield, assignments, define, result_types
from meshgen.mlir.textual_forms import Plain, entries

CONDITION = TensorType(i1, [])
WORDS = ("PROPAGATE", "IGNORE", "SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND", "NEAREST_NEIGHBOR", "BILINEAR")


class Functional(Plain):
    """An operation with a function type: `OP %a, %b {attributes} : (types) -> types`, or `OP : () -> type` without
    operands.
    """

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
    """Parse an unquoted word of one of tosa's enums, such as PROPAGATE. Returns None for other tokens."""
    word = next((word for word in WORDS if parser.parse_optional_keyword(word)), None)
    return None if word is None else StringAttr(word)


@irdl_attr_definition
class TosaShapeType(ParametrizedAttribute, TypeAttribute):
    """The type of a shape with a given number of sizes: `!tosa.shape<2>`."""

    name = "tosa.shape"
    rank: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer())]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rank.data}>")


class ConstShape(TextOperation):
    """The operation `tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.of([], parser.parse_function_type().outputs.data, attributes)


class CondIf(TextOperation):
    """A conditional in one of two forms.

    tosa.cond_if %c (%a = %x) : tensor<i1> (type) -> type {^bb0(%a: type): ...} else {...}
    tosa.cond_if %c -> (type) {...} else {...}
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        condition = parser.parse_unresolved_operand()
        inner, outer = assignments(parser)
        kind = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else CONDITION
        inputs: Sequence[Attribute] = ()
        results: Sequence[Attribute] = result_types(parser)
        if not results and (function := parser.parse_optional_function_type()) is not None:
            inputs, results = function.inputs.data, function.outputs.data
        first = _region(parser, inner, inputs)
        parser.parse_keyword("else")
        second = _region(parser, inner, inputs)
        operands = parser.resolve_operands([condition, *outer], [kind, *inputs], parser.pos)
        return cls.of(operands, results, {}, regions=[first, second])


class WhileLoop(TextOperation):
    """A loop: `tosa.while_loop (%a = %x) : (type) -> type {...} do {^bb0(%b: type): ...}`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        inner, outer = assignments(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        first = _region(parser, inner, kind.inputs.data)
        parser.parse_keyword("do")
        second = _region(parser, inner, kind.inputs.data)
        operands = parser.resolve_operands(outer, kind.inputs.data, parser.pos)
        return cls.of(operands, kind.outputs.data, {}, regions=[first, second])


def _region(parser: TextParser, inner: Sequence[UnresolvedOperand], types: Sequence[Attribute]) -> Region:
    """Parse a region that declares its arguments itself (`^bb0(...)`). Otherwise its arguments have the names `inner`."""
    if parser.at_block_label():
        return parser.parse_region()
    return parser.parse_named_region(list(zip(inner, types, strict=False)))


class Variable(TextOperation):
    """The declaration of a variable: `tosa.variable @v = dense<7> : tensor<1xi32>`, or `@v : tensor<1xi32>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_punctuation("=") is not None:
            properties["initial_value"] = parser.parse_attribute()
        else:
            parser.parse_punctuation(":")
            properties["type"] = parser.parse_type()
        return cls.of([], [], parser.parse_optional_attr_dict(), properties)


class Access(TextOperation):
    """A read `tosa.variable.read @v : type`, or a write `tosa.variable.write @v, %x : type`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        name, reads = parser.parse_symbol_name(), cls.name.endswith("read")
        values: list[UnresolvedOperand] = []
        if not reads:
            parser.parse_punctuation(",")
            values = [parser.parse_unresolved_operand()]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        operands = [parser.resolve_operand(value, type) for value in values]
        return cls.of(operands, [type] if reads else [], attributes, {"name": name})


_WINDOW = "stride?: integers(2), kernel?: integers(2), pad?: integers(4)"
_PLANE = "pad?: integers(4), stride?: integers(2), dilation?: integers(2), acc_type?: type, local_bound?: flag"
_SPACE = "pad?: integers(6), stride?: integers(3), dilation?: integers(3), acc_type?: type, local_bound?: flag"
_NAN = "nan_mode?: PROPAGATE|IGNORE"
_ENDS = "min_val?: number, max_val?: number, min_fp?: number, max_fp?: number, min_int?: number, max_int?: number"
_ROUNDING = "rounding_mode?: SINGLE_ROUND|DOUBLE_ROUND|INEXACT_ROUND, double_round?: flag"
_SCALES = f"{_ROUNDING}, scale32?: flag, per_channel?: flag, input_unsigned?: flag, output_unsigned?: flag"
ELEMENTWISE = define(Functional, "tosa", {
    "1 -> 1": "abs bitwise_not ceil clz cos erf exp floor identity log logical_not reciprocal rsqrt sigmoid sin tanh",
    "2 -> 1": "add bitwise_and bitwise_or bitwise_xor equal greater greater_equal intdiv logical_and logical_left_shift logical_or "
    "logical_right_shift logical_xor pow sub",
    "2 -> 1 <round?: flag>": "arithmetic_right_shift",
    f"2 -> 1 <{_NAN}>": "maximum minimum",
    "3 -> 1": "select",
    f"3 -> 1 <{_ROUNDING}>": "apply_scale",
})  # fmt: skip
OPERATIONS = (
    *define(ConstShape, "tosa", {"0 -> 1 shape <values: elements>": "const_shape"}),
    *define(CondIf, "tosa", {"1+m -> n {_ -> n} {_ -> n}": "cond_if"}),
    *define(WhileLoop, "tosa", {"n -> n {n -> 1} {n -> n}": "while_loop"}),
    *define(Yield, "tosa", {"_ -> 0": "yield"}),
    *define(Variable, "tosa", {
        "0 -> 0 <sym_name: string|symbol, initial_value?: any, type?: type, var_shape?: any>": "variable",
    }),
    *define(Access, "tosa", {
        "0 -> 1 <name: string|symbol>": "variable.read variable_read",
        "1 -> 0 <name: string|symbol>": "variable.write variable_write",
    }),
    *ELEMENTWISE,
    *define(Functional, "tosa", {
        "0 -> 1 <value?: elements, values?: elements>": "const",
        "1 -> 1": "cast",
        "1 -> 1 <axis: integer>": "reduce_all reduce_any reduce_prod reduce_product reduce_sum reverse",
        f"1 -> 1 <axis: integer, {_NAN}>": "argmax reduce_max reduce_min",
        f"1 -> 1 <{_ENDS}, {_NAN}>": "clamp",
        f"1 -> 1 <{_WINDOW}, {_NAN}>": "max_pool2d",
        "1 -> 1 <perms: integers>": "transpose",
        f"1..3 -> 1 <{_WINDOW}, acc_type?: type>": "avg_pool2d",
        "1..2 -> 1 <new_shape?: integers>": "reshape",
        "1..2 -> 1 <multiples?: integers>": "tile",
        "1..3 -> 1": "negate",
        "1..3 -> 1 <padding?: integers>": "pad",
        "1..3 -> 1 <start?: integers, size?: integers>": "slice",
        "1..4 -> 1 <mode: NEAREST_NEIGHBOR|BILINEAR, scale?: integers(4), offset?: integers(2), border?: integers(2)>": "resize",
        f"5 -> 1 <{_SCALES}>": "rescale",
        "1.. -> 1 <axis: integer>": "concat",
        "2 -> 1": "gather table",
        "2..3 -> 1 <shift?: integer>": "mul",
        "2..4 -> 1": "matmul",
        "3 -> 1": "scatter",
        "3..5 -> 1": "fully_connected",
        f"3..5 -> 1 <{_PLANE}>": "conv2d depthwise_conv2d",
        f"3..5 -> 1 <{_SPACE}>": "conv3d",
        "3..5 -> 1 <out_pad?: integers(4), stride?: integers(2), acc_type?: type, local_bound?: flag>": "transpose_conv2d",
        "1 -> 2 <local_bound?: flag>": "rfft2d",
        "2 -> 2 <inverse?: flag, local_bound?: flag>": "fft2d",
    }),
)  # fmt: skip
ATTRIBUTES = (TosaShapeType,)
