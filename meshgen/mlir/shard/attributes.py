"""Attributes of the `shard` dialect that contain shardings: tensor encodings, annotations and plans of propagation.

A mesh axis whose name is a number is written as that number (`0`), any other as a string (`"dp"`, `"x:(1)2"`):
`#meshgen.split<@mesh, [["dp"], []] partial = sum["tp"]>`. The parsed attribute keeps all axes as text. `named` replaces
the axis numbers by names when the mesh is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from xdsl.dialects.shard import ReductionKind
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.ir.graph import NodeSharding
from meshgen.mesh import Mesh
from meshgen.mlir.literals import boolean, listed, parse_text, quoted, symbol
from meshgen.spec import PARTIAL_KINDS, Sharding

T = TypeVar("T")
Partial = tuple[tuple[str, str], ...]
MAX_LOOPS = 192  # Maximum number of loops of an operation: three tensors with 64 dims each, which is NumPy's limit


def parse_list(parser: AttrParser, element: Callable[[], T]) -> tuple[T, ...]:
    """Parse a list `[a, b, ...]`. The function `element` parses one element."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, element))


def parse_axis(parser: AttrParser) -> str:
    """Parse a mesh axis, a number or a string. Returns the text of the number, or the string."""
    name = parser.parse_optional_str_literal()
    return str(parser.parse_integer(allow_boolean=False, allow_negative=True)) if name is None else name


def parse_axes(parser: AttrParser) -> tuple[str, ...]:
    """Parse a list of axes, such as `[0, "dp"]`."""
    return parse_list(parser, lambda: parse_axis(parser))


def parse_partial(parser: AttrParser) -> Partial:
    """Parse partial axes by reduction kind, such as `sum["tp"] max[0]`."""
    partial: list[tuple[str, str]] = []
    while (kind := parser.parse_optional_keyword_in(PARTIAL_KINDS)) is not None:
        partial += [(axis, kind) for axis in parse_axes(parser)]
    if not partial:
        parser.raise_error(f"expected one of {', '.join(PARTIAL_KINDS)} with a list of axes")
    return tuple(partial)


def parse_sharding(parser: AttrParser) -> Sharding:
    """Parse a sharding. Only the lists of axes per dim are required.

    [["dp"], []] partial = sum["tp"] halo = [[1, 2], [0, 0]] offsets = [[0, 2, 8], []]
    """
    dims = parse_list(parser, lambda: parse_axes(parser))
    lists: dict[str, Sequence[tuple[int, ...]]] = {"halo": (), "offsets": ()}
    partial: Partial = ()
    while (word := parser.parse_optional_keyword_in(("partial", "halo", "offsets"))) is not None:
        parser.parse_punctuation("=")
        if word == "partial":
            partial = parse_partial(parser)
        else:
            lists[word] = parse_list(parser, lambda: parse_list(parser, parser.parse_integer))
    halo = tuple((pair[0], pair[1]) for pair in lists["halo"] if len(pair) == 2)
    if len(halo) != len(lists["halo"]):
        parser.raise_error("expected a halo as a pair [rows before, rows after] per dim")
    return Sharding(dims, partial, halo, tuple(lists["offsets"]))


def axis_text(axis: str) -> str:
    """Return the text of an axis: as it is if it is a number, else in quotes."""
    return axis if axis.isdigit() else f'"{axis}"'


def axes_text(axes: Sequence[str]) -> str:
    return f"[{', '.join(map(axis_text, axes))}]"


def partial_text(partial: Partial) -> str:
    """Return the text of partial axes, such as `sum["tp"] max[0]`. Adjacent axes of the same kind share a list."""
    groups = itertools.groupby(partial, key=lambda pair: pair[1])
    return " ".join(f"{kind}{axes_text([axis for axis, _ in pairs])}" for kind, pairs in groups)


