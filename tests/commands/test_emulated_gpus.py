"""`meshgen run --device emulate`: execute entire modules on emulated GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen.cli import main
from tests.programs import mlp


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    (folder / "mlp.mlir").write_text(mlp())
    assert main(["compile", str(folder / "mlp.mlir"), "--target", "cuda:sm_80", "-o", str(folder / "mlp.mgx")]) == 0
    return folder / "mlp.mgx"


@pytest.mark.parametrize(
    "options", [[], ["--races"], ["--order", "7", "--races", "--arch", "sm_80"], ["--arch", "sm_90"]]
)
def test_emulated_module_matches_its_program(
    options: list[str], module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module has no sm_90 cubin, so the emulated driver compiles the sm_80 PTX."""
    program = str(module.with_suffix(".mlir"))
    code = main(["run", str(module), "--device", "emulate", *options, "--expect", program, "--json"])
    record = json.loads(capsys.readouterr().out)
    assert code == 0 and record["device"] == "emulate" and record["ranks"] == 4
    assert all(row["ok"] for row in record["compared"])


def test_emulated_results_do_not_depend_on_order(module: Path, tmp_path: Path) -> None:
    for order in ("0", "1"):
        output = str(tmp_path / f"{order}.npz")
        assert main(["run", str(module), "--device", "emulate", "--order", order, "--output", output]) == 0
    assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()


@pytest.mark.parametrize("options, code, number, reason", [
    (["--order", "3"], 2, "MG0001", "--order applies to the emulated GPU only"),
    (["--races"], 2, "MG0001", "--races applies to the emulated GPU only"),
    (["--device", "emulate", "--arch", "sm_75"], 5, "MG0602", "unknown architecture 'sm_75' of an emulated GPU"),
    (["--device", "emulate", "--order", "-1"], 2, "MG0001", "-1"),
])  # fmt: skip
def test_invalid_emulation_options_are_refused(options: list[str], code: int, number: str, reason: str, module: Path,
                         capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    assert main(["run", str(module), *options]) == code
    message = capsys.readouterr().err
    assert number in message and reason in message
