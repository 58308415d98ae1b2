"""Expressions that mean the same in NumPy and in traced programs. In their texts, `xp` is NumPy or meshgen.

All expressions of a family form one program, which is compiled once and executed on three devices with uneven rows of
the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import meshgen as mg

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)


def _normal(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _integers(*shape: int, seed: int, low: int = -9, high: int = 9) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


ARGS: dict[str, Array] = {
    "x": _normal(4, 5, seed=1),
    "y": _normal(4, 5, seed=2),
    "p": np.abs(_normal(4, 5, seed=3)) + np.float32(0.1),
    "u": np.random.default_rng(4).uniform(-0.9, 0.9, (4, 5)).astype(np.float32),
    "z": _normal(2, 3, 4, seed=5),
    "s": np.stack([_normal(3, 3, seed=seed) + 3 * np.eye(3, dtype=np.float32) for seed in (6, 7)]),
    "v": _normal(7, seed=8),
    "c": (_normal(4, 5, seed=9) + 1j * _normal(4, 5, seed=10)).astype(np.complex64),
    "i": _integers(4, 5, seed=11),
    "j": np.where(_integers(4, 5, seed=12) == 0, 3, _integers(4, 5, seed=12)).astype(np.int32),
    "n": _integers(6, seed=13, low=0, high=4),
    "b": _integers(4, 5, seed=14) > 0,
    "e": np.array([0.0, -0.0, 1.5, -2.5, 0.5, np.inf, -np.inf, np.nan], np.float32),
    "f": np.array([-0.0, 2.0, -1.0, np.inf, 0.5, np.nan, 1.0, 3.0], np.float32),
}


def arguments(expressions: Sequence[str]) -> dict[str, Array]:
    """Return the arguments that occur in at least one of the expressions."""
    used = {name for text in expressions for name in compile(text, text, "eval").co_names}
    used |= {name for text in expressions for inner in _codes(compile(text, text, "eval")) for name in inner.co_names}
    return {name: array for name, array in ARGS.items() if name in used}


def _codes(code: Any) -> list[Any]:
    return [
        code,
        *(deeper for constant in code.co_consts if hasattr(constant, "co_names") for deeper in _codes(constant)),
    ]


def program(expressions: Sequence[str]) -> Any:
    """Return a traced function of `arguments(expressions)` that returns the value of each expression."""

    def evaluated(values: dict[str, Any]) -> list[Any]:
        return [eval(text, {"xp": mg, **values}) for text in expressions]

    return evaluated


@cache
def results(expressions: tuple[str, ...]) -> dict[str, Any]:
    """Return the value of each expression. They are computed on three devices."""
    args = arguments(expressions)
    rows = {f"values.{name}": mg.P("d") for name in args}
    executable = mg.compile(program(expressions), {"d": 3}, args=[args], in_specs=rows, target="cpu")
    return dict(zip(expressions, executable(args), strict=True))


def check(text: str, expressions: tuple[str, ...]) -> None:
    """Compare an expression on three devices with NumPy: shape, kind of element type, and values within a few f32
    roundings.
    """
    with np.errstate(all="ignore"):
        expected = eval(text, {"xp": np, **ARGS})
    compare(results(expressions)[text], expected)


def compare(actual: Any, expected: Any, roundings: int = 64) -> None:
    """Require equal structures of arrays. `roundings` is the tolerance in f32 roundings, relative to the largest
    element.
    """
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            compare(ours, theirs, roundings)
        return
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype.kind) == (expected.shape, expected.dtype.kind), (actual.dtype, expected.dtype)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(actual, expected, rtol=roundings * EPS, atol=roundings * EPS * scale)
