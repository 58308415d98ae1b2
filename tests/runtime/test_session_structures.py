"""Tests of sessions on trees of arrays. State is set once, and a step takes and returns only the remaining values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError
from meshgen.runtime.sessions.session import Session

X, Y, Z = (np.arange(1, 5, dtype=np.float32) * k for k in (1, 10, 100))
F = "f32[4]"


class State(NamedTuple):
    w: Any
    moments: Any


def step(state: State, scale: Any, batch: dict[str, Any], rate: Any) -> tuple[State, dict[str, Any]]:
    w = state.w * scale["s"] - rate * batch["x"]
    return State(w, {"m": state.moments["m"] + batch["y"]}), {"sum": w.sum(), "w": w}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    args = [State(F, {"m": F}), {"s": F}, {"y": F, "x": F}, "f32[]"]
    mg.compile(step, {"d": 2}, args=args, donate={"state": 0}, target="cpu").save(tmp_path / "m.mgx")
    return tmp_path / "m.mgx"


def session_of(path: Path) -> Session:
    return mg.load(path).session(weights={"state": State(X, {"m": Y}), "scale": {"s": np.ones(4, np.float32)}})


def test_session_step_takes_and_returns_structures(path: Path) -> None:
    with session_of(path) as session:
        for count in (1, 2):
            results = session({"x": Z, "y": X}, 0.5)
            assert [*results] == ["sum", "w"]  # the donated state is not among the results
            np.testing.assert_array_equal(np.asarray(results["w"]), X - count * Z / 2)
        state = session["state"]
        assert isinstance(state, State)
        np.testing.assert_array_equal(state.moments["m"], Y + 2 * X)
        np.testing.assert_array_equal(session["state.w"], X - Z)
        session["state"] = State(Y, {"m": X})
        results = session(batch={"y": X, "x": results["w"]}, rate=1)  # a result of an earlier step is an argument
        np.testing.assert_array_equal(np.asarray(results["w"]), Y - (X - Z))
        results = session({"x": Z, "y": X}, 0, scale={"s": 2 * X})  # this step also replaces a weight
        np.testing.assert_array_equal(np.asarray(results["w"]), (Y - (X - Z)) * 2 * X)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda s: s({"x": Z}, 0.5), "'batch.y' is missing"),
        (lambda s: s({"x": Z, "y": X[:2]}, 0.5), "'batch.y' has type f32[2], but the program takes f32[4]"),
        (lambda s: s({"x": Z, "y": X}, 2j), "'rate' is the complex 2j"),
        (lambda s: s(State(X, {"m": Y}), {"x": Z, "y": X}, 0.5), "3 arguments were given by position, but the program takes 2: batch, rate"),
        (lambda s: s.__setitem__("state", State(X, {})), "'state.moments.m' is missing"),
        (lambda s: s.__setitem__("state", X), "'state' is an array, but the program takes a structure with w, moments"),
    ],
)  # fmt: skip
def test_mismatched_leaf_is_reported_by_tree_path(path: Path, call: Any, text: str) -> None:
    with session_of(path) as session, pytest.raises(ArgumentError, match=f"MG0601: .*{re.escape(text)}"):
        call(session)


def test_single_remaining_result_of_tuple_is_returned_bare(tmp_path: Path) -> None:
    executable = mg.compile(lambda w, x: ((w + x).sum(), w + x), {"d": 2}, args=[F, F], donate={"w": 1}, target="cpu")
    executable.save(tmp_path / "m.mgx")
    with mg.load(tmp_path / "m.mgx").session(weights={"w": X}) as session:
        assert float(np.asarray(session(Y))) == (X + Y).sum()
        np.testing.assert_array_equal(session["w"], X + Y)
