"""Remove a gather and a slice, or two all_to_alls, that cancel each other.

    before   %1 = all_gather %x   %2 = all_slice %1           before   %1 = all_to_all %x   %2 = all_to_all %1
    after    %x                                               after    %x

The pairs may come in either order. A slice of a gathered value is always the device's own tile. A gather of a slice is
the original value only if all devices of a group sliced the same value, so this case needs a proof from shardings or
from the local program.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.walk import Walk, walk

_INVERTIBLE = {"all_slice", "all_gather", "all_to_all"}


@module_pass("cancel-inverse-collectives", "materialize", "optimize", "partition", applies="unless more expensive")
def cancel_inverse_collectives(module: Module, context: Compilation) -> Module:
    """Return the module without pairs of collectives that cancel each other."""
    return walk(module, context, _cancel, of=_INVERTIBLE)


def _cancel(node: Node, walk: Walk) -> Sequence[Value] | None:
    inner = walk.producers.get(node.operands[0])
    if inner is None or tuple(axes_of(inner.attrs)) != tuple(node.attrs.axes):
        return None
    start = inner.operands[0]
    if start.type == node.result.type and start.sharding == node.result.sharding and _undoes(node, inner, start, walk):
        return [start]
    return None


def _undoes(node: Node, inner: Node, start: Value, walk: Walk) -> bool:
    if node.op == "all_to_all":
        ends = node.attrs.split_dim, node.attrs.concat_dim
        return inner.op == "all_to_all" and (inner.attrs.concat_dim, inner.attrs.split_dim) == ends
    if node.attrs.dim != inner.attrs.get("dim"):
        return False
    if (node.op, inner.op) == ("all_slice", "all_gather"):
        return True
    return (node.op, inner.op) == ("all_gather", "all_slice") and _is_replicated(start, node.attrs.axes, walk)


def _is_replicated(value: Value, axes: Sequence[str], walk: Walk) -> bool:
    """Whether a value is provably equal on all devices of each group over `axes`."""
    if value.sharding is None:
        return walk.is_uniform(value, axes)
    return not any(overlaps(used, axis) for used in value.sharding.used_axes for axis in axes)
