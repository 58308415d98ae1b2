"""Tests of the `softmax-into-dot` pass: cross-entropy is fused into the logits' GEMM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from meshgen import api
from meshgen.codegen.fusion.tiles import WHOLE_ROW
from meshgen.compiled.executable import Executable
from meshgen.testing.oracle import check

Array = Any
ROWS, DEPTH, WORDS = 24, 64, 512


def loss(z: Array, at: Array) -> Array:
    picked = jnp.take_along_axis(z, at[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(z, -1) - picked).mean()


def plain(x: Array, w: Array, at: Array) -> Array:
    return loss((x @ w).astype(jnp.float32), at)


def clipped(x: Array, w: Array, at: Array) -> Array:
    """Clamp out-of-bounds labels to the nearest vocabulary index."""
    z = (x @ w).astype(jnp.float32)
    return jnp.take_along_axis(z, at[:, None] * 3 - 400, -1, mode="clip")[:, 0] - jax.nn.logsumexp(z, -1)


def labels_by_row(x: Array, w: Array, at: Array) -> Array:
    """Gather with pairs of row index and label."""
    return -jax.nn.log_softmax((x @ w).astype(jnp.float32))[jnp.arange(ROWS), at]


def one_hot(x: Array, w: Array, at: Array) -> Array:
    z = x @ w
    return jax.nn.logsumexp(z, -1) - (jax.nn.one_hot(at, WORDS, dtype=z.dtype) * z).sum(-1)


def batched(x: Array, w: Array, at: Array) -> Array:
    """Compute the loss over sequences of tokens, with scaled and soft-capped logits."""
    z = jnp.tanh(jnp.einsum("bsd,dv->bsv", x.reshape(2, ROWS // 2, DEPTH), w).astype(jnp.float32) / 8) * 8
    return loss(z, at.reshape(2, ROWS // 2))


def flattened(x: Array, w: Array, at: Array) -> Array:
    """Flatten the tokens of all sequences into rows of the GEMM, but compute the loss per sequence."""
    z = (x @ w).reshape(2, ROWS // 2, WORDS).astype(jnp.float32)
    return -jax.nn.log_softmax(z)[jnp.arange(2)[:, None], jnp.arange(ROWS // 2), at.reshape(2, -1)].mean()


def in_logits_dtype(x: Array, w: Array, at: Array) -> Array:
    """Compute in the logits' dtype, and average over the entire vocabulary."""
    z = x @ w
    return jax.nn.logsumexp(z, -1) - z.mean(-1)


def masked(x: Array, w: Array, at: Array) -> Array:
    """Mask parts of rows and one entire row with -inf; one row contains +inf."""
    z = jnp.where(jnp.arange(WORDS) < 200, (x @ w).astype(jnp.float32), -jnp.inf)
    z = jnp.where(jnp.arange(ROWS)[:, None] == 3, -jnp.inf, z)
    z = jnp.where((jnp.arange(ROWS)[:, None] == 5) & (jnp.arange(WORDS) == 7), jnp.inf, z)
    return jax.nn.logsumexp(z, -1)


def distant_tiles(x: Array, w: Array, at: Array) -> Array:
    """Compute logits whose 128-column tiles differ by hundreds, so partial sums underflow."""
    z = (x @ w).astype(jnp.float32) + jnp.arange(WORDS) // 128 * 150.0
    return jax.nn.logsumexp(z, -1), jax.nn.logsumexp(-z, -1)


def smoothed(x: Array, w: Array, at: Array) -> Array:
    """Return a label-smoothed loss and row minima, which need other reductions besides the softmax."""
    z = (x @ w).astype(jnp.float32)
    return loss(z, at) * 0.9 - 0.1 * z.mean(-1), z.min(-1)


FUSED: Sequence[Callable[..., Array]] = (
    plain,
    clipped,
    labels_by_row,
    one_hot,
    batched,
    flattened,
    in_logits_dtype,
    masked,
    distant_tiles,
    smoothed,
)


def planned(
    program: Callable[..., Array], dtype: str = "bfloat16", words: int = WORDS, specs: Any = None
) -> Executable:
    shapes = (((ROWS, DEPTH), dtype), ((DEPTH, words), dtype), ((ROWS,), "int32"))
    text = jax.jit(program, keep_unused=True).lower(*(jax.ShapeDtypeStruct(*shape) for shape in shapes)).as_text()
    return api.plan(text, {"dp": 2, "tp": 2} if specs else {"x": 1}, in_specs=specs, target="cuda:sm_90")


