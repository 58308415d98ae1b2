"""The supported operations of linalg: `generic`, and the named operations, grouped by their textual form.

The other files of `mlir/linalg` convert them; `mlir/upstream` prints them.
"""

from __future__ import annotations

import re
from typing import Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Region, SSAValue

from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import TextOperation, Yield, define, one_or_more_types
from meshgen.mlir.textual_forms import entries

_WORD = re.compile(r"#linalg\.\w+<\s*(\w+)\s*>")
LISTS = ("dimensions", "permutation")
_LAYOUT = {
    "outer_dims_perm": "outer_dims_perm",
    "inner_dims_pos": "inner_dims_pos",
    "inner_tiles": "static_inner_tiles",
}


class Structured(TextOperation):
    """A named operation: `ins(%a : type) outs(%c : type) dimensions = [1] -> type`.

    Its operands are the inputs, then the outputs. The property `operandSegmentSizes` has their counts if the text has
    `ins` and `outs`. The operation name in `linalg.reduce { arith.addf }` becomes the property `combiner`.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties = cls._head(parser)
        inputs, outputs = _group(parser, "ins"), _group(parser, "outs")
        for name in LISTS:
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                properties[name] = DenseArrayBase.from_list(i64, list(parser.parse_integers()))
        property_names = {property.name for property in cls.signature.properties}
        attributes = {name: properties.pop(name) for name in [*properties] if name not in property_names}
        attributes |= parser.parse_optional_attr_dict()
        regions = _region(parser)
        results: list[Attribute] = [value.type for value in outputs if isinstance(value.type, TensorType)]
        if parser.parse_optional_punctuation("->") is not None:
            results = one_or_more_types(parser)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(inputs), len(outputs)])
        return cls.of([*inputs, *outputs], results, attributes, properties, regions)

    @classmethod
    def _head(cls, parser: TextParser) -> dict[str, Attribute]:
        """Parse the text before `ins`: attributes, indexing maps, a kind, or a combining operation in braces."""
        properties: dict[str, Attribute] = {}
        if cls.name in ("linalg.map", "linalg.reduce"):
            if parser.parse_optional_punctuation("{") is not None:
                properties["combiner"] = StringAttr(parser.parse_identifier())
                properties["combiner_attributes"] = DictionaryAttr(parser.parse_optional_attr_dict())
                parser.parse_punctuation("}")
            return properties
        if parser.parse_optional_keyword("dimension") is not None:
            with parser.in_parens():
                properties["dimension"] = IntegerAttr(parser.parse_integer(), 64)
        if parser.parse_optional_keyword("kind") is not None:
            parser.parse_punctuation("=")
            properties["kind"] = _word(parser)
        for _ in range(2):  # Indexing maps may come before or after the attribute dictionary.
            if parser.parse_optional_keyword("indexing_maps") is not None:
                parser.parse_punctuation("=")
                properties["indexing_maps"] = parser.parse_attribute()
            properties |= _dictionary(parser)
        return properties


def _dictionary(parser: TextParser) -> dict[str, Attribute]:
    """Parse a dictionary such as `{strides = dense<2> : tensor<2xi64>, cast = #linalg.type_fn<cast_unsigned>}`."""
    return entries(parser, lambda name: _word(parser) if name in ("cast", "kind") else None)


def _word(parser: TextParser) -> StringAttr:
    """Parse an enum attribute such as `#linalg.elementwise_kind<add>`."""
    return StringAttr(
        parser.scan(_WORD, "expected an attribute of linalg, for example #linalg.type_fn<cast_signed>")[1]
    )


class Index(TextOperation):
    """The operation that returns the index of a loop: `linalg.index 1 : index`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        dim = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.of([], [parser.parse_type()], attributes, {"dim": IntegerAttr(dim, IndexType())})


class Generic(TextOperation):
    """The operation `linalg.generic {indexing_maps = ..., iterator_types = ...} ins(...) outs(...) {...} -> types`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        inputs, outputs = _group(parser, "ins"), _group(parser, "outs")
        if parser.parse_optional_keyword("attrs") is not None:
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        region = parser.parse_region()
        results = one_or_more_types(parser) if parser.parse_optional_punctuation("->") is not None else []
        if not attributes.keys() >= {"indexing_maps", "iterator_types"}:
            parser.raise_error("linalg.generic needs indexing_maps and iterator_types")
        segments = DenseArrayBase.from_list(i32, [len(inputs), len(outputs)])
        return cls.of([*inputs, *outputs], results, attributes, {"operandSegmentSizes": segments}, [region])


def _group(parser: TextParser, word: str) -> list[SSAValue]:
    """Parse `WORD(%a, %b : type, type)`, where WORD is `ins` or `outs`. Returns no values if it is missing."""
    if parser.parse_optional_keyword(word) is None:
        return []
    with parser.in_parens():
        return parser.parse_typed_values()


def _region(parser: TextParser) -> list[Region]:
    """Parse the optional region `(%in: f32, %acc: f32) {...}`."""
    arguments = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region_argument)
    return [] if arguments is None else [parser.parse_region(arguments)]


class Relayout(TextOperation):
    """The operation `linalg.pack` or `linalg.unpack`.

    linalg.pack %x padding_value(%p : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0] inner_tiles = [8] into %d : a
    -> b
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        source = parser.parse_unresolved_operand()
        pads: list[SSAValue] = []
        if parser.parse_optional_keyword("padding_value") is not None:
            with parser.in_parens():
                name = parser.parse_unresolved_operand()
                parser.parse_punctuation(":")
                pads = [parser.resolve_operand(name, parser.parse_type())]
        lists: dict[str, Attribute] = {}
        for word, prop in _LAYOUT.items():
            if prop in lists or (parser.parse_optional_keyword(word) is None and word == "outer_dims_perm"):
                continue
            parser.parse_punctuation("=")
            lists[prop] = DenseArrayBase.from_list(i64, list(parser.parse_integers()))
        parser.parse_keyword("into")
        target = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        first = parser.parse_type()
        parser.parse_punctuation("->")
        second = parser.parse_type()
        operands = [parser.resolve_operand(source, first), parser.resolve_operand(target, second), *pads]
        return cls.of(operands, [second], attributes, lists)


