"""Combine small independent collectives over the same groups into one message, which has the latency of one collective.

    before   %a = all_reduce %x on t   %b = all_reduce %y on t      both small, %y does not depend on %a
    after    %1 = reshape %x   %2 = reshape %y   %3 = concatenate %1, %2   %m = all_reduce %3 on t
             %4 = slice %m   %a = reshape %4   %5 = slice %m   %b = reshape %5

Works on a local program (stage partition), where every value is a plain buffer. The message is placed where its last
member was. A member may be deferred only up to its first user that is not a small element-wise op (`due`); small users
in between move after the message. So the order of all other work stays, and no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.ccl.cost import link_axes
from meshgen.ccl.links import rate_along
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.attributes.sharding import reduction_of
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import used_by
from meshgen.mesh import Mesh
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, NEVER_STORED, POINTWISE, REDUCTIONS, TAKING
from meshgen.ops.evaluate.common import bits
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.runtime.plan import MOST_PARTS
from meshgen.sharding.optimizations.messages import MESSAGES, MessageBuilder
from meshgen.sharding.optimizations.walk import price_of, with_graph

# chosen: a collective of at most 1/256 of a full message may always join a message
_TINY_PART = 256

# chosen: largest size in bytes of a value that may be computed later, after a message
_HELD_BYTES = 1 << 20

# chosen: a full message takes 4 latencies, so one more latency is at most a quarter of its time
_FULL_LATENCIES = 4

# Memory bandwidth of the device that copies, in bytes per second: 90 % of 3.35 TB/s, data sheet of NVIDIA H100 SXM.
_COPY_BYTES_PER_SECOND = 3e12

# Bytes of a member cross memory four times: packing reads and writes them, and so does unpacking the message.
_COPIES = 4

# Ops that can be deferred until after the message if they are small; all other ops keep their position.
_LIGHT = ELEMENTWISE | POINTWISE | ARRANGING | NEVER_STORED | TAKING | REDUCTIONS


@module_pass("collective-combine", "partition", applies="unless more expensive", requires_ops=MESSAGES)
def collective_combine(module: Module, context: Compilation) -> Module:
    """Return the module with combined all_reduces, all_gathers and reduce_scatters.

    Only collectives with equal axes, reduction kind and dtype are combined (gathers: equal bit width of the dtype), and
    only dtypes that kernels support.
    """
    return combined(module, DEFAULT.messages.share)


def combined(module: Module, copied: float) -> Module:
    """Combine collectives for which copying takes at most the fraction `copied` of the saved latency."""
    return with_graph(module, _combined(module.graph, module.mesh, copied))


@dataclass
class _Bucket:
    """Collectives that become one message, in program order."""

    due: int
    moved: int = 0  # bytes that each device moves for `members`
    members: list[Node] = field(default_factory=list[Node])

    def takes(self, position: int, moved: int, limit: float) -> bool:
        fits = position < self.due and len(self.members) < MOST_PARTS
        return fits and (self.moved + moved <= limit or moved * _TINY_PART <= limit)


def _combined(graph: Graph, mesh: Mesh, copied: float) -> Graph:
    nodes = [
        replace(n, regions=tuple(_combined(region, mesh, copied) for region in n.regions)) if n.regions else n
        for n in graph.nodes
    ]
    graph = replace(graph, nodes=nodes)
    groups = [bucket.members for bucket in _buckets(graph, mesh, copied) if len(bucket.members) > 1]
    return replace(graph, nodes=_reordered(graph.nodes, groups, mesh)) if groups else graph


def _buckets(graph: Graph, mesh: Mesh, copied: float) -> list[_Bucket]:
    """Assign each combinable collective to exactly one message, and return the messages."""
    due = _due(graph)
    buckets: list[_Bucket] = []
    open_buckets: dict[Any, _Bucket] = {}
    for position, node in enumerate(graph.nodes):
        if node.op not in MESSAGES or not _is_combinable(node, mesh, copied):
            continue
        moved, limit, key = price_of(node, mesh).ring_bytes, _limit(node, mesh), _collective_key(node, mesh)
        last = due.get(node.result, len(graph.nodes))
        bucket = open_buckets.get(key)
        if bucket is None or not bucket.takes(position, moved, limit):
            bucket = open_buckets[key] = _Bucket(last)
            buckets.append(bucket)
        bucket.members.append(node)
        bucket.moved += moved
        bucket.due = min(bucket.due, last)
    return buckets


def _due(graph: Graph) -> dict[Value, int]:
    """Return for each value the position of the first node that needs it and cannot be deferred.

    The node needs the value directly or through deferred nodes.
    """
    due: dict[Value, int] = {}
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        needed = position
        if is_light(node):
            needed = min((due.get(value, len(graph.nodes)) for value in node.results), default=position)
        for value in used_by(node):
            due[value] = min(due.get(value, needed), needed)
    return due


def is_light(node: Node) -> bool:
    """Whether a node can be deferred: it is an element-wise or layout op on few elements."""
    values = (*node.operands, *node.results)
    return node.op in _LIGHT and not node.regions and all(v.type.nbytes <= _HELD_BYTES for v in values)


def _collective_key(node: Node, mesh: Mesh) -> tuple[Any, ...]:
    """Return a key that is equal for collectives that can share a message.

    A gather moves the bits of any dtype. A reduction needs one dtype.
    """
    dtype, axes = node.result.type.dtype, tuple(node.attrs.axes)
    if node.op == "all_reduce":
        axes = tuple(sorted(axes, key=mesh.order))  # an all_reduce does not depend on the order of a group
    word = bits(dtype) if node.op == "all_gather" else dtype
    return node.op, axes, reduction_of(node.attrs), word


def _limit(node: Node, mesh: Mesh) -> float:
    """Return the largest number of bytes that each device may move in one message."""
    latency, bandwidth = rate_along(mesh, link_axes(node.op, node.attrs, mesh))
    return _FULL_LATENCIES * latency * bandwidth


def _is_combinable(node: Node, mesh: Mesh, copied: float) -> bool:
    """Whether copying `node` into and out of a message takes at most the fraction `copied` of the saved latency.

    Kernels copy the operands, so dtypes that kernels do not support are sent alone.
    """
    if node.result.type.dtype not in TRITON_TYPES or not price_of(node, mesh).ring_bytes:
        return False
    copies = _COPIES * max(node.operands[0].type.nbytes, node.result.type.nbytes)
    return copies / _COPY_BYTES_PER_SECOND <= copied * rate_along(mesh, link_axes(node.op, node.attrs, mesh)).latency


def _reordered(nodes: Sequence[Node], groups: list[list[Node]], mesh: Mesh) -> list[Node]:
    """Return the nodes with one message for each group. The message takes the position of the group's last member.

    The nodes that were deferred for the message follow it.
    """
    group_of = {node: group for group in groups for node in group}
    kept: list[Node] = []
    deferred: list[Node] = []
    missing: set[Value] = set()
    for node in nodes:
        group = group_of.get(node)
        if group is None and missing.isdisjoint(used_by(node)):
            kept.append(node)
        elif group is None:
            deferred.append(node)
            missing.update(node.results)
        elif node is not group[-1]:
            missing.update(node.results)
        else:
            kept += MessageBuilder(Graph(""), mesh=mesh).message(group)
            missing.difference_update(value for member in group for value in member.results)
            deferred = _released(deferred, kept, missing)
    assert not deferred, "a node waited for a message that never came"
    return kept


def _released(deferred: list[Node], kept: list[Node], missing: set[Value]) -> list[Node]:
    """Append the deferred nodes whose operands are available to `kept`, and return the other deferred nodes."""
    still_deferred: list[Node] = []
    for node in deferred:
        if missing.isdisjoint(used_by(node)):
            kept.append(node)
            missing.difference_update(node.results)
        else:
            still_deferred.append(node)
    return still_deferred
