"""Tests of attention results with transposed heads, which the attention kernels write in that layout."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, check, random_args
from test_attention import Form, scaled
from test_attention import attention as attention_of
from test_attention_gradient import training
from test_fuse import fused, launches, run

from meshgen.codegen.memory_efficiency import efficiency, kernel_traffic
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate

ROWS = (0, 2, 1, 3)  # permutation of [batch, heads, positions, width]
COLUMNS = (0, 3, 1, 2)  # permutation of [batch, heads, width, positions]


def merged(graph: Graph, *perms: tuple[int, ...]) -> Graph:
    """Return the graph with its results transposed by `perms` and summed over the heads."""
    body = Body()
    body.graph = graph
    transposed = [body.op("transpose", value, perm=perm) for value, perm in zip(graph.outputs, perms, strict=True)]
    return body.done(*(body.reduce("add", value, 2) for value in transposed))


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_sum_over_heads_reads_contiguous_rows(dtype: str) -> None:
    body, result = attention_of(Form((2, 64, 4, 32, 64, 4), dtype, is_swapped=True), scaled)
    module = fused(body.done(body.reduce("add", result, 2)))
    assert launches(module) == ["attention", "reduce_add"]
    for kernel in module.kernels.values():
        check(kernel, ulps=16, length=64)
        assert efficiency(kernel_traffic(kernel_source("kernel", kernel, ONE, "cuda:sm_90"), kernel)) > 0.99


@pytest.mark.parametrize("heads", [2, 1], ids=["own", "shared"])
@pytest.mark.usefixtures("small_blocks")
def test_gradient_kernels_write_transposed_results(heads: int) -> None:
    graph = merged(training(Form((1, 40, 2, 32, 40, heads))), COLUMNS, ROWS, ROWS, COLUMNS)
    module = fused(graph)
    attention_kernels = [
        node for node in module.graph.nodes if node.op == "kernel" and node.attrs.kernel.startswith("attention")
    ]
    results = [value for node in attention_kernels for value in node.results if value.type.size == 40 * 2 * 32]
    count = 2 if heads == 1 else 4  # With one head, keys and values are shared, and the kernel sums their gradients.
    assert [value.type.sizes for value in results] == [(40, 2, 32)] * count
    assert launches(module).count("reduce_add") == count
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=0.02, atol=0.02)
    for kernel in module.kernels.values():
        check(kernel, ulps=64, length=64)
