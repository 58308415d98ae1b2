"""Formulas of sizes: found from numbers, read from texts."""

from __future__ import annotations

import pytest

from meshgen.frontend.opening.formulas import UnknownFormulaError, computed, fitted, points_of, solved, symbols_in

SRC = "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Symbol('s1', integer=True), Integer(-3))"


@pytest.mark.parametrize(
    "text", ["12", "s", "3*s - 1", "s*t", "4*s*t + 2", "s*s", "s + t", "2*s + 3*t - 7", "s*t + s", "s*s*t", "s + t + u", "s*t*u + 1"]
)  # fmt: skip
def test_a_formula_is_found_from_its_numbers(text: str) -> None:
    points = points_of(dict.fromkeys("stu", (0, None)))
    assert points is not None
    formula = fitted([computed(text, point.__getitem__) for point in points], points)
    assert formula is not None
    other = {"s": 5, "t": 11, "u": 4}
    assert formula.at(other) == computed(text, other.__getitem__)


@pytest.mark.parametrize("text", ["s//2", "(s + 1)//2", "s % 3", "s*s*s*s"])
def test_other_functions_have_no_formula(text: str) -> None:
    points = points_of({"s": (0, None)})
    assert points is not None
    assert fitted([computed(text, point.__getitem__) for point in points], points) is None


@pytest.mark.parametrize(("low", "high"), [(0, None), (2, 512), (1, 8), (1000, 2000), (0, 23)])
def test_points_are_inside_of_the_range_and_differ(low: int, high: int | None) -> None:
    points = points_of({"s": (low, high), "t": (0, None)})
    assert points is not None and len({point["s"] for point in points}) == len(points)
    assert all(max(low, 2) <= point["s"] <= (high or point["s"]) for point in points)
    assert not {point["s"] for point in points} & {point["t"] for point in points}


def test_a_range_may_have_too_few_numbers() -> None:
    assert points_of({"s": (1, 5)}) is None


def test_texts_of_exporters_are_read() -> None:
    assert symbols_in(SRC) == ["s0", "s1"] and symbols_in("past + new + 1") == ["past", "new"]
    assert computed(SRC, {"s0": 5, "s1": 2}.__getitem__) == 9
    assert computed("FloorDiv(Symbol('s0'), Integer(2))", {"s0": 5}.__getitem__) == 2
    for text in ("batch size", "unk-1 +", "f(x)", "__import__('os')", "x.0", "s0 +" * 500, "1 // 0"):
        with pytest.raises(UnknownFormulaError):
            symbols_in(text)


def test_a_symbol_follows_from_a_size() -> None:
    assert solved("2*s - 1", "s", 9) == 5
    assert solved("2*s - 1", "s", 8) is None and solved("s*0 + 4", "s", 4) is None
