"""What `make gpu` runs, on emulated GPUs behind NVIDIA's bindings and the names of NVIDIA's libraries. Needs gcc, cuda-bindings and Triton."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

import pytest

from tests.emulator.test_cuda_bindings import ROOT, has_bindings

pytestmark = pytest.mark.skipif(
    not has_bindings() or not shutil.which("gcc") or platform.machine() != "x86_64",
    reason="needs cuda-bindings and gcc on x86-64",
)


def as_gpus(*words: str) -> str:
    """What a program prints that takes emulated GPUs for real ones."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "tests.emulator.as_gpus", "4", "sm_90", *words]
    outcome = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_the_tests_of_real_gpus_pass() -> None:
    as_gpus("bench", "--check-device")
    said = as_gpus(
        "pytest", "-m", "gpu", "-n", "0", "-v", "-p", "no:cacheprovider", "tests/runtime/cuda/test_real_gpus.py"
    )
    assert "2 passed" in said


def test_collectives_are_measured() -> None:
    said = as_gpus("meshgen.cli", "bench", "collectives", "all_reduce", "all_to_all", "-b", "1K", "-e", "1K", "-n", "1", "-w", "1",
                   "-m", "1", "--format", "csv")  # fmt: skip
    rows = [line.split(",") for line in said.splitlines() if line.startswith("collectives,")]
    assert len(rows) == 2, said
