"""Tests of fusion: the kernels that result, and that they compute the same as the program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bodies import ONE, Body, check, random_args
from random_bodies import all_reduce, random_program
from test_triton_source_reductions import layer_norm, softmax

from meshgen.codegen.fuse import fuse
from meshgen.codegen.fusion.bodies import Kernels
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.simulate import Simulation
from tests.trials import trials

Array = np.ndarray[Any, Any]


def fused(graph: Graph) -> Module:
    return fuse(Module(ONE, graph, "partition"))


def launches(module: Module) -> list[str]:
    return [n.attrs.kernel for n in module.graph.nodes if n.op == "kernel"]


def run(module: Module, args: Sequence[Array]) -> list[Array]:
    """Run the fused program with the reference evaluator. Collectives over one device are the identity."""
    values: dict[Value, Array] = dict(zip(module.graph.inputs, args, strict=True))
    for node in module.graph.nodes:
        operands = [values[v] for v in node.operands]
        match node.op:
            case "kernel":
                results = evaluate(module.kernels[node.attrs.kernel], operands)
            case "view":
                results = [operands[0].reshape(node.result.type.sizes)]
            case "constant":
                results = [node.attrs.value]
            case _:
                assert node.op == "all_reduce"
                results = operands
        values.update(zip(node.results, results, strict=True))
    return [values[v] for v in module.graph.outputs]


def check_fused(graph: Graph, bound: float = 1e-4) -> Module:
    """Return the fused program after checking its results, and that each kernel can be generated and computes its body."""
    module = fused(graph)
    args = random_args(graph)
    expected = evaluate(_without_collectives(graph), args)
    for got, want in zip(run(module, args), expected, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), atol=bound, rtol=bound)
    for body in module.kernels.values():
        check(body, ulps=64, length=64)
    return module


def _without_collectives(graph: Graph) -> Graph:
    nodes = [Node("reshape", n.operands, n.results) if n.op == "all_reduce" else n for n in graph.nodes]
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_softmax_and_layer_norm_are_one_kernel_each(dtype: str) -> None:
    assert launches(check_fused(softmax((3, 5, 16), dtype, 2), 0.02)) == ["softmax"]
    assert launches(check_fused(layer_norm("2,5", 16, dtype), 0.1)) == ["normalize"]


def test_epilogues_are_fused_up_to_collectives() -> None:
    """Check the program `out = all_reduce(tanh(x @ w + b) @ v) + x`, which also returns the row sums of `out`."""
    b = Body("f32[6,8]", "f32[8,12]", "f32[12]", "f32[12,8]")
    x, w, bias, v = b.inputs
    h = b.dot(x, w, ((1,), (0,)))
    h = b.op("tanh", b.op("add", h, b.wide(bias, h, (1,))))
    y = b.op("add", all_reduce(b, b.dot(h, v, ((1,), (0,)))), x)
    module = check_fused(b.done(y, b.reduce("add", y, 1)))
    assert launches(module) == ["dot_tanh_add", "dot", "reduce_add_add"] or len(launches(module)) == 3
    assert [n.op for n in module.graph.nodes] == ["kernel", "kernel", "all_reduce", "kernel"]


def test_epilogue_that_needs_a_collective_is_not_fused() -> None:
    b = Body("f32[6,8]", "f32[8,8]", "f32[6,8]")
    x, w, other = b.inputs
    sent = all_reduce(b, b.op("negate", other))
    module = check_fused(b.done(b.op("add", b.dot(x, w, ((1,), (0,))), sent)))
    dot = next(n for n in module.graph.nodes if n.op == "kernel" and n.attrs.kernel == "dot")
    assert dot.operands == [x, w]


def test_dots_of_one_left_operand_share_a_kernel() -> None:
    b = Body("f32[6,8]", "f32[8,5]", "f32[8,5]", "f32[8,5]")
    x, *weights = b.inputs
    q, k, v = (b.dot(x, w, ((1,), (0,))) for w in weights)
    scores = b.dot(q, k, ((1,), (1,)))
    assert launches(check_fused(b.done(b.dot(scores, v, ((1,), (0,)))))) == ["dot", "dot_2", "dot_3"]


def test_dependent_dots_are_not_fused() -> None:
    b = Body("f32[8,8]", "f32[8,8]")
    x, w = b.inputs
    y = b.dot(x, w, ((1,), (0,)))
    assert len(launches(check_fused(b.done(b.dot(x, y, ((1,), (0,))))))) == 2


def test_equal_bodies_share_a_kernel() -> None:
    b = Body("f32[6,8]", "f32[8,8]", "f32[8,8]")
    x, w, v = b.inputs
    h = b.op("tanh", b.dot(x, w, ((1,), (0,))))
    module = check_fused(b.done(b.op("tanh", b.dot(h, v, ((1,), (0,))))))
    assert launches(module) == ["dot_tanh", "dot_tanh"] and list(module.kernels) == ["dot_tanh"]


def test_bodies_that_differ_in_notes_share_a_kernel() -> None:
    b = Body("f32[6,8]", "f32[6,8]")
    outputs = [b.op("tanh", b.op("all_slice", x, to="f32[6,8]", axes=("x",), dim=0)) for x in b.inputs]
    for index, node in enumerate(node for node in b.graph.nodes if node.op == "all_slice"):
        node.notes = Notes(f"reason {index}", (index,))
    module = fused(b.done(*outputs))
    assert len(launches(module)) == 2 and len(module.kernels) == 1


def test_reshapes_around_collectives_become_views() -> None:
    b = Body("f32[6,8]")
    flat = b.op("reshape", all_reduce(b, b.op("reshape", b.inputs[0], to="f32[48]")), to="f32[4,12]")
    module = check_fused(b.done(flat, b.inputs[0]))
    assert [n.op for n in module.graph.nodes] == ["view", "all_reduce", "view"]


def test_transpose_before_a_collective_is_fused_into_the_dot() -> None:
    b = Body("f32[6,8]", "f32[8,5]")
    transposed = b.op("transpose", b.dot(*b.inputs, ((1,), (0,))), perm=(1, 0))
    module = check_fused(b.done(all_reduce(b, transposed)))
    assert len(launches(module)) == 1


def test_fusion_supports_outputs_of_every_kind() -> None:
    """Check an input, a repeated value, a constant, a broadcast, an array constant, and a 0-d value as outputs."""
    b = Body("f32[3,4]")
    (x,) = b.inputs
    table = b.graph.add("constant", [], [TensorType((4,), "f32")], {"value": np.arange(4, dtype=np.float32)}).result
    y = b.op("add", x, b.wide(table, x, (1,)))
    check_fused(b.done(x, y, y, b.constant(3.0, "f32"), b.splat(1.0, x), table, b.reduce("add", y, 0, 1)))


def test_cheap_values_are_recomputed_in_each_user() -> None:
    b = Body("f32[64,32]")
    (x,) = b.inputs
    y = b.op("multiply", x, x)
    rows, columns = b.reduce("add", y, 1), b.reduce("add", y, 0)
    assert len(launches(check_fused(b.done(rows, columns)))) == 2


def test_chained_updates_are_not_recomputed_exponentially() -> None:
    """Check a chain of updates that each read their operand twice.

    In a single kernel, the last update would compute the first one 2^23 times.
    """
    b = Body("f32[64]", "f32[8]", "i32[]")
    value, rows, start = b.inputs
    for _ in range(24):
        attrs = {"sizes": (8,)}
        piece = b.graph.add("dynamic_slice", [value, start], [rows.type], attrs).result
        value = b.graph.add("dynamic_update_slice", [value, b.op("add", piece, rows), start], [value.type]).result
    module = fused(b.done(value))
    sources = [kernel_source(name, body, ONE) for name, body in module.kernels.items()]
    assert 1 < len(launches(module)) < 24
    assert max(len(source.text) for source in sources) < 50_000


def test_fusion_is_deterministic() -> None:
    def names() -> list[str]:
        return [
            str((n.op, getattr(n.attrs, "kernel", None), [v.type for v in n.operands]))
            for n in fused(random_program(5)).graph.nodes
        ]

    assert names() == names()


@pytest.mark.parametrize("sends", [True, False])
def test_regions_of_control_flow_are_fused(sends: bool) -> None:
    b = Body("f32[5]", "i1[]")
    x, pred = b.inputs
    scale = b.op("multiply", x, b.splat(2.0, x))
    branches = []
    for op in ("tanh", "negate"):
        branch = Graph(op)
        inner = branch.add(op, [scale], [x.type]).result
        if sends:
            inner = branch.add("all_reduce", [inner], [x.type], {"axes": ("x",), "kind": "sum"}).result
        branch.outputs = [branch.add("add", [inner, scale], [x.type]).result]
        branches.append(branch)
    node = Node("if", [pred], [Value(x.type)], regions=tuple(branches))
    b.graph.nodes.append(node)
    module = fused(b.done(node.result))
    assert launches(module) == ["multiply"]
    fused_node = next(n for n in module.graph.nodes if n.op == "if")
    inner = ["kernel", "all_reduce", "kernel"] if sends else ["kernel"]
    assert [[n.op for n in r.nodes] for r in fused_node.regions] == [inner] * 2
    for pred_value in (True, False) if not sends else ():
        args = [np.arange(5, dtype=np.float32), np.asarray(pred_value)]
        (got,) = Simulation(module).run(module.graph, [[arg] for arg in args])
        np.testing.assert_array_equal(got[0], evaluate(b.graph, args)[0])


@pytest.mark.parametrize("seed", [*trials(12), 1204, 2761, 3534, 3903])
def test_random_fused_programs_match_reference(seed: int) -> None:
    module = check_fused(random_program(seed))
    defined = set(module.graph.inputs)
    for node in module.graph.nodes:
        assert all(v in defined for v in node.operands), "a value is read before its definition"
        defined.update(node.results)
        assert node.op in ("kernel", "view", "constant", "all_reduce")


CASES = Path(__file__).parents[3] / "shared" / "cases" / "jax"


@pytest.mark.skipif(not CASES.exists(), reason="the cases are not in this checkout")
def test_transformer_block_is_fused_to_eight_kernels() -> None:
    from meshgen.frontend.mlir import read_mlir
    from meshgen.sharding.materialize import materialize
    from meshgen.sharding.optimize import optimize
    from meshgen.sharding.partition import partition
    from meshgen.sharding.propagate import propagate

    module = read_mlir(CASES / "block_dp_tp_bf16.shardy.mlir")
    module = fuse(partition(optimize(materialize(propagate(module)))))
    assert launches(module) == [
        "normalize", "dot", "attention", "dot_2", "normalize_2", "dot_multiply_tanh", "dot_3", "add",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "dim", "together"),
    [("128,1024", 1, True), ("64,4000", 0, False), ("32,8192", 1, False), ("16,8", 0, True)],
    ids=["enough-rows", "few-columns", "few-rows", "small"],
)
def test_reduction_fuses_its_producer_only_if_the_gpu_stays_busy(shape: str, dim: int, together: bool) -> None:  # fmt: skip
    b = Body(f"f32[{shape}]", f"f32[{shape}]")
    summand = b.op("exponential", b.op("add", *b.inputs))
    assert (len(launches(fused(b.done(summand, b.reduce("add", summand, dim))))) == 1) == together


def test_dots_are_not_joined_across_a_dependence() -> None:
    b = Body("f32[6,8]", "f32[8,5]", "f32[8,8]", "f32[8,5]")
    x, w, left, right = b.inputs
    first = b.dot(x, w, ((1,), (0,)))
    later = b.dot(left, right, ((1,), (0,)))
    module = fused(b.done(first, b.dot(x, later, ((1,), (0,)))))
    assert len(launches(module)) == 3


def test_generated_sort_operand_is_fused_into_one_kernel() -> None:
    """Check column indices that a sort carries along: they are not written to memory first."""
    b = Body("f32[6,8]")
    (x,) = b.inputs
    columns = b.graph.add("iota", [], [TensorType((6, 8), "i32")], {"dim": 1}).result
    shifted = b.op("add", columns, b.splat(3, columns))
    region = Graph("less", [Value(TensorType((), t)) for t in ("f32", "f32", "i32", "i32")])
    less = region.add(
        "compare", region.inputs[:2], [TensorType((), "i1")], {"direction": "LT", "compare_type": "FLOAT"}
    )
    region.outputs = less.results
    sort = Node(
        "sort", [x, shifted], [Value(x.type), Value(columns.type)], {"dim": 1, "is_stable": True}, None, None, (region,)
    )
    b.graph.nodes.append(sort)
    b.graph.outputs = sort.results
    module = fused(b.graph)
    (node,) = [n for n in module.graph.nodes if n.op == "kernel"]
    assert node.operands == b.graph.inputs
    args = random_args(b.graph)
    for got, want in zip(run(module, args), evaluate(b.graph, args), strict=True):
        np.testing.assert_array_equal(got, want)


def test_added_kernels_get_unique_names() -> None:
    """Check a table whose names start at `dot_2`: numbering a new kernel by the table's size would repeat a name."""
    bodies: list[Graph] = []
    for size in (2, 3, 4):
        b = Body(f"f32[4,{size}]", f"f32[{size},5]")
        bodies.append(b.done(b.dot(*b.inputs, ((1,), (0,)))))
    kernels = Kernels.of({"dot_2": bodies[0], "dot_3": bodies[1]})
    assert kernels.name_of(bodies[2]) not in ("dot_2", "dot_3") and len(kernels.bodies) == 3
