"""Attributes of Shardy's dialect `sdy`. `spelling.py` parses the text between the brackets of these attributes."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from xdsl.ir import Data, OpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.spelling import SpelledMesh, read_axes, read_mesh, read_spelled, spell_axes
from meshgen.mlir.stablehlo.attributes import Bracketed
from meshgen.mlir.stablehlo.mesh_axes import AxisRef, parse_sub_axis

_Kind = TypeVar("_Kind", bound="Data[object]")


def parse_attribute(parser: AttrParser, kind: type[_Kind]) -> _Kind:
    """Parse an attribute of class `kind`, in any of three forms.

    These are its full form (`#sdy.mesh<...>`), an alias (`#mesh0`), and only the text after the name (`<...>`).
    """
    assert isinstance(parser, TextParser)
    if not parser.at_mark("#"):
        return kind(kind.parse_parameter(parser))
    start = parser.pos
    attribute = parser.parse_attribute()
    if not isinstance(attribute, kind):
        parser.raise_error(f"#{kind.name} expected", start)
    return attribute


def _normalized(body: str) -> str:
    """Return the text of a sharding with white space as the printer writes it.

    Malformed text is returned unchanged: the operation that has the sharding reports the error.
    """
    try:
        return str(read_spelled(body))
    except ValueError:
        return body


@irdl_attr_definition
class ShardingRuleAttr(Bracketed):
    """The sharding rule that JAX attaches to a custom call. It is checked but not used: meshgen has rules of its own."""

    name = "sdy.op_sharding_rule"


@irdl_attr_definition
class MeshAttr(Data[SpelledMesh]):
    """A mesh, such as `<["x"=2, "y"=4]>`."""

    name = "sdy.mesh"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SpelledMesh:
        assert isinstance(parser, TextParser)
        start = parser.pos
        body = parser.parse_bracketed()
        try:
            return read_mesh(body)
        except ValueError as error:
            example = '<["x"=2, "y"=4]> or <["x"=2], device_ids=[1, 0]>'
            return parser.raise_error(f"expected a mesh, such as {example}, got '<{body}>': {error}", start)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ShardingAttr(Bracketed):
    """The sharding of one value, such as `<@mesh, [{"x"}, {}]>`, stored as the text between the brackets."""

    name = "sdy.sharding"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return _normalized(super().parse_parameter(parser))


@irdl_attr_definition
class ShardingPerValueAttr(Data[tuple[str, ...]]):
    """The shardings of several values, such as `<[<@mesh, [{"x"}]>, ...]>`.

    Stored as one text per operand or per result: the text between the brackets of each sharding.
    """

    name = "sdy.sharding_per_value"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        parser.parse_punctuation("<")
        shardings = cls.parse_list(parser)
        parser.parse_punctuation(">")
        return shardings

    @classmethod
    def parse_list(cls, parser: AttrParser) -> tuple[str, ...]:
        """Parse `[<...>, <...>]`."""
        shardings = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_attribute(parser, ShardingAttr)
        )
        return tuple(sharding.data for sharding in shardings)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text}>")

    @property
    def text(self) -> str:
        return f"[{', '.join(f'<{body}>' for body in self.data)}]"


@irdl_attr_definition
class ManualAxesAttr(OpaqueSyntaxAttribute, Data[tuple[str, ...]]):
    """The attribute with the manual axes of a manual computation, such as `#sdy<manual_axes{"x", "y"}>`."""

    name = "sdy.manual_axes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        assert isinstance(parser, TextParser)
        start = parser.pos
        body = parser.parse_bracketed("{")
        try:
            return read_axes(f"{{{body}}}")
        except ValueError as error:
            return parser.raise_error(f'\'{{{body}}}\' must be a list of axes, such as {{"x", "y"}}: {error}', start)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"{{{spell_axes(self.data)}}}")


def parse_shardings(parser: TextParser) -> ShardingPerValueAttr:
    """Parse `=[<...>, <...>]`, or an alias of such a list after the `=`."""
    parser.parse_punctuation("=")
    if parser.at_mark("#"):
        return parse_attribute(parser, ShardingPerValueAttr)
    return ShardingPerValueAttr(ShardingPerValueAttr.parse_list(parser))


class ListedAxes(OpaqueSyntaxAttribute, Data[str]):
    """Base class of attributes that list mesh axes. The text is stored as written, with its brackets."""

    brackets: ClassVar[str] = "[]"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.parse_bracketed(cls.brackets[0]).join(cls.brackets)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


@irdl_attr_definition
class AxisRefListAttr(ListedAxes):
    """The attribute for a list of axes, such as `#sdy<axis_ref_list{"x"}>`."""

    name = "sdy.axis_ref_list"
    brackets = "{}"


@irdl_attr_definition
class ListOfAxisRefListsAttr(ListedAxes):
    """The attribute for a list of axes per tensor dim, such as `#sdy<list_of_axis_ref_lists[{"x"}, {}]>`."""

    name = "sdy.list_of_axis_ref_lists"


@irdl_attr_definition
class AllToAllParamListAttr(ListedAxes):
    """The attribute with the axes that an all-to-all moves between dims, such as `#sdy<all_to_all_param_list[{"x"}:
    0->1]>`.
    """

    name = "sdy.all_to_all_param_list"


@irdl_attr_definition
class AxisRefAttr(OpaqueSyntaxAttribute, AxisRef):
    """The attribute for a mesh axis or a sub-axis in replica groups, such as `#sdy<axis_ref"x":(1)2>`."""

    name = "sdy.axis_ref"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        name = parser.parse_str_literal()
        return name + parse_sub_axis(parser) if parser.parse_optional_punctuation(":") is not None else name

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(spell_axes([self.data]))


DIRECTIONS = ("NONE", "FORWARD", "BACKWARD")


@irdl_attr_definition
class DirectionAttr(OpaqueSyntaxAttribute, Data[str]):
    """The attribute that says in which direction shardings may propagate, such as `#sdy<propagation_direction
    FORWARD>`.
    """

    name = "sdy.propagation_direction"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        is_quoted = parser.parse_optional_punctuation("<") is not None
        direction = parser.parse_identifier()
        if direction not in DIRECTIONS:
            parser.raise_error(f"expected one of the directions {', '.join(DIRECTIONS)}, got '{direction}'")
        if is_quoted:
            parser.parse_punctuation(">")
        return direction

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f" {self.data}")


ATTRIBUTES = (
    MeshAttr, ShardingRuleAttr, ShardingAttr, ShardingPerValueAttr, ManualAxesAttr, DirectionAttr, AxisRefAttr, AxisRefListAttr,
    ListOfAxisRefListsAttr, AllToAllParamListAttr,
)  # fmt: skip