def sharding_text(sharding: Sharding) -> str:
    """Return the text of a sharding in the form that `parse_sharding` parses."""
    text = f"[{', '.join(map(axes_text, sharding.dims))}]"
    if sharding.partial:
        text += f" partial = {partial_text(sharding.partial)}"
    if sharding.halo:
        text += f" halo = {[list(pair) for pair in sharding.halo]}"
    if sharding.offsets:
        text += f" offsets = {[list(row) for row in sharding.offsets]}"
    return text


def named(sharding: Sharding, mesh: Mesh) -> Sharding:
    """Return the sharding with axis numbers replaced by the axis names of `mesh`. Numbers beyond its axes are
    unchanged.
    """

    def name(axis: str) -> str:
        is_number = axis.isdigit() and axis not in mesh.names and int(axis) < len(mesh.names)
        return mesh.names[int(axis)] if is_number else axis

    dims = tuple(tuple(name(axis) for axis in axes) for axes in sharding.dims)
    return replace(sharding, dims=dims, partial=tuple((name(axis), kind) for axis, kind in sharding.partial))


@irdl_attr_definition
class SplitAttr(Data[tuple[str, Sharding]]):
    """The sharding of a tensor type, argument or result over a grid: `#meshgen.split<@mesh, [["dp"], []]>`.

    Stored as the symbol of the grid and the sharding. The symbol is "" if the module has a single grid.
    """

    name = "meshgen.split"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, Sharding]:
        with parser.in_angle_brackets():
            return _parse_on_grid(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(_on_grid_text(*self.data))


def _parse_on_grid(parser: AttrParser) -> tuple[str, Sharding]:
    grid = parser.parse_optional_symbol_name()
    if grid is not None:
        parser.parse_punctuation(",")
    return "" if grid is None else grid.data, parse_sharding(parser)


def _on_grid_text(grid: str, sharding: Sharding) -> str:
    return f"{symbol(grid)}, {sharding_text(sharding)}" if grid else sharding_text(sharding)


class OnGrid(NamedTuple):
    """The content of an `AnnotationAttr`: a grid, a sharding over it, whether it is required, and which dims are open."""

    grid: str
    sharding: Sharding
    required: bool = True
    open_dims: tuple[bool, ...] = ()


@irdl_attr_definition
class AnnotationAttr(Data[OnGrid]):
    """The user's annotation of an argument or result: `#meshgen.annotation<@mesh, [["dp"], []] hint open = [false,
    true]>`.

    The compiler may ignore a `hint`, and may split open dims further.
    """

    name = "meshgen.annotation"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> OnGrid:
        with parser.in_angle_brackets():
            grid, sharding = _parse_on_grid(parser)
            required = parser.parse_optional_keyword("hint") is None
            open_dims: tuple[bool, ...] = ()
            if parser.parse_optional_keyword("open") is not None:
                parser.parse_punctuation("=")
                open_dims = parse_list(parser, parser.parse_boolean)
        return OnGrid(grid, sharding, required, open_dims)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(annotation_text(self.data).removeprefix(f"#{self.name}"))


@irdl_attr_definition
class PartialAttr(Data[Partial], SpacedOpaqueSyntaxAttribute):
    """The attribute with the partial axes of a `shard.sharding` and their reduction kinds: `partial = sum[0]`."""

    name = "meshgen.partial"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Partial:
        return parse_partial(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(partial_text(self.data))


@irdl_attr_definition
class ReductionKindAttr(EnumAttribute[ReductionKind], SpacedOpaqueSyntaxAttribute):
    """The reduction kind of a collective: `max` as LLVM 22 prints it, or `<max>` as in LLVM's documentation."""

    name = "shard.partial"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ReductionKind:
        bracketed = parser.parse_optional_punctuation("<") is not None
        kind = parser.parse_str_enum(ReductionKind)
        if bracketed:
            parser.parse_punctuation(">")
        return kind

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data))


