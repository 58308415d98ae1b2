"""Tests of the random-order campaign `check_orders`: it distinguishes correct programs from wrong ones."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from meshgen.emulator.faults import DeviceFault
from tests.runtime.cuda import check_orders
from tests.runtime.cuda.check_orders import results_of, verdict
from tests.runtime.cuda.test_execute import MLIR

SUMMA = MLIR / "b11_summa.mlir"


def options(**changes: Any) -> Namespace:
    return Namespace(**{"arch": "sm_90", "orders": 3, "ptx": False, "races": True, "time_limit": None} | changes)


def test_correct_program_gets_verdict_right() -> None:
    assert verdict(SUMMA, options()) == ("right", "4 ranks, the bits of the simulated ranks")


def test_shipped_ptx_gets_verdict_right() -> None:
    pytest.importorskip("triton")
    kind, description = verdict(SUMMA, options(ptx=True, orders=2))
    assert (
        kind == "right"
        and description.startswith("4 ranks, largest error 0")
        and description.endswith("of the stated bound")
    )


@pytest.mark.parametrize(
    "order, description", [(0, "other bits than the simulated ranks"), (2, "order 2 has other bits than order 0")]
)
def test_different_bits_get_verdict_wrong(order: int, description: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test changes the results of issue order `order`, or of all orders if `order` is 0."""

    def changed(module: Any, inputs: Any, number: int, options_: Namespace) -> Any:
        results = results_of(module, inputs, number, options_)
        return [array + 1 for array in results] if not order or number == order else results

    monkeypatch.setattr(check_orders, "results_of", changed)
    kind, reason = verdict(SUMMA, options())
    assert kind == "wrong" and reason.endswith(description)


def test_error_beyond_bound_gets_verdict_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(check_orders, "results_of", lambda *all: [array + 1 for array in results_of(*all)])
    kind, description = verdict(SUMMA, options(ptx=True, orders=1))
    assert kind == "wrong" and "differs by 1" in description


def test_verdict_names_rejected_unfinished_and_faulting_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(MLIR / "j02_axis_out_of_range.mlir", options())[0] == "refused"
    assert verdict(MLIR / "h25_dyn_grid.mlir", options())[0] == "refused"
    assert verdict(SUMMA, options(time_limit=1e-3))[0] == "unfinished"

    def fails(*_: Any) -> None:
        raise DeviceFault("race", "two kernels")

    monkeypatch.setattr(check_orders, "results_of", fails)
    assert verdict(SUMMA, options()) == ("at fault", "error MG0608: race: two kernels")


def test_campaign_prints_totals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    programs = [str(MLIR / name) for name in ("c08_swap.mlir", "j02_axis_out_of_range.mlir")]
    monkeypatch.setattr("sys.argv", ["check_orders", "--orders", "2", *programs])
    assert check_orders.main() == 0
    assert "2 programs at sm_90 in 2 orders: 1 refused, 1 right; " in capsys.readouterr().out
