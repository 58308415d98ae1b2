"""Tests of the `collective-outermost-dim` pass: results, removed packing copies, and unprofitable cases."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from meshgen.ccl.collective import Collective
from meshgen.ccl.packing import packing
from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes.collective_outermost_dim import collective_outermost_dim
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import Simulation
from meshgen.spec import P
from tests.ccl.random_collectives import Case, random_case
from tests.codegen.passes.after import after

Array = np.ndarray[Any, Any]
MOVED = ("all_gather", "reduce_scatter", "all_to_all", "retile")


def between_kernels(node: Node) -> Graph:
    """Return -(collective(-x)), so that both the producer and the user of the collective are kernels."""
    graph = Graph("main", [Value(node.operands[0].type, "x")])
    before = graph.add("negate", graph.inputs, [graph.inputs[0].type]).result
    moved = graph.add(node.op, [before], [node.result.type], node.attrs).result
    graph.outputs = [graph.add("negate", [moved], [moved.type]).result]
    return graph


def ran(graph: Graph, mesh: Mesh, shards: list[Array]) -> list[Array]:
    return Simulation(Module(mesh, graph, "partition")).run(graph, [shards])[0]


def shards_of(case: Case, rng: np.random.Generator) -> list[Array]:
    kind = case.node.operands[0].type
    return [rng.integers(-8, 8, kind.sizes).astype(kind.numpy_dtype) for _ in range(case.mesh.size)]


def test_random_collectives_keep_results_and_add_no_copies() -> None:
    rng, rewritten = np.random.default_rng(0), Counter[str]()
    for iteration in range(6000):
        case = random_case(rng, MOVED[iteration % len(MOVED)], with_group_calls=False)
        if case.node.operands[0].type.dtype not in ("f32", "i32", "bf16", "ui8"):
            continue
        graph = between_kernels(case.node)
        rewritten_graph = after(collective_outermost_dim, graph, case.mesh)
        (node,) = (n for n in rewritten_graph.nodes if n.op == case.node.op)
        assert not [f for n in rewritten_graph.nodes for f in verify_node(n, case.mesh)], str(case)
        if len(rewritten_graph.nodes) == len(graph.nodes):
            continue
        rewritten[case.node.op] += 1
        old, new = (packing(Collective.of(n, case.mesh)) for n in (case.node, node))
        assert new.scratch_bytes <= old.scratch_bytes and new.local_bytes <= old.local_bytes, str(case)
        shards = shards_of(case, rng)
        for got, want in zip(ran(rewritten_graph, case.mesh, shards), ran(graph, case.mesh, shards), strict=True):
            np.testing.assert_array_equal(got, want, str(case))
    assert all(rewritten[op] >= 5 for op in MOVED), rewritten


def f32(*sizes: int) -> TensorType:
    return TensorType(sizes, "f32")


MESH = make_mesh({"x": 4})


def gathers(*, of_input: bool = False, read_by: str = "kernel") -> Graph:
    """Return a program with an all_gather along columns. `read_by` is its user: a kernel, a collective or the caller."""
    graph = Graph("main", [Value(f32(64, 2), "x")])
    tile = graph.inputs[0] if of_input else graph.add("tanh", graph.inputs, [f32(64, 2)]).result
    gathered = graph.add("all_gather", [tile], [f32(64, 8)], {"axes": ("x",), "dim": 1}).result
    graph.outputs = [gathered]
    if read_by == "kernel":
        graph.outputs = [graph.add("tanh", [gathered], [gathered.type]).result]
    elif read_by == "collective":
        graph.outputs = [graph.add("all_reduce", [gathered], [gathered.type], {"axes": ("x",), "kind": "sum"}).result]
    return graph


def dim_of(graph: Graph) -> int:
    (node,) = (n for n in after(collective_outermost_dim, graph, MESH).nodes if n.op == "all_gather")
    return node.attrs.dim


@pytest.mark.parametrize("of_input", [False, True])
def test_gather_for_kernels_moves_to_outermost_dim(of_input: bool) -> None:
    assert dim_of(gathers(of_input=of_input)) == 0
    module = fuse(Module(MESH, gathers(of_input=of_input), "partition"))
    kernels = [n for n in module.graph.nodes if n.op == "kernel"]
    assert len(kernels) == 2 - of_input, "the user's kernel unpacks the result"


@pytest.mark.parametrize("read_by", ["caller", "collective"])
def test_unpacking_kernel_is_added_only_if_it_reuses_the_operand(read_by: str) -> None:
    assert dim_of(gathers(of_input=True, read_by=read_by)) == 1, (
        "the input's buffer cannot be reused, so nothing is gained"
    )
    assert dim_of(gathers(read_by=read_by)) == 0


def scatters(*, kept: bool) -> Graph:
    graph = Graph("main", [Value(f32(64, 8), "x")])
    summand = graph.add("tanh", graph.inputs, [f32(64, 8)]).result
    attrs = {"axes": ("x",), "dim": 1, "kind": "sum"}
    graph.outputs = [graph.add("reduce_scatter", [summand], [f32(64, 2)], attrs).result, *([summand] if kept else [])]
    return graph


def test_summand_is_packed_by_its_kernel_if_it_has_no_other_user() -> None:
    changed, same = (after(collective_outermost_dim, scatters(kept=kept), MESH) for kept in (False, True))
    assert [n.attrs.dim for g in (changed, same) for n in g.nodes if n.op == "reduce_scatter"] == [0, 1]
    module = fuse(Module(MESH, scatters(kept=False), "partition"))
    assert sum(n.op == "kernel" for n in module.graph.nodes) == 1


def test_gather_of_few_rows_keeps_its_dim() -> None:
    """Check eight rows: one launch groups eight NCCL calls, which need no copies."""
    graph = Graph("main", [Value(f32(8, 2), "x")])
    tile = graph.add("tanh", graph.inputs, [f32(8, 2)]).result
    gathered = graph.add("all_gather", [tile], [f32(8, 8)], {"axes": ("x",), "dim": 1}).result
    graph.outputs = [graph.add("tanh", [gathered], [gathered.type]).result]
    assert dim_of(graph) == 1


def test_gather_captured_by_region_keeps_its_dim() -> None:
    """Check a result that regions capture: control flow does not unpack its operands."""
    graph = gathers(read_by="caller", of_input=True)
    gathered = graph.outputs[0]
    branch = Graph("", [], [], [gathered])
    choice = graph.add("constant", [], [TensorType((), "i1")], {"value": np.array(True)}).result
    flow = Node("if", [choice], [Value(gathered.type)], {}, None, None, (branch, branch))
    graph.nodes.append(flow)
    graph.outputs = flow.results
    assert dim_of(graph) == 1


@pytest.mark.parametrize("reader", ["kernel", "caller"])
def test_retile_of_swapped_axes_is_unpacked_only_by_kernels(reader: str) -> None:
    """Check a retile from P("x", "y") to P("y", "x"): half tiles are sent, stacked, then transposed."""
    mesh = make_mesh({"x": 2, "y": 4})
    graph = Graph("main", [Value(f32(32, 16), "x")])
    tile = graph.add("tanh", graph.inputs, [f32(32, 16)]).result
    attrs = {"source": P("x", "y"), "target": P("y", "x"), "shape": (64, 64)}
    swapped = graph.add("retile", [tile], [f32(16, 32)], attrs).result
    graph.outputs = [graph.add("tanh", [swapped], [swapped.type]).result if reader == "kernel" else swapped]
    changed = after(collective_outermost_dim, graph, mesh)
    (node,) = (n for n in changed.nodes if n.op == "retile")
    if reader == "caller":
        assert node is graph.nodes[1]
        return
    old, new = (packing(Collective.of(n, mesh)) for n in (graph.nodes[1], node))
    assert old.scratch_bytes > 0 and new.scratch_bytes == 0
    assert node.attrs.shape == (4, 4, 16, 16) and node.result.type == f32(1, 2, 16, 16)
