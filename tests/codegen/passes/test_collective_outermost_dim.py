"""Collectives along inner dims that kernels pack for: the same numbers, nothing left to copy, and what must stay as it is."""

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
    """-(collective(-x)), so that kernels stand on both sides of it."""
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


def test_random_collectives_mean_the_same_and_copy_nothing_more() -> None:
    rng, rewritten = np.random.default_rng(0), Counter[str]()
    for number in range(6000):
        case = random_case(rng, MOVED[number % len(MOVED)], with_group_calls=False)
        if case.node.operands[0].type.dtype not in ("f32", "i32", "bf16", "ui8"):
            continue
        graph = between_kernels(case.node)
        changed = after(collective_outermost_dim, graph, case.mesh)
        (node,) = (n for n in changed.nodes if n.op == case.node.op)
        assert not [f for n in changed.nodes for f in verify_node(n, case.mesh)], str(case)
        if len(changed.nodes) == len(graph.nodes):
            continue
        rewritten[case.node.op] += 1
        old, new = (packing(Collective.of(n, case.mesh)) for n in (case.node, node))
        assert new.scratch_bytes <= old.scratch_bytes and new.local_bytes <= old.local_bytes, str(case)
        shards = shards_of(case, rng)
        for got, want in zip(ran(changed, case.mesh, shards), ran(graph, case.mesh, shards), strict=True):
            np.testing.assert_array_equal(got, want, str(case))
    assert all(rewritten[op] >= 5 for op in MOVED), rewritten


def f32(*sizes: int) -> TensorType:
    return TensorType(sizes, "f32")


MESH = make_mesh({"x": 4})


def gathers(*, of_input: bool = False, read_by: str = "kernel") -> Graph:
    """A gather along columns whose operand is made here or given, and whose result a kernel, a collective or the caller reads."""
    graph = Graph("main", [Value(f32(64, 2), "x")])
    tile = graph.inputs[0] if of_input else graph.add("tanh", graph.inputs, [f32(64, 2)]).result
    whole = graph.add("all_gather", [tile], [f32(64, 8)], {"axes": ("x",), "dim": 1}).result
    graph.outputs = [whole]
    if read_by == "kernel":
        graph.outputs = [graph.add("tanh", [whole], [whole.type]).result]
    elif read_by == "collective":
        graph.outputs = [graph.add("all_reduce", [whole], [whole.type], {"axes": ("x",), "kind": "sum"}).result]
    return graph


def dim_of(graph: Graph) -> int:
    (node,) = (n for n in after(collective_outermost_dim, graph, MESH).nodes if n.op == "all_gather")
    return node.attrs.dim


@pytest.mark.parametrize("of_input", [False, True])
def test_a_gather_for_kernels_comes_tile_after_tile(of_input: bool) -> None:
    assert dim_of(gathers(of_input=of_input)) == 0
    module = fuse(Module(MESH, gathers(of_input=of_input), "partition"))
    kernels = [n for n in module.graph.nodes if n.op == "kernel"]
    assert len(kernels) == 2 - of_input, "what unpacks is part of the kernel that reads"


@pytest.mark.parametrize("read_by", ["caller", "collective"])
def test_a_copy_is_worth_a_kernel_only_where_it_can_lie_over_the_operand(read_by: str) -> None:
    assert dim_of(gathers(of_input=True, read_by=read_by)) == 1, "the input keeps its bytes: nothing is won"
    assert dim_of(gathers(read_by=read_by)) == 0


def scatters(*, kept: bool) -> Graph:
    graph = Graph("main", [Value(f32(64, 8), "x")])
    whole = graph.add("tanh", graph.inputs, [f32(64, 8)]).result
    attrs = {"axes": ("x",), "dim": 1, "kind": "sum"}
    graph.outputs = [graph.add("reduce_scatter", [whole], [f32(64, 2)], attrs).result, *([whole] if kept else [])]
    return graph


def test_a_summand_is_written_packed_where_nothing_else_reads_it() -> None:
    changed, same = (after(collective_outermost_dim, scatters(kept=kept), MESH) for kept in (False, True))
    assert [n.attrs.dim for g in (changed, same) for n in g.nodes if n.op == "reduce_scatter"] == [0, 1]
    module = fuse(Module(MESH, scatters(kept=False), "partition"))
    assert sum(n.op == "kernel" for n in module.graph.nodes) == 1


def test_a_few_runs_are_few_calls_and_stay() -> None:
    """Eight rows of a dim in front are eight calls of one launch, which copy nothing."""
    graph = Graph("main", [Value(f32(8, 2), "x")])
    tile = graph.add("tanh", graph.inputs, [f32(8, 2)]).result
    whole = graph.add("all_gather", [tile], [f32(8, 8)], {"axes": ("x",), "dim": 1}).result
    graph.outputs = [graph.add("tanh", [whole], [whole.type]).result]
    assert dim_of(graph) == 1


def test_what_a_region_uses_stays() -> None:
    """Control flow reads its operands where they lie."""
    graph = gathers(read_by="caller", of_input=True)
    whole = graph.outputs[0]
    branch = Graph("", [], [], [whole])
    choice = graph.add("constant", [], [TensorType((), "i1")], {"value": np.array(True)}).result
    flow = Node("if", [choice], [Value(whole.type)], {}, None, None, (branch, branch))
    graph.nodes.append(flow)
    graph.outputs = flow.results
    assert dim_of(graph) == 1


@pytest.mark.parametrize("reader", ["kernel", "caller"])
def test_swapped_tiles_arrive_whole_only_for_kernels(reader: str) -> None:
    """x over rows and y over columns become y over rows and x over columns: half tiles, stacked, then transposed."""
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
