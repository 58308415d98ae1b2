"""Tests of the `convolution-to-phases` pass: dilated images become more features, with fewer FLOPs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from meshgen.codegen.passes.convolution_to_phases import convolution_to_phases
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.flops import graph_flops
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def convolution(image: tuple[int, int], taps: tuple[int, int], low: tuple[int, int], high: tuple[int, int],
                dims: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC"), **overrides: Any) -> Graph:  # fmt: skip
    """Return a convolution of an image dilated by 2 and 3, with the attributes `overrides`.

    `dims` are the layouts of image, kernel and result.
    """
    attrs: dict[str, Any] = {"window_strides": (1, 1), "lhs_dilation": (2, 3), "rhs_dilation": (1, 1), "window_reversal": (False, False),
             "feature_group_count": 1, "batch_group_count": 1, "precision": (), "low": low, "high": high} | overrides  # fmt: skip
    groups = int(overrides.get("feature_group_count", 1))
    spans = [(n - 1) * d + 1 + a + b for n, d, a, b in zip(image, attrs["lhs_dilation"], low, high, strict=True)]
    windows = [(k - 1) * d + 1 for k, d in zip(taps, attrs["rhs_dilation"], strict=True)]
    ends = [(s - w) // t + 1 for s, w, t in zip(spans, windows, attrs["window_strides"], strict=True)]
    sizes = (
        {"N": 2, "H": image[0], "W": image[1], "C": 4},
        {"H": taps[0], "W": taps[1], "I": 4 // groups, "O": 6},
        {"N": 2, "H": ends[0], "W": ends[1], "C": 6},
    )
    x, w, y = (
        f"f64[{','.join(str(dim_sizes[d]) for d in names)}]" for dim_sizes, names in zip(sizes, dims, strict=True)
    )
    b = Body(x, w)
    result = b.op(
        "convolution", *b.inputs, to=y, **attrs,
        input_batch=dims[0].index("N"), input_feature=dims[0].index("C"), input_spatial=(dims[0].index("H"), dims[0].index("W")),
        kernel_input_feature=dims[1].index("I"), kernel_output_feature=dims[1].index("O"),
        kernel_spatial=(dims[1].index("H"), dims[1].index("W")),
        output_batch=dims[2].index("N"), output_feature=dims[2].index("C"), output_spatial=(dims[2].index("H"), dims[2].index("W")),
    )  # fmt: skip
    return b.done(result)


def rewritten_same(graph: Graph) -> Graph:
    """Return the rewritten graph after checking that it differs from `graph` and computes the same results."""
    rewritten = after(convolution_to_phases, graph)
    assert rewritten is not graph and rewritten.outputs[0] is graph.outputs[0]
    assert all(set(node.attrs.lhs_dilation) == {1} for node in rewritten.nodes if node.op == "convolution")
    args = random_args(graph, 1)
    (got,), (want,) = evaluate(rewritten, args), evaluate(graph, args)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    return rewritten


@pytest.mark.parametrize("taps", [(3, 4), (5, 7), (1, 5), (4, 1), (1, 1)], ids=str)
def test_phases_match_for_every_padding(taps: tuple[int, int]) -> None:
    for low, high in product((-2, -1, 0, 1, 2, 4), (-1, 0, 3)):
        rewritten_same(convolution((6, 4), taps, (low, 1), (high, 2)))
        rewritten_same(convolution((4, 6), taps, (3, low), (1, high), window_reversal=(low > 0, high > 0)))


@pytest.mark.parametrize(
    "dims", [("NCHW", "OIHW", "NCHW"), ("CHWN", "IHWO", "HWNC"), ("NWHC", "WOHI", "CWNH")], ids=str
)
def test_phases_match_for_any_dim_order(dims: tuple[str, str, str]) -> None:
    rewritten_same(convolution((5, 3), (3, 4), (1, 2), (2, 2), dims))


def test_non_overlapping_patches_become_a_1x1_convolution() -> None:
    graph = convolution((3, 3), (8, 8), (7, 7), (7, 7), lhs_dilation=(8, 8))
    rewritten = rewritten_same(graph)
    (node,) = [node for node in rewritten.nodes if node.op == "convolution"]
    assert [node.operands[1].type.sizes[d] for d in node.attrs.kernel_spatial] == [1, 1]
    assert graph_flops(rewritten) < graph_flops(graph) / 60


@pytest.mark.parametrize(
    "overrides",
    [{"lhs_dilation": (1, 1)}, {"feature_group_count": 2}, {"window_strides": (2, 2)}, {"rhs_dilation": (2, 2)}],
    ids=str,
)
def test_unsupported_convolutions_are_unchanged(overrides: dict[str, Any]) -> None:
    graph = convolution((5, 5), (3, 4), (2, 2), (2, 2), **overrides)
    assert after(convolution_to_phases, graph) is graph