@irdl_attr_definition
class PlanAttr(Data[NodeSharding]):
    """The plan that propagation chose for an operation.

    It contains the shardings of the operands and results, the mesh axes of each loop of the sharding rule, and the
    reasons:

        #meshgen.plan<([["dp"], []]) -> ([["dp"], []]), loops = [["dp"], []], why = ["..."]>

    There are two short forms:

    - `#meshgen.plan<replicated(2, 2 -> 2), loops = 3>` if all values are replicated; the numbers are their ranks.
    - `#meshgen.plan<typed, ...>` if the shardings are those in the types of the operands and results.
    """

    name = "meshgen.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> NodeSharding:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("typed") is not None:
                operands, results = (), ()
            elif parser.parse_optional_keyword("replicated") is not None:
                operands, results = _parse_ranks(parser)
            else:
                operands, results = _parse_shardings(parser)
            option: tuple[tuple[str, ...], ...] = ()
            why: tuple[str, ...] = ()
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_keyword_in(("loops", "why"))
                parser.parse_punctuation("=")
                if word == "why":
                    why = parse_list(parser, lambda: parse_text(parser))
                elif (count := _parse_count(parser)) is not None:
                    option = ((),) * count
                else:
                    option = parse_list(parser, lambda: parse_axes(parser))
        return NodeSharding(operands, results, option, why)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(plan_text(self.data).removeprefix(f"#{self.name}"))


def plan_text(plan: NodeSharding, *, is_typed: bool = False) -> str:
    """Return the text `#meshgen.plan<...>`. If `is_typed`, the types contain the same shardings, which are then
    omitted.
    """
    parts = ["typed" if is_typed else _replicated_text(plan) or _shardings_text(plan)]
    if plan.option:
        loops = listed(map(axes_text, plan.option)) if any(plan.option) else len(plan.option)
        parts.append(f"loops = {loops}")
    if plan.why:
        parts.append(f"why = {listed(map(quoted, plan.why))}")
    return f"#meshgen.plan<{', '.join(parts)}>"


def _parse_count(parser: AttrParser) -> int | None:
    """Parse a number of dims or loops if the next token is one, else return None."""
    count = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if count is not None and count > MAX_LOOPS:
        parser.raise_error(f"an operation has at most {MAX_LOOPS} loops")
    return count


def _parse_ranks(parser: AttrParser) -> tuple[tuple[Sharding, ...], tuple[Sharding, ...]]:
    sides: list[list[Sharding]] = [[], []]
    with parser.in_parens():
        for side in sides:
            while (rank := _parse_count(parser)) is not None:
                side.append(Sharding.replicated(rank))
                parser.parse_optional_punctuation(",")
            if side is sides[0]:
                parser.parse_punctuation("->")
    return tuple(sides[0]), tuple(sides[1])


def _parse_shardings(parser: AttrParser) -> tuple[tuple[Sharding, ...], tuple[Sharding, ...]]:
    operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_sharding(parser))
    parser.parse_punctuation("->")
    results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_sharding(parser))
    return tuple(operands), tuple(results)


def _replicated_text(plan: NodeSharding) -> str:
    """Return the short form of a plan if all its values are replicated, else ""."""
    shardings = (*plan.operands, *plan.results)
    if not shardings:
        return "typed"
    if any(s != Sharding.replicated(s.rank) for s in shardings):
        return ""
    sides = (", ".join(str(s.rank) for s in side) for side in (plan.operands, plan.results))
    return f"replicated({' -> '.join(sides)})"


def _shardings_text(plan: NodeSharding) -> str:
    return " -> ".join(f"({', '.join(map(sharding_text, side))})" for side in (plan.operands, plan.results))


@lru_cache(1 << 12)
def split_text(sharding: Sharding, mesh: str) -> str:
    """Return the encoding `#meshgen.split<...>` of a tensor type. A sharding that names no mesh is over `mesh`."""
    return f"#meshgen.split<{_on_grid_text(sharding.mesh or mesh, sharding)}>"


@lru_cache(1 << 12)
def annotation_text(spec: OnGrid) -> str:
    """Return the text `#meshgen.annotation<...>` of an annotation."""
    text = _on_grid_text(spec.grid, spec.sharding) + ("" if spec.required else " hint")
    if spec.open_dims:
        text += f" open = {listed(map(boolean, spec.open_dims))}"
    return f"#meshgen.annotation<{text}>"