_SEGMENTS = "operandSegmentSizes?: counts(2)"
_COMBINER = "combiner?: string, combiner_attributes?: any"
_LOOPS = f"{_SEGMENTS}, iterator_types?: array, cast?: any"
_STEPS = f"{_SEGMENTS}, strides?: integers, dilations?: integers, cast?: any"
CONTRACTIONS = define(Structured, "linalg", {
    f"(2, 1) -> 1 {{3 -> 1}}? <indexing_maps?: maps(3), {_LOOPS}>": "batch_matmul batch_matmul_transpose_a batch_matmul_transpose_b "
    "batch_matvec batch_mmt4d batch_reduce_matmul batch_vecmat dot matmul matmul_transpose_a matmul_transpose_b matmul_unsigned "
    "matvec mmt4d vecmat",
    f"(2, 1) -> 1 {{3 -> 1}}? <indexing_maps: maps(3), {_LOOPS}>": "contract",
    f"(4, 1) -> 1 {{5 -> 1}}? <indexing_maps?: maps, {_LOOPS}>": "quantized_batch_matmul quantized_matmul",
})  # fmt: skip
WINDOWS = define(Structured, "linalg", {
    f"(2, 1) -> 1 {{3 -> 1}}? <{_STEPS}>": "conv_1d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d conv_2d_nchw_fchw conv_2d_ngchw_fgchw "
    "conv_2d_ngchw_gfchw conv_2d_nhwc_fhwc conv_2d_nhwc_hwcf conv_2d_nhwgc_gfhwc conv_3d conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf "
    "depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nchw_chw "
    "depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwcm depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc "
    "depthwise_conv_3d_ndhwc_dhwcm pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum pooling_ndhwc_max "
    "pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned pooling_nhwc_min pooling_nhwc_min_unsigned "
    "pooling_nhwc_sum pooling_nwc_max pooling_nwc_max_unsigned pooling_nwc_min pooling_nwc_min_unsigned pooling_nwc_sum",
    f"(4, 1) -> 1 {{5 -> 1}}? <{_STEPS}>": "conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf_q "
    "conv_3d_ndhwc_dhwcf_q depthwise_conv_2d_nhwc_hwc_q depthwise_conv_2d_nhwc_hwcm_q",
})  # fmt: skip
ELEMENTWISE = define(Structured, "linalg", {
    f"(1, 1) -> 1 {{2 -> 1}}? <indexing_maps?: maps(2), {_LOOPS}>": "abs ceil copy erf exp floor log negf reciprocal round rsqrt sqrt "
    "square tanh",
    f"(2, 1) -> 1 {{3 -> 1}}? <indexing_maps?: maps(3), {_LOOPS}>": "add div div_unsigned max min mul powf sub",
    f"(3, 1) -> 1 {{4 -> 1}}? <indexing_maps?: maps(4), {_LOOPS}>": "select",
    f"(1+n, 1) -> 1 {{2+n -> 1}}? <kind: string, indexing_maps?: maps(2+n), {_LOOPS}>": "elementwise",
})  # fmt: skip
(YIELD,) = define(Yield, "linalg", {"_ -> 0": "yield"})
OPERATIONS = (
    *CONTRACTIONS,
    *WINDOWS,
    *ELEMENTWISE,
    *define(Structured, "linalg", {
        f"(1, 1) -> 1 {{2 -> 1}}? <{_SEGMENTS}>": "fill",
        f"(1, 1) -> 1 {{2 -> 1}}? <permutation: integers, {_SEGMENTS}>": "transpose",
        f"(1, 1) -> 1 {{2 -> 1}}? <dimensions: integers, {_SEGMENTS}>": "broadcast",
        f"(1, 1) -> 1 <dimension: integer, {_SEGMENTS}>": "softmax",
        f"(n, 1) -> 1 {{_ -> 1}}? <{_COMBINER}, {_SEGMENTS}>": "map",
        f"(1+n, 1+n) -> 1+n {{2+2n -> 1+n}}? <dimensions: integers, {_COMBINER}, {_SEGMENTS}>": "reduce",
    }),
    *define(Generic, "linalg", {
        "(m, n) -> n {m+n -> n} <operandSegmentSizes: counts(2), indexing_maps: maps(m+n), iterator_types: array>": "generic",
    }),
    YIELD,
    *define(Index, "linalg", {"0 -> 1 integer <dim: integer>": "index"}),
    *define(Relayout, "linalg", {
        "2..3 -> 1 <outer_dims_perm?: integers, inner_dims_pos: integers, static_inner_tiles: integers>": "pack",
        "2 -> 1 <outer_dims_perm?: integers, inner_dims_pos: integers, static_inner_tiles: integers>": "unpack",
    }),
)  # fmt: skip
ATTRIBUTES = (IteratorTypeAttr,)
