"""Long convolutions in parts: the same numbers, as many parts as fill a device, and convolutions that stay."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.passes.split_convolution import split_convolution
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def gradient(batch: int, side: int, features: int, outputs: int, dtype: str, kernel: str = "IHWO") -> Graph:
    """Of a 3 x 3 kernel: image dims are features, space and batch, which is summed over with space."""
    sizes = {"I": batch, "H": side, "W": side, "O": outputs}
    b = Body(f"{dtype}[{features},{side},{side},{batch}]", f"{dtype}[{','.join(str(sizes[d]) for d in kernel)}]")
    found = b.op(
        "convolution", *b.inputs, window_strides=(1, 1), lhs_dilation=(1, 1), rhs_dilation=(1, 1), window_reversal=(False, False),
        low=(1, 1), high=(1, 1), feature_group_count=1, batch_group_count=1, input_batch=0, input_spatial=(1, 2),
        input_feature=3, kernel_input_feature=kernel.index("I"), kernel_output_feature=kernel.index("O"),
        kernel_spatial=(kernel.index("H"), kernel.index("W")), output_batch=2, output_feature=3, output_spatial=(0, 1), precision=(),
    )  # fmt: skip
    return b.done(found)


@pytest.mark.parametrize("kernel", ["IHWO", "OHWI", "HWIO"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_the_parts_sum_up_to_the_whole(dtype: str, kernel: str) -> None:
    graph = gradient(12, 48, 4, 3, dtype, kernel)
    found = after(split_convolution, graph)
    (node,) = [node for node in found.nodes if node.op == "convolution"]
    parts = product_extents(node)[0]
    assert 12 % parts == 0 and parts > 4
    assert node.result.type.dtype == ("f64" if dtype == "f64" else "f32")
    assert found.outputs[0] is graph.outputs[0] and found.outputs[0].type.dtype == dtype
    args = random_args(graph, 2)
    (got,), (want,) = evaluate(found, args), evaluate(graph, args)
    unit = {"f32": 1e-5, "bf16": 1e-2, "f64": 1e-13}[dtype]
    wide = np.asarray(want, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=0, atol=unit * np.abs(wide).max())


def test_parts_fill_a_device_and_no_more() -> None:
    found = after(split_convolution, gradient(64, 16, 64, 64, "f32"))
    (node,) = [node for node in found.nodes if node.op == "convolution"]
    tiles = 9 * 64 // DEFAULT.fusion.split_columns
    assert product_extents(node)[0] <= DEFAULT.fusion.programs // tiles


@pytest.mark.parametrize(
    "sizes", [(1, 48, 4, 3), (8, 4, 4, 3), (2, 32, 256, 256)], ids=["one image", "small", "fills a device"]
)
def test_what_stays(sizes: tuple[int, int, int, int]) -> None:
    graph = gradient(*sizes, "f32")
    assert after(split_convolution, graph) is graph
