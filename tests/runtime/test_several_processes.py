"""Tests of modules with one process per rank: results are bitwise equal to those of all ranks in one process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from tests.acceptance.cases import ROOT, needs_cases, small
from tests.runtime.launchers import MESHGEN, by_mpiexec, by_variables, ended, needs_mpi, started
from tests.runtime.several_processes import TARGETS, outcome, run
from tests.runtime.test_control_flow import PER_DEVICE, SUMS
from tests.sharding.multi_mesh.meshes_programs import TYPES, two_stages

SPLIT = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
"""


def saved(folder: Path, text: str = SPLIT, **options) -> Path:
    (folder / "p.mlir").write_text(text)
    mg.compile(folder / "p.mlir", **{"target": "cpu"} | options).save(folder / "m.mgx")
    return folder / "m.mgx"


# Transports do not depend on devices, so one device suffices for each. `several_processes.py` runs all combinations.
PAIRS = [pytest.param("reference", "mpi", marks=needs_mpi), ("emulate", "sockets")]


@pytest.mark.parametrize(("device", "by"), PAIRS)
def test_loop_with_collectives_matches_one_process(device: str, by: str, tmp_path: Path) -> None:
    assert run(saved(tmp_path, SUMS, target=TARGETS[device]), 4, device, by) == "equal"


@pytest.mark.parametrize(("device", "by"), PAIRS)
def test_multi_mesh_program_matches_one_process(device: str, by: str, tmp_path: Path) -> None:
    specs, target, meshes = {"x": mg.P("dp", mesh="a")}, TARGETS[device], {"a": {"dp": 2}, "b": {"x": 3}}
    mg.compile(two_stages, meshes, args=TYPES, in_specs=specs, target=target).save(tmp_path / "m.mgx")
    assert run(tmp_path / "m.mgx", 5, device, by) == "equal"


def test_send_recv_program_matches_one_process(tmp_path: Path) -> None:
    """This covers messages between emulated GPUs. Transfers between meshes cover messages on the reference device."""
    executable = mg.compile(ROOT / "tests" / "data" / "mlir" / "h14_send_recv.mlir", target=TARGETS["emulate"])
    executable.save(tmp_path / "m.mgx")
    assert run(tmp_path / "m.mgx", executable.mesh.size, "emulate", "sockets") == "equal"


@needs_cases
@needs_mpi
def test_jax_program_matches_one_process(tmp_path: Path) -> None:
    run_outcome = outcome(small("block_dp_tp"), 4, "reference", "mpi", tmp_path)
    assert run_outcome is not None and run_outcome.verdict == "equal"


def test_only_rank_0_prints_output(tmp_path: Path) -> None:
    first, second = by_variables(2, *MESHGEN, "run", str(saved(tmp_path)), "--json")
    assert (first.code, second.code, second.out, second.err) == (0, 0, "", "")
    assert json.loads(first.out)["ranks"] == 2 and first.err == ""


def test_rank_0_compares_with_expected_results(tmp_path: Path) -> None:
    path = saved(tmp_path)
    codes = [
        ended_rank.code
        for ended_rank in by_variables(2, *MESHGEN, "run", str(path), "--expect", str(tmp_path / "p.mlir"))
    ]
    assert codes == [0, 0]
    np.savez(tmp_path / "wrong.npz", **{b.name: np.ones(4, np.float32) for b in mg.load(path).outputs})
    codes = [
        ended_rank.code
        for ended_rank in by_variables(2, *MESHGEN, "run", str(path), "--expect", str(tmp_path / "wrong.npz"))
    ]
    assert codes == [3, 0]


PROGRAM = """
import sys, numpy as np, meshgen as mg
module = mg.load(sys.argv[1])
for step in range(3):
    result = module(np.arange(32, dtype=np.float32).reshape(8, 4) + step)
print(result.tolist())
"""


def test_python_program_gets_results_on_every_rank(tmp_path: Path) -> None:
    outcomes = by_variables(2, sys.executable, "-c", PROGRAM, str(saved(tmp_path)))
    assert [ended_rank.out.strip() for ended_rank in outcomes] == ["[128.0, 136.0, 144.0, 152.0]"] * 2, outcomes


def test_different_modules_are_reported_on_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    text = SPLIT.replace('"x"=2', '"x"=4')
    one, other = saved(tmp_path, text), saved(tmp_path / "other", text.replace("stablehlo.add", "stablehlo.maximum"))
    outcomes = ended(started(4, *MESHGEN, "run", str(one), own={2: (*MESHGEN, "run", str(other))}))
    assert [ended_rank.code for ended_rank in outcomes] == [4] * 4
    for ended_rank in outcomes:
        assert "MG0610: the ranks run different modules: ranks 0, 1, 3: 'main' with digest" in ended_rank.err
        assert "; rank 2: 'main' with digest" in ended_rank.err


def test_different_devices_are_reported_on_all_ranks(tmp_path: Path) -> None:
    path = saved(tmp_path, target="cuda:sm_80")
    outcomes = ended(
        started(2, *MESHGEN, "run", str(path), own={1: (*MESHGEN, "run", str(path), "--device", "emulate")})
    )
    assert [ended_rank.code for ended_rank in outcomes] == [4, 4] and all(
        "MG0610" in ended_rank.err for ended_rank in outcomes
    )


def test_failure_of_one_rank_is_reported_by_others(tmp_path: Path) -> None:
    path = saved(tmp_path)
    outcomes = ended(started(2, *MESHGEN, "run", str(path), own={1: (*MESHGEN, "run", str(tmp_path / "missing.mgx"))}))
    assert [ended_rank.code for ended_rank in outcomes] == [4, 2]
    assert "MG0609" in outcomes[0].err and "rank 1 failed: MG0002" in outcomes[0].err


@pytest.mark.parametrize("device", ["reference", "emulate"])
def test_diverging_ranks_are_reported_by_all(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler proves that ranks agree on the condition. A module without this proof (a forged one) must not hang."""
    monkeypatch.setattr("meshgen.codegen.planner.require_agreement", lambda module: None)
    text = PER_DEVICE.replace("WHICH", "%mix")
    path = saved(tmp_path, text, target=TARGETS[device])
    np.save(tmp_path / "in.npy", np.float32([1, 1, 2, 2, 1, 1, 40, 40]))
    name = mg.load(path).input_names[0]
    words = (*MESHGEN, "run", str(path), "--device", device, "--input", f"{name}=@{tmp_path / 'in.npy'}")
    outcomes = by_variables(4, *words)
    assert [ended_rank.code for ended_rank in outcomes] == [4] * 4
    assert all(
        "MG0604: 'while' holds collectives" in ended_rank.err and "[1, 1, 1, 0]" in ended_rank.err
        for ended_rank in outcomes
    ), outcomes


@needs_mpi
def test_mpiexec_returns_exit_code_of_failure(tmp_path: Path) -> None:
    done = by_mpiexec(2, *MESHGEN, "run", str(saved(tmp_path)), "--input", "@missing.npy")
    assert done.returncode == 2 and done.stderr.count("error MG0002") == 2


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torchrun is part of torch")
@pytest.mark.parametrize("device", ["reference", "emulate"])
def test_torchrun_starts_module(device: str, tmp_path: Path) -> None:
    words = ("--nproc-per-node", "2", "-m", "meshgen", "run", str(saved(tmp_path, target="cuda:sm_80")), "--json")
    command = (sys.executable, "-m", "torch.distributed.run", *words, "--device", device)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["ranks"] == 2, done.stderr
