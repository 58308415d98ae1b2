"""Tests of the executor on NVIDIA's cuda-bindings: every call, its argument types and the packing of launch parameters.

Behind the bindings is a `libcuda.so.1` that wraps the emulated driver. Needs gcc, cuda-bindings and Triton.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import meshgen as mg
from tests.emulator.libcuda import build
from tests.programs import mlp

ROOT = Path(__file__).parents[2]


def has_bindings() -> bool:
    return importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


@pytest.mark.skipif(not has_bindings() or not shutil.which("gcc"), reason="needs cuda-bindings and gcc")
def test_module_runs_on_nvidia_bindings(tmp_path: Path) -> None:
    file = tmp_path / "mlp.mlir"
    file.write_text(mlp(x=("", "x"), w1=("x", "y"), w2=("y", "x"), y=("x", "")))
    mg.compile(file, target="cuda:sm_80", precision="highest").save(tmp_path / "mlp.mgx")
    library = build(tmp_path)
    command = [sys.executable, "-m", "tests.emulator.on_cuda_bindings", str(tmp_path / "mlp.mgx"), str(library)]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": paths}
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stderr
    counts = dict(line.split() for line in outcome.stdout.splitlines() if line.startswith("cu"))
    assert counts["cuGraphInstantiate"] == counts["cuGraphExecUpdate"] == "1"
    assert counts["cuGraphLaunch"] == "3"  # one per step, for all four ranks
    assert int(counts["cuLaunchKernel"]) >= 16 and int(counts["cuMemcpyHtoD"]) == 36
    assert "('Emulated A100', (8, 0)): Timing(warm=0.0, cold=0.0)" in outcome.stdout  # emulated work takes no time
    assert "cuMemAlloc failed with 201: CUDA_ERROR_INVALID_CONTEXT, invalid device context" in outcome.stdout
