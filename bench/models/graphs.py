"""Graph networks whose edges are split over devices: each edge has a message, and each node sums its messages. The
programs are jraph's GraphNetwork and graph attention.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jraph
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, whole
from bench.models.training import cross_entropy, training

MESH = {"dp": 8}
CLASSES = 8


def _graph(small: bool, width: int) -> tuple[Any, Any]:
    """Return the types and specs of a graph. Nodes and edges are split by rows."""
    nodes, edges = (16, 64) if small else (65536, 524288)
    ends = array(edges, dtype="int32")
    types = jraph.GraphsTuple(
        array(nodes, width),
        array(edges, width),
        ends,
        ends,
        array(1, width),
        array(1, dtype="int32"),
        array(1, dtype="int32"),
    )
    return types, jraph.GraphsTuple(P("dp"), P("dp"), P("dp"), P("dp"), P(), P(), P())


def _parameters(width: int, layers: int) -> Any:
    # 4: an MLP reads the features of the node or edge, of both neighbors (the ends of an edge, or the sums of a node's
    # outgoing and incoming edges), and of the graph
    sides = {"nodes": 4 * width, "edges": 4 * width}
    return [{name: array(size, width) for name, size in sides.items()} for _ in range(layers)] + [
        {"head": array(width, CLASSES)}
    ]


def _network(layer: Any) -> Any:
    def of_edges(edges: Any, sent: Any, received: Any, globals_: Any) -> Any:
        return jax.nn.relu(jnp.concatenate([edges, sent, received, globals_], -1) @ layer["edges"])

    def of_nodes(nodes: Any, sent: Any, received: Any, globals_: Any) -> Any:
        return jax.nn.relu(jnp.concatenate([nodes, sent, received, globals_], -1) @ layer["nodes"])

    return jraph.GraphNetwork(of_edges, of_nodes)


def classes(params: Any, graph: Any) -> Any:
    """Return the class scores of each node."""
    total = graph.nodes.shape[0], graph.edges.shape[0]
    graph = graph._replace(n_node=jnp.asarray(total[:1]), n_edge=jnp.asarray(total[1:]))
    for layer in params[:-1]:
        graph = _network(layer)(graph)
    return graph.nodes @ params[-1]["head"]


def network(small: bool, trains: bool = False) -> Program:
    width = 8 if small else 128
    (graph, specs), params = _graph(small, width), _parameters(width, 2)
    if not trains:
        return Program(classes, MESH, (params, graph), (P(), specs))
    labels = array(graph.nodes.shape[0], dtype="int32")
    return training(lambda params, graph, labels: cross_entropy(classes(params, graph), labels),
                    params, (graph, labels), MESH, whole, (specs, P("dp")))  # fmt: skip


def attention(small: bool) -> Program:
    """Return the program of graph attention: each node weighs the messages of its neighbors by a softmax."""
    width = 8 if small else 128
    nodes, edges = (16, 64) if small else (65536, 524288)
    params = {"w": array(width, width), "sent": array(width), "received": array(width)}

    def layer(params: Any, x: Any, senders: Any, receivers: Any) -> Any:
        h = x @ params["w"]
        scores = jax.nn.leaky_relu((h @ params["sent"])[senders] + (h @ params["received"])[receivers])
        weights = jraph.segment_softmax(scores, receivers, nodes)
        return jax.nn.elu(jraph.segment_sum(weights[:, None] * h[senders], receivers, nodes))

    ends = array(edges, dtype="int32")
    return Program(layer, MESH, (params, array(nodes, width), ends, ends), (P(), P(), P("dp"), P("dp")))


PROGRAMS = {
    "graph-network": network,
    "graph-network-train": lambda small: network(small, True),
    "graph-attention": attention,
}
