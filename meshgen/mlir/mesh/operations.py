"""The operations of the `mesh` dialect of the MLIR RFC on device meshes. They are read, but never printed.

LLVM renamed its dialect of the same name to `shard`. Operations that exist in both dialects are read as `shard`
(`mlir/parser.py`). This file reads three spellings:

- the RFC's and that of its slides;
- LLVM's first form, whose annotations have the sharding as an attribute: `{sharding = [[0], [1]], required = true}` or
  `{#mesh.shard<[[0], [1]]>, required = true}`.

The suffix `: type` abbreviates `: type -> type` if both types are the same. In a sharding, the list after the one of
the last dim has the axes of a partial sum.
"""

from __future__ import annotations

import re
from typing import Self

from xdsl.dialects.builtin import IntegerAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from meshgen.mlir.attributes import array, integer
from meshgen.mlir.parser import TextParser
from meshgen.mlir.shard.attributes import Partial, parse_axes, parse_list, parse_partial, partial_text
from meshgen.mlir.text_operation import TextOperation, define

Lists = tuple[tuple[str, ...], ...]
_SIZES = re.compile(r"(?:\d+|\?)(?:x(?:\d+|\?))*")


@irdl_attr_definition
class MeshShardAttr(Data[tuple[str, Lists, Partial]]):
    """The sharding `#mesh.shard<@mesh0, [[0], [], [1]]>`: a mesh, the axes of each dim, and then the axes of a partial
    sum.

    Without a mesh, the sharding is over the default cluster of the function. LLVM's first form writes the axes of a
    partial value as `<@mesh0, [[0]], partial = max[1]>`.
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


class Cluster(TextOperation):
    """A mesh declaration: `mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2])`, or `dim_sizes = 2x2x?`.

    Axis sizes that are missing or below 1 are unknown.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        with parser.in_parens():
            parser.parse_keyword("rank")
            parser.parse_punctuation("=")
            properties["rank"] = integer(parser.parse_integer())
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("dim_sizes")
                parser.parse_punctuation("=")
                properties["dim_sizes"] = array(_parse_dim_sizes(parser))
        return cls.of([], [], parser.parse_optional_attr_dict(), properties)


def _parse_dim_sizes(parser: Parser) -> tuple[int, ...]:
    """Parse sizes such as `[2, 4]` or `2x?`."""
    assert isinstance(parser, TextParser)
    if parser.at_mark("["):
        return parser.parse_integers()
    sizes = parser.scan(_SIZES, "expected sizes, as in [2, 4] or 2x4")[0]
    return tuple(int(size) if size.isdigit() else 0 for size in sizes.split("x"))


class SubCluster(TextOperation):
    """A mesh with some axes of a cluster: `mesh.sub_cluster @row(@mesh0, axes = [1])`.

    There is one sub-cluster per coordinate along the other axes, and all of them compute the same. With `index = [0]`,
    only the sub-cluster at these coordinates computes, and values on the other devices are unspecified.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        with parser.in_parens():
            properties["cluster"] = SymbolRefAttr(parser.parse_symbol_name())
            parser.parse_clause("axes")
            properties["axes"] = array(parser.parse_integers())
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("index")
                parser.parse_punctuation("=")
                properties["index"] = array(parser.parse_integers())
        return cls.of([], [], parser.parse_optional_attr_dict(), properties)


class OnTensor(TextOperation):
    """An operation on one tensor: `$src {attributes} : type -> type`. An attribute may be `#mesh.shard<...>` without a
    name.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        source = parser.parse_unresolved_operand()
        entries = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, lambda: _attribute_entry(parser))
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        result_type = parser.parse_type() if parser.parse_optional_punctuation("->") is not None else source_type
        return cls.of([parser.resolve_operand(source, source_type)], [result_type], dict(entries or ()))


class Shard(TextOperation):
    """An annotation in LLVM's first form: `mesh.shard %x to <@mesh0, [[0]]> annotate_for_users : type`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        is_short = parser.at_mark("<")
        sharding = MeshShardAttr.new(MeshShardAttr.parse_parameter(parser)) if is_short else parser.parse_attribute()
        for_users = parser.parse_optional_keyword("annotate_for_users") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        attributes |= {"sharding": sharding, "as_result": IntegerAttr.from_bool(not for_users)}
        return cls.of([parser.resolve_operand(source, kind)], [kind], attributes)


def _attribute_entry(parser: Parser) -> tuple[str, Attribute]:
    """Parse `name = value`, or `#mesh.shard<...>` without a name, which is stored under the name `sharding`."""
    name = parser.parse_optional_identifier_or_str_literal()
    if name is None:
        return "sharding", parser.parse_attribute()
    parser.parse_punctuation("=")
    return name, parser.parse_attribute()


class Query(TextOperation):
    """An operation that returns the device's coordinate along an axis, or the axis size.

    The axis is written as `mesh.idx(0)` or as `mesh.idx {axis = 0 : index} : i64`.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        if parser.parse_optional_punctuation("(") is not None:
            axis: Attribute | None = integer(parser.parse_integer())
            parser.parse_punctuation(")")
        else:
            axis = parser.parse_optional_attr_dict().get("axis")
        if axis is None:
            parser.raise_error("expected the mesh axis, as in mesh.idx(0)")
        result = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else i64
        return cls.of([], [result], {}, {"axis": axis})


OPERATIONS = (
    *define(Cluster, "mesh", {"0 -> 0 <sym_name: string, rank: integer, dim_sizes?: integers>": "cluster"}),
    *define(SubCluster, "mesh", {"0 -> 0 <sym_name: string, cluster: symbol, axes: integers, index?: integers>": "sub_cluster"}),
    # `annotate` is a hint if `required = false`, and concerns the value's users only if `as_result = false`.
    # Collectives run over the mesh axes `mesh_axis`, combine with `reduction`, and split or join the dim `tensor_axis`.
    # The attribute `sharding` of a `local_split` lists the new axes of each dim.
    *define(OnTensor, "mesh", {
        "1 tensor -> 1 tensor": "annotate all_gather all_reduce reduce_scatter local_split all_to_all collective_permute",
    }),
    *define(Shard, "mesh", {"1 tensor -> 1 tensor": "shard"}),
    # `idx` returns the device's coordinate along an axis, and `size` the axis size.
    *define(Query, "mesh", {"0 -> 1 <axis: integer>": "idx size"}),
)  # fmt: skip
ATTRIBUTES = (MeshShardAttr,)
