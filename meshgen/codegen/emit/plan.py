"""Kernel plans: the template that generates a body, the roles of its values, and the candidate tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.expr import Expr, Var, delinearize, substitute
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.reconstructed_space import grown
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import LOOPS, POINTWISE, REDUCTIONS
from meshgen.ops.segments import connected


@dataclass(frozen=True)
class KernelPlan:
    """The choice of how to generate a kernel for a body. The body alone defines what the kernel computes.

    Attributes:
        template: the template that generates the body.
        space: the indices of the body's values, for templates with one iteration space. None for other templates.
        roles: nodes and values of the body by their role in the template.
        candidates: tiles and launch options, in a type that the template defines, in ascending order of predicted time.
            Emission uses the first candidate. Empty if the template has no options.
    """

    template: Template
    space: Space | None = None
    roles: Mapping[str, Node | Value] = field(default_factory=dict[str, Node | Value])
    candidates: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Template:
    """A way to generate kernels, with the traits that passes and reports depend on.

    Passes compare traits, never names, so fusion handles a new template according to its traits.

    Attributes:
        match: returns the plan of a body on a device, or None for a body that the template cannot generate.
        emit: writes the source of the plan's first candidate and returns its launch parameters, or None if the body
            cannot use the candidate. At least one candidate of a plan is usable.
        form: the kernel form of its kernels. GEMM templates with `joins` use candidates of type `kernels.matmul.Tile`.
        fuses: whether its kernels may absorb ops that would otherwise be separate kernels.
        joins: whether its kernels can share a launch with other kernels, each in a range of programs (`segmented`).
    """

    name: str
    match: Callable[[Graph, Device], KernelPlan | None]
    emit: Callable[[Evaluator, Graph, KernelPlan, Device], Launch | None]
    form: KernelForm
    fuses: bool = True
    joins: bool = False


def loops_of(body: Graph) -> list[Node]:
    """Return the nodes that iterate over more than the elements of their result: dots, reductions, ..."""
    return [node for node in body.nodes if node.op in LOOPS]


def common_space(body: Graph, anchors: Sequence[Node]) -> Space | None:
    """Return the first iteration space, grown from one of `anchors`, that contains all loops and outputs of the body.

    Returns None if no anchor has such a space.
    """
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
    """Whether a common iteration space is possible: all reductions have equal sizes, and index maps connect all loops
    and outputs.

    This check is necessary but not sufficient. It fails for a body with several independent segments.
    """
    sizes = {(node.operands[0].type.size, node.result.type.size) for node in loops if node.op in REDUCTIONS}
    if len(sizes) > 1:
        return False
    groups = connected(body.nodes, lambda node: _placed_together(node, sizes))
    placed = [{value for node in group for value in node.results} for group in groups]
    required = {*body.outputs, *(node.results[0] for node in loops)} - {*body.inputs}
    return any(required <= values for values in placed)


def _placed_together(node: Node, sizes: AbstractSet[tuple[int, int]]) -> list[Value]:
    """Return the operands and results of a node whose indices determine each other.

    Args:
        sizes: pairs of element counts, before and after each reduction of the kernel.
    """
    shape = node.results[0].type.shape
    if node.op in POINTWISE:
        return [v for v in (*node.operands, *node.results) if v.type.shape == shape]
    # The operand's index determines the result's only if the kernel reduces the dims that the broadcast adds.
    if node.op == "broadcast_in_dim":
        few, many = node.operands[0].type.size, node.result.type.size
        if few != many and any(few * before != many * after for before, after in sizes):
            return [*node.results]
    return [*node.operands, *node.results]


def where(space: Space, value: Value, table: Mapping[Var, Expr]) -> Index:
    """Return the index of `value` in `space`, with the space's variables replaced by the tile's variables (`table`)."""
    index = space.locate(value)
    assert index is not None
    return tuple(substitute(e, table) for e in index)


def spread(variables: tuple[Var, ...], position: Expr) -> dict[Var, Expr]:
    """Split a flat position into one index per variable; the last variable varies fastest."""
    parts = delinearize(position, [v.high + 1 for v in variables])
    return dict(zip(variables, parts, strict=True))
