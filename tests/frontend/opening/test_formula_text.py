"""Formulas of sizes that are parsed from texts."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.frontend.opening.formula_text import UnknownFormulaError, computed, solved, symbols_in

SRC = "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Symbol('s1', integer=True), Integer(-3))"


def test_formula_texts_of_exporters_are_parsed() -> None:
    assert symbols_in(SRC) == ["s0", "s1"] and symbols_in("past + new + 1") == ["past", "new"]
    assert computed(SRC, {"s0": 5, "s1": 2}.__getitem__) == 9
    assert computed("FloorDiv(Symbol('s0'), Integer(2))", {"s0": 5}.__getitem__) == 2
    for text in ("batch size", "unk-1 +", "f(x)", "__import__('os')", "x.0", "s0 +" * 500, "1 // 0"):
        with pytest.raises(UnknownFormulaError):
            symbols_in(text)


def test_symbol_is_solved_from_size() -> None:
    assert solved("2*s - 1", "s", 9) == 5
    assert solved("2*s - 1", "s", 8) is None and solved("s*0 + 4", "s", 4) is None


@pytest.mark.parametrize(
    "text", ["9**9**9**9", "2**64", "s*s*s*s", "Pow(Integer(7), Integer(99999999))", "Mul(s, s, s, s)", "(-2)**10**9"]
)
def test_formula_beyond_64_bits_is_rejected_before_evaluation(text: str) -> None:
    with pytest.raises(ProgramError, match=r"MG0108.*the size .* is too large: an integer has the magnitude"):
        computed(text, {"s": 1 << 40}.__getitem__)


@pytest.mark.parametrize("text", ["-" * 9000 + "s", "s" + "+s" * 20_000])
def test_formula_too_long_or_too_deep_is_unknown(text: str) -> None:
    with pytest.raises(UnknownFormulaError):
        computed(text, {"s": 1}.__getitem__)
