"""The template of a kernel body, and the index of each of its values in the iteration space."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen.expr import Expr, Var, delinearize, substitute
from meshgen.codegen.fusion.space import Index, Space, backward
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import DOTS, LAYOUT, LOOPS, MADE, POINTWISE
from meshgen.records import dataclass


@dataclass(frozen=True)
class Plan:
    """How a body is generated: `family` is "map", "reduce" or "dot"; a map has no space."""

    family: str
    space: Space | None = None


def plan_body(body: Graph) -> Plan:
    """Place all values of a body. Raises CodegenError (MG0301) if no template fits."""
    heavy = [n for n in body.nodes if n.op in LOOPS]
    if not heavy:
        sizes = {v.type.size for v in body.outputs}
        if len(sizes) > 1:
            raise _no_family(body)
        return Plan("map")
    dots = [n for n in heavy if n.op in DOTS]
    first = dots or [*heavy, *(n for n in body.nodes if n.op in POINTWISE)]
    for anchor in first:
        space = _grow(body, anchor)
        if all(n is anchor or n.results[0] in space.members for n in heavy) and all(
            space.locate(v) is not None for v in body.outputs
        ):
            return Plan("dot" if dots else "reduce", space)
    raise _no_family(body)


def _no_family(body: Graph) -> CodegenError:
    ops = ", ".join(dict.fromkeys(n.op for n in body.nodes))
    return CodegenError(
        Diagnostic(
            "MG0301",
            f"no kernel template fits kernel '{body.name}' ({ops})",
            body.nodes[0].loc,
            hint="please report this program",
        )
    )


def _grow(body: Graph, anchor: Node) -> Space:
    """The space that `anchor` spans, with every node that can be placed in it."""
    space = Space(body.producers().get)
    space.start(anchor)
    work = [n for n in body.nodes if n is not anchor and n.op not in MADE and n.op not in LAYOUT]
    while True:
        before = len(space.index)
        _hint_upstream(body, space)
        work = [n for n in work if not space.add(n)]
        if len(space.index) == before:
            return space


def _hint_upstream(body: Graph, space: Space) -> None:
    """Values that a placed value is made from are placed by that use."""
    for node in reversed(body.nodes):
        place = space.index.get(node.results[0])
        if place is None or node.results[0] in space.fixed:
            continue
        if node.op in POINTWISE:
            for operand in node.operands:
                if operand.type.shape == node.result.type.shape:
                    space.index.setdefault(operand, place)
        elif node.op in ("transpose", "reshape", "reverse", "mask_padding"):
            space.index.setdefault(node.operands[0], backward(node, place))


def where(space: Space, value: Value, table: Mapping[Var, Expr]) -> Index:
    """Index of a value in terms of the tile's variables."""
    place = space.locate(value)
    assert place is not None
    return tuple(substitute(e, table) for e in place)


def spread(variables: tuple[Var, ...], position: Expr) -> dict[Var, Expr]:
    """The variables as parts of one flat position, the last fastest."""
    parts = delinearize(position, [v.high + 1 for v in variables])
    return dict(zip(variables, parts, strict=True))
