"""What a step costs the host, on a driver that does nothing: `python -m bench host`."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from bench.host import KERNELS, measure_host
from tests.emulator.test_cuda_bindings import has_bindings

BUDGET_US = {"host step": 5, "host launch": 4}  # of a core to itself; tests share theirs


@pytest.mark.skipif(
    not has_bindings() or not shutil.which("gcc") or importlib.util.find_spec("triton") is None,
    reason="needs cuda-bindings, gcc and Triton",
)
def test_the_host_is_done_in_microseconds() -> None:
    rows = {row["what"]: row for row in measure_host()}
    assert rows.keys() == BUDGET_US.keys()
    for what, row in rows.items():
        assert row["launches"] == KERNELS
        assert row["least_us"] <= 2 * BUDGET_US[what], row
