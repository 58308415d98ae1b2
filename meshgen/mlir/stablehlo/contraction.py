"""Operations of StableHLO for dots and gathers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, UnresolvedOperand

from meshgen.ir.graph import DTYPES, TensorType, Value, is_complex, is_float
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import flag, listed
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import (
    Bracketed,
    DotDimensions,
    GatherDimensions,
    numbers,
    precision,
    struct_fields,
)
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, as_nodes
from meshgen.mlir.stablehlo.fields import numbering, precisions
from meshgen.mlir.text_operation import Field, Properties, Values, define, values_of
from meshgen.ops.evaluate.common import bits

_PAIR = re.compile(r"\[([-\d,\s]*)\]\s*x\s*\[([-\d,\s]*)\]")
_ALGORITHM = re.compile(r"<([^<>]*)>")
_WORDS = re.compile(r"\[([\w,\s]*)\]")
_DOT = {
    "lhs_batch": "lhs_batching_dimensions",
    "rhs_batch": "rhs_batching_dimensions",
    "lhs_contract": "lhs_contracting_dimensions",
    "rhs_contract": "rhs_contracting_dimensions",
}
_GATHER_LISTS = {
    name: name
    for name in ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map")
}  # fmt: skip


@irdl_attr_definition
class DotAlgorithm(Bracketed):
    """The algorithm of a dot, an attribute that is stored as text.

    <lhs_precision_type = bf16, ..., accumulation_type = f32, num_primitive_operations = 1, ...>
    """

    name = "stablehlo.dot_algorithm"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.scan(_ALGORITHM, "'<...>' expected")[1]

    def fields(self) -> dict[str, str]:
        parts = (part.partition("=") for part in self.data.split(","))
        return {name.strip(): value.strip() for name, _, value in parts}


def _read_precision(parser: TextParser) -> Attribute:
    """Parse a list of precisions, such as `[DEFAULT, HIGHEST]`."""
    words = parser.scan(_WORDS, "expected a list of precisions")[1]
    return precision([word.strip() for word in words.split(",") if word.strip()])


PRECISION = precisions(_read_precision, "precision")
GATHER_NUMBERS = numbering("dimension_numbers", GatherDimensions, _GATHER_LISTS, ["index_vector_dim"], is_written=True)


class DotGeneral(HloOperation):
    """A dot.

    stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT,
    DEFAULT]
    """

    FIELDS: ClassVar[tuple[Field, ...]] = (
        numbering("dot_dimension_numbers", DotDimensions, _DOT)._replace(keyword="contracting_dims"),
        PRECISION,
        Field("algorithm", keyword="algorithm", is_required=False),
    )

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        lists: dict[str, tuple[int, ...]] = {}
        properties: Properties = {}
        while parser.parse_optional_punctuation(",") is not None:
            clause = parser.parse_identifier()
            parser.parse_punctuation("=")
            if clause in ("batching_dims", "contracting_dims"):
                left, right = parser.scan(_PAIR, "[dims] x [dims] expected").groups()
                name = f"{clause.removesuffix('_dims')}_dimensions"
                lists |= {f"lhs_{name}": numbers(left), f"rhs_{name}": numbers(right)}
            elif clause == "precision":
                properties["precision_config"] = _read_precision(parser)
            elif clause == "algorithm":
                properties["algorithm"] = DotAlgorithm(DotAlgorithm.parse_parameter(parser))
            else:
                parser.fail(f"'{clause}' of dot_general is not supported; leave it out to use the default")
        properties["dot_dimension_numbers"] = DotDimensions(
            struct_fields({name: lists.get(name, ()) for name in _DOT.values()})
        )
        return operands, properties

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        batch, words = (list(attrs["lhs_batch"]), list(attrs["rhs_batch"])), PRECISION.text(attrs)
        clauses = [f"batching_dims = {batch[0]} x {batch[1]}"] if batch[0] else []
        clauses.append(f"contracting_dims = {list(attrs['lhs_contract'])} x {list(attrs['rhs_contract'])}")
        clauses += [f"precision = {words}"] if words else []
        return f" {', '.join([*operands, *clauses])}"


OPERATIONS = (
    *define(DotGeneral, "stablehlo", {"2 -> 1": "dot_general"}),
    *define(GenericOperation, "stablehlo", {"2 -> 1": "gather"}, FIELDS=(
        GATHER_NUMBERS, listed("slice_sizes", "slice_sizes"), flag("indices_are_sorted", "indices_are_sorted"),
    )),
)  # fmt: skip
# `stablehlo.dot %a, %b, precision = [DEFAULT, DEFAULT]` contracts the last dim of a with the first dim of b.
DOT = define(HloOperation, "stablehlo", {"2 -> 1 <algorithm?: any>": "dot"}, FIELDS=(PRECISION,))


def _import_dot_general(importer: Importer, operation: Operation) -> None:
    algorithm, attrs = operation.properties.get("algorithm"), values_of(operation)
    if isinstance(algorithm, DotAlgorithm):
        _rounded_dot(importer, operation, algorithm, attrs)
    else:
        emit_with_one_dtype(importer, operation, "dot_general", attrs)


def emit_with_one_dtype(importer: Importer, operation: Operation, op: str, attrs: dict[str, Any]) -> None:
    """Emit a dot or convolution (`op`), whose operands must have the same element type.

    Both operands are converted to the result's element type if theirs differ, or if theirs is of a lower class:
    booleans are below integers, integers below floats, and floats below complex numbers.
    """
    dtypes = {importer.type(operand).dtype for operand in operation.operands}
    builder, result = Builder(importer, operation), importer.type(operation.results[0])
    if len(dtypes) == 1 and _dtype_class(*dtypes) >= _dtype_class(result.dtype):
        importer.convert(operation, op, attrs)
        return
    operands = [builder.convert(value, result.dtype) for value in importer.values(operation.operands)]
    importer.bind(operation.results[0], builder.emit(op, operands, result, **attrs))


def _dtype_class(dtype: str) -> int:
    """Return 0 for booleans, 1 for integers, 2 for floats and 3 for complex numbers."""
    return 0 if dtype == "i1" else 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def _rounded_dot(importer: Importer, operation: Operation, algorithm: DotAlgorithm, attrs: dict[str, Any]) -> None:
    """Import a dot with an algorithm: round the operands to the types that the algorithm states, and set the node's
    precision.

    An algorithm with several primitive operations splits the operands into parts of lower precision, so that little
    precision is lost. Such operands are not rounded, and the node has the lowest precision that is at least as
    accurate.
    """
    builder, result = Builder(importer, operation), importer.type(operation.results[0])
    fields, operands = algorithm.fields(), importer.values(operation.operands)
    kinds = [fields.get(f"{side}_precision_type", "") for side in ("lhs", "rhs")]
    count = int(fields.get("num_primitive_operations", "1"))
    if count == 1:
        operands = [_rounded_to(builder, value, kind) for value, kind in zip(operands, kinds, strict=True)]
    accumulation_type = fields.get("accumulation_type", result.dtype)
    if accumulation_type not in DTYPES or bits(accumulation_type) < bits(result.dtype):
        accumulation_type = result.dtype
    attrs = attrs | {"precision": (_precision(kinds, count),) * 2}
    dot = builder.emit("dot_general", operands, TensorType(result.shape, accumulation_type), **attrs)
    importer.bind(operation.results[0], builder.convert(dot, result.dtype))


def _precision(kinds: Sequence[str], count: int) -> str:
    """Return the lowest precision of a dot that is as accurate as `count` products of operands of these types.

    Three products of tf32 keep 22 bits of the mantissa, three of bf16 keep 16, and six of bf16 keep 24.
    """
    if count == 1:
        return "HIGHEST" if "f32" in kinds else "DEFAULT"
    return "HIGH" if count <= 3 else "HIGHEST"


def _rounded_to(builder: Builder, value: Value, kind: str) -> Value:
    if kind in DTYPES and bits(kind) < bits(value.type.dtype):
        return builder.convert(value, kind)
    return value


def _import_dot(importer: Importer, operation: Operation) -> None:
    rank = importer.type(operation.operands[0]).rank
    lists = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (rank - 1,), "rhs_contract": (0,)}
    emit_with_one_dtype(importer, operation, "dot_general", lists | values_of(operation))


PART = merged(
    as_nodes(*OPERATIONS, importers={"stablehlo.dot_general": _import_dot_general}),
    Dialect(
        operations=DOT,
        attributes=(DotAlgorithm,),
        importers={"stablehlo.dot": _import_dot},
        self_contained=("stablehlo.dot_general", "stablehlo.dot"),
    ),
)
