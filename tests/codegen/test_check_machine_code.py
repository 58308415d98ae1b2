"""Tests of the `check_machine_code` script: it accepts kernels assembled from their PTX and detects others."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from tests.programs import mlp

pytest.importorskip("triton")
check = pytest.importorskip("tests.codegen.check_machine_code")
DATA = Path(__file__).parents[1] / "data" / "mlir"


def programs(folder: Path) -> list[Path]:
    """Write programs with plain GEMMs, GEMMs with epilogues, and element-wise kernels."""
    (folder / "mlp.mlir").write_text(mlp(y=("x", "y")))
    return [folder / "mlp.mlir", DATA / "a06_mlp_sequence_parallel.mlir", DATA / "b11_summa.mlir"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[mg.LoadedModule]:
    return [check.compiled(file, "cuda:sm_80,sm_90") for file in programs(tmp_path_factory.mktemp("machine_code"))]


def test_shipped_cubins_are_assembled_from_shipped_ptx(modules: list[mg.LoadedModule]) -> None:
    comparisons = [
        dict(check.comparisons(module.manifest.kernels, module.parts[0].loaded.member)) for module in modules
    ]
    assert all(result and all(result.values()) for result in comparisons), comparisons
    assert {name.split("/")[1] for result in comparisons for name in result} == {"sm_80", "sm_90"}


@pytest.mark.parametrize(("old", "new"), [(b"ld.global", b"ld.volatile.global"), (b".version", b".aversion")])
def test_cubin_that_differs_from_its_ptx_is_detected(old: bytes, new: bytes, modules: list[mg.LoadedModule]) -> None:
    """Check a cubin stored with another PTX text: one that has other semantics, and one that is invalid."""
    module = modules[0]
    member = module.parts[0].loaded.member
    comparisons = check.comparisons(module.manifest.kernels, lambda name: member(name).replace(old, new))
    assert not all(is_same for _, is_same in comparisons)
