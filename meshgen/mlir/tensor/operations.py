"""The operations of tensor, most of which xDSL defines, and globals of ml_program."""

from __future__ import annotations

from typing import Self

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Attribute

from meshgen.mlir.arith.operations import FLAGS
from meshgen.mlir.attributes import array
from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.parser import TextParser
from meshgen.mlir.scf.parallel_ops import ParallelInsertSliceOp
from meshgen.mlir.text_operation import TextOperation, define
from meshgen.mlir.textual_forms import Cast


class Generate(TextOperation):
    """The operation `tensor.generate %n {^bb0(%i: index): ... tensor.yield %x : f32} : tensor<?xf32>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        names = parser.parse_values() if parser.at_value() else []
        sizes = parser.resolve_operands(names, [IndexType()] * len(names), parser.pos)
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.of(sizes, [parser.parse_type()], attributes, regions=[body])


class Lookup(TextOperation):
    """The operations `tensor.gather` and `tensor.scatter`.

    tensor.gather %x[%i] gather_dims([1, 2]) unique : (types) -> type tensor.scatter %rows into %x[%i] scatter_dims([1,
    2]) unique : (types) -> type
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        if parser.parse_optional_keyword("into"):
            operands.append(parser.parse_unresolved_operand())
        operands += parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        dims = f"{cls.name.removeprefix('tensor.')}_dims"
        parser.parse_keyword(dims)
        with parser.in_parens():
            properties: dict[str, Attribute] = {dims: array(parser.parse_integers())}
        if parser.parse_optional_keyword("unique"):
            properties["unique"] = UnitAttr()
        attributes = parser.parse_optional_attr_dict()
        values, results = parser.parse_signature(operands)
        return cls.of(values, results, attributes, properties)


class ExpandShapeOp(tensor.ExpandShapeOp):
    """The operation `tensor.expand_shape` of xDSL, which here also accepts a 0-d operand, to which it adds dims of size
    1.
    """

    def verify_(self) -> None:
        if self.reassociation.data:
            super().verify_()


class Rank(TextOperation):
    """The operation `tensor.rank %x : type`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        return cls.of(parser.parse_typed_values(), [IndexType()], {})


class Global(TextOperation):
    """The declaration of a global, as torch-mlir emits it.

    ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        for word in ("public", "private", "nested", "mutable"):
            parser.parse_optional_keyword(word)
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_punctuation("(") is not None:
            properties["value"] = parser.parse_attribute()
            parser.parse_punctuation(")")
        parser.parse_punctuation(":")
        properties["type"] = parser.parse_type()
        return cls.of([], [], parser.parse_optional_attr_dict(), properties)


OPERATIONS = (
    tensor.CastOp, tensor.CollapseShapeOp, tensor.ConcatOp, tensor.DimOp, tensor.EmptyOp, ExpandShapeOp,
    tensor.ExtractOp, tensor.ExtractSliceOp, tensor.FromElementsOp, tensor.InsertOp, tensor.InsertSliceOp,
    tensor.PadOp, tensor.ReshapeOp, tensor.SplatOp, tensor.YieldOp, ParallelInsertSliceOp,
    *define(Cast, "tensor", {f"1 -> 1 <{FLAGS}>": "bitcast"}),
    *define(Generate, "tensor", {"_ -> 1 {_ -> 1}": "generate"}),
    *define(Lookup, "tensor", {
        "2 -> 1 <gather_dims: integers, unique?: unit>": "gather", "3 -> 1 <scatter_dims: integers, unique?: unit>": "scatter",
    }),
    *define(Rank, "tensor", {"1 -> 1 integer": "rank"}),
    *define(Global, "ml_program", {
        "0 -> 0 <sym_name: string|symbol, type: type, is_mutable?: unit, value?: any, sym_visibility?: string>": "global",
    }),
)  # fmt: skip
_SLICES = (
    "static_offsets: integers(i), static_offsets: open(o), static_sizes: integers(i), static_sizes: open(z), static_strides: integers(i), "
    "static_strides: open(s)"
)
SIGNATURES = (  # Signatures of operations whose xDSL definitions do not check the operand counts
    signatures_of("tensor", {
        "1.. -> 1": "concat extract from_elements splat",
        "(1, n) -> 1 <static_output_shape: open(n)>": "expand_shape",
        f"(1, o, z, s) -> 1 <{_SLICES}>": "extract_slice",
        "(1, l, h) -> 1 {i -> 1} <static_low: integers(i), static_low: open(l), static_high: integers(i), static_high: open(h)>": "pad",
        f"(1, 1, o, z, s) -> 0 <{_SLICES}>": "parallel_insert_slice",
        "2.. -> 1": "insert",
        f"(1, 1, o, z, s) -> 1 <{_SLICES}>": "insert_slice",
        "_ -> 0": "yield",
        "_ -> 1": "empty",
    })
    | signatures_of("bufferization", {"_ -> 1": "alloc_tensor", "2 -> 0..1": "materialize_in_destination"})
)  # fmt: skip
