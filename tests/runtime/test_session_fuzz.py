"""Test a few trials of `session_fuzz.py` on the host and on emulated GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.runtime.emulation_options import Emulation
from tests.runtime.session_fuzz import run_trial


@pytest.mark.parametrize("seed", range(12))
def test_random_session_matches_calls(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    kinds = [run_trial(seed, tmp_path / "m.mgx", device) for device in ("reference", Emulation(arch="sm_80", order=1))]
    assert kinds[0] == kinds[1]
