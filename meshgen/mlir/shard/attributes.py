"""Attributes of the `shard` dialect that hold shardings: tensor encodings, and what propagation decided.

An axis is written as its number where it is named so (`0`), else as a string (`"dp"`, `"x:(1)2"`):
`#meshgen.split<@mesh, [["dp"], []] partial = sum["tp"]>`. Axes stay strings here; only who knows the mesh can
tell which axis the text `0` means (`named`).
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
MOST_LOOPS = 192  # of an operation: three tensors of 64 dims, as many as NumPy's have


def parse_list(parser: AttrParser, element: Callable[[], T]) -> tuple[T, ...]:
    """`[a, b, ...]`."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, element))


def parse_axis(parser: AttrParser) -> str:
    """A number or a string; the number's text if it is one."""
    name = parser.parse_optional_str_literal()
    return str(parser.parse_integer(allow_boolean=False, allow_negative=True)) if name is None else name


def parse_axes(parser: AttrParser) -> tuple[str, ...]:
    """`[0, "dp"]`."""
    return parse_list(parser, lambda: parse_axis(parser))


def parse_partial(parser: AttrParser) -> Partial:
    """`sum["tp"] max[0]`: kinds with their axes."""
    found: list[tuple[str, str]] = []
    while (kind := parser.parse_optional_keyword_in(PARTIAL_KINDS)) is not None:
        found += [(axis, kind) for axis in parse_axes(parser)]
    if not found:
        parser.raise_error(f"expected one of {', '.join(PARTIAL_KINDS)} with a list of axes")
    return tuple(found)


def parse_sharding(parser: AttrParser) -> Sharding:
    """`[["dp"], []] partial = sum["tp"] halo = [[1, 2], [0, 0]] offsets = [[0, 2, 8], []]`; only the lists are needed."""
    dims = parse_list(parser, lambda: parse_axes(parser))
    found: dict[str, Sequence[tuple[int, ...]]] = {"halo": (), "offsets": ()}
    partial: Partial = ()
    while (word := parser.parse_optional_keyword_in(("partial", "halo", "offsets"))) is not None:
        parser.parse_punctuation("=")
        if word == "partial":
            partial = parse_partial(parser)
        else:
            found[word] = parse_list(parser, lambda: parse_list(parser, parser.parse_integer))
    halo = tuple((pair[0], pair[1]) for pair in found["halo"] if len(pair) == 2)
    if len(halo) != len(found["halo"]):
        parser.raise_error("expected a halo as a pair [rows before, rows after] per dim")
    return Sharding(dims, partial, halo, tuple(found["offsets"]))


def axis_text(axis: str) -> str:
    """An axis as the text writes it."""
    return axis if axis.isdigit() else f'"{axis}"'


def axes_text(axes: Sequence[str]) -> str:
    return f"[{', '.join(map(axis_text, axes))}]"


def partial_text(partial: Partial) -> str:
    """Pairs in order; neighbours of one kind share a list."""
    groups = itertools.groupby(partial, key=lambda pair: pair[1])
    return " ".join(f"{kind}{axes_text([axis for axis, _ in pairs])}" for kind, pairs in groups)


def sharding_text(sharding: Sharding) -> str:
    """The inverse of `parse_sharding`."""
    text = f"[{', '.join(map(axes_text, sharding.dims))}]"
    if sharding.partial:
        text += f" partial = {partial_text(sharding.partial)}"
    if sharding.halo:
        text += f" halo = {[list(pair) for pair in sharding.halo]}"
    if sharding.offsets:
        text += f" offsets = {[list(row) for row in sharding.offsets]}"
    return text


def named(sharding: Sharding, mesh: Mesh) -> Sharding:
    """The sharding with axis numbers replaced by the mesh's names; a number that the mesh lacks stays."""

    def name(axis: str) -> str:
        known = axis.isdigit() and axis not in mesh.names and int(axis) < len(mesh.names)
        return mesh.names[int(axis)] if known else axis

    dims = tuple(tuple(name(axis) for axis in axes) for axes in sharding.dims)
    return replace(sharding, dims=dims, partial=tuple((name(axis), kind) for axis, kind in sharding.partial))


@irdl_attr_definition
class SplitAttr(Data[tuple[str, Sharding]]):
    """`#meshgen.split<@mesh, [["dp"], []]>`: the sharding of a tensor type, argument or result on a grid.

    Data: the grid's symbol (empty: the module's only grid) and the sharding.
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
    """A user's annotation of an argument or result."""

    grid: str
    sharding: Sharding
    required: bool = True
    open_dims: tuple[bool, ...] = ()


@irdl_attr_definition
class AnnotationAttr(Data[OnGrid]):
    """`#meshgen.annotation<@mesh, [["dp"], []] hint open = [false, true]>`: a `hint` may be dropped, open dims may be split further."""

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
    """The `partial = sum[0]` of `shard.sharding`: over which axes a value is not reduced yet, and how."""

    name = "meshgen.partial"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Partial:
        return parse_partial(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(partial_text(self.data))


@irdl_attr_definition
class ReductionKindAttr(EnumAttribute[ReductionKind], SpacedOpaqueSyntaxAttribute):
    """How a collective reduces. LLVM 22 prints `max`; its documents write `<max>`, which is read too."""

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
    """The decision of propagation for an op: shardings of operands and results, axes per loop, and provenance.

    `#meshgen.plan<([["dp"], []]) -> ([["dp"], []]), loops = [["dp"], []], why = ["..."]>`; with nothing split or
    partial `#meshgen.plan<replicated(2, 2 -> 2), loops = 3>`, where the numbers are ranks. Without any sharding it
    is `#meshgen.plan<typed, ...>`: they are those of the types.
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
    """`#meshgen.plan<...>`; `is_typed`: the shardings are those of the types."""
    parts = ["typed" if is_typed else _replicated_text(plan) or _shardings_text(plan)]
    if plan.option:
        loops = listed(map(axes_text, plan.option)) if any(plan.option) else len(plan.option)
        parts.append(f"loops = {loops}")
    if plan.why:
        parts.append(f"why = {listed(map(quoted, plan.why))}")
    return f"#meshgen.plan<{', '.join(parts)}>"


def _parse_count(parser: AttrParser) -> int | None:
    """A number of dims or loops, if one is there."""
    count = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if count is not None and count > MOST_LOOPS:
        parser.raise_error(f"an operation has at most {MOST_LOOPS} loops")
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
    """A short form, or nothing where some value is not plainly replicated."""
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
    """The encoding of a tensor type on its mesh; on `mesh`, if it names none."""
    return f"#meshgen.split<{_on_grid_text(sharding.mesh or mesh, sharding)}>"


@lru_cache(1 << 12)
def annotation_text(spec: OnGrid) -> str:
    """`#meshgen.annotation<...>`"""
    text = _on_grid_text(spec.grid, spec.sharding) + ("" if spec.required else " hint")
    if spec.open_dims:
        text += f" open = {listed(map(boolean, spec.open_dims))}"
    return f"#meshgen.annotation<{text}>"
