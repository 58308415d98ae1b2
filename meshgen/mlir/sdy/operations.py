"""Operations of Shardy: meshes, constraints, manual and named computations, propagation directives and collectives."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.parser import Parser

from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.attributes import (
    AllToAllParamListAttr,
    AxisRefListAttr,
    DirectionAttr,
    ListedAxes,
    ListOfAxisRefListsAttr,
    ManualAxesAttr,
    MeshAttr,
    ShardingAttr,
    ShardingPerValueAttr,
    parse_attribute,
    parse_shardings,
)
from meshgen.mlir.stablehlo.base import Return
from meshgen.mlir.text_operation import TextOperation, define
from meshgen.spec import PARTIAL_KINDS


class MeshOp(TextOperation):
    """The operation that declares a mesh: `sdy.mesh @mesh = <["x"=2, "y"=4]>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        symbol = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        mesh = parse_attribute(parser, MeshAttr)
        return cls.of([], [], parser.parse_optional_attr_dict(), {"sym_name": symbol, "mesh": mesh})


class OneValueOperation(TextOperation):
    """An operation on one value: `%x PROPERTIES {attributes} : type`. The result, if any, has the type of the operand."""

    @classmethod
    def parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse the properties after the operand. In this base class, these are the sharding of a
        `sharding_constraint`.
        """
        return {"sharding": parse_attribute(parser, ShardingAttr)}

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operand = parser.parse_unresolved_operand()
        properties = cls.parse_properties(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        results = [type] * cls.signature.results.counts[0].least
        return cls.of([parser.resolve_operand(operand, type)], results, attributes, properties)


class ShardingGroup(OneValueOperation):
    """The operation that puts a value into a sharding group: `sdy.sharding_group %x group_id=0 : tensor<8xf32>`."""

    @classmethod
    def parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("group_id")
        parser.parse_punctuation("=")
        return {"group_id": IntegerAttr(parser.parse_integer(allow_boolean=False), i64)}


class PropagationBarrier(OneValueOperation):
    """An identity through which shardings propagate only in the allowed direction.

    sdy.propagation_barrier %x allowed_direction=FORWARD : tensor<8xf32>
    """

    @classmethod
    def parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("allowed_direction")
        parser.parse_punctuation("=")
        return {"allowed_direction": DirectionAttr(DirectionAttr.parse_parameter(parser))}


class DataFlowEdge(OneValueOperation):
    """An operation that states the sharding which Shardy's passes chose for a value.

    sdy.data_flow_edge %x sharding=<@mesh, [{"x"}]> : tensor<8xf32>
    """

    @classmethod
    def parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        if parser.parse_optional_keyword("sharding") is None:
            return {}
        parser.parse_punctuation("=")
        return super().parse_properties(parser)


class Computation(TextOperation):
    """Base class of operations with a body that computes on their operands, and with shardings of operands and results."""

    @property
    def in_shardings(self) -> ShardingPerValueAttr | None:
        return self._shardings("in_shardings")

    @property
    def out_shardings(self) -> ShardingPerValueAttr | None:
        return self._shardings("out_shardings")

    def _shardings(self, name: str) -> ShardingPerValueAttr | None:
        shardings = self.properties.get(name)
        return shardings if isinstance(shardings, ShardingPerValueAttr) else None

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties = cls.parse_name(parser)
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        for name in ("in_shardings", "out_shardings"):
            if parser.parse_optional_keyword(name) is not None:
                properties[name] = parse_shardings(parser)
        if parser.parse_optional_keyword("manual_axes") is not None:
            parser.parse_punctuation("=")
            properties["manual_axes"] = parse_attribute(parser, ManualAxesAttr)
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region_argument)
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict()
        values, results = parser.parse_signature(operands)
        return cls.of(values, results, attributes, properties, [body])

    @classmethod
    def parse_name(cls, parser: TextParser) -> dict[str, Attribute]:
        """Parse the text before the operands: the name of a named computation, or nothing."""
        return {}


class ManualComputation(Computation):
    """A body that computes on the local tiles of each device (JAX's shard_map).

    sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x"}
        (%b: tensor<2xf32>) {...} : (tensor<8xf32>) -> tensor<2xf32>
    """

    @property
    def manual_axes(self) -> tuple[str, ...]:
        axes = self.properties["manual_axes"]
        assert isinstance(axes, ManualAxesAttr)
        return axes.data


class NamedComputation(Computation):
    """A named body with shardings of its operands and results, such as an inlined function.

    sdy.named_computation<"foo">(%a) in_shardings=[<@mesh, [{"x"}]>] (%b: tensor<8xf32>) {...} : (tensor<8xf32>) ->
    tensor<8xf32>
    """

    @classmethod
    def parse_name(cls, parser: TextParser) -> dict[str, Attribute]:
        parser.parse_punctuation("<")
        name = StringAttr(parser.parse_str_literal())
        parser.parse_punctuation(">")
        return {"name": name}


class Collective(TextOperation):
    """A collective: it returns its operand with another sharding.

    sdy.all_reduce max {"x"} %a out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {}
        property_kinds = {prop.name: prop.kinds for prop in cls.signature.properties}
        if "reduction" in property_kinds and (kind := next(filter(parser.parse_optional_keyword, PARTIAL_KINDS), None)):
            properties["reduction"] = StringAttr(kind)
        for name, kinds in property_kinds.items():
            if (list_class := _LISTS.get(kinds[0])) is not None:
                properties[name] = parse_attribute(parser, list_class)
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("out_sharding")
        parser.parse_punctuation("=")
        properties["out_sharding"] = parse_attribute(parser, ShardingAttr)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.of([parser.resolve_operand(operand, type)], [type], attributes, properties)


_LISTS: dict[str, type[ListedAxes]] = {
    kind.name: kind for kind in (AxisRefListAttr, ListOfAxisRefListsAttr, AllToAllParamListAttr)
}
_PER_DIM, _ALL = ListOfAxisRefListsAttr.name, AxisRefListAttr.name
_OUT = f"out_sharding: {ShardingAttr.name}"
_PER_VALUE = f"in_shardings?: {ShardingPerValueAttr.name}, out_shardings?: {ShardingPerValueAttr.name}"
# A collective keeps the global value and changes its sharding to `out_sharding`. The axes in its property are
# redundant: both shardings determine them.
COLLECTIVES = define(Collective, "sdy", {
    f"1 -> 1 <axes: {_PER_DIM}, {_OUT}>": "sharded_to_unreduced",
    f"1 -> 1 <axes: {_ALL}, {_OUT}>": "replicated_to_unreduced",
    f"1 -> 1 <gathering_axes: {_PER_DIM}, {_OUT}>": "all_gather",
    f"1 -> 1 <slicing_axes: {_PER_DIM}, {_OUT}>": "all_slice",
    f"1 -> 1 <params: {AllToAllParamListAttr.name}, {_OUT}>": "all_to_all",
    f"1 -> 1 <reduction?: string, reduction_axes: {_ALL}, {_OUT}>": "all_reduce",
    f"1 -> 1 <reduction?: string, reduce_scatter_axes: {_PER_DIM}, {_OUT}>": "reduce_scatter",
    f"1 -> 1 <{_OUT}>": "collective_permute",
})  # fmt: skip
(MANUAL_COMPUTATION,) = define(ManualComputation, "sdy", {
    f"n -> m {{n -> m}} <{_PER_VALUE.replace('?', '')}, manual_axes: {ManualAxesAttr.name}>": "manual_computation",
})  # fmt: skip
(RETURN,) = define(Return, "sdy", {"_ -> 0": "return"})  # `sdy.return %a : tensor<2xf32>`
OPERATIONS = (
    *define(MeshOp, "sdy", {f"0 -> 0 <sym_name: string, mesh: {MeshAttr.name}>": "mesh"}),
    *define(OneValueOperation, "sdy", {f"1 -> 1 <sharding: {ShardingAttr.name}>": "sharding_constraint reshard"}),
    *define(ShardingGroup, "sdy", {"1 -> 0 <group_id: integer>": "sharding_group"}),
    *define(PropagationBarrier, "sdy", {f"1 -> 1 <allowed_direction: {DirectionAttr.name}>": "propagation_barrier"}),
    *define(DataFlowEdge, "sdy", {f"1 -> 1 <sharding?: {ShardingAttr.name}>": "data_flow_edge func_data_flow_edge"}),
    *define(NamedComputation, "sdy", {f"n -> m {{n -> m}} <name: string, {_PER_VALUE}>": "named_computation"}),
    MANUAL_COMPUTATION,
    RETURN,
    *COLLECTIVES,
)
