"""Tests of composed index maps in one kernel: it reads the elements that the reference reads, and no others.

The interpreter truncates quotients toward zero as a GPU does, and rejects addresses outside of the operand.
"""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, launch
from layouts import Array, arguments, random_elementwise_graph, random_gemm_graph, random_reduction_graph

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate


def agrees(graph: Graph, args: list[Array]) -> None:
    source = kernel_source("layouts", graph, ONE)
    assert "place = " not in source.text, f"an access needed a bounds mask: {source.text}"
    for got, want in zip(launch(source, graph, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=source.text)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_composed_index_maps_match_reference(first: int) -> None:
    for seed in range(first, first + 10):
        graph = random_elementwise_graph(seed)
        agrees(graph, arguments(graph, seed, seed % 13 - 6))


@pytest.mark.parametrize("first", range(0, 18, 9))
def test_sums_over_index_maps_match_reference(first: int) -> None:
    for seed in range(first, first + 9):
        graph = random_reduction_graph(seed)
        agrees(graph, arguments(graph, seed, seed % 13 - 6))


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_gemms_over_index_maps_match_reference(dtype: str) -> None:
    for seed in range(8):
        graph = random_gemm_graph(seed, dtype)
        agrees(graph, arguments(graph, seed, seed % 13 - 6))


@pytest.mark.parametrize("start", [0, 1, 2, 3, 4, 5])
def test_strided_slice_of_interior_padding_matches_reference(start: int) -> None:
    """Check slices with stride 2 of `x` padded with one zero between elements.

    Depending on `start`, a slice contains only elements of `x` or only padding.
    """
    b = Body("i32[5]")
    padded = b.op("pad", b.inputs[0], b.constant(7, "i32"), low=(1,), high=(2,), interior=(1,))
    strided = b.op("slice", padded, start=(start,), limit=(12,), stride=(2,))
    agrees(b.done(b.op("add", strided, strided)), [np.arange(1, 6, dtype=np.int32)])


def test_unread_concatenate_operands_are_not_loaded() -> None:
    b = Body("i32[4]", "i32[4]", "i32[4]")
    joined = b.op("concatenate", *b.inputs, dim=0)
    part = b.op("slice", joined, start=(5,), limit=(8,), stride=(1,))
    graph = b.done(b.op("add", part, part))
    args = [np.arange(4 * n, 4 * n + 4, dtype=np.int32) for n in range(3)]
    agrees(graph, args)
    text = kernel_source("k", graph, ONE).text
    assert text.count("tl.load") == 1 and "tl.where" not in text


def test_slice_outside_the_update_matches_reference() -> None:
    b = Body("i32[2,4]", "i32[1,2]", "i32[]")
    x, update, start = b.inputs
    zero = b.constant(0, "i32")
    updated = b.op("dynamic_update_slice", x, update, start, zero)
    part = b.op("slice", updated, start=(0, 2), limit=(2, 4), stride=(1, 1))
    graph = b.done(b.op("add", part, part))
    agrees(graph, [np.arange(8, dtype=np.int32).reshape(2, 4), np.array([[50, 60]], np.int32), np.array(1, np.int32)])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "i8"])
def test_gemm_of_padding_only_matches_reference(dtype: str) -> None:
    b = Body(f"{dtype}[3,5]", f"{dtype}[5,4]")
    x, y = b.inputs
    padded = b.op("pad", x, b.constant(2, dtype), low=(0, 5), high=(0, 5), interior=(0, 0))
    padding = b.op("slice", padded, start=(0, 0), limit=(3, 5), stride=(1, 1))
    graph = b.done(b.dot(padding, y, ((1,), (0,)), dtype="i32" if dtype[0] == "i" else "f32"))
    agrees(graph, [np.ones(v.type.sizes).astype(v.type.numpy_dtype) for v in b.inputs])
