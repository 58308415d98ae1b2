"""The `mesh` dialect: the RFC's and its slides' spelling of what `shard` says. Read, never printed.

LLVM's dialect of this name became `shard`: what it had under the same names is read as that (`mlir/parser.py`), and its first form,
whose annotations hold the sharding as an attribute, here. Both spellings of annotations are read (`{sharding = [[0], [1]], required = true}` and
`{#mesh.shard<[[0], [1]]>, required = true}`), and `: type` for `: type -> type` where both are the same.
A list after the last dim's holds the axes of a partial sum.
"""

from __future__ import annotations

import re
from abc import ABC

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttr,
    IntegerAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolOpInterface

from meshgen.mlir.parser import TextParser
from meshgen.mlir.shard.attributes import Partial, parse_axes, parse_list, parse_partial, partial_text

Lists = tuple[tuple[str, ...], ...]
_SIZES = re.compile(r"(?:\d+|\?)(?:x(?:\d+|\?))*")


@irdl_attr_definition
class MeshShardAttr(Data[tuple[str, Lists, Partial]]):
    """`#mesh.shard<@mesh0, [[0], [], [1]]>`: mesh (empty: the function's) and axes per dim, then of a partial sum.

    LLVM's first form writes the latter as `<@mesh0, [[0]], partial = max[1]>`.
    """

    name = "mesh.shard"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, Lists, Partial]:
        with parser.in_angle_brackets():
            mesh = parser.parse_optional_symbol_name()
            if mesh is not None:
                parser.parse_punctuation(",")
            lists, partial = parse_list(parser, lambda: parse_axes(parser)), ()
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("partial")
                parser.parse_punctuation("=")
                partial = parse_partial(parser)
        return "" if mesh is None else mesh.data, lists, partial

    def print_parameter(self, printer: Printer) -> None:
        mesh, lists, partial = self.data
        text = "[" + ", ".join(f"[{', '.join(axes)}]" for axes in lists) + "]"
        text += f", partial = {partial_text(partial)}" if partial else ""
        with printer.in_angle_brackets():
            printer.print_string(f"@{mesh}, {text}" if mesh else text)


@irdl_op_definition
class ClusterOp(IRDLOperation):
    """`mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2])`, or `dim_sizes = 2x2x?`; missing sizes, and those below 1, are unknown."""

    name = "mesh.cluster"
    sym_name = prop_def(SymbolNameConstraint())
    rank = prop_def(IntegerAttr)
    dim_sizes = prop_def(ArrayAttr[IntegerAttr], default_value=ArrayAttr([]))
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> ClusterOp:
        name = parser.parse_symbol_name()
        sizes: tuple[int, ...] = ()
        with parser.in_parens():
            parser.parse_keyword("rank")
            parser.parse_punctuation("=")
            rank = parser.parse_integer()
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("dim_sizes")
                parser.parse_punctuation("=")
                sizes = _parse_dim_sizes(parser)
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "rank": IntegerAttr(rank, i64),
            "dim_sizes": ArrayAttr(IntegerAttr(size, i64) for size in sizes),
        }
        return cls(properties=properties, attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        sizes = ", ".join(str(size.value.data) for size in self.dim_sizes)
        printer.print_string(f"(rank = {self.rank.value.data}, dim_sizes = [{sizes}])")
        printer.print_op_attributes(self.attributes)


def _parse_dim_sizes(parser: Parser) -> tuple[int, ...]:
    """`[2, 4]`, or `2x?`"""
    assert isinstance(parser, TextParser)
    if parser.at_mark("["):
        return parse_list(parser, parser.parse_integer)
    found = parser.scan(_SIZES, "expected sizes, as in [2, 4] or 2x4")[0]
    return tuple(int(size) if size.isdigit() else 0 for size in found.split("x"))


@irdl_op_definition
class SubClusterOp(IRDLOperation):
    """`mesh.sub_cluster @row(@mesh0, axes = [1])`: some axes of a cluster, under a name of their own.

    Devices that differ along the other axes belong to different sub-clusters, which all do the same. With
    `index = [0]`, coordinates along the other axes, one of them is meant: what the others have is unspecified.
    """

    name = "mesh.sub_cluster"
    sym_name = prop_def(SymbolNameConstraint())
    cluster = prop_def(FlatSymbolRefAttr)
    axes = prop_def(ArrayAttr[IntegerAttr])
    index = prop_def(ArrayAttr[IntegerAttr], default_value=ArrayAttr([]))
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> SubClusterOp:
        name = parser.parse_symbol_name()
        lists: dict[str, tuple[int, ...]] = {"axes": (), "index": ()}
        with parser.in_parens():
            cluster = SymbolRefAttr(parser.parse_symbol_name())
            for word in lists:
                if word == "axes" or parser.parse_optional_punctuation(",") is not None:
                    if word == "axes":
                        parser.parse_punctuation(",")
                    parser.parse_keyword(word)
                    parser.parse_punctuation("=")
                    lists[word] = parse_list(parser, parser.parse_integer)
        numbers = {word: ArrayAttr(IntegerAttr(number, i64) for number in found) for word, found in lists.items()}
        properties: dict[str, Attribute] = {"sym_name": name, "cluster": cluster, **numbers}
        return cls(properties=properties, attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        printer.print_symbol_name(self.cluster.string_value())
        for word, numbers in (("axes", self.axes), ("index", self.index)):
            if numbers.data or word == "axes":
                printer.print_string(f", {word} = {[number.value.data for number in numbers]}")
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)


class TensorOp(IRDLOperation, ABC):
    """`$src {attributes} : type -> type`, where an attribute may be a bare `#mesh.shard<...>`."""

    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> TensorOp:
        source = parser.parse_unresolved_operand()
        entries = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, lambda: _attribute_entry(parser))
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        result_type = parser.parse_type() if parser.parse_optional_punctuation("->") is not None else source_type
        operand = parser.resolve_operand(source, source_type)
        return cls(operands=[operand], result_types=[result_type], attributes=dict(entries or ()))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ShardOp(TensorOp):
    """`$src to <@mesh0, [[0]]> annotate_for_users : type`: an annotation as LLVM first wrote it."""

    name = "mesh.shard"

    @classmethod
    def parse(cls, parser: Parser) -> ShardOp:
        assert isinstance(parser, TextParser)
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        sharding = (
            MeshShardAttr.new(MeshShardAttr.parse_parameter(parser))
            if parser.at_mark("<")
            else parser.parse_attribute()
        )
        for_users = parser.parse_optional_keyword("annotate_for_users") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        attributes |= {"sharding": sharding, "as_result": IntegerAttr.from_bool(not for_users)}
        return cls(operands=[parser.resolve_operand(source, kind)], result_types=[kind], attributes=attributes)


