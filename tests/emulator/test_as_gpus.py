"""Tests of `make gpu` on emulated GPUs behind NVIDIA's bindings and library names. Needs gcc, cuda-bindings, Triton."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.runtime.emulation_options import Emulation
from tests.emulator.as_gpus import libraries
from tests.emulator.test_cuda_bindings import ROOT, has_bindings
from tests.runtime.cuda.steps import arguments, assert_same_bits
from tests.runtime.launchers import by_mpiexec, by_variables, needs_mpi

pytestmark = pytest.mark.skipif(
    not has_bindings() or not shutil.which("gcc") or platform.machine() != "x86_64",
    reason="needs cuda-bindings and gcc on x86-64",
)


def as_gpus(*words: str, **variables: str) -> str:
    """Run a module that sees 8 emulated GPUs as real ones, and return its output."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "tests.emulator.as_gpus", "8", "sm_90", *words]
    env = os.environ | {"PYTHONPATH": paths} | variables
    outcome = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_emulated_device_is_found() -> None:
    as_gpus("bench", "--check-device")


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables that make a process load the prebuilt libraries."""
    return libraries(tmp_path_factory.mktemp("libraries"))


# a selection that takes a few seconds; all tests of the files pass
CHOSEN = "complex or captured_step or networked_hosts or result_of_one_function"


def test_gpu_tests_pass_on_emulated_gpus(variables: dict[str, str]) -> None:
    """These files test real GPUs, which are here emulated GPUs presented as real ones."""
    files = [
        "tests/runtime/cuda/test_execute.py",
        "tests/runtime/test_session.py",
        "tests/runtime/cuda/test_real_gpus.py",
    ]
    words = ["pytest", "-n", "0", "-p", "no:cacheprovider", "-k", f"{CHOSEN} or test_real_gpus", *files]
    output = as_gpus(*words, MESHGEN_TEST_GPUS="real", MESHGEN_TEST_TARGET="cuda:sm_90", **variables)
    assert "8 passed" in output and "skipped" not in output, output


def test_bench_collectives_runs_on_emulated_gpus(variables: dict[str, str]) -> None:
    output = as_gpus("meshgen.cli", "bench", "collectives", "all_reduce", "all_to_all", "-b", "1K", "-e", "1K", "-n", "1", "-w", "1",
                   "-m", "1", "--format", "csv", **variables)  # fmt: skip
    rows = [line.split(",") for line in output.splitlines() if line.startswith("collectives,")]
    assert len(rows) == 2, output


SUMS = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<32x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<64x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  %1 = stablehlo.tanh %0 : tensor<64x48xf32>
  return %0, %1 : tensor<64x48xf32>, tensor<64x48xf32>
}
"""


@pytest.mark.parametrize("by", ["variables", pytest.param("mpiexec", marks=needs_mpi)])
def test_two_processes_with_one_gpu_each_match_one_process(
    by: str, tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL connects the two processes. Results are bitwise equal to those of one process with both ranks."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "sums.mlir").write_text(SUMS)
    mg.compile(tmp_path / "sums.mlir", target="cuda:sm_90").save(tmp_path / "sums.mgx")
    module = mg.load(tmp_path / "sums.mgx")
    inputs = arguments(module)
    np.savez(tmp_path / "given.npz", **inputs)
    files = ["--input", f"@{tmp_path / 'given.npz'}", "--output", str(tmp_path / "found.npz")]
    words = [sys.executable, "-m", "tests.emulator.as_gpus", "2", "sm_90", "meshgen.cli", "run", str(tmp_path / "sums.mgx"),
             "--device", "cuda", *files]  # fmt: skip
    if by == "variables":
        assert [(ended_rank.code, ended_rank.err) for ended_rank in by_variables(2, *words)] == [(0, "")] * 2
    else:
        ended = by_mpiexec(2, *words)
        assert ended.returncode == 0, ended.stderr
    with np.load(tmp_path / "found.npz") as results:
        assert_same_bits([*results.values()], module.run(inputs, Emulation("sm_90")))
