"""`mg.random` draws the same bits as `jax.random`, on any number of devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.frontend.tracer.random import counters
from tests.frontend.numpy_expressions import compare

LOGITS = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)

# Functions of a `random` module (meshgen's or JAX's), a key and logits. Both modules return bitwise equal results.
EXACT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "key of a seed": lambda r, key, x: r.bits(r.key(12345), (3,)),
    "split": lambda r, key, x: [r.bits(subkey, (2,)) for subkey in r.split(key, 3)],
    "split in a shape": lambda r, key, x: r.bits(r.split(key, (2, 3))[1, 2], ()),
    "fold_in": lambda r, key, x: r.bits(r.fold_in(key, 7), (5,)),
    "bits": lambda r, key, x: r.bits(key, (5, 7)),
    "bits of 8": lambda r, key, x: r.bits(key, (33,), "uint8"),
    "bits of 16": lambda r, key, x: r.bits(key, (33,), "uint16"),
    "uniform": lambda r, key, x: r.uniform(key, (6, 5)),
    "uniform of f16": lambda r, key, x: r.uniform(key, (9,), "float16"),
    "uniform of bf16": lambda r, key, x: r.uniform(key, (9,), "bfloat16"),
    "bernoulli": lambda r, key, x: r.bernoulli(key, 0.3, (40,)),
    "bernoulli of odds": lambda r, key, x: r.bernoulli(key, abs(x) % 1),
    "randint": lambda r, key, x: r.randint(key, (50,), -3, 10),
    "randint of 8 bits": lambda r, key, x: r.randint(key, (50,), 0, 100, "uint8"),
    "categorical": lambda r, key, x: r.categorical(key, x),
    "categorical of another dim": lambda r, key, x: r.categorical(key, x, axis=0),
    "categorical several times": lambda r, key, x: r.categorical(key, x, shape=(5, 4)),
}  # fmt: skip
CLOSE: dict[str, Callable[[Any, Any, Any], Any]] = {
    # XLA scales and shifts with a single rounding
    "uniform in bounds": lambda r, key, x: r.uniform(key, (9,), minval=-2.0, maxval=3.0),
    "normal": lambda r, key, x: r.normal(key, (6, 5)),
    "truncated_normal": lambda r, key, x: r.truncated_normal(key, -1.0, 2.0, (30,)),
    "exponential": lambda r, key, x: r.exponential(key, (30,)),
    "gumbel": lambda r, key, x: r.gumbel(key, (30,)),
}  # fmt: skip


def drawn_by(random: Any, key: Any, x: Any) -> dict[str, Any]:
    return {name: function(random, key, x) for name, function in (EXACT | CLOSE).items()}


def test_random_draws_match_jax_bitwise() -> None:
    """The draws are on three devices, with uneven shards of `x`."""
    key, logits = jax.random.key(42), jnp.asarray(LOGITS)
    executable = mg.compile(
        partial(drawn_by, mg.random), {"d": 3}, args=[key, LOGITS], in_specs={"x": mg.P("d")}, target="cpu"
    )
    results = executable(key, LOGITS)
    drawn = jax.tree.map(np.asarray, jax.jit(partial(drawn_by, jax.random))(key, logits))
    for name in EXACT:
        np.testing.assert_equal(jax.tree.map(np.asarray, results[name]), drawn[name], err_msg=name)
    for name in CLOSE:
        compare(results[name], drawn[name])


def test_dropout_needs_no_communication() -> None:
    def program(key: Any, x: Any) -> Any:
        return mg.random.dropout(key, x, 0.25)

    x = np.ones((10, 8), np.float32)
    executable = mg.compile(
        program, {"d": 4}, args=["ui32[2]", x], in_specs=[None, mg.P("d")], out_specs=mg.P("d"), target="cpu"
    )
    assert not executable.comms.counts
    dropped = executable(np.array([0, 1], np.uint32), x)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)} and 8 <= (dropped == 0).sum() <= 32


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda key: mg.random.bits(key[0], (3,)), r"a random key is ui32\[2\], not ui32\[\]"),
        (lambda key: mg.random.uniform(key, (3,), "int32"), "random numbers are floats, not i32"),
        (lambda key: mg.random.randint(key, (3,), 0, 2, "float32"), "randint makes integers"),
        (lambda key: mg.random.dropout(key, mg.ones(3), 1.0), "a rate of dropout"),
        (lambda key: mg.random.norml(key), "did you mean mg.random.normal"),
    ],
)
def test_invalid_random_draw_is_rejected(function: Any, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        mg.trace(function, ["ui32[2]"])


def test_counters_of_huge_tensor_have_64_bits() -> None:
    def counted(x: Any) -> Any:
        return [word + x for dtype in ("ui32", "ui64") for word in counters((3, 5, 7), dtype)]

    zero = np.zeros((), np.uint32)
    high, low, high_64, low_64 = mg.compile(counted, {"d": 1}, args=[zero], target="cpu")(zero)
    np.testing.assert_array_equal(low, np.arange(105, dtype=np.uint32).reshape(3, 5, 7))
    np.testing.assert_array_equal(low_64, low)
    assert not high.any() and not high_64.any()
    many = mg.trace(lambda key: mg.random.bits(key, (1 << 17, 1 << 16)).max(), ["ui32[2]"]).module.graph
    assert "ui64[131072,65536]" in {str(node.results[0].type) for node in many.nodes if node.op == "iota"}
