"""Formulas of sizes that are fitted to samples."""

from __future__ import annotations

import pytest

from meshgen.frontend.opening.fitting import Formulas
from meshgen.frontend.opening.formula_text import computed
from meshgen.frontend.opening.points import Ranges, far_fitting_point, fitting_points, quotient_points
from meshgen.ir.symbols import Expr

OPEN: Ranges = {"s": (0, None)}


def formulas(ranges: Ranges, *, rounds: bool = False) -> Formulas:
    points = fitting_points(ranges)
    assert points is not None
    return Formulas([*points, far_fitting_point(ranges), *(quotient_points(ranges) if rounds else ())], rounds=rounds)


def fit_formula(formulas: Formulas, text: str) -> Expr | None:
    return formulas.of([computed(text, point.__getitem__) for point in formulas.points])


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize(
    "text", ["12", "s", "3*s - 1", "s*t", "4*s*t + 2", "s*s", "s + t", "2*s + 3*t - 7", "s*t + s", "s*s*t", "s + t + u", "s*t*u + 1"]
)  # fmt: skip
def test_formula_is_fitted_to_samples(text: str, rounds: bool) -> None:
    formula = fit_formula(formulas(dict.fromkeys("stu", (0, None)), rounds=rounds), text)
    assert formula is not None
    sizes = {"s": 5, "t": 11, "u": 4}
    assert formula.at(sizes) == computed(text, sizes.__getitem__)


@pytest.mark.parametrize(
    "text",
    ["s//2", "(s + 1)//2", "s % 3", "s*s*s*s", "s//2*2", "s + s % 2", "(s + 63)//64*64", "(s + 511)//512*512", "-s % 8"],
)  # fmt: skip
def test_unsupported_function_is_not_fitted(text: str) -> None:
    assert fit_formula(formulas({**OPEN, "t": (0, None)}), text) is None


@pytest.mark.parametrize("high", [None, 512, 40, 12, 9])
@pytest.mark.parametrize("text", ["s//2", "(s + 1)//2*3", "s//2*2", "s - s//2 + 1", "s % 3", "-s % 8", "(s + 2)//16"])
def test_quotient_is_fitted_to_samples_of_all_remainders(text: str, high: int | None) -> None:
    """If a range has too few sizes, there may be no formula."""
    formula = fit_formula(formulas({"s": (2, high)}, rounds=True), text)
    assert formula is not None or (high or 512) <= 40
    for n in range(2, 1 + (high or 300)):
        assert formula is None or formula.at({"s": n}) == computed(text, {"s": n}.__getitem__)


def test_fitted_sizes_become_factors_of_later_formulas() -> None:
    fitted = formulas({"s": (0, None), "t": (0, None)}, rounds=True)
    half, third = "((s - 3)//2 + 1)", "((t + 1)//3)"
    for text in (half, third, f"{half}*{third}", f"({half} + 1)//2", f"({half} - 3)//2 + 1"):
        formula = fit_formula(fitted, text)
        assert formula is not None, text
        for s in range(5, 90):
            sizes = {"s": s, "t": 2 * s + s % 7}
            assert formula.at(sizes) == computed(text, sizes.__getitem__)


@pytest.mark.parametrize("text", ["(s + 63)//64*64", "s*s*s*s", *(f"(s + {n % 5})//{n}" for n in range(17, 49))])
def test_formula_beyond_sampled_remainders_is_not_fitted(text: str) -> None:
    assert fit_formula(formulas(OPEN, rounds=True), text) is None
