"""Tests of predicted times of attention training steps, with recomputed scores and with scores in memory."""

from __future__ import annotations

import pytest

from meshgen.api import plan
from meshgen.codegen.roofline.kernel_time import kernel_seconds

jax = pytest.importorskip("jax")
attention = pytest.importorskip("tests.codegen.blocks.layers").attention


def step(batch: int, length: int, heads: int, width: int, dtype: str) -> str:
    """Return the StableHLO of an attention and its gradients as JAX writes them."""

    def forward_backward(q: object, k: object, v: object, dy: object) -> object:
        y, back = jax.vjp(lambda *args: attention(*args, causal=False), q, k, v)
        return y, back(dy)

    kind = jax.ShapeDtypeStruct((batch, length, heads, width), dtype)
    return jax.jit(forward_backward).lower(kind, kind, kind, kind).as_text()


def seconds(text: str, *skip: str) -> float:
    executable = plan(text, {"x": 1}, target="cuda:sm_90", skip=skip)
    counts = executable.plan.launch_counts()
    return sum(counts[name] * kernel_seconds(body, "cuda:sm_90") for name, body in executable.plan.kernels.items())


@pytest.mark.parametrize(
    "sizes, dtype",
    [((1, 64, 1, 64), "bfloat16"), ((8, 512, 12, 64), "bfloat16"), ((2, 896, 16, 128), "float32"), ((8, 128, 12, 64), "bfloat16")],
)  # fmt: skip
def test_recomputing_scores_is_predicted_to_be_faster(sizes: tuple[int, int, int, int], dtype: str) -> None:
    """Check long rows, and also few and short rows, whose kernels take little longer than a launch."""
    text = step(*sizes, dtype)
    assert seconds(text) < seconds(text, "form-attention")
