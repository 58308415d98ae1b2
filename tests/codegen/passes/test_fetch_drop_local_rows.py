"""Tests of the `fetch-drop-local-rows` pass: a device does not fetch the rows that it holds already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ccl.collective import Collective
from meshgen.ccl.cost import collective_seconds
from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes.fetch_drop_local_rows import fetch_drop_local_rows
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import Simulation
from tests.ccl.random_collectives import random_case
from tests.codegen.passes.after import after

Array = np.ndarray[Any, Any]
MESH = make_mesh({"x": 4})


def f32(*sizes: int) -> TensorType:
    return TensorType(sizes, "f32")


def fetching(rows: int, *, read_by: str = "tanh", tile: int = 8, **attrs: Any) -> Graph:
    graph = Graph("main", [Value(f32(tile, 3), "x")])
    fetch = {"axes": ("x",), "dim": 0, "base": 0, "step": tile, "limit": 4 * tile, **attrs}
    got = graph.add("fetch_rows", graph.inputs, [f32(rows, 3)], fetch).result
    if read_by == "dot":
        contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (0,)}
        graph.outputs = [graph.add("dot_general", [got, got], [f32(3, 3)], contract).result]
    elif read_by == "caller":
        graph.outputs = [got]
    else:
        graph.outputs = [graph.add(read_by, [got], [got.type]).result]
    return graph


def ran(graph: Graph, mesh: Mesh, shards: list[Array]) -> list[Array]:
    return Simulation(Module(mesh, graph, "partition")).run(graph, [shards])[0]


def fetched_rows(graph: Graph) -> list[int]:
    return [n.result.type.sizes[0] for n in after(fetch_drop_local_rows, graph, MESH).nodes if n.op == "fetch_rows"]


@pytest.mark.parametrize(
    "rows, fetched, attrs",
    [
        (9, [1], {"base": -1}),
        (9, [1], {"base": 0}),
        (12, [4], {"base": -2}),  # two rows before and two behind, in one message
        (8, [1], {"base": 31, "wrap": True}),  # wraps around: the row before the first is the last
        (8, [3], {"base": 3, "wrap": True}),
        (8, [0], {"base": 0}),
    ],
)
def test_fetch_is_reduced_to_rows_of_other_devices(rows: int, fetched: list[int], attrs: dict[str, Any]) -> None:
    graph = fetching(rows, **attrs)
    assert fetched_rows(graph) == [n for n in fetched if n]
    changed = after(fetch_drop_local_rows, graph, MESH)
    assert not [fault for node in changed.nodes for fault in verify_node(node, MESH)]
    shards = [np.random.default_rng(rank).standard_normal((8, 3)).astype(np.float32) for rank in range(4)]
    for rank, (got, want) in enumerate(zip(ran(changed, MESH, shards), ran(graph, MESH, shards), strict=True)):
        exists = ~np.isnan(want)  # rows outside of the tensor are padding
        np.testing.assert_array_equal(got[exists], want[exists], str(rank))
    assert sum(node.op == "kernel" for node in fuse(Module(MESH, graph, "partition")).graph.nodes) == 1


@pytest.mark.parametrize(
    "rows, attrs",
    [
        (8, {"base": 8}),  # all rows belong to another device
        (9, {"base": 0, "step": 9}),  # each device fetches other rows of its own tile
        (8, {"base": 1, "wrap": True, "limit": 30}),  # rows wrap around within a tile
        (4, {"base": 0, "step": 8, "divisor": 2}),
    ],
)
def test_fetches_of_unsupported_ranges_are_unchanged(rows: int, attrs: dict[str, Any]) -> None:
    graph = fetching(rows, **attrs)
    assert after(fetch_drop_local_rows, graph, MESH).nodes == graph.nodes


@pytest.mark.parametrize("read_by", ["caller", "dot", "sort"])
def test_fetch_for_non_elementwise_user_is_unchanged(read_by: str) -> None:
    if read_by == "sort":
        graph = fetching(9, base=-1, read_by="caller")
        graph.nodes.append(Node("sort", graph.outputs, [Value(graph.outputs[0].type)], {"dim": 0, "is_stable": True}))
        graph.outputs = graph.nodes[-1].results
    else:
        graph = fetching(9, base=-1, read_by=read_by)
    assert after(fetch_drop_local_rows, graph, MESH).nodes == graph.nodes


def test_random_fetches_keep_results_and_cost_no_more() -> None:
    rng, changed_count = np.random.default_rng(1), 0
    for _ in range(9000):
        case = random_case(rng, "fetch_rows")
        if case.node.operands[0].type.dtype != "f32" or not case.node.result.type.size:
            continue
        graph = Graph("main", [Value(case.node.operands[0].type, "x")])
        got = graph.add("fetch_rows", graph.inputs, [case.node.result.type], case.node.attrs).result
        graph.outputs = [graph.add("negate", [got], [got.type]).result]
        changed = after(fetch_drop_local_rows, graph, case.mesh)
        if changed.nodes == graph.nodes:
            continue
        changed_count += 1
        assert not [fault for node in changed.nodes for fault in verify_node(node, case.mesh)], str(case)
        shards = [rng.integers(-8, 8, graph.inputs[0].type.sizes).astype(np.float32) for _ in range(case.mesh.size)]
        for new, old in zip(ran(changed, case.mesh, shards), ran(graph, case.mesh, shards), strict=True):
            exists = ~np.isnan(old)
            np.testing.assert_array_equal(new[exists], old[exists], str(case))
        assert sum(_seconds(n, case.mesh) for n in changed.nodes) <= _seconds(graph.nodes[0], case.mesh) + 1e-12
    assert changed_count >= 15


def _seconds(node: Node, mesh: Mesh) -> float:
    if node.op != "fetch_rows":
        return 0.0
    collective = Collective.of(node, mesh)
    return collective_seconds(node.op, node.attrs, collective.operands[0], collective.results[0], mesh)