def _attribute_entry(parser: Parser) -> tuple[str, Attribute]:
    """`name = value`, or a bare `#mesh.shard<...>` under the name `sharding`."""
    name = parser.parse_optional_identifier_or_str_literal()
    if name is None:
        return "sharding", parser.parse_attribute()
    parser.parse_punctuation("=")
    return name, parser.parse_attribute()


@irdl_op_definition
class AnnotateOp(TensorOp):
    """An annotation of a value's sharding, a hint with `required = false`, or of its users' (`as_result = false`)."""

    name = "mesh.annotate"


@irdl_op_definition
class AllGatherOp(TensorOp):
    """Gather over `mesh_axis`, axes per tensor dim."""

    name = "mesh.all_gather"


@irdl_op_definition
class AllReduceOp(TensorOp):
    """Reduce (`reduction`) over `mesh_axis`."""

    name = "mesh.all_reduce"


@irdl_op_definition
class ReduceScatterOp(TensorOp):
    """Reduce over `mesh_axis` and split the result along `tensor_axis`."""

    name = "mesh.reduce_scatter"


@irdl_op_definition
class LocalSplitOp(TensorOp):
    """Split further without communication: `sharding` holds the new axes per tensor dim."""

    name = "mesh.local_split"


@irdl_op_definition
class AllToAllOp(TensorOp):
    """Move axes from one tensor dim to another: those that differ between the types."""

    name = "mesh.all_to_all"


@irdl_op_definition
class CollectivePermuteOp(TensorOp):
    """The same tiles on other devices."""

    name = "mesh.collective_permute"


class QueryOp(IRDLOperation, ABC):
    """`mesh.idx(0)`, or `mesh.idx {axis = 0 : index} : i64`."""

    axis = prop_def(IntegerAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> QueryOp:
        if parser.parse_optional_punctuation("(") is not None:
            axis: Attribute | None = IntegerAttr(parser.parse_integer(), i64)
            parser.parse_punctuation(")")
        else:
            axis = parser.parse_optional_attr_dict().get("axis")
        if axis is None:
            parser.raise_error("expected the mesh axis, as in mesh.idx(0)")
        result_type = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else i64
        return cls(result_types=[result_type], properties={"axis": axis})

    def print(self, printer: Printer) -> None:
        printer.print_string(f"({self.axis.value.data}) : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class IdxOp(QueryOp):
    """The device's coordinate along an axis."""

    name = "mesh.idx"


@irdl_op_definition
class SizeOp(QueryOp):
    """Number of devices along an axis."""

    name = "mesh.size"


TENSOR_OPS = (
    AnnotateOp, ShardOp, AllGatherOp, AllReduceOp, ReduceScatterOp, LocalSplitOp, AllToAllOp, CollectivePermuteOp,
)  # fmt: skip
OPERATIONS = (ClusterOp, SubClusterOp, *TENSOR_OPS, IdxOp, SizeOp)
ATTRIBUTES = (MeshShardAttr,)
