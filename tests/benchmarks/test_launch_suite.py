"""`meshgen bench launch`: the host time per step, on a driver whose functions do nothing."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from meshgen.benchmarks.launch import KERNELS
from meshgen.cli import main
from tests.emulator.test_cuda_bindings import has_bindings

# microseconds on an idle core; the test allows twice as much, because tests share cores
BUDGET_US = {"step": 5, "launch": 4}


@pytest.mark.skipif(
    not has_bindings() or not shutil.which("gcc") or importlib.util.find_spec("triton") is None,
    reason="needs cuda-bindings, gcc and Triton",
)
def test_host_time_per_step_is_within_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "launch", "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["records"]}
    assert rows.keys() == BUDGET_US.keys()
    for what, row in rows.items():
        assert row["launches"] == KERNELS
        assert row["least_us"] <= 2 * BUDGET_US[what], row
