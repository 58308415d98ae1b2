"""Tests of the simulation: sharding and assembly of arrays, and handwritten programs on all ranks in lockstep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.errors import ArgumentError, NumbersDiffer, RuntimeFailure
from meshgen.ir.attributes.base import NO_ATTRIBUTES
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.simulate import Simulation, assemble, shard_all, shard_array, simulate, simulate_shards
from meshgen.spec import P, Sharding, fit

MESH = make_mesh({"a": 2, "b": 3})
F32 = "f32"
SHARDINGS = [
    fit(P(), 2), fit(P("a", "b"), 2), fit(P(("b", "a")), 2), fit(P(None, ("a", "b")), 2), fit(P("b", partial="a"), 2),
    Sharding(((), ()), (("a", "max"), ("b", "sum"))), Sharding(((), ()), (("a", "product"), ("b", "sum"))), Sharding((("a",), ()), (), ((2, 1), (0, 0))),
    Sharding((("b",), ()), (), (), ((0, 0, 5, 7), ())),
]  # fmt: skip


@pytest.mark.parametrize("sharding", SHARDINGS, ids=str)
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (2, 12), (6, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_assemble_inverts_sharding(sharding: Sharding, shape: tuple[int, int], dtype: Any) -> None:
    if any(sharding.offsets) and shape[0] != 7:
        shape = (7, shape[1])
    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype) - 3
    shards = shard_all(x, sharding, MESH)
    assert all(s.shape == sharding.local_shape(shape, MESH) for s in shards)
    assert (assemble(shards, sharding, shape, MESH) == x).all()


def test_padding_is_poisoned_and_replicas_share_arrays() -> None:
    x = np.ones(4, np.float32)
    # the tiles have 2, 2 and 0 elements, of 2 with padding
    assert np.isnan(shard_array(x, P("b"), MESH, 2)).tolist() == [True, True]
    assert (shard_array(x.astype(np.int32), P("b"), MESH, 2) == np.int32(-1515870811)).all()
    shards = shard_all(x, P("b"), MESH)
    assert shards[0] is shards[3] and shards[0] is not shards[1]
    assert shard_array(np.float32(3), Sharding(()), MESH, 5) == 3


def test_partial_value_is_on_one_device_of_group() -> None:
    elements = [shard_array(np.ones(1, np.float32), fit(P(partial="b"), 1), MESH, rank)[0] for rank in range(6)]
    assert elements == [1, 0, 0, 1, 0, 0]


def test_differing_replicas_are_reported() -> None:
    shards = [np.float32([1, 2]) for _ in range(6)]
    shards[4] = np.float32([1, 2.5])
    with pytest.raises(NumbersDiffer, match=r"MG0605.*rank 0 has 2.0 and rank 4 has 2.5 at local index \[1\] \(1 of 2"):
        assemble(shards, P(None), (2,), MESH)
    for allowed in (0.5, np.float32([0, 0.5]), None):
        assert assemble(shards, P(None), (2,), MESH, tolerance=allowed).tolist() == [1, 2]
    shards[4] = np.float32([1, np.nan])
    with pytest.raises(NumbersDiffer):
        assemble(shards, P(None), (2,), MESH, tolerance=1e9)


def test_replicas_with_differing_imaginary_parts_are_reported() -> None:
    shards = [np.complex64([1 + 2j]) for _ in range(6)]
    shards[3] = np.complex64([1 + 3j])
    with pytest.raises(NumbersDiffer, match="rank 3"):
        assemble(shards, P(None), (1,), MESH)


def dot_program(arguments: str = "local") -> Module:
    """Return tanh(x @ w) with a contracted dim of size 7, sharded over axis b in 3 tiles of 3: mask, dot, reduce."""
    module = Module(MESH, Graph("main"), "partition", arguments=arguments)
    x, w = Value(TensorType((4, 3), F32)), Value(TensorType((3, 5), F32))
    graph = module.graph
    graph.inputs = [x, w]
    if arguments == "global":
        graph.inputs = [Value(TensorType((4, 7), F32)), Value(TensorType((7, 5), F32))]
        x = graph.add("all_slice", [graph.inputs[0]], [x.type], {"axes": ("b",), "dim": 1}).result
        w = graph.add("all_slice", [graph.inputs[1]], [w.type], {"axes": ("b",), "dim": 0}).result
    mask = {"axes": ("b",), "size": 7, "fill": 0.0}
    x = graph.add("mask_padding", [x], [x.type], {**mask, "dim": 1}).result
    w = graph.add("mask_padding", [w], [w.type], {**mask, "dim": 0}).result
    contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    y = graph.add("dot_general", [x, w], [TensorType((4, 5), F32)], contract).result
    y = graph.add("all_reduce", [y], [y.type], {"axes": ("b",), "kind": "sum"}).result
    graph.outputs = [graph.add("tanh", [y], [y.type]).result]
    module.in_types = [TensorType((4, 7), F32), TensorType((7, 5), F32)]
    module.out_types = [TensorType((4, 5), F32)]
    module.in_shardings, module.out_shardings = [fit(P(None, "b"), 2), fit(P("b"), 2)], [fit(P(), 2)]
    return module


def arguments() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((4, 7)).astype(np.float32), rng.standard_normal((7, 5)).astype(np.float32)]


@pytest.mark.parametrize("where", ["local", "global"])
def test_sharded_contraction_masks_padding(where: str) -> None:
    x, w = arguments()
    (result,) = simulate(dot_program(where), [x, w])
    bound = (7 + 3) * 2.0**-24 * (np.abs(x) @ np.abs(w)) + 8 * 2.0**-24
    assert (np.abs(result - np.tanh(x.astype(np.float64) @ w)) <= bound).all()


def test_missing_padding_mask_gives_nan() -> None:
    module = dot_program()
    graph = module.graph
    graph.nodes = [n for n in graph.nodes if n.op != "mask_padding"]
    graph.nodes[0].operands = list(graph.inputs)
    assert np.isnan(simulate(module, arguments())[0]).all()


def test_simulated_kernel_runs_body_per_rank() -> None:
    body = Graph("add_index", [Value(TensorType((2,), "i32"))])
    index = body.add("process_index", [], [TensorType((), "i32")], {"axes": ("b", "a")}).result
    wide = body.add("broadcast_in_dim", [index], [TensorType((2,), "i32")], {"dims": ()}).result
    body.outputs = [body.add("add", [body.inputs[0], wide], [TensorType((2,), "i32")]).result]
    module = Module(MESH, Graph("main", [Value(TensorType((2,), "i32"))]), "fuse", kernels={"add_index": body})
    node = module.graph.add("kernel", module.graph.inputs, [TensorType((2,), "i32")], {"kernel": "add_index"})
    view = module.graph.add("view", [node.result], [TensorType((1, 2), "i32")])
    module.graph.outputs = [view.result]
    module.in_types, module.in_shardings = [TensorType((2,), "i32")], [fit(P(), 1)]
    (shards,) = simulate_shards(module, [np.int32([10, 20])])
    assert [s[0, 0] - 10 for s in shards] == [0, 2, 4, 1, 3, 5]
    module.out_types, module.out_shardings = [TensorType((1, 2), "i32")], [fit(P(), 2)]
    with pytest.raises(NumbersDiffer, match="output 0"):
        simulate(module, [np.int32([10, 20])])


def loop_program(uniform: bool) -> Module:
    """Return `while (c < 20) c = all_reduce(c)`. The start value of c is 1 if `uniform`, else it depends on the rank."""
    i32 = TensorType((), "i32")
    module = Module(make_mesh({"x": 2}), Graph("main"), "partition")
    graph = module.graph
    start = graph.add("constant", [], [i32], {"value": np.array(1, np.int32)}).result
    limit = graph.add("constant", [], [i32], {"value": np.array(20, np.int32)}).result
    if not uniform:
        index = graph.add("process_index", [], [i32], {"axes": ("x",)}).result
        scaled = graph.add("multiply", [index, limit], [i32]).result
        start = graph.add("add", [start, scaled], [i32]).result
    condition, body = Graph("cond", [Value(i32)]), Graph("body", [Value(i32)])
    attrs = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], limit], [TensorType((), "i1")], attrs).result]
    body.outputs = [body.add("all_reduce", body.inputs, [i32], {"axes": ("x",), "kind": "sum"}).result]
    loop = graph.add("while", [start], [i32])
    loop.regions = (condition, body)
    graph.outputs = [loop.result]
    module.out_types, module.out_shardings = [i32], [Sharding(())]
    return module


def test_loops_with_collectives_run_in_lockstep() -> None:
    assert simulate(loop_program(uniform=True), [])[0] == 32
    with pytest.raises(RuntimeFailure, match=r"choose differently: \[1, 0\]"):
        simulate(loop_program(uniform=False), [])


def test_loops_without_collectives_may_differ_between_ranks() -> None:
    module = loop_program(uniform=False)
    body = module.graph.nodes[-1].regions[1]
    body.nodes[0].op, body.nodes[0].operands, body.nodes[0].attrs = "add", body.inputs * 2, NO_ATTRIBUTES
    (shards,) = Simulation(module).run(module.graph, [])
    assert [int(s) for s in shards] == [32, 21]


def test_simulate_reports_all_argument_mismatches() -> None:
    with pytest.raises(ArgumentError) as caught:
        simulate(dot_program(), [np.zeros((4, 7)), np.zeros((5, 7), np.float32)])
    messages = [d.message for d in caught.value.diagnostics]
    assert len(messages) == 2 and "float64[4, 7]" in messages[0] and "f32[7,5]" in messages[1]


def test_runtime_imports_without_triton_and_xdsl() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['triton'] = sys.modules['xdsl'] = None\n"
        "import meshgen.runtime.simulate, meshgen.runtime.interpret, meshgen.ccl.simulated, meshgen.ops.tolerance.bounds, meshgen.ir.encode"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
