"""What chunks of a chain gain, before anything is written out: an estimate that says which chains are worth a closer look."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.ccl.collective import leading
from meshgen.ccl.cost import link_axes
from meshgen.codegen.roofline import EFFICIENCY, Device, dot_seconds, memory_seconds
from meshgen.ir.graph import Graph, Node, Value
from meshgen.mesh import Mesh
from meshgen.sharding.chunks.chain import CHUNKED, Chain
from meshgen.sharding.optimizations.rewrite import ELEMENTWISE
from meshgen.sharding.optimizations.tiled import Loop, tile_of

_LAUNCHED = ("dot_general", "reduce")  # what makes a kernel of its own; other operations mostly go along


def most_hidden(chain: Chain, exposed: Mapping[Node, float], device: Device) -> float:
    """Seconds of what is exposed that chunks can hide at best: in each part of the chain all but a chunk, behind dots of the part."""
    total = 0.0
    for part in chain.parts:
        shown = [exposed[node] for node in part if node in exposed]
        work = sum(dot_seconds(node, device) / EFFICIENCY for node in part if node.op == "dot_general")
        total += min(sum(shown) - max(shown, default=0.0) / chain.count, work)
    return total


def estimated_gain(graph: Graph, chain: Chain, exposed: Mapping[Node, float], device: Device, mesh: Mesh) -> float:
    """Seconds by which the step may become shorter: what is hidden, without what launches, latencies, small products and copies add."""
    launches = sum(node.op in _LAUNCHED for node in chain.loops) * device.launch_seconds
    latencies = sum(_latency(node, mesh) for node in chain.loops if node.op in CHUNKED)
    slower = sum(
        _slower(node, loop, chain.count, device) for node, loop in chain.loops.items() if node.op == "dot_general"
    )
    copies = memory_seconds(_copied_bytes(graph, chain), device)
    return (
        most_hidden(chain, exposed, device) - (chain.count - 1) * (launches + latencies) - slower / EFFICIENCY - copies
    )


def _slower(node: Node, loop: Loop, count: int, device: Device) -> float:
    """How much longer a dot takes in chunks, at the peak: smaller products fill the device less well."""
    operands = [
        value if dim is None else Value(tile_of(value.type, dim, count))
        for value, dim in zip(node.operands, loop.operands, strict=True)
    ]
    chunk = Node(node.op, operands, [Value(tile_of(node.result.type, loop.result, count))], node.attrs)
    return count * dot_seconds(chunk, device) - dot_seconds(node, device)


def _latency(node: Node, mesh: Mesh) -> float:
    return max((mesh.axis(axis).latency for axis in link_axes(node.op, node.attrs, mesh)), default=0.0)


def _copied_bytes(graph: Graph, chain: Chain) -> int:
    """Bytes read and written to join chunks that are read whole and cannot be made in place; element-wise operations read them where
    they are.
    """
    made = {node.result for node, loop in chain.loops.items() if leading(node.result.type.sizes, loop.result) > 1}
    outside = [node for node in graph.nodes if node not in chain.loops and node.op not in ELEMENTWISE]
    read: dict[Value, None] = {v: None for node in outside for v in node.operands if v in made}
    read |= {v: None for v in graph.outputs if v in made}
    return 2 * sum(value.type.nbytes for value in read)
