"""JAX functions inside traced programs: gradients, structures, locations and errors."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.regions import all_nodes
from tests.frontend.numpy_expressions import compare

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
PARAMS = {"w": (np.random.default_rng(1).standard_normal((4, 3)) / 2).astype(np.float32), "b": np.ones(3, np.float32)}


def loss(params: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ params["w"] + params["b"]) ** 2)


class Both(NamedTuple):
    value: Any
    doubled: Any


def test_traced_step_uses_gradients_of_jax() -> None:
    def step(params: Any, x: Any) -> Any:
        value, grads = mg.from_jax(jax.value_and_grad(loss))(params, x * 2)
        return {name: params[name] - 0.1 * grads[name] for name in params}, value

    executable = mg.compile(step, {"d": 3}, args=[PARAMS, X], in_specs={"x": mg.P("d")}, target="cpu")
    value, grads = jax.value_and_grad(loss)(PARAMS, X * 2)
    expected = {name: PARAMS[name] - np.float32(0.1) * np.asarray(grads[name]) for name in sorted(PARAMS)}
    compare(executable(PARAMS, X), (dict(sorted(expected.items())), np.asarray(value)))
    assert executable.comms.counts  # x is split by rows, so reductions over rows communicate


def test_from_jax_accepts_and_returns_structures() -> None:
    def program(x: Any) -> Any:
        both = mg.from_jax(lambda tree, factor, *, shift: Both(tree["a"][0] * factor + shift, tree["a"][1] * 2))(
            {"a": [x, X]}, 3, shift=np.float32(1)
        )
        assert isinstance(both, Both) and both.value.shape == (6, 4)
        return (
            mg.from_jax(jax.vmap(jnp.dot))(both.value, both.doubled),
            mg.from_jax(lambda: jnp.arange(3))(),
            mg.from_jax(lambda a, unused: a)(x, x[0]),
        )

    expected = (((X * 3 + 1) * (X * 2)).sum(1), np.arange(3, dtype=np.int32), X)
    compare(mg.compile(program, {"d": 2}, args=[X], in_specs=[mg.P("d")], target="cpu")(X), expected)


def test_from_jax_operations_have_lines_of_jax_function() -> None:
    graph = mg.trace(lambda x: mg.from_jax(loss)({"w": PARAMS["w"], "b": x[0, :3]}, x), [X]).module.graph
    (node,) = [node for node in all_nodes(graph) if node.op == "tanh"]
    assert node.loc is not None and (node.loc.file, node.loc.line) == (__file__, loss.__code__.co_firstlineno + 1)


def test_from_jax_works_in_loops_and_manual_bodies() -> None:
    def program(x: Any) -> Any:
        looped = mg.fori_loop(0, 3, lambda i, h: mg.from_jax(jnp.sin)(h), x)
        return mg.manual(lambda tile: mg.all_reduce(mg.from_jax(jnp.sum)(tile), "d"), mg.P("d"), mg.P())(looped)

    executable = mg.compile(program, {"d": 3}, args=[X], in_specs=[mg.P("d")], target="cpu")
    compare(executable(X), np.sin(np.sin(np.sin(X))).sum())


def test_jax_error_is_reported_at_from_jax_call() -> None:
    with pytest.raises(
        ProgramError, match=r"(?s)MG0104: JAX cannot lower loss for these arguments.*from_jax"
    ) as caught:
        mg.trace(lambda x: mg.from_jax(loss)({"w": x}, x), [X])
    assert caught.value.diagnostics[0].loc is not None and caught.value.diagnostics[0].loc.file == __file__


def test_from_jax_without_jax_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ProgramError, match="from_jax needs JAX"):
        mg.trace(lambda x: mg.from_jax(loss)(x), [X])
