"""Tests of session results, which own their bytes even if they are views of the state, and of calls from threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import UsageError
from meshgen.runtime.sessions.session import Session
from tests.runtime.test_session import device as device

ONES = np.ones((8, 4), np.float32)


def views(state: Any, x: Any) -> Any:
    """Return the new state. Also return the old state, views of it and the argument `x`, as other results."""
    old = state["w"]
    new = {"n": state["n"] + 1, "w": old * 0.5 + x}
    return new, {"n": state["n"], "w": old, "row": old[0], "rows": old[2:4], "flat": old.reshape(32), "axis": old[None], "x": x, "next": new["w"][0]}  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("views") / "m.mgx"
    args = [{"n": "i32[]", "w": "f32[8,4]"}, "f32[8,4]"]
    specs = {"state.w": mg.P("d"), "x": mg.P("d")}
    mg.compile(views, {"d": 2}, args=args, in_specs=specs, donate={"state": 0}, target="cpu").save(path)
    return mg.load(path)


@pytest.fixture
def session(module: Any, device: Any) -> Iterator[Session]:
    with module.session(device) as open_session:
        open_session["state"] = {"n": np.int32(0), "w": ONES}
        yield open_session


def test_results_that_view_state_have_its_old_value(session: Session) -> None:
    n, w = np.int32(0), ONES
    for count in range(3):
        x = np.full((8, 4), count, np.float32)
        results = {name: np.asarray(value) for name, value in session(x).items()}
        expected = {"n": n, "w": w, "row": w[0], "rows": w[2:4], "flat": w.reshape(32), "axis": w[None], "x": x}
        n, w = n + 1, w * 0.5 + x
        for name, value in (expected | {"next": w[0]}).items():
            np.testing.assert_array_equal(results[name], value, err_msg=name)


def test_results_survive_assignment_of_state(session: Session) -> None:
    results = session(ONES)
    session["state"] = {"n": np.int32(9), "w": 7 * ONES}
    np.testing.assert_array_equal(np.asarray(results["next"]), 1.5 * ONES[0])
    np.testing.assert_array_equal(np.asarray(results["w"]), ONES)


def test_threads_get_results_of_their_own_calls(session: Session) -> None:
    def call(number: int) -> bool:
        results = session(np.full((8, 4), number, np.float32))
        return bool((np.asarray(results["x"]) == number).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(64)))
    assert session["state"]["n"] == 64


def test_asyncio_tasks_get_results_of_their_own_calls(session: Session) -> None:
    async def call(number: int) -> bool:
        results = await asyncio.to_thread(session, np.full((8, 4), number, np.float32))
        await asyncio.sleep(0)
        return bool((np.asarray(results["x"]) == number).all())

    async def calls() -> list[bool]:
        return await asyncio.gather(*map(call, range(16)))

    assert all(asyncio.run(calls()))


def test_modules_without_session_are_reentrant(module: Any) -> None:
    def call(number: int) -> bool:
        x = np.full((8, 4), number, np.float32)
        return bool((module({"n": np.int32(0), "w": ONES}, x)[1]["x"] == x).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(32)))


# --- layouts ------------------------------------------------------------------------------------------------------------


def test_state_with_two_layouts_is_resharded_after_step(device: Any, tmp_path: Path) -> None:
    """The compiler warns (MG0111). The next step reads the state in the layout of the argument."""
    exe = mg.compile(lambda w, x: (w + x, (w * x).sum()), {"d": 2}, args=["f32[8,4]"] * 2, in_specs={"w": mg.P("d")}, out_specs={"result.0": mg.P(None, "d")}, donate={"w": 0}, target="cpu")  # fmt: skip
    assert [warning.code for warning in exe.warnings] == ["MG0111"]
    exe.save(tmp_path / "m.mgx")
    with mg.load(tmp_path / "m.mgx").session(device) as session:
        session["w"] = ONES
        assert [float(np.asarray(session(ONES))) for _ in range(3)] == [32, 64, 96]
        np.testing.assert_array_equal(session["w"], 4 * ONES)


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_assignment_of_step_argument_is_rejected(module: Any) -> None:
    message = r"(?s)MG0001: 'x' is passed at each step.*keeps state.n, state.w"
    with module.session() as session, pytest.raises(UsageError, match=message):
        session["x"] = ONES
