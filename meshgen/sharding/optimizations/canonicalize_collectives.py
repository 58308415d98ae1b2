"""Remove collectives over one device, reshards between equal layouts, and rotations by multiples of the axis size.

before   %y = all_reduce %x on one      with one=1
after    %x
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ccl.cost import transfer_of
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import RETILING, SHARDING_OPS
from meshgen.sharding.optimizations.walk import Walk, walk
from meshgen.sharding.reshard.plan import same_layout

_MOVING = {*SHARDING_OPS, "shift"}


@module_pass("canonicalize-collectives", "materialize", "optimize", "partition", applies="unless more expensive")
def canonicalize_collectives(module: Module, context: Compilation) -> Module:
    """Return the module without collectives that return their operand."""
    return walk(module, context, _drop, of=_MOVING)


def _drop(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.operands[0].type != node.result.type:
        return None
    if node.op == "shift":
        size = walk.mesh.axis_size(node.attrs.shift_axis)
        same = not (node.attrs.offset % size if node.attrs.rotate else node.attrs.offset)
    # An update_halo between equal shardings stays if it has halo rows, since these may be stale.
    elif node.op == "update_halo":
        alike = node.operands[0].sharding == node.result.sharding
        same = alike and not transfer_of(node.op, node.attrs, walk.mesh).elements
    elif node.op in RETILING:
        source, target = node.attrs.source, node.attrs.target
        same = same_layout(source, target, node.result.type.with_shape(node.attrs.shape), walk.mesh)
    else:
        same = walk.mesh.group_size(node.attrs.axes) == 1
    return [node.operands[0]] if same else None
