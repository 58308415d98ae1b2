"""Tests of calls of loaded modules: arguments by position and name, devices, and meshgen's diagnostics for bad calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import budget
from meshgen.errors import MeshgenError, MissingError, RuntimeFailure, UsageError
from meshgen.runtime import memory_estimate as footprint
from meshgen.runtime.sizes import LAUNCHERS
from tests.runtime.module_kinds import OPEN

X = np.arange(4, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    mg.compile(lambda x, w: x - w, {"a": 2}, args=["f32[4]", "f32[4]"], target="cpu").save(tmp_path / "m.mgx")
    return tmp_path / "m.mgx"


def test_module_arguments_may_be_named(path: Path) -> None:
    module = mg.load(path)
    for result in (module(X, 2 * X), module(X, w=2 * X), module(w=2 * X, x=X), module.run({"w": 2 * X, "x": X})[0]):
        np.testing.assert_array_equal(result, -X)


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a name twice": (lambda m: m(X, X, w=X), "MG0601.*'w' is given twice"),
    "an unknown name": (lambda m: m(X, X, v=X), "MG0601.*unknown argument 'v'"),
    "rows of several lengths": (
        lambda m: m([[1], [1, 2]], X),
        "MG0601.*'x' is a list that cannot be converted to an array",
    ),
    "a mask": (lambda m: m(np.ma.masked_array(X, mask=[1, 0, 0, 0]), X), "MG0601.*'x' is a masked array"),
    "no arguments": (lambda m: m.run(5), "MG0601.*arguments must be a list or a dict, got int"),
    "too many arguments": (lambda m: m(X, X, X), "MG0601.*3 arguments were given"),
    "an unknown kernel": (lambda m: m.source("nope"), "MG0001.*unknown kernel 'nope'"),
    "the binary of an unknown kernel": (lambda m: m.cubin("nope", "sm_90"), "MG0001.*unknown kernel 'nope'"),
    "a size for a shape": (
        lambda m: m.at(args={"x": 5}),
        "MG0601.*shape of argument 'x' must be a sequence of sizes, got 5",
    ),
    "shapes without names": (lambda m: m.at(args=[(4,)]), "MG0601.*shapes must be a dict by name of input"),
}


@pytest.mark.parametrize("name", CALLS)
def test_bad_call_is_rejected_with_diagnostic_code(name: str, path: Path) -> None:
    call, message = CALLS[name]
    with pytest.raises(MeshgenError, match=message):
        call(mg.load(path))


def test_bad_call_is_located_at_caller_line(path: Path) -> None:
    for call in (lambda m: m(X), lambda m: m.run([X]), lambda m: m.explain("nope"), lambda m: m.report(None)):
        with pytest.raises(MeshgenError, match=rf"{Path(__file__).name}:\d+: error MG"):
            call(mg.load(path))


@pytest.mark.parametrize(
    "devices, error, message",
    [(3, MissingError, "MG0603.*for 2 devices.*3 are requested"), (0, MissingError, "MG0603"), (-1, MissingError, "MG0603"),
     ("2", UsageError, "MG0001.*devices must be a positive integer, got '2'"), (2.0, UsageError, "MG0001"), (True, UsageError, "MG0001")],
)  # fmt: skip
def test_wrong_device_count_is_rejected(devices: Any, error: type[MeshgenError], message: str, path: Path) -> None:
    with pytest.raises(error, match=message):
        mg.load(path, devices=devices)
    assert mg.load(path, devices=2).ranks == 2
    mg.compile(OPEN, {"a": None}, target="cpu").save(path)
    if error is UsageError:
        with pytest.raises(error, match=message):
            mg.load(path, devices=devices)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_wrong_process_count_is_rejected(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in LAUNCHERS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "3")
    with pytest.raises(MissingError, match=r"MG0603.*3 processes were started by a launcher"):
        mg.load(path)
    assert mg.load(path, devices=2).ranks == 2  # an explicit argument overrides the environment
    monkeypatch.setenv(name, "1")  # one process simulates all devices
    assert mg.load(path).ranks == 2


@pytest.mark.parametrize("weights", [5, [X], {"w": None}, {"w": [[1], [1, 2]]}, {"w": [1.0] * 4}, {"v": X}], ids=str)
def test_bad_weights_are_rejected_with_diagnostic_code(weights: Any, tmp_path: Path) -> None:
    executable = mg.compile(lambda x, w: x - w, {"a": 2}, args=["f32[4]", "f32[4]"], target="cpu")
    open_executable = mg.compile(
        "func.func @main(%w: tensor<?xf32>) -> tensor<?xf32> {\n return %w : tensor<?xf32>\n}", {"a": 2}, target="cpu"
    )
    for program in (executable, open_executable):
        with pytest.raises(MeshgenError, match="MG0601"):
            program.save(tmp_path / "m.mgx", weights=weights)
    assert not (tmp_path / "m.mgx").exists()


def test_name_with_control_characters_is_not_saved(tmp_path: Path) -> None:
    executable = mg.compile(lambda p: p["a\x1b[2J"] + 1.0, {"a": 2}, args=[{"a\x1b[2J": "f32[4]"}], target="cpu")
    with pytest.raises(MeshgenError, match=r"MG0504.*\\x1b.*control characters") as caught:
        executable.save(tmp_path / "m.mgx")
    assert "\x1b" not in str(caught.value)


def test_step_larger_than_memory_is_rejected_before_allocation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mg.load(path)
    need = footprint.step_bytes(module.manifest, module.ranks)
    monkeypatch.setattr(footprint, "free_bytes", lambda: need - 1)
    with pytest.raises(RuntimeFailure, match=rf"MG0604.*about {need:,} B"):
        module(X, X)
    monkeypatch.setattr(footprint, "free_bytes", lambda: need)
    np.testing.assert_array_equal(module(X, X), 0 * X)


def test_file_larger_than_memory_is_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda: 100)
    with pytest.raises(UsageError, match=r"MG0002.*its content takes .* of memory, but 100 B are free"):
        mg.load(path)
