"""Upstream's dialect linalg as far as meshgen reads it: `generic`, and named operations by the form of their text.

They are read, never printed; their semantics are in the importers (`mlir/linalg`).
"""

from __future__ import annotations

import re
from typing import Self

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IndexTypeConstr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser

from meshgen.mlir.linalg.signatures import SIGNATURES
from meshgen.mlir.parser import TextParser
from meshgen.mlir.plain_ops import define, entries
from meshgen.mlir.stablehlo.attributes import IntegersConstraint

_WORD = re.compile(r"#linalg\.\w+<\s*(\w+)\s*>")
LISTS = ("dimensions", "permutation")
CONVOLUTIONS = (
    "conv_1d conv_2d conv_3d conv_1d_nwc_wcf conv_1d_ncw_fcw conv_2d_nhwc_hwcf conv_2d_nhwc_fhwc conv_2d_nchw_fchw "
    "conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_nhwgc_gfhwc conv_3d_ndhwc_dhwcf conv_3d_ncdhw_fcdhw "
    "conv_2d_nhwc_hwcf_q conv_2d_nhwc_fhwc_q conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_3d_ndhwc_dhwcf_q "
    "depthwise_conv_1d_nwc_wc depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nhwc_hwc "
    "depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwcm depthwise_conv_2d_nhwc_hwc_q "
    "depthwise_conv_2d_nhwc_hwcm_q depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ncdhw_cdhw "
    "depthwise_conv_3d_ndhwc_dhwcm"
)
POOLINGS = (
    "pooling_nhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned pooling_nhwc_min pooling_nhwc_min_unsigned "
    "pooling_nchw_sum pooling_nchw_max pooling_nwc_sum pooling_nwc_max pooling_nwc_max_unsigned pooling_nwc_min "
    "pooling_nwc_min_unsigned pooling_ncw_sum pooling_ncw_max pooling_ndhwc_sum pooling_ndhwc_max pooling_ndhwc_min"
)
CONTRACTIONS = (
    "matmul batch_matmul matvec vecmat dot batch_matvec batch_vecmat matmul_transpose_a matmul_transpose_b "
    "batch_matmul_transpose_a batch_matmul_transpose_b batch_reduce_matmul mmt4d batch_mmt4d matmul_unsigned "
    "quantized_matmul quantized_batch_matmul contract"
)
ELEMENTWISE = (
    "copy add sub mul div div_unsigned max min powf exp log abs ceil floor negf reciprocal round sqrt rsqrt square "
    "tanh erf select elementwise"
)
OTHERS = "fill transpose broadcast reduce map softmax"


class Structured(IRDLOperation):
    """A named operation: `ins(%a : type) outs(%c : type) dimensions = [1] -> type`.

    Its operands are inputs, then outputs; `operandSegmentSizes` says how many there are of each, where the text
    does. A combining operation in braces becomes `combiner`; a region in text is kept.
    """

    arguments = var_operand_def(AnyAttr())
    regions_ = var_region_def()
    results_ = var_result_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        properties = cls._head(parser)
        inputs, outputs = _group(parser, "ins"), _group(parser, "outs")
        for name in LISTS:
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                properties[name] = DenseArrayBase.from_list(i64, list(parser.parse_integers()))
        attributes = parser.parse_optional_attr_dict()
        regions = _region(parser)
        results: list[Attribute] = [value.type for value in outputs if isinstance(value.type, TensorType)]
        if parser.parse_optional_punctuation("->") is not None:
            results = _result_types(parser)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(inputs), len(outputs)])
        return cls._made([*inputs, *outputs], results, attributes, properties, regions)

    @classmethod
    def _made(cls, operands: list[SSAValue], results: list[Attribute], attributes: dict[str, Attribute],
              properties: dict[str, Attribute], regions: list[Region]) -> Self:  # fmt: skip
        """Create the operation; entries of the attribute dictionary in text may be properties."""
        for name in ("strides", "dilations", "cast", *LISTS):
            if name in attributes:
                properties[name] = attributes.pop(name)
        return cls.create(
            operands=operands, result_types=results, attributes=attributes, properties=properties, regions=regions
        )

    @classmethod
    def _head(cls, parser: TextParser) -> dict[str, Attribute]:
        """The text before `ins`: attributes, indexing maps, a kind, or a combining operation in braces."""
        found: dict[str, Attribute] = {}
        if cls.name in ("linalg.map", "linalg.reduce"):
            if parser.parse_optional_punctuation("{") is not None:
                found["combiner"] = StringAttr(parser.parse_identifier())
                parser.parse_optional_attr_dict()
                parser.parse_punctuation("}")
            return found
        if parser.parse_optional_keyword("dimension") is not None:
            with parser.in_parens():
                found["dimension"] = IntegerAttr(parser.parse_integer(), 64)
        if parser.parse_optional_keyword("kind") is not None:
            parser.parse_punctuation("=")
            found["kind"] = _word(parser)
        for _ in range(2):  # maps are before or after the dictionary
            if parser.parse_optional_keyword("indexing_maps") is not None:
                parser.parse_punctuation("=")
                found["indexing_maps"] = parser.parse_attribute()
            found |= _dictionary(parser)
        return found


def _dictionary(parser: TextParser) -> dict[str, Attribute]:
    """`{strides = dense<2> : tensor<2xi64>, cast = #linalg.type_fn<cast_unsigned>}`"""
    return entries(parser, lambda name: _word(parser) if name in ("cast", "kind") else None)


def _word(parser: TextParser) -> StringAttr:
    """`#linalg.elementwise_kind<add>`"""
    return StringAttr(
        parser.scan(_WORD, "expected an attribute of linalg, for example #linalg.type_fn<cast_signed>")[1]
    )


@irdl_op_definition
class IndexOp(IRDLOperation):
    """`linalg.index 1 : index`"""

    name = "linalg.index"
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(IndexType)

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        dim = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        properties = {"dim": IntegerAttr(dim, IndexType())}
        return cls.create(result_types=[kind], properties=properties, attributes=attributes)


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
    arguments = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region_argument)
    return [] if arguments is None else [parser.parse_region(arguments)]


def _result_types(parser: TextParser) -> list[Attribute]:
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return list(types) if types is not None else [parser.parse_type()]


class Relayout(IRDLOperation):
    """`linalg.pack %x padding_value(%p : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0] inner_tiles = [8] into %d : a -> b`"""

    arguments = var_operand_def(AnyAttr())
    outer_dims_perm = opt_prop_def(IntegersConstraint())
    inner_dims_pos = prop_def(IntegersConstraint())
    static_inner_tiles = prop_def(IntegersConstraint())
    result = result_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
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
        return cls.create(operands=operands, result_types=[second], properties=lists, attributes=attributes)


_LAYOUT = {
    "outer_dims_perm": "outer_dims_perm",
    "inner_dims_pos": "inner_dims_pos",
    "inner_tiles": "static_inner_tiles",
}
OPERATIONS = (
    GenericOp, YieldOp, IndexOp, *define(Relayout, "linalg", "pack unpack", SIGNATURES), *define(Structured, "linalg", f"{CONVOLUTIONS} {POOLINGS} {CONTRACTIONS} {ELEMENTWISE} {OTHERS}", SIGNATURES),
)  # fmt: skip
ATTRIBUTES = (IteratorTypeAttr,)
