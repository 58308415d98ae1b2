"""Kernel plans: the template that generates a body, the parts that its values play, and the tiles to choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.expr import Expr, Var, delinearize, substitute
from meshgen.codegen.fusion.body_space import grown
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import LOOPS, POINTWISE, REDUCTIONS
from meshgen.ops.segments import connected


@dataclass(frozen=True)
class KernelPlan:
    """How a body is generated; the body stays what the kernel means.

    Attributes:
        template: the template that generates the body.
        space: the indices of the body's values, for templates with one iteration space.
        roles: nodes and values by the parts that they play in the template.
        candidates: tiles and launch options of the template's own type, the best predicted first; emission takes
            the first. Empty where there is nothing to choose.
    """

    template: Template
    space: Space | None = None
    roles: Mapping[str, Node | Value] = field(default_factory=dict[str, Node | Value])
    candidates: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Template:
    """One way to generate kernels, and the traits that passes and reports ask for.

    Passes compare traits, never names: a new template takes part in fusion as its traits say.

    Attributes:
        match: the plan of a body on a device; None for a body that the template does not generate.
        emit: writes the source of the plan's first candidate, and says how it is launched; None for a candidate that is of no
            use for the body. Of several candidates one at least is of use.
        form: the form of its kernels. The candidates of a GEMM that joins others are of type `kernels.matmul.Tile`.
        fuses: whether its kernels take in operations that others would compute.
        joins: whether its kernels can share a launch with others, each in a range of programs (`segmented`).
    """

    name: str
    match: Callable[[Graph, Device], KernelPlan | None]
    emit: Callable[[Evaluator, Graph, KernelPlan, Device], Launch | None]
    form: KernelForm
    fuses: bool = True
    joins: bool = False


def loops_of(body: Graph) -> list[Node]:
    """The nodes that loop over more than their result: dots, reductions, ..."""
    return [node for node in body.nodes if node.op in LOOPS]


def common_space(body: Graph, anchors: Sequence[Node]) -> Space | None:
    """The space of the first anchor that places all loops and outputs of the body; None if none does."""
    loops = loops_of(body)
    if not _may_have_common_space(body, loops):
        return None
    for anchor in anchors:
        space = grown(body, anchor)
        if all(n is anchor or n.results[0] in space.members for n in loops) and all(
            space.locate(v) is not None for v in body.outputs
        ):
            return space
    return None


def _may_have_common_space(body: Graph, loops: Sequence[Node]) -> bool:
    """Whether all reductions go over equally many elements, and indices lead from each loop and output to each other one.

    False for bodies of several segments: no anchor has to be tried.
    """
    sizes = {(node.operands[0].type.size, node.result.type.size) for node in loops if node.op in REDUCTIONS}
    if len(sizes) > 1:
        return False
    groups = connected(body.nodes, lambda node: _placed_together(node, sizes))
    placed = [{value for node in group for value in node.results} for group in groups]
    wanted = {*body.outputs, *(node.results[0] for node in loops)} - {*body.inputs}
    return any(wanted <= values for values in placed)


def _placed_together(node: Node, sizes: AbstractSet[tuple[int, int]]) -> list[Value]:
    """The values of a node of which an index of one may give those of the others; `sizes` are those before and after reductions."""
    shape = node.results[0].type.shape
    if node.op in POINTWISE:
        return [v for v in (*node.operands, *node.results) if v.type.shape == shape]
    if node.op == "broadcast_in_dim":  # what it adds is reduced by the kernel
        few, many = node.operands[0].type.size, node.result.type.size
        if few != many and any(few * before != many * after for before, after in sizes):
            return [*node.results]
    return [*node.operands, *node.results]


def where(space: Space, value: Value, table: Mapping[Var, Expr]) -> Index:
    """Index of a value in terms of the tile's variables."""
    place = space.locate(value)
    assert place is not None
    return tuple(substitute(e, table) for e in place)


def spread(variables: tuple[Var, ...], position: Expr) -> dict[Var, Expr]:
    """The variables as parts of one flat position, the last fastest."""
    parts = delinearize(position, [v.high + 1 for v in variables])
    return dict(zip(variables, parts, strict=True))
