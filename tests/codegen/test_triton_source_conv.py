"""Tests of generated convolutions against NumPy: layouts, strides, dilations, padding, groups, gradients."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from bodies import ONE, Body, check, launch, random_args

from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.fuse import fuse
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Module, Value
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import infer_types
from meshgen.spec import P
from tests.trials import trials

NONE, ONES = (0, 0), (1, 1)


def convolution(b: Body, x: Value, w: Value, *, dims: str = "NHWC HWIO NHWC", strides: tuple[int, ...] = ONES,
                spread: tuple[int, ...] = ONES, dilation: tuple[int, ...] = ONES, turned: tuple[int, ...] = NONE,
                low: tuple[int, ...] = NONE, high: tuple[int, ...] = NONE, groups: int = 1, batches: int = 1) -> Value:  # fmt: skip
    """Emit a convolution.

    `dims` are the layouts of image, kernel and result: batch N, features C, I and O, space H and W.
    """
    image, kernel, result = dims.split()
    spaces = [[part.index(d) for d in "HW"] for part in (image, kernel, result)]
    return b.op(
        "convolution", x, w, window_strides=strides, lhs_dilation=spread, rhs_dilation=dilation,
        window_reversal=tuple(map(bool, turned)), low=low, high=high, feature_group_count=groups, batch_group_count=batches,
        input_batch=image.index("N"), input_feature=image.index("C"), input_spatial=tuple(spaces[0]),
        kernel_input_feature=kernel.index("I"), kernel_output_feature=kernel.index("O"), kernel_spatial=tuple(spaces[1]),
        output_batch=result.index("N"), output_feature=result.index("C"), output_spatial=tuple(spaces[2]), precision=(),
    )  # fmt: skip


def random_convolution(seed: int) -> Graph:
    """Return a random convolution with a scaling epilogue."""
    rng = random.Random(seed)
    dims = ["".join(rng.sample(letters, 4)) for letters in ("NHWC", "HWIO", "NHWC")]
    groups, batches = rng.choice([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)])
    inner, outer = rng.choice([1, 2, 3]), rng.choice([1, 2, 5])
    image = {"N": batches * rng.choice([1, 2]), "C": groups * inner, "H": rng.randint(4, 7), "W": rng.randint(4, 9)}
    kernel = {"I": inner, "O": outer * groups * batches, "H": rng.choice([1, 2, 3]), "W": rng.choice([1, 2, 3])}
    dtype = rng.choice(["f32", "bf16", "i32", "f64"])
    shapes = [",".join(str(sizes[d]) for d in part) for sizes, part in zip((image, kernel), dims, strict=False)]
    b = Body(*(f"{dtype}[{shape}]" for shape in shapes), name="conv")

    def pair(*choices: int) -> tuple[int, int]:
        return rng.choice(choices), rng.choice(choices)

    result = convolution(b, *b.inputs, dims=" ".join(dims), strides=pair(1, 2, 3), spread=pair(1, 1, 2), dilation=pair(1, 1, 2),
                        turned=pair(0, 1), low=pair(0, 1, 2, -1), high=pair(1, 2, 3), groups=groups, batches=batches)  # fmt: skip
    return b.done(b.op("multiply", result, b.splat(2, result)))


@pytest.mark.parametrize("seed", trials(20))
def test_random_convolutions_match_reference(seed: int) -> None:
    body = random_convolution(seed)
    args = random_args(body, seed)
    (got,), (want,) = launch(kernel_source("conv", body, ONE), body, args), evaluate(body, args)
    unit = {"f32": 1e-5, "f64": 1e-13, "i32": 0.0}.get(body.outputs[0].type.dtype, 0.02)
    wide = np.asarray(want, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=0, atol=unit * (1 + np.abs(wide).max(initial=0)))


@pytest.mark.parametrize("seed", [0, 3, 7, 12, 19, 26])
def test_convolutions_match_reference_on_the_emulated_gpu(seed: int) -> None:
    check(random_convolution(seed), length=27, ulps=64)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_convolution_and_jax_gradients_match_reference(dtype: str) -> None:
    """Check stride 2 and padding 1.

    JAX writes the image gradient with a dilated, reversed kernel; the kernel gradient swaps batch and features.
    """
    b = Body(f"{dtype}[2,9,9,8]", f"{dtype}[3,3,8,16]")
    check(b.done(convolution(b, *b.inputs, strides=(2, 2), low=ONES, high=ONES)), length=72, ulps=40)
    b = Body(f"{dtype}[2,5,5,16]", f"{dtype}[3,3,8,16]")
    back = convolution(b, *b.inputs, dims="NHWC HWOI NHWC", spread=(2, 2), turned=ONES, low=ONES, high=ONES)
    assert back.type.sizes == (2, 9, 9, 8)
    check(b.done(back), length=144, ulps=60)
    b = Body(f"{dtype}[2,9,9,8]", f"{dtype}[2,5,5,16]")
    of_kernel = convolution(b, *b.inputs, dims="CHWN IHWO NHWC", dilation=(2, 2), low=ONES, high=ONES)
    assert of_kernel.type.sizes == (8, 3, 3, 16)
    check(b.done(of_kernel), length=50, ulps=60)


def test_depthwise_convolution_uses_no_dot() -> None:
    b = Body("f32[2,8,8,12]", "f32[3,3,1,12]")
    source = check(b.done(convolution(b, *b.inputs, low=ONES, high=ONES, groups=12)), length=9)
    assert "tl.dot" not in source.text and "tl.sum" in source.text
    b = Body("f32[2,8,8,12]", "f32[2,8,8,12]")  # operands of the gradient of the depthwise kernel
    back = convolution(b, *b.inputs, dims="CHWN IHWO NHWC", low=ONES, high=ONES, batches=12)
    assert back.type.sizes == (1, 3, 3, 12)
    check(b.done(back), length=128)


def test_convolution_fuses_bias_and_relu() -> None:
    """Check a convolution with bias and ReLU before a reshape: one kernel, without a separate kernel for the padding."""
    b = Body("f32[2,8,8,4]", "f32[3,3,4,16]", "f32[16]")
    y = convolution(b, *b.inputs[:2], low=ONES, high=ONES)
    y = b.op("maximum", b.op("add", y, b.wide(b.inputs[2], y, (3,))), b.splat(0, y))
    graph = b.done(b.op("reshape", y, to="f32[2,64,16]"))
    types = [v.type for v in graph.inputs]
    module = Module(ONE, graph, "partition", "main", in_types=types, out_types=[graph.outputs[0].type],
                    in_shardings=[P(*[None] * t.rank) for t in types], out_shardings=[P(None, None, None)])  # fmt: skip
    fused = fuse(module)
    (name,) = fused.kernels
    assert name == "conv_add_maximum" and [n.op for n in fused.graph.nodes] in (["kernel"], ["kernel", "view"])
    check(fused.kernels[name], length=36)


@pytest.mark.parametrize("arch, product", [("sm_90", "HGMMA"), ("sm_80", "HMMA")])
def test_convolutions_use_tensor_cores_and_asynchronous_copies(arch: str, product: str, tmp_path: Path) -> None:
    b = Body("bf16[8,28,28,128]", "bf16[3,3,128,128]", name="conv")
    body = b.done(convolution(b, *b.inputs, low=ONES, high=ONES))
    source = kernel_source("conv", body, ONE, f"cuda:{arch}")
    kernel = build_kernels([request_of("conv", source, body)], [arch], tmp_path, workers=1)["conv", arch]
    assert kernel.instructions[product] and kernel.instructions["LDGSTS"] and kernel.spill_bytes == 0
    assert not kernel.instructions.get("LDG"), "all operands are copied asynchronously"


@pytest.mark.parametrize(
    "image, kernel", [("1,4,4,0", "3,3,0,2"), ("1,2,2,3", "3,3,3,2"), ("0,4,4,3", "3,3,3,2"), ("1,4,4,3", "3,3,3,0"),
                      ("1,4,4,3", "0,3,3,2")]
)  # fmt: skip
def test_empty_convolution_is_zero(image: str, kernel: str) -> None:
    b = Body(f"f32[{image}]", f"f32[{kernel}]")
    graph = b.done(convolution(b, *b.inputs))
    args = random_args(graph)
    (got,), (want,) = launch(kernel_source("conv", graph, ONE), graph, args), evaluate(graph, args)
    np.testing.assert_array_equal(got, want)


def test_windows_op_matches_strided_slices() -> None:
    b = Body("f32[3,9,2]")
    windowed = b.op("windows", b.inputs[0], dims=(1,), sizes=(3,), strides=(2,), dilations=(3,))
    x = np.arange(54, dtype=np.float32).reshape(3, 9, 2)
    (got,) = evaluate(b.done(windowed), [x])
    assert got.shape == (3, 2, 2, 3)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(got[:, i, :, j], x[:, 2 * i + 3 * j])
    check(b.graph, args=[x])


def test_windows_larger_than_the_operand_are_rejected() -> None:
    b = Body("f32[3,4]")
    attrs = {"dims": (1,), "sizes": (3,), "strides": (1,), "dilations": (2,)}
    with pytest.raises(Exception, match="a window of 3 elements, 2 apart, does not fit into 4 rows"):
        infer_types("windows", attrs, [b.inputs[0].type])
