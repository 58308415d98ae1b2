"""Parallel loops of scf (forall and parallel), and scf.for with a parser that accepts one result type without
parentheses.

xDSL has no forall, and no textual form of parallel. These operations are parsed but never printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, DenseArrayBase, IndexType, i64
from xdsl.dialects.utils import DynamicIndexList
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsTerminator, NoTerminator

from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import assignments, result_types

_MAPPING = re.compile(r"\{[^{}]*\}")
_NUMBERS = DenseArrayBase[I64]


def _parenthesized_numbers(parser: Parser) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    """Parse a list of static and dynamic numbers such as `(0, %n)`."""
    names, numbers = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX, delimiter=parser.Delimiter.PAREN)
    return [parser.resolve_operand(name, IndexType()) for name in names], DenseArrayBase.from_list(i64, numbers)


@irdl_op_definition
class ForallOp(IRDLOperation):
    """The operation `scf.forall`, whose iterations may run in parallel.

    scf.forall (%i, %j) in (4, %n) shared_outs(%o = %e) -> (type) {...}
    scf.forall (%i) = (0) to (%n) step (2) shared_outs(%o = %e) -> (type) {...}

    A mapping to threads or blocks is ignored.
    """

    name = "scf.forall"
    dynamicLowerBound = var_operand_def(IndexType)
    dynamicUpperBound = var_operand_def(IndexType)
    dynamicStep = var_operand_def(IndexType)
    outputs = var_operand_def(AnyAttr())
    staticLowerBound = prop_def(_NUMBERS)
    staticUpperBound = prop_def(_NUMBERS)
    staticStep = prop_def(_NUMBERS)
    mapping = opt_prop_def(AnyAttr())
    results_ = var_result_def(AnyAttr())
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        loops = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        bounds = _bounds(parser, len(loops))
        inner: list[UnresolvedOperand] = []
        outer: list[UnresolvedOperand] = []
        types: list[Attribute] = []
        if parser.parse_optional_keyword("shared_outs") is not None:
            (inner, outer), types = assignments(parser), result_types(parser)
        operands = [*(dynamic for dynamic, _ in bounds), list(parser.resolve_operands(outer, types, parser.pos))]
        body = parser.parse_named_region([*((name, IndexType()) for name in loops), *zip(inner, types, strict=True)])
        if parser.at_mark("{"):
            parser.scan(_MAPPING, "expected attributes in braces")
        names = ("staticLowerBound", "staticUpperBound", "staticStep")
        properties = {name: static for name, (_, static) in zip(names, bounds, strict=True)}
        return cls.build(operands=operands, result_types=[types], properties=properties, regions=[body])


def _bounds(parser: TextParser, count: int) -> list[tuple[list[SSAValue], DenseArrayBase[I64]]]:
    """Parse the lower bounds, upper bounds and steps of a forall. After `in`, the lower bounds are 0 and the steps 1."""
    if parser.parse_optional_keyword("in") is not None:
        return [_repeated_bound(0, count), _parenthesized_numbers(parser), _repeated_bound(1, count)]
    parser.parse_punctuation("=")
    bounds = [_parenthesized_numbers(parser)]
    for word in ("to", "step"):
        parser.parse_keyword(word)
        bounds.append(_parenthesized_numbers(parser))
    return bounds


def _repeated_bound(number: int, count: int) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    return [], DenseArrayBase.from_list(i64, [number] * count)


@irdl_op_definition
class InParallelOp(IRDLOperation):
    """The terminator of a forall: `{tensor.parallel_insert_slice ...}` lists what each iteration writes to the shared
    outputs.
    """

    name = "scf.forall.in_parallel"
    body = region_def("single_block")
    traits = traits_def(IsTerminator(), NoTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls(regions=[parser.parse_region()])


@irdl_op_definition
class ParallelInsertSliceOp(IRDLOperation):
    """The operation `tensor.parallel_insert_slice %part into %out[0, %i] [1, 4] [1, 1] : type into type`."""

    name = "tensor.parallel_insert_slice"
    source = operand_def(AnyAttr())
    dest = operand_def(AnyAttr())
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(_NUMBERS)
    static_sizes = prop_def(_NUMBERS)
    static_strides = prop_def(_NUMBERS)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$source `into` $dest `` custom<DynamicIndexList>($offsets, $static_offsets)"
        "custom<DynamicIndexList>($sizes, $static_sizes) custom<DynamicIndexList>($strides, $static_strides)"
        "attr-dict `:` type($source) `into` type($dest)"
    )
    custom_directives = (DynamicIndexList,)


@irdl_op_definition
class ParallelOp(IRDLOperation):
    """The operation `scf.parallel (%i) = (%low) to (%high) step (%step) init (%x) -> type {... scf.reduce(...)}`."""

    name = "scf.parallel"
    lowerBound = var_operand_def(IndexType)
    upperBound = var_operand_def(IndexType)
    step = var_operand_def(IndexType)
    initVals = var_operand_def(AnyAttr())
    results_ = var_result_def(AnyAttr())
    region = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        loops = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        operands: list[list[SSAValue]] = []
        for mark in ("=", "to", "step"):
            parser.parse_punctuation("=") if mark == "=" else parser.parse_keyword(mark)
            names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            operands.append([parser.resolve_operand(name, IndexType()) for name in names])
        types, inits = list[Attribute](), list[UnresolvedOperand]()
        if parser.parse_optional_keyword("init") is not None:
            inits = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            types = result_types(parser)
        operands.append(list(parser.resolve_operands(inits, types, parser.pos)))
        body = parser.parse_named_region([(name, IndexType()) for name in loops])
        attributes = parser.parse_optional_attr_dict()
        return cls.build(operands=operands, result_types=[types], regions=[body], attributes=attributes)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """The terminator of an scf.parallel, with one region per reduced value.

    scf.reduce(%a, %b : type, type) {^bb0(%x: type, %y: type): ...}, {...}
    """

    name = "scf.reduce"
    args = var_operand_def(AnyAttr())
    reductions = var_region_def("single_block")
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands: Sequence[SSAValue] = ()
        regions: list[Region] = []
        if parser.parse_optional_punctuation("(") is not None:
            assert isinstance(parser, TextParser)
            operands = parser.parse_typed_values()
            parser.parse_punctuation(")")
            regions = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_region)
        return cls(operands=[operands], regions=[regions])


@irdl_op_definition
class ReduceReturnOp(IRDLOperation):
    """The terminator `scf.reduce.return %x : type` of a region of `scf.reduce`."""

    name = "scf.reduce.return"
    value = operand_def(AnyAttr())
    traits = traits_def(IsTerminator())
    assembly_format = "$value attr-dict `:` type($value)"


class ForOp(scf.ForOp):
    """The operation `scf.for` of xDSL, whose parser here also accepts a single result type without parentheses."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        loop, bounds = parser.parse_unresolved_operand(), list[UnresolvedOperand]()
        for mark in ("=", "to", "step"):
            parser.parse_punctuation("=") if mark == "=" else parser.parse_keyword(mark)
            bounds.append(parser.parse_unresolved_operand())
        inner, outer, types = list[UnresolvedOperand](), list[UnresolvedOperand](), list[Attribute]()
        if parser.parse_optional_keyword("iter_args") is not None:
            (inner, outer), types = assignments(parser), result_types(parser)
        carried = parser.resolve_operands(outer, types, parser.pos)
        kind = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else IndexType()
        ends = [parser.resolve_operand(bound, kind) for bound in bounds]
        body = parser.parse_named_region([(loop, kind), *zip(inner, types, strict=True)])
        operation = cls(ends[0], ends[1], ends[2], carried, body)
        operation.attributes |= parser.parse_optional_attr_dict()
        if not types and not isinstance(body.block.last_op, scf.YieldOp):
            body.block.add_op(scf.YieldOp())
        return operation


PARALLEL_OPS = (ForallOp, InParallelOp, ParallelOp, ReduceOp, ReduceReturnOp)
