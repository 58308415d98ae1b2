"""Loops and branches of traced programs, compared with JAX on one and three devices. A loop with a known trip count
becomes a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.regions import all_nodes
from tests.frontend.numpy_expressions import compare

XS = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
W = (np.random.default_rng(1).standard_normal((5, 5)) / 3).astype(np.float32)

# Programs as functions of a namespace (`jax.numpy` and `jax.lax` in one, or meshgen), an array and a matrix.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "scan": lambda xp, x, w: xp.scan(lambda h, row: (xp.tanh(h @ w + row), h * 2), xp.zeros(5), x),
    "scan over a structure": lambda xp, x, w: xp.scan(lambda h, row: ({"a": h["a"] + row["x"].sum(), "n": h["n"] + 1}, (row["x"], h["n"])), {"a": 0.0, "n": 0}, {"x": x}),
    "scan backwards": lambda xp, x, w: xp.scan(lambda h, row: (h + row, h), xp.zeros(5), x, reverse=True),
    "scan of a length": lambda xp, x, w: xp.scan(lambda h, _: (h @ w, h[0]), x[0], None, length=4),
    "scan without results": lambda xp, x, w: xp.scan(lambda h, row: (h + row, None), xp.zeros(5), x)[0],
    "nested scans": lambda xp, x, w: xp.scan(lambda h, row: (xp.scan(lambda g, e: (g * 0.5 + e, None), h, w)[0] + row, None), x[0], x)[0],
    "fori_loop": lambda xp, x, w: xp.fori_loop(0, 4, lambda i, h: h @ w + x[i], x[0]),
    "fori_loop of data": lambda xp, x, w: xp.fori_loop(0, (x[0, 0] > -9).astype("int32") * 3, lambda i, h: h + i, x),
    "while_loop": lambda xp, x, w: xp.while_loop(lambda c: abs(c[0]).max() < 50, lambda c: (c[0] * 2, c[1] + 1), (x, 0)),
    "cond": lambda xp, x, w: xp.cond(x[0, 0] > 0, lambda a: a * 2, lambda a: a - w[0], x),
    "cond of numbers": lambda xp, x, w: xp.cond(x.sum() > 0, lambda: (x[0], 1.0), lambda: (x[1], 2.0)),
    "switch": lambda xp, x, w: [xp.switch(xp.argmax(x[0]) * 0 + k, [lambda a: a, lambda a: a * 3, lambda a: a @ w], x) for k in (-1, 1, 2, 7)],
    "map": lambda xp, x, w: xp.map(lambda row: row @ w, x),
    "loop in a branch": lambda xp, x, w: xp.cond(x[0, 0] < 9, lambda a: xp.fori_loop(0, 3, lambda i, h: h @ w, a), lambda a: a, x),
}  # fmt: skip


class Jax:
    """The functions of `jax.numpy` and `jax.lax` in one namespace."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name, None) or getattr(jax.lax, name)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_matches_jax(name: str, devices: int) -> None:
    program = PROGRAMS[name]
    executable = mg.compile(
        lambda x, w: program(mg, x, w),
        {"d": devices},
        args=[XS, W],
        in_specs=[mg.P("d"), mg.P(None, "d")],
        target="cpu",
    )
    expected = program(Jax(), jnp.asarray(XS), jnp.asarray(W))
    compare(executable(XS, W), jax.tree.map(np.asarray, expected, is_leaf=lambda leaf: leaf is None), roundings=512)


def test_loop_of_known_length_becomes_scan() -> None:
    def program(x: Any, w: Any) -> Any:
        return mg.scan(lambda h, row: (mg.tanh(h @ w + row), h), mg.zeros(5), x)

    long = np.tile(XS, (8, 1))
    fused = mg.compile(program, {"d": 1}, args=[long, W], target="cuda:sm_90").fused
    assert [node.attrs.trips for node in all_nodes(fused.graph) if node.op == "scan"] == [48]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another type": (lambda x: mg.fori_loop(0, 3, lambda i, h: h > 0, x), r"f32\[4\] at first, but i1\[4\]"),
    "another structure": (lambda x: mg.while_loop(lambda c: c[0].sum() > 0, lambda c: c[0], (x, 0)), "another structure"),
    "branches": (lambda x: mg.cond(x[0] > 0, lambda: x, lambda: x[:2]), r"f32\[2\] and f32\[4\]"),
    "not one flag": (lambda x: mg.cond(x > 0, lambda: x, lambda: x), "predicate of cond must be a scalar"),
    "no length": (lambda x: mg.scan(lambda h, _: (h, h), x), "needs stacks of one length"),
    "lengths": (lambda x: mg.scan(lambda h, _: (h, h), x, x, length=3), r"not \[3, 4\]"),
    "no branches": (lambda x: mg.switch(0, [], x), "at least one branch"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_loop_or_branch_is_rejected(name: str) -> None:
    function, text = REFUSED[name]
    with pytest.raises(ProgramError, match=f"(?s)MG0104.*{text}"):
        mg.trace(function, ["f32[4]"])


def test_tensor_leaked_from_loop_body_is_rejected() -> None:
    leaked: list[Any] = []

    def leak(x: Any) -> Any:
        mg.fori_loop(0, 3, lambda i, h: (leaked.append(h), h)[1], x)
        return leaked[-1] + 1

    with pytest.raises(ProgramError, match="belongs to another traced function"):
        mg.trace(leak, ["f32[4]"])
