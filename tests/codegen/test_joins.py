"""Tests of joining complete fusion groups into one kernel: shared reads, groups that stay separate, and kernel
templates.
"""

from __future__ import annotations

import numpy as np
import pytest
from bodies import Body, random_args
from test_fuse import fused, run
from test_traffic import random_index_map_graph

from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.ir.graph import Graph, Module, Value
from meshgen.ops.evaluate.evaluator import evaluate


def kernels(graph: Graph) -> list[Graph]:
    """Return the body of each launch after checking that the fused program computes the same results."""
    module = fused(graph)
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return bodies(module)


def bodies(module: Module) -> list[Graph]:
    return [module.kernels[n.attrs.kernel] for n in module.graph.nodes if n.op == "kernel"]


def update(b: Body, p: Value, m: Value, v: Value, g: Value) -> tuple[Value, Value, Value]:
    """Emit a step of Adam."""
    mean = b.op("add", b.op("multiply", b.splat(0.9, m), m), b.op("multiply", b.splat(0.1, g), g))
    square = b.op("multiply", b.op("multiply", b.splat(0.05, g), g), g)
    var = b.op("add", b.op("multiply", b.splat(0.95, v), v), square)
    root = b.op("sqrt", b.op("abs", var))
    step = b.op("divide", mean, b.op("add", root, b.splat(1e-3, root)))
    return b.op("subtract", p, b.op("multiply", b.splat(0.01, step), step)), mean, var


def test_adam_update_reads_each_operand_once() -> None:
    b = Body(*["f32[64,80]"] * 4)
    (body,) = kernels(b.done(*update(b, *b.inputs)))
    assert len(body.inputs) == 4
    assert len(body.outputs) == 3


@pytest.mark.parametrize(
    ("rows", "results"), [(256, [["f32[96]"] * 2]), (512, [["f32[8,96]"] * 2, ["f32[96]"], ["f32[96]"]])]
)
def test_sums_over_the_same_rows_share_a_kernel(rows: int, results: list[list[str]]) -> None:
    """Check that one kernel computes the partial sums of both long sums.

    `horizontal-fusion` joins their folds if memory allows.
    """
    b = Body(*[f"f32[{rows},96]"] * 2)
    x, y = b.inputs
    first = b.reduce("add", b.op("tanh", x), 0)
    second = b.reduce("add", b.op("multiply", b.op("exponential", y), x), 0)
    sums, *folds = kernels(b.done(first, second))
    assert sums.inputs[0].type == x.type and len(sums.inputs) == 2
    assert [[str(value.type) for value in body.outputs] for body in (sums, *folds)] == results


def test_groups_across_a_collective_are_not_joined() -> None:
    """Check that the mean, which needs no all_reduce, is computed while the all_reduce runs."""
    b = Body(*["f32[1024,1280]"] * 4)
    p, m, v, g = b.inputs
    summed = b.graph.add("all_reduce", [v], [v.type], {"axes": ("x",), "kind": "sum"}).result
    _, mean, var = update(b, p, m, summed, g)
    assert len(bodies(fused(b.done(mean, var)))) == 2


def test_groups_that_read_at_different_indices_are_not_joined() -> None:
    """Check a kernel that reads a value and another that reads its transpose.

    A joined kernel would also read the value twice, so joining saves nothing.
    """
    b = Body(*["f32[1024,1024]"] * 3)
    m, v, g = b.inputs
    transposed = b.op("transpose", g, perm=(1, 0))
    _, mean, _ = update(b, m, m, v, g)
    _, _, var = update(b, m, m, v, transposed)
    assert len(bodies(fused(b.done(mean, var)))) == 2


def test_every_joined_kernel_has_a_template() -> None:
    device = device_of("cuda:sm_90")
    for seed in range(40):
        for body in bodies(fused(random_index_map_graph(seed))):
            assert plan_body(body, device).template