def arguments(dtype: str = "bfloat16", words: int = WORDS) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(jnp.dtype(dtype)) for shape in ((ROWS, DEPTH), (DEPTH, words))]
    return [*values, rng.integers(0, words, ROWS, dtype=np.int32)]


def is_right(executable: Executable, args: Sequence[np.ndarray[Any, Any]]) -> bool:
    return check(next(iter(executable.stages.values())), pipeline=lambda _: executable.stages["fuse"], args=args).ok


def is_fused(executable: Executable) -> bool:
    return executable.passes["softmax-into-dot"].kept > 0


def writes_size(executable: Executable, size: int) -> bool:
    """Whether any kernel writes a result of `size` elements."""
    return any(v.type.size == size for body in executable.plan.kernels.values() for v in body.outputs)


@pytest.mark.parametrize("program", FUSED)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_cross_entropy_does_not_write_logits(program: Callable[..., Array], dtype: str) -> None:
    executable = planned(program, dtype)
    assert is_fused(executable) and not writes_size(executable, ROWS * WORDS)
    assert is_right(executable, arguments(dtype))


@pytest.mark.parametrize("program", FUSED)
def test_cross_entropy_is_fused_for_sharded_vocabulary(program: Callable[..., Array]) -> None:
    executable = planned(program, specs={"arg0": P("dp"), "arg1": P(None, "tp"), "arg2": P("dp")})
    assert is_fused(executable) and not writes_size(executable, ROWS * WORDS // 4)
    assert is_right(executable, arguments())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "uint64", "int64"])
def test_cross_entropy_supports_any_integer_label_dtype(dtype: str) -> None:
    """Check labels out of bounds as well: the dtype's maximum selects the last column, a negative label the first."""
    with jax.enable_x64():
        shapes = (((ROWS, DEPTH), "bfloat16"), ((DEPTH, WORDS), "bfloat16"), ((ROWS,), dtype))
        text = jax.jit(looked_up).lower(*(jax.ShapeDtypeStruct(*shape) for shape in shapes)).as_text()
    executable = api.plan(text, {"x": 1}, target="cuda:sm_90")
    limits = np.iinfo(dtype)
    labels = np.resize(np.array([limits.max, limits.min, 0, 7, 100, limits.max // 2], dtype), ROWS)
    assert is_fused(executable) and not writes_size(executable, ROWS * WORDS)
    assert is_right(executable, [*arguments()[:2], labels])


def looked_up(x: Array, w: Array, at: Array) -> Array:
    """Look up labels of any integer dtype by a clamping gather."""
    z = (x @ w).astype(jnp.float32)
    dims = jax.lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    picked = jax.lax.gather(z, at[:, None], dims, (1, 1), mode="clip")
    return picked - jax.nn.logsumexp(z, -1)


def returned(x: Array, w: Array, at: Array) -> Array:
    z = (x @ w).astype(jnp.float32)
    return loss(z, at), z


def trained(x: Array, w: Array, at: Array) -> Array:
    return jax.value_and_grad(lambda x, w: loss((x @ w).astype(jnp.float32), at), (0, 1))(x, w)


def attention_head(x: Array, w: Array, at: Array) -> Array:
    """Multiply the softmax by a matrix, as attention of one head does."""
    return jax.nn.softmax((x @ w).astype(jnp.float32)).astype(x.dtype) @ w.T


@pytest.mark.parametrize("program", [returned, trained, attention_head])
def test_softmax_of_reused_short_rows_is_not_fused(program: Callable[..., Array]) -> None:
    assert not is_fused(planned(program))


@pytest.mark.parametrize("program", [returned, trained])
def test_softmax_of_reused_long_rows_is_fused(program: Callable[..., Array]) -> None:
    """Check vocabularies that exceed the registers: an unfused kernel would read each row twice."""
    words = 2 * WHOLE_ROW
    executable = planned(program, words=words)
    assert is_fused(executable) and writes_size(executable, ROWS * words)
    assert is_right(executable, arguments(words=words))


@pytest.mark.parametrize("words", [128, 500, 640 + 64])
def test_softmax_of_unaligned_row_length_is_not_fused(words: int) -> None:
    executable = planned(plain, words=words)
    assert not is_fused(executable) and is_right(executable, arguments(words=words))
