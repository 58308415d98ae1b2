"""Tests that GPU memory is freed when a session ends."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import meshgen as mg
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.sessions.session import Session
from tests.runtime.test_session import TWO, WX, close, saved, w, x


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, few_objects: None) -> Api:
    """The API of emulated GPUs that interpret kernel bodies."""
    emulated_gpus = emulated(2, "sm_90")
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    monkeypatch.setattr("meshgen.runtime.sessions.session_devices._GPUS", {"emulate": lambda *_: emulated_gpus})
    return emulated_gpus


@pytest.fixture
def started(gpus: Api, tmp_path: Path) -> Callable[[], Session]:
    return lambda: mg.load(saved(tmp_path, TWO)).session("emulate", weights={"w": w})


def allocations(gpus: Api) -> int:
    gc.collect()
    assert gpus.machine
    return len(gpus.machine.memory.live)


def test_dropped_session_is_freed_with_its_last_result(gpus: Api, started: Callable[[], Session]) -> None:
    session = started()
    session["s"] = session.prefill(x)
    result = session.prefill(x)
    shard = result.shards[0]
    allocation_count = allocations(gpus)
    del session
    assert allocation_count and allocations(gpus) == allocation_count and close(result, WX)
    del result
    assert allocations(gpus) == allocation_count  # the last result still uses the memory of one rank
    del shard
    assert not allocations(gpus)


def test_session_close_frees_memory_after_failed_step(
    gpus: Api, started: Callable[[], Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is still running when `close` is called and fails."""

    def fails(steps: object) -> None:
        raise RuntimeFailure(Diagnostic("MG0604", "a step fails"))

    session = started()
    session.prefill(x)
    monkeypatch.setattr("meshgen.runtime.cuda.devices.GpuSteps.wait", fails)
    with pytest.raises(RuntimeFailure, match="a step fails"):
        session.close()
    assert not allocations(gpus)
