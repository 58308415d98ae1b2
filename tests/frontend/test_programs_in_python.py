"""Ten programs in the style of JAX users on four devices, compared with the same code in JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshgen as mg
from tests.frontend.numpy_expressions import compare

JAX = SimpleNamespace(
    **{
        name: getattr(namespace, name)
        for namespace in (jax.lax, jax.nn, jnp)
        for name in dir(namespace)
        if not name.startswith("_")
    }
    | {"logsumexp": jax.nn.logsumexp}
)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def attention(np: Any, x: Any, w: Any) -> Any:
    q, k, v = np.split(x @ w, 3, axis=-1)
    scores = q @ k.mT / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones(scores.shape[-2:], dtype=bool))
    return np.softmax(np.where(mask, scores, -np.inf), axis=-1) @ v


def layer_norm(np: Any, x: Any, scale: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def rms_norm(np: Any, x: Any, scale: Any) -> Any:
    return x * np.rsqrt(np.mean(np.square(x), axis=-1, keepdims=True) + 1e-6) * scale


def rope(np: Any, x: Any) -> Any:
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(x.shape[-2]), 1.0 / 10000 ** (np.arange(half) / half))
    first, second = x[..., :half], x[..., half:]
    return np.concatenate(
        [first * np.cos(angles) - second * np.sin(angles), first * np.sin(angles) + second * np.cos(angles)], axis=-1
    )


def moe_router(np: Any, x: Any, w: Any) -> Any:
    gates, experts = np.top_k(np.softmax(x @ w, axis=-1), 2)
    chosen = np.one_hot(experts, w.shape[1]).sum(1)
    positions = np.cumsum(chosen, axis=0) * chosen
    return gates / gates.sum(-1, keepdims=True), np.argmax(x @ w, axis=-1), positions


def conv_net(np: Any, x: Any, first: Any, second: Any) -> Any:
    dims = ("NHWC", "HWIO", "NHWC")
    x = np.relu(np.conv_general_dilated(x, first, (1, 1), "SAME", dimension_numbers=dims))
    x = np.relu(np.conv_general_dilated(x, second, (2, 2), "VALID", dimension_numbers=dims))
    return x.mean((1, 2))


def rnn(np: Any, x: Any, w: Any, u: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(h @ w + row @ u)
        return h, h

    return np.scan(step, np.zeros((x.shape[1], w.shape[0])), x)


def adamw(np: Any, params: Any, grads: Any, m: Any, v: Any) -> Any:
    m = {name: 0.9 * m[name] + 0.1 * grads[name] for name in params}
    v = {name: 0.999 * v[name] + 0.001 * grads[name] ** 2 for name in params}
    params = {
        name: params[name] - 1e-3 * (m[name] / (np.sqrt(v[name]) + 1e-8) + 0.01 * params[name]) for name in params
    }
    return params, m, v


def decode(np: Any, cache: Any, x: Any, position: Any, w: Any) -> Any:
    cache = cache.at[:, position].set(x @ w)
    reads = np.arange(cache.shape[1]) <= position
    scores = np.where(reads, np.einsum("bd,btd->bt", x, cache), -np.inf)
    return np.einsum("bt,btd->bd", np.softmax(scores, axis=-1), cache), np.dynamic_update_slice(
        cache, x[:, None], (0, position, 0)
    )


def cross_entropy(np: Any, x: Any, w: Any, labels: Any) -> Any:
    logits = x @ w
    picked = np.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return (np.logsumexp(logits, axis=-1) - picked).mean()


LABELS = np.random.default_rng(9).integers(0, 10, 8).astype(np.int32)
PARAMS = {"w": normal(8, 4, seed=1), "b": normal(4, seed=2)}
PROGRAMS: list[tuple[Callable[..., Any], list[Any]]] = [
    (attention, [normal(4, 6, 8), normal(8, 24, seed=1) / 3]),
    (layer_norm, [normal(8, 6), normal(6, seed=1), normal(6, seed=2)]),
    (rms_norm, [normal(8, 6), normal(6, seed=1)]),
    (rope, [normal(4, 6, 8)]),
    (moe_router, [normal(16, 6), normal(6, 8, seed=1)]),
    (conv_net, [normal(4, 8, 8, 3), normal(3, 3, 3, 4, seed=1) / 3, normal(2, 2, 4, 5, seed=2) / 3]),
    (rnn, [normal(5, 4, 6), normal(7, 7, seed=1) / 3, normal(6, 7, seed=2)]),
    (adamw, [PARAMS, *({name: abs(value * factor) for name, value in PARAMS.items()} for factor in (0.5, 0.1, 0.2))]),
    (decode, [normal(4, 10, 6), normal(4, 6, seed=1), np.int32(7), normal(6, 6, seed=2)]),
    (cross_entropy, [normal(8, 6), normal(6, 10, seed=1), LABELS]),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_program_in_jax_style_matches_jax(program: Callable[..., Any], args: list[Any]) -> None:
    first = {"adamw": {"w": mg.P("d"), "b": mg.P()}, "rnn": mg.P(None, "d")}.get(program.__name__, mg.P("d"))
    executable = mg.compile(
        partial(program, mg), {"d": 4}, args=args, in_specs=[first, *[None] * (len(args) - 1)], target="cpu"
    )
    expected = jax.tree.map(np.asarray, program(JAX, *jax.tree.map(jnp.asarray, args)))
    compare(executable(*args), expected, roundings=512)
    if program in (layer_norm, rms_norm, rope, adamw, attention, decode):
        assert not executable.comms.counts


def test_matmul_of_bf16_accepts_preferred_f32_result() -> None:
    def products(x: Any, w: Any) -> Any:
        wide = {"preferred_element_type": mg.float32}
        return (
            x @ w,
            mg.matmul(x, w, **wide),
            mg.einsum("ij,jk->ik", x, w, **wide),
            mg.einsum("ij,jk,kl->il", x, w, w, **wide),
            mg.einsum("ij->j", x, **wide),
        )

    outputs = mg.trace(products, ["bf16[3,4]", "bf16[4,4]"]).module.graph.outputs
    assert [output.type.dtype for output in outputs] == ["bf16", "f32", "f32", "f32", "f32"]


@pytest.mark.parametrize("program", [attention, rms_norm])
def test_bf16_program_with_numpy_scalar_stays_bf16(program: Callable[..., Any]) -> None:
    args = ["bf16[4,6,8]", "bf16[8,24]"] if program is attention else ["bf16[8,6]", "bf16[6]"]
    # an f64 scalar of NumPy
    with_numpy = lambda *xs: program(mg, *xs) / np.sqrt(8)  # noqa: E731  # an f64 scalar of NumPy
    assert mg.trace(with_numpy, args).module.graph.outputs[0].type.dtype == "bf16"
