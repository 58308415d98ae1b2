"""All kernels of a few programs are the machine code of the PTX beside them, and others would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from tests.programs import mlp

pytest.importorskip("triton")
check = pytest.importorskip("tests.codegen.check_machine_code")
DATA = Path(__file__).parents[1] / "data" / "mlir"


def programs(folder: Path) -> list[Path]:
    """Products with and without an epilogue, and element by element."""
    (folder / "mlp.mlir").write_text(mlp(y=("x", "y")))
    return [folder / "mlp.mlir", DATA / "a06_mlp_sequence_parallel.mlir", DATA / "b11_summa.mlir"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[mg.LoadedModule]:
    return [check.compiled(file, "cuda:sm_80,sm_90") for file in programs(tmp_path_factory.mktemp("machine_code"))]


def test_the_shipped_machine_code_is_that_of_the_shipped_text(modules: list[mg.LoadedModule]) -> None:
    found = [dict(check.comparisons(module.manifest.kernels, module.parts[0].loaded.member)) for module in modules]
    assert all(each and all(each.values()) for each in found), found
    assert {name.split("/")[1] for each in found for name in each} == {"sm_80", "sm_90"}


@pytest.mark.parametrize(("was", "now"), [(b"ld.global", b"ld.volatile.global"), (b".version", b".aversion")])
def test_another_text_is_seen(was: bytes, now: bytes, modules: list[mg.LoadedModule]) -> None:
    """One that has another meaning, and one that is no PTX."""
    module = modules[0]
    member = module.parts[0].loaded.member
    found = check.comparisons(module.manifest.kernels, lambda name: member(name).replace(was, now))
    assert not all(is_same for _, is_same in found)
