"""Expressions that mean the same in NumPy and in traced programs, as text in which `xp` is one or the other.

All expressions of a family are one program, compiled once for three devices that hold uneven rows of the arguments, and run.
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
    """Those arguments that occur in one of the expressions."""
    used = {name for text in expressions for name in compile(text, text, "eval").co_names}
    used |= {name for text in expressions for inner in _codes(compile(text, text, "eval")) for name in inner.co_names}
    return {name: array for name, array in ARGS.items() if name in used}


def _codes(code: Any) -> list[Any]:
    return [code, *(deeper for each in code.co_consts if hasattr(each, "co_names") for deeper in _codes(each))]


def program(expressions: Sequence[str]) -> Any:
    """A traced function of `arguments(expressions)` with the value of each expression."""

    def evaluated(values: dict[str, Any]) -> list[Any]:
        return [eval(text, {"xp": mg, **values}) for text in expressions]

    return evaluated


@cache
def results(expressions: tuple[str, ...]) -> dict[str, Any]:
    """What each expression is on three devices."""
    given = arguments(expressions)
    rows = {f"values.{name}": mg.P("d") for name in given}
    executable = mg.compile(program(expressions), {"d": 3}, args=[given], in_specs=rows, target="cpu")
    return dict(zip(expressions, executable(given), strict=True))


def check(text: str, expressions: tuple[str, ...]) -> None:
    """Compare an expression on devices with NumPy: shapes, kinds of elements, and values to a few roundings of f32."""
    with np.errstate(all="ignore"):
        want = eval(text, {"xp": np, **ARGS})
    compare(results(expressions)[text], want)


def compare(got: Any, want: Any, roundings: int = 64) -> None:
    """Compare structures of arrays; the tolerance is a number of roundings of f32, relative to the largest element."""
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = list(got.values()), list(want.values())
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for ours, theirs in zip(got, want, strict=True):
            compare(ours, theirs, roundings)
        return
    want = np.asarray(want)
    assert (got.shape, got.dtype.kind) == (want.shape, want.dtype.kind), (got.dtype, want.dtype)
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(got, want, rtol=roundings * EPS, atol=roundings * EPS * scale)
