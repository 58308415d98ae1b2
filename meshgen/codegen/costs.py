"""The models that predict durations for the scheduler."""

from __future__ import annotations

from meshgen.ccl.cost import collective_seconds
from meshgen.codegen.roofline import kernel_seconds
from meshgen.codegen.timeline import Costs
from meshgen.ir.graph import Node
from meshgen.mesh import Mesh


def default_costs(target: str) -> Costs:
    """The roofline of the target's device, and the mesh's links."""
    return Costs(kernel=lambda body: kernel_seconds(body, target), collective=_collective_seconds)


def _collective_seconds(node: Node, mesh: Mesh) -> float:
    """A `send` has no result and a `recv` no operand: the other side's type is the same."""
    values = [*node.operands[:1], *node.results[:1]]
    return collective_seconds(node.op, node.attrs, values[0].type, values[-1].type, mesh)
