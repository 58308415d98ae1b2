"""Collectives in groups of one device, reshards between equal layouts and shifts by whole turns are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ccl.cost import transfer_of
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import RETILING, SHARDING_OPS
from meshgen.sharding.optimizations.rewrite import Walk, walk
from meshgen.sharding.reshard.plan import same_layout

_MOVING = {*SHARDING_OPS, "shift"}


@module_pass("canonicalize-collectives", "materialize", "optimize", "partition", applies="unless dearer")
def canonicalize_collectives(module: Module, context: Compilation) -> Module:
    """Before: `%y = all_reduce %x on one` with one=1.   After: `%x`."""
    return walk(module, context, _drop, of=_MOVING)


def _drop(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.operands[0].type != node.result.type:
        return None
    if node.op == "shift":
        size = walk.mesh.axis_size(node.attrs.shift_axis)
        same = not (node.attrs.offset % size if node.attrs.rotate else node.attrs.offset)
    elif node.op == "update_halo":  # kept between equal shardings too, as rows may be stale; not if there are none
        alike = node.operands[0].sharding == node.result.sharding
        same = alike and not transfer_of(node.op, node.attrs, walk.mesh).elements
    elif node.op in RETILING:
        source, target = node.attrs.source, node.attrs.target
        same = same_layout(source, target, node.result.type.with_shape(node.attrs.shape), walk.mesh)
    else:
        same = walk.mesh.group_size(node.attrs.axes) == 1
    return [node.operands[0]] if same else None
