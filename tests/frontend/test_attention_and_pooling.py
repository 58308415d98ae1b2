"""Attention, normalization, pooling and channels-last convolutions on three devices, compared with JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.errors import ProgramError
from tests.frontend.numpy_expressions import compare


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


Q, K, V = normal(2, 5, 4, 8), normal(2, 7, 2, 8, seed=1), normal(2, 7, 2, 8, seed=2)
BIAS, MASK = normal(1, 4, 5, 7, seed=3), normal(2, 1, 5, 7, seed=4) > -1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": 0.3},
        {"is_causal": True},
        {"mask": MASK},
        {"bias": BIAS},
        {"bias": BIAS, "mask": MASK, "is_causal": True},
    ],
    ids=["plain", "scale", "causal", "mask", "bias", "all"],
)
def test_attention_matches_jax(options: dict[str, Any]) -> None:
    executable = mg.compile(
        lambda q, k, v: mg.dot_product_attention(q, k, v, **options),
        {"d": 3},
        args=[Q, K, V],
        in_specs={"q": mg.P(None, None, "d")},
        target="cpu",
    )
    compare(executable(Q, K, V), np.asarray(jax.nn.dot_product_attention(Q, K, V, **options)))


def test_bf16_attention_is_one_bf16_kernel() -> None:
    types = ["bf16[2,256,8,64]", "bf16[2,256,2,64]", "bf16[2,256,2,64]"]
    fused = plan(
        lambda q, k, v: mg.dot_product_attention(q, k, v, is_causal=True),
        {"d": 2},
        args=types,
        in_specs=[mg.P(None, None, "d")] * 3,
        target="cuda:sm_90",
    ).fused
    assert str(fused.out_types[0]) == "bf16[2,256,8,64]"
    ops = [node.op for body in fused.kernels.values() for node in body.nodes]
    assert ops.count("attention") == 1 and "dot_general" not in ops


def test_fully_masked_attention_rows_are_not_nan() -> None:
    empty_mask = np.zeros((1, 1, 1, 7), np.bool_)
    result = mg.compile(
        lambda q, k, v: mg.dot_product_attention(q, k, v, mask=empty_mask), {"d": 1}, args=[Q, K, V], target="cpu"
    )(Q, K, V)
    compare(result, np.repeat(V.mean(1, keepdims=True), 2, axis=2).repeat(5, axis=1))


def test_pooling_matches_jax_reduce_window() -> None:
    x = normal(3, 7, 6, 2)

    def pooled(x: Any) -> Any:
        return (
            mg.max_pool(x, (2, 3), strides=(2, 1)),
            mg.min_pool(x, (3, 3), padding="SAME"),
            mg.avg_pool(x, (2, 2), strides=2, padding=((1, 1), (0, 0))),
            mg.avg_pool(x, (2, 2), strides=2, padding="SAME", count_include_pad=False),
            mg.max_pool(x[:, :, 0], (3,), 2, "SAME_LOWER"),
        )

    def reduced(x: Any, start: float, combine: Any, *rest: Any) -> Any:
        return np.asarray(jax.lax.reduce_window(x, start, combine, *rest))

    ones = np.ones((1, 7, 6, 1), np.float32)
    shape, steps = (1, 2, 2, 1), (1, 2, 2, 1)
    expected = (
        reduced(x, -np.inf, jax.lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "VALID"),
        reduced(x, np.inf, jax.lax.min, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
        reduced(x, 0.0, jax.lax.add, shape, steps, ((0, 0), (1, 1), (0, 0), (0, 0))) / 4,
        reduced(x, 0.0, jax.lax.add, shape, steps, "SAME") / reduced(ones, 0.0, jax.lax.add, shape, steps, "SAME"),
        reduced(x[:, :, 0], -np.inf, jax.lax.max, (1, 3, 1), (1, 2, 1), "SAME_LOWER"),
    )
    compare(mg.compile(pooled, {"d": 3}, args=[x], in_specs=[mg.P("d")], target="cpu")(x), expected)


def test_channels_last_convolutions_match_jax() -> None:
    x, kernel, depthwise = normal(3, 8, 7, 4), normal(3, 2, 4, 6, seed=1), normal(3, 3, 1, 8, seed=2)

    def convolved(x: Any, kernel: Any, depthwise: Any) -> Any:
        return (
            mg.conv(x, kernel, strides=2),
            mg.conv(x, depthwise, padding="VALID", groups=4, dilation=2),
            mg.conv(x[:, 0], kernel[0], padding=1),
        )

    def jax_conv(x: Any, kernel: Any, strides: Any, padding: Any, dims: Any, **options: Any) -> Any:
        return np.asarray(jax.lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=dims, **options))

    flat = ("NHWC", "HWIO", "NHWC")
    expected = (
        jax_conv(x, kernel, (2, 2), "SAME", flat),
        jax_conv(x, depthwise, (1, 1), "VALID", flat, feature_group_count=4, rhs_dilation=(2, 2)),
        jax_conv(x[:, 0], kernel[0], (1,), [(1, 1)], ("NWC", "WIO", "NWC")),
    )
    executable = mg.compile(
        convolved, {"d": 3}, args=[x, kernel, depthwise], in_specs=[mg.P("d")] + [None] * 2, target="cpu"
    )
    compare(executable(x, kernel, depthwise), expected, roundings=256)


def test_rms_norm_of_bf16_is_computed_in_f32() -> None:
    x, scale = (normal(4, 64) * 300).astype(ml_dtypes.bfloat16), normal(64, seed=1).astype(ml_dtypes.bfloat16)
    wide = jnp.asarray(x, jnp.float32)
    expected = wide / jnp.sqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6) * jnp.asarray(scale, jnp.float32)
    result = mg.compile(mg.rms_norm, {"d": 2}, args=[x, scale], in_specs=[mg.P("d"), None], target="cpu")(x, scale)
    np.testing.assert_array_equal(result, np.asarray(expected).astype(ml_dtypes.bfloat16))


REFUSED: dict[str, tuple[Any, str]] = {
    "heads": (lambda x: mg.dot_product_attention(x, x[:, :, :2], x[:, :, :3]), "heads and sizes do not fit"),
    "features": (lambda x: mg.conv(x, mg.ones((2, 2, 3, 5))), "takes 3"),
    "dims": (lambda x: mg.conv_general_dilated(x, x, 1, "SAME", dimension_numbers=("NHWC", "HWI", "NHWC")), "do not fit an image"),
    "padding": (lambda x: mg.max_pool(x, (2, 2), padding="FULL"), "the paddings are SAME"),
    "pairs": (lambda x: mg.max_pool(x, (2, 2), padding=((1, 1),)), "a pair for each of the 2 spatial dims"),
    "window": (lambda x: mg.max_pool(x, (2,)), "pooling over 1 dims"),
    "strides": (lambda x: mg.max_pool(x, (2, 2), strides=(1, 0)), "give a positive number"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_attention_conv_or_pooling_is_rejected(name: str) -> None:
    function, text = REFUSED[name]
    with pytest.raises(ProgramError, match=f"MG0104(?s:.)*{text}"):
        mg.trace(function, ["f32[2,6,4,8]"])
