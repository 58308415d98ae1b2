"""Tests of the kernel campaign `check_programs`: it distinguishes correct kernels from wrong ones, and counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.emulator.faults import DeviceFault
from tests.emulator import check_programs, programs

pytest.importorskip("triton")
MLIR = Path(__file__).parents[1] / "data" / "mlir"
FILES = [str(MLIR / "b11_summa.mlir"), str(MLIR / "j02_axis_out_of_range.mlir")]


def run_campaign(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    monkeypatch.setattr("sys.argv", ["check_programs", "--archs", "sm_80", *FILES])
    code = check_programs.main()
    return code, capsys.readouterr().out.splitlines()


def test_campaign_counts_correct_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run_campaign(monkeypatch, capsys)
    assert code == 0 and lines[2].startswith("| b11_summa | sm_80 | 1 | 1 | ")
    assert lines[3].startswith("| j02_axis_out_of_range | sm_80 | no code: ")
    assert lines[4].startswith("2 programs, 1 without code; 1 kernels, 0 wrong, ")


def fails(*_: object, **__: object) -> None:
    raise DeviceFault("race", "two warps")


@pytest.mark.parametrize(
    ("change", "message"),
    [("excess", "wrong: 2 times what is allowed"), ("run", "error MG0608: race: two warps")],
)
def test_campaign_reports_wrong_kernels(
    change: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs.Case, change, fails if change == "run" else lambda *_: 2.0)
    code, lines = run_campaign(monkeypatch, capsys)
    assert code == 1 and any(line.startswith("b11_summa.mlir") and line.endswith(message) for line in lines)
    assert any(line.startswith("| b11_summa | sm_80 | 1 | 0 | ") for line in lines)
