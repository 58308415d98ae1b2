"""Attributes for replica groups that are stated by mesh axes, not by device numbers.

#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, SymbolRefAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.mlir.attributes import integers
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.parser import TextParser

_Read = Callable[[], object]


class AxisRef(Data[str]):
    """Base class of references to a mesh axis or a sub-axis, stored as text such as `x` or `x:(1)2`."""


class MeshInPlace(NamedTuple):
    """A mesh that is spelled out where it is used: its axes, and its device ids if they are not in ascending order."""

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None = None


def _fields(parser: AttrParser, required: tuple[str, ...], **readers: _Read) -> dict[str, Any]:
    """Parse `<name = value, ...>`, where each field may occur once.

    `readers` has a parser per field. The fields in `required` must occur; an entry `a|b` requires one of the two.
    """
    start = parser.pos
    values: dict[str, Any] = {}

    def field() -> None:
        name = parser.parse_identifier()
        if name not in readers or name in values:
            parser.raise_error(f"expected the fields {', '.join(readers)}, each once")
        parser.parse_punctuation("=")
        values[name] = readers[name]()

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
    for names in required:
        if not any(name in values for name in names.split("|")):
            parser.raise_error(f"expected the field '{names.partition('|')[0]}'", start)
    return values


def _parse_sub_axis(parser: AttrParser) -> str:
    """Parse a sub-axis, such as `(1)2`."""
    parser.parse_punctuation("(")
    before = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(")")
    return f":({before}){parser.parse_integer(allow_boolean=False)}"


def parse_sub_axis(parser: AttrParser) -> str:
    """Parse a sub-axis in one of two forms: `(1)2` or `#stablehlo.sub_axis_info<(1)2>`."""
    assert isinstance(parser, TextParser)
    if not parser.at_mark("#"):
        return _parse_sub_axis(parser)
    attribute = parser.parse_attribute()
    return attribute.data if isinstance(attribute, SubAxisInfo) else parser.raise_error("expected a sub-axis")


def _list_of(parser: AttrParser, kind: type[Attribute], spelled: str) -> tuple[Any, ...]:
    start = parser.pos
    attribute = parser.parse_attribute()
    if not isinstance(attribute, ArrayAttr) or not all(isinstance(element, kind) for element in attribute.data):
        parser.raise_error(f"expected a list of {spelled}", start)
    return tuple(element.data for element in attribute.data)


@irdl_attr_definition
class SubAxisInfo(Data[str]):
    """The attribute for a sub-axis of an axis: `#stablehlo.sub_axis_info<(1)2>`."""

    name = "stablehlo.sub_axis_info"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return _parse_sub_axis(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.removeprefix(':')}>")


@irdl_attr_definition
class HloAxisRef(AxisRef):
    """The attribute for a mesh axis or a sub-axis: `#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>`."""

    name = "stablehlo.axis_ref"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        fields = _fields(parser, ("name",), name=parser.parse_str_literal, sub_axis_info=lambda: parse_sub_axis(parser))
        return fields["name"] + fields.get("sub_axis_info", "")

    def print_parameter(self, printer: Printer) -> None:
        name, colon, part = self.data.partition(":")
        printer.print_string(f'<name = "{name}"' + (f", sub_axis_info = {part}>" if colon else ">"))


@irdl_attr_definition
class MeshAxis(Data[tuple[str, int]]):
    """The attribute for an axis of a mesh that is spelled out: `#stablehlo.mesh_axis<name = "x", size = 2>`."""

    name = "stablehlo.mesh_axis"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, int]:
        fields = _fields(parser, ("name", "size"), name=parser.parse_str_literal, size=parser.parse_integer)
        return fields["name"], fields["size"]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<name = "{self.data[0]}", size = {self.data[1]}>')


@irdl_attr_definition
class HloMesh(Data[MeshInPlace]):
    """The attribute for a mesh that is spelled out.

    #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>], device_ids = dense<[1, 0]> : tensor<2xi64>>
    """

    name = "stablehlo.mesh"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MeshInPlace:
        def device_ids() -> tuple[int, ...]:
            attribute = parser.parse_attribute()
            if not isinstance(attribute, DenseElements | DenseArrayBase | ArrayAttr):
                parser.raise_error("expected a list of devices")
            return integers(attribute)

        fields = _fields(
            parser,
            ("axes",),
            axes=lambda: _list_of(parser, MeshAxis, "#stablehlo.mesh_axis<...>"),
            device_ids=device_ids,
        )
        return MeshInPlace(fields["axes"], fields.get("device_ids"))

    def print_parameter(self, printer: Printer) -> None:
        axes = ", ".join(f'#stablehlo.mesh_axis<name = "{name}", size = {size}>' for name, size in self.data.axes)
        ids = self.data.device_ids
        printer.print_string(f"<axes = [{axes}]" + (f", device_ids = {list(ids)}>" if ids is not None else ">"))


@irdl_attr_definition
class ReplicaGroupMeshAxes(Data[tuple[str | MeshInPlace, tuple[str, ...]]]):
    """The attribute for replica groups: the name or spelling of a mesh, and the axes along which its devices form
    groups.
    """

    name = "stablehlo.replica_group_mesh_axes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str | MeshInPlace, tuple[str, ...]]:
        def mesh() -> str | MeshInPlace:
            attribute = parser.parse_attribute()
            if not isinstance(attribute, SymbolRefAttr | HloMesh):
                parser.raise_error("expected the name of a mesh, or #stablehlo.mesh<...>")
            return attribute.data if isinstance(attribute, HloMesh) else attribute.string_value()

        fields = _fields(
            parser,
            ("mesh|mesh_name", "axes"),
            mesh=mesh,
            mesh_name=mesh,
            axes=lambda: _list_of(parser, AxisRef, "#stablehlo.axis_ref<...>"),
        )
        return fields["mesh" if "mesh" in fields else "mesh_name"], fields["axes"]

    def print_parameter(self, printer: Printer) -> None:
        mesh, axes = self.data
        printer.print_string("<mesh = ")
        printer.print_attribute(HloMesh(mesh) if isinstance(mesh, MeshInPlace) else SymbolRefAttr(mesh))
        printer.print_string(", axes = ")
        printer.print_attribute(ArrayAttr([HloAxisRef(axis) for axis in axes]))
        printer.print_string(">")


PART = Dialect(attributes=(SubAxisInfo, HloAxisRef, MeshAxis, HloMesh, ReplicaGroupMeshAxes))
