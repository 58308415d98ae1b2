"""Whole modules with one rank per process over MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from tests.acceptance.cases import ROOT, needs_cases, small
from tests.ccl.test_mpi import launched, needs_mpi
from tests.runtime.test_control_flow import SUMS
from tests.sharding.meshes.meshes_programs import MESHES, TYPES, two_stages

pytestmark = needs_mpi


def agrees(executable: mg.Executable, path: Path, ranks: int) -> None:
    executable.save(path)
    done = launched(ranks, "-m", "tests.runtime.check_mpi", str(path))
    assert done.returncode == 0 and "equal bits" in done.stdout, done.stdout + done.stderr


def test_loops_that_communicate(tmp_path: Path) -> None:
    (tmp_path / "sums.mlir").write_text(SUMS)
    agrees(mg.compile(tmp_path / "sums.mlir", target="cpu"), tmp_path / "m.mgx", 4)


def test_several_meshes(tmp_path: Path) -> None:
    specs = {"x": mg.P("dp", mesh="a")}
    agrees(mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu"), tmp_path / "m.mgx", 7)


def test_messages(tmp_path: Path) -> None:
    program = ROOT / "tests" / "data" / "mlir" / "h14_send_recv.mlir"
    executable = mg.compile(program, target="cpu")
    agrees(executable, tmp_path / "m.mgx", executable.mesh.size)


@needs_cases
@pytest.mark.parametrize("name", ["block_dp_tp", "reshard_row_to_col"])
def test_programs_that_jax_lowered(name: str, tmp_path: Path) -> None:
    executable = mg.compile(small(name), target="cpu")
    agrees(executable, tmp_path / "m.mgx", executable.mesh.size)
