"""Functions of neural networks and indexed updates, compared with JAX on three devices. In the expressions, `xp` is JAX
or meshgen.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.frontend.numpy_expressions import ARGS, compare, results

# lax and nn have priority over jax.numpy, which has all names of NumPy
JAX = SimpleNamespace(
    **{
        name: getattr(namespace, name)
        for namespace in (jax.lax, jax.nn, jnp)
        for name in dir(namespace)
        if not name.startswith("_")
    }
    | {"logsumexp": jax.nn.logsumexp}
)
ACTIVATIONS = (
    *(f"xp.{name}(x * 3)" for name in ["relu", "relu6", "leaky_relu", "silu", "swish", "gelu", "softplus", "log_sigmoid", "elu", "sigmoid", "softmax", "log_softmax", "logsumexp"]),
    *(f"xp.{name}(x * 3)" for name in ["celu", "selu", "mish", "soft_sign", "hard_tanh", "hard_sigmoid", "hard_silu", "standardize"]),
    "xp.clamp(-0.5, x, 0.5)", "xp.stop_gradient(x)", "xp.population_count(i)", "xp.clz(i)", "xp.bitcast_convert_type(x, 'int32')", "xp.bincount(abs(n), length=3)",
    "xp.bincount(n, weights=v[:6], length=6)", "xp.dot_general(x, y, (((1,), (1,)), ((0,), (0,))))", "xp.dot_general(z, z, (((2, 0), (2, 0)), ((), ())))",
    "xp.gelu(x, approximate=False)", "xp.softmax(x, axis=0)", "xp.logsumexp(x, axis=1)", "xp.logsumexp(x, axis=0, keepdims=True)", "xp.logsumexp(e)",
    "xp.glu(z)", "xp.one_hot(n, 4)", "xp.one_hot(i, 3, axis=0)", "xp.erf(x)", "xp.erfc(x)", "xp.erf_inv(u)", "xp.lgamma(p)", "xp.digamma(p)", "xp.rsqrt(p)",
    "xp.cummax(x, axis=1)", "xp.cummin(x, axis=0)", "xp.top_k(x, 3)", "xp.top_k(i, 2)",
)  # fmt: skip
UPDATES = (
    "x.at[1].set(0)", "x.at[1:3, ::2].set(v[0])", "x.at[:, 2].add(1.5)", "x.at[-1, 1:].multiply(y[0, 1:])", "x.at[::-1].set(y)", "x.at[n].set(y[0])", "v.at[n].add(1.0)",
    "v.at[n].add(n)", "x.at[n % 4, n % 5].set(7.0)", "x.at[:, n % 5].add(y[:, :1])", "x.at[1:3, n % 5].set(2.0)", "z.at[n % 2, :, n % 4].add(1.0)", "z.at[0, :, n[:3] % 4].set(z[0, :, :3].T)",
    "z.at[n[:2] % 2, 1:, 0].multiply(3.0)", "x.at[n[0]].set(y[0])", "x.at[n[0], n[1]].add(1.0)", "x.at[b].set(0.0)", "x.at[b].multiply(-1.0)", "v.at[n].max(0.0)", "v.at[n].min(0.0)",
    "x.at[0].subtract(y[0])", "x.at[0].divide(p[0])", "p.at[1].power(2.0)", "x.at[1].apply(xp.tanh)", "x.at[2].get()", "v.at[::9].set(1.0)", "x[:, :1].at[:, ::2].add(1.5)", "v.at[n + 5].set(1.0)", "v.at[-1 - n].add(2.0)",
    "z.at[:, None, n % 3].set(1.0)", "x.at[...].add(1.0)", "x.at[1, 2].set(3.0)", "v.at[n].add(1.0, mode='drop')",
    "v.at[xp.arange(3)].set(2.0, unique_indices=True, indices_are_sorted=True)", "z.at[1, ..., ::-2].set(z[0, :, :2])",
)  # fmt: skip
SLICES = (
    "xp.dynamic_slice(x, (n[0], 1), (2, 3))", "xp.dynamic_slice(x, (-1, n[1]), (1, 2))", "xp.dynamic_update_slice(x, y[:2, :3], (n[0], n[1]))",
    "xp.dynamic_slice_in_dim(x, n[2], 2, axis=1)", "xp.dynamic_index_in_dim(x, n[0], axis=0)", "xp.dynamic_index_in_dim(z, n[0], axis=1, keepdims=False)",
    "xp.dynamic_update_slice_in_dim(x, y[:1], n[3], axis=0)", "xp.take_along_axis(x, xp.argmax(y, axis=1)[:, None], axis=1)", "xp.dynamic_slice(x, (n[0] - 6, 0), (2, 5))",
)  # fmt: skip
CONVOLVED = (
    "xp.conv_general_dilated(xp.reshape(x, (1, 1, 4, 5)), xp.reshape(z[:, :, :3], (2, 1, 3, 3)), (1, 1), 'SAME')",
    "xp.conv_general_dilated(xp.reshape(x, (1, 4, 5, 1)), xp.reshape(y[:3, :2], (3, 2, 1, 1)), (2, 1), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))",
    "xp.conv_general_dilated(xp.reshape(x, (2, 2, 5)), xp.reshape(z, (2, 2, 6))[..., :2], (1,), [(2, 1)], rhs_dilation=(2,))",
    "xp.conv_general_dilated(xp.reshape(x, (1, 4, 5)), xp.reshape(z, (4, 1, 6))[..., :3], (2,), 'SAME', feature_group_count=4)",
    "xp.conv_general_dilated(xp.reshape(x, (1, 1, 4, 5)), xp.reshape(y[:2, :2], (1, 1, 2, 2)), (1, 1), ((1, 1), (1, 1)), lhs_dilation=(2, 2))",
)  # fmt: skip


@cache
def in_jax(expressions: tuple[str, ...]) -> dict[str, Any]:
    """Return JAX's value of each expression. All are in one jitted program, which is ten times faster than one program
    per operation.
    """

    def evaluated(values: dict[str, Any]) -> list[Any]:
        # in JAX, an update by a mask cannot be traced unless the mask is constant
        namespace = {"xp": JAX, **values, "b": ARGS["b"]}
        return [eval(text, namespace) for text in expressions]

    results_of_jax = jax.jit(evaluated)(ARGS)
    return dict(zip(expressions, jax.tree.map(np.asarray, results_of_jax), strict=True))


def assert_matches_jax(text: str, expressions: tuple[str, ...]) -> None:
    compare(results(expressions)[text], in_jax(expressions)[text])


@pytest.mark.parametrize("text", ACTIVATIONS)
def test_activations_match_jax(text: str) -> None:
    assert_matches_jax(text, ACTIVATIONS)


@pytest.mark.parametrize("text", UPDATES)
def test_indexed_updates_match_jax(text: str) -> None:
    assert_matches_jax(text, UPDATES)


@pytest.mark.parametrize("text", SLICES)
def test_dynamic_slices_match_jax(text: str) -> None:
    assert_matches_jax(text, SLICES)


@pytest.mark.parametrize("text", CONVOLVED)
def test_convolutions_match_jax(text: str) -> None:
    assert_matches_jax(text, CONVOLVED)
