"""Cross-entropy takes what it needs of the logits where these are computed; the numbers are those of the program, infinite and far ones too."""

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
    """Labels that are out of bounds are the nearest word."""
    z = (x @ w).astype(jnp.float32)
    return jnp.take_along_axis(z, at[:, None] * 3 - 400, -1, mode="clip")[:, 0] - jax.nn.logsumexp(z, -1)


def counted(x: Array, w: Array, at: Array) -> Array:
    """Labels beside the numbers of their rows."""
    return -jax.nn.log_softmax((x @ w).astype(jnp.float32))[jnp.arange(ROWS), at]


def one_hot(x: Array, w: Array, at: Array) -> Array:
    z = x @ w
    return jax.nn.logsumexp(z, -1) - (jax.nn.one_hot(at, WORDS, dtype=z.dtype) * z).sum(-1)


def batched(x: Array, w: Array, at: Array) -> Array:
    """Sequences of tokens, and logits that are scaled and capped."""
    z = jnp.tanh(jnp.einsum("bsd,dv->bsv", x.reshape(2, ROWS // 2, DEPTH), w).astype(jnp.float32) / 8) * 8
    return loss(z, at.reshape(2, ROWS // 2))


def flattened(x: Array, w: Array, at: Array) -> Array:
    """Tokens of all sequences as rows of the product; the loss is of sequences."""
    z = (x @ w).reshape(2, ROWS // 2, WORDS).astype(jnp.float32)
    return -jax.nn.log_softmax(z)[jnp.arange(2)[:, None], jnp.arange(ROWS // 2), at.reshape(2, -1)].mean()


def narrow_sums(x: Array, w: Array, at: Array) -> Array:
    """Everything in the type of the logits, and the mean of all words."""
    z = x @ w
    return jax.nn.logsumexp(z, -1) - z.mean(-1)


def masked(x: Array, w: Array, at: Array) -> Array:
    """Parts of rows, and whole rows, that are -inf; one row has +inf."""
    z = jnp.where(jnp.arange(WORDS) < 200, (x @ w).astype(jnp.float32), -jnp.inf)
    z = jnp.where(jnp.arange(ROWS)[:, None] == 3, -jnp.inf, z)
    z = jnp.where((jnp.arange(ROWS)[:, None] == 5) & (jnp.arange(WORDS) == 7), jnp.inf, z)
    return jax.nn.logsumexp(z, -1)


def far(x: Array, w: Array, at: Array) -> Array:
    """Parts whose greatest elements are hundreds apart: relative to that of the row, sums of the others vanish."""
    z = (x @ w).astype(jnp.float32) + jnp.arange(WORDS) // 128 * 150.0
    return jax.nn.logsumexp(z, -1), jax.nn.logsumexp(-z, -1)


def smoothed(x: Array, w: Array, at: Array) -> Array:
    """Sums and least elements of rows beside the softmax."""
    z = (x @ w).astype(jnp.float32)
    return loss(z, at) * 0.9 - 0.1 * z.mean(-1), z.min(-1)


TAKEN: Sequence[Callable[..., Array]] = (
    plain,
    clipped,
    counted,
    one_hot,
    batched,
    flattened,
    narrow_sums,
    masked,
    far,
    smoothed,
)


def planned(
    program: Callable[..., Array], dtype: str = "bfloat16", words: int = WORDS, specs: Any = None
) -> Executable:
    shapes = (((ROWS, DEPTH), dtype), ((DEPTH, words), dtype), ((ROWS,), "int32"))
    text = jax.jit(program, keep_unused=True).lower(*(jax.ShapeDtypeStruct(*each) for each in shapes)).as_text()
    return api.plan(text, {"dp": 2, "tp": 2} if specs else {"x": 1}, in_specs=specs, target="cuda:sm_90")


def arguments(dtype: str = "bfloat16", words: int = WORDS) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(jnp.dtype(dtype)) for shape in ((ROWS, DEPTH), (DEPTH, words))]
    return [*values, rng.integers(0, words, ROWS, dtype=np.int32)]


def is_right(found: Executable, args: Sequence[np.ndarray[Any, Any]]) -> bool:
    return check(next(iter(found.stages.values())), pipeline=lambda _: found.stages["fuse"], args=args).ok


def fires(found: Executable) -> bool:
    return found.passes["softmax-into-dot"].kept > 0


def writes(found: Executable, size: int) -> bool:
    """Whether a kernel writes so many elements."""
    return any(v.type.size == size for body in found.plan.kernels.values() for v in body.outputs)


@pytest.mark.parametrize("program", TAKEN)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_logits_are_not_written(program: Callable[..., Array], dtype: str) -> None:
    found = planned(program, dtype)
    assert fires(found) and not writes(found, ROWS * WORDS)
    assert is_right(found, arguments(dtype))


@pytest.mark.parametrize("program", TAKEN)
def test_vocabularies_are_split_among_devices(program: Callable[..., Array]) -> None:
    found = planned(program, specs={"arg0": P("dp"), "arg1": P(None, "tp"), "arg2": P("dp")})
    assert fires(found) and not writes(found, ROWS * WORDS // 4)
    assert is_right(found, arguments())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "uint64", "int64"])
def test_labels_of_any_integer_type(dtype: str) -> None:
    """Out of bounds as well: the greatest of their type is the last word, a negative one the first."""
    with jax.enable_x64():
        shapes = (((ROWS, DEPTH), "bfloat16"), ((DEPTH, WORDS), "bfloat16"), ((ROWS,), dtype))
        text = jax.jit(looked_up).lower(*(jax.ShapeDtypeStruct(*each) for each in shapes)).as_text()
    found = api.plan(text, {"x": 1}, target="cuda:sm_90")
    limits = np.iinfo(dtype)
    labels = np.resize(np.array([limits.max, limits.min, 0, 7, 100, limits.max // 2], dtype), ROWS)
    assert fires(found) and not writes(found, ROWS * WORDS)
    assert is_right(found, [*arguments()[:2], labels])


def looked_up(x: Array, w: Array, at: Array) -> Array:
    """By a gather that clamps, of labels of the type that they have."""
    z = (x @ w).astype(jnp.float32)
    dims = jax.lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    picked = jax.lax.gather(z, at[:, None], dims, (1, 1), mode="clip")
    return picked - jax.nn.logsumexp(z, -1)


def returned(x: Array, w: Array, at: Array) -> Array:
    z = (x @ w).astype(jnp.float32)
    return loss(z, at), z


def trained(x: Array, w: Array, at: Array) -> Array:
    return jax.value_and_grad(lambda x, w: loss((x @ w).astype(jnp.float32), at), (0, 1))(x, w)


def weighted(x: Array, w: Array, at: Array) -> Array:
    """A softmax that is multiplied: attention of one head."""
    return jax.nn.softmax((x @ w).astype(jnp.float32)).astype(x.dtype) @ w.T


@pytest.mark.parametrize("program", [returned, trained, weighted])
def test_short_rows_that_are_read_again_stay_whole(program: Callable[..., Array]) -> None:
    assert not fires(planned(program))


@pytest.mark.parametrize("program", [returned, trained])
def test_long_rows_are_read_once_less(program: Callable[..., Array]) -> None:
    """Registers hold no row of so many words: a kernel would go over them once for the sums, and once for what follows."""
    words = 2 * WHOLE_ROW
    found = planned(program, words=words)
    assert fires(found) and writes(found, ROWS * words)
    assert is_right(found, arguments(words=words))


@pytest.mark.parametrize("words", [128, 500, 640 + 64])
def test_rows_of_no_whole_parts_stay(words: int) -> None:
    found = planned(plain, words=words)
    assert not fires(found) and is_right(found, arguments(words=words))
