"""Small independent collectives over the same groups become one message, which pays one latency.

Works on a local program (stage partition), where every value is a plain buffer: buffers are flattened, joined, sent
once, and cut apart. The message takes the position of its last part. Nothing else waits for it: a part may be deferred
only up to the first user that is not a small element-wise op (`due`), and users in between move
after the message. So the order of all other work stays, and no cycle can arise.
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
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, POINTWISE, REDUCTIONS, TAKING, UNSTORED
from meshgen.ops.evaluate.common import bits
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.runtime.plan import MOST_PARTS
from meshgen.sharding.optimizations.messages import MESSAGES, MessageBuilder
from meshgen.sharding.optimizations.rewrite import price_of, with_graph

# A collective always fits if it moves at most one part in so many of a full message.
_TINY_PART = 256

# Bytes of values that may wait for a message.
_HELD_BYTES = 1 << 20

# The bytes of a full message take so many latencies.
_FULL_LATENCIES = 4

# Memory of the device that copies: 90 % of 3.35 TB/s, data sheet of NVIDIA H100 SXM.
_COPY_BYTES_PER_SECOND = 3e12

# How often the bytes of a part cross memory: read and written before the message, and after it.
_COPIES = 4

# Ops that may be deferred until after the message, if they are small; all others stay in place.
_LIGHT = ELEMENTWISE | POINTWISE | ARRANGING | UNSTORED | TAKING | REDUCTIONS


@module_pass("collective-combine", "partition", applies="unless dearer", requires_ops=MESSAGES)
def collective_combine(module: Module, context: Compilation) -> Module:
    """Before: `%a = all_reduce %x on t   %b = all_reduce %y on t`, small, `%y` not made from `%a`.

    After: `%m = all_reduce (concatenate (reshape %x), (reshape %y)) on t   %a = reshape (slice %m)   %b = ...`;
    all_gather and reduce_scatter alike. Only among the same axes, kind and dtype (gathers: width of the dtype), and of
    types that kernels support.
    """
    return combined(module, DEFAULT.messages.share)


def combined(module: Module, copied: float) -> Module:
    """The module with messages of collectives for which copying takes at most that part of the latency saved."""
    return with_graph(module, _combined(module.graph, module.mesh, copied))


@dataclass
class _Bucket:
    """Collectives that will be one message, in program order."""

    due: int
    moved: int = 0  # bytes
    members: list[Node] = field(default_factory=list[Node])

    def takes(self, place: int, moved: int, limit: float) -> bool:
        fits = place < self.due and len(self.members) < MOST_PARTS
        return fits and (self.moved + moved <= limit or moved * _TINY_PART <= limit)


def _combined(graph: Graph, mesh: Mesh, copied: float) -> Graph:
    nodes = [
        replace(n, regions=tuple(_combined(region, mesh, copied) for region in n.regions)) if n.regions else n
        for n in graph.nodes
    ]
    graph = replace(graph, nodes=nodes)
    found = [bucket.members for bucket in _buckets(graph, mesh, copied) if len(bucket.members) > 1]
    return replace(graph, nodes=_reordered(graph.nodes, found, mesh)) if found else graph


def _buckets(graph: Graph, mesh: Mesh, copied: float) -> list[_Bucket]:
    """Collectives by the message that they go into, each in exactly one."""
    due = _due(graph)
    found: list[_Bucket] = []
    opened: dict[Any, _Bucket] = {}
    for place, node in enumerate(graph.nodes):
        if node.op not in MESSAGES or not _may_join(node, mesh, copied):
            continue
        moved, limit, key = price_of(node, mesh).ring_bytes, _limit(node, mesh), _collective_key(node, mesh)
        last = due.get(node.result, len(graph.nodes))
        bucket = opened.get(key)
        if bucket is None or not bucket.takes(place, moved, limit):
            bucket = opened[key] = _Bucket(last)
            found.append(bucket)
        bucket.members.append(node)
        bucket.moved += moved
        bucket.due = min(bucket.due, last)
    return found


def _due(graph: Graph) -> dict[Value, int]:
    """For each value the position of the first node that needs it, perhaps through deferred ones, and cannot be deferred."""
    due: dict[Value, int] = {}
    for place in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[place]
        needed = place
        if is_light(node):
            needed = min((due.get(value, len(graph.nodes)) for value in node.results), default=place)
        for value in used_by(node):
            due[value] = min(due.get(value, needed), needed)
    return due


def is_light(node: Node) -> bool:
    """Whether a node may be deferred: an element-wise op on few elements."""
    values = (*node.operands, *node.results)
    return node.op in _LIGHT and not node.regions and all(v.type.nbytes <= _HELD_BYTES for v in values)


def _collective_key(node: Node, mesh: Mesh) -> tuple[Any, ...]:
    """Collectives of the same key may share a message. A gather moves bits of any dtype; a reduction needs one dtype."""
    dtype, axes = node.result.type.dtype, tuple(node.attrs.axes)
    if node.op == "all_reduce":
        axes = tuple(sorted(axes, key=mesh.order))  # it does not depend on the order of a group
    word = bits(dtype) if node.op == "all_gather" else dtype
    return node.op, axes, reduction_of(node.attrs), word


def _limit(node: Node, mesh: Mesh) -> float:
    """Bytes that a message may move."""
    latency, bandwidth = rate_along(mesh, link_axes(node.op, node.attrs, mesh))
    return _FULL_LATENCIES * latency * bandwidth


def _may_join(node: Node, mesh: Mesh, copied: float) -> bool:
    """Whether copying the buffers into and out of a message takes less than that part of the latency that it saves.

    Kernels do the copying: types that they do not support are sent alone.
    """
    if node.result.type.dtype not in TRITON_TYPES or not price_of(node, mesh).ring_bytes:
        return False
    copies = _COPIES * max(node.operands[0].type.nbytes, node.result.type.nbytes)
    return copies / _COPY_BYTES_PER_SECOND <= copied * rate_along(mesh, link_axes(node.op, node.attrs, mesh)).latency


def _reordered(nodes: Sequence[Node], found: list[list[Node]], mesh: Mesh) -> list[Node]:
    """The nodes with each group's message where its last member was, and after it the nodes deferred for it."""
    group_of = {node: group for group in found for node in group}
    kept: list[Node] = []
    late: list[Node] = []
    missing: set[Value] = set()
    for node in nodes:
        group = group_of.get(node)
        if group is None and missing.isdisjoint(used_by(node)):
            kept.append(node)
        elif group is None:
            late.append(node)
            missing.update(node.results)
        elif node is not group[-1]:
            missing.update(node.results)
        else:
            kept += MessageBuilder(Graph(""), mesh=mesh).message(group)
            missing.difference_update(value for member in group for value in member.results)
            late = _released(late, kept, missing)
    assert not late, "a node waited for a message that never came"
    return kept


def _released(late: list[Node], kept: list[Node], missing: set[Value]) -> list[Node]:
    """Append deferred nodes that are ready to `kept`; returns the others."""
    rest: list[Node] = []
    for node in late:
        if missing.isdisjoint(used_by(node)):
            kept.append(node)
            missing.difference_update(node.results)
        else:
            rest.append(node)
    return rest
