"""Tests of symbolic sizes: arithmetic computes the number and the expression together."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from meshgen.ir.symbols import Dim, Expr, names_in

CASES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "sum": (lambda a, b: a + b + 3, "a + b + 3"),
    "same": (lambda a, b: a + a, "2*a"),
    "product": (lambda a, b: 4 * a * b, "4*a*b"),
    "difference": (lambda a, b: 2 * a - a - 5, "a - 5"),
    "none left": (lambda a, b: a - a, "0"),
    "exact": (lambda a, b: a * b * 8 // (4 * b), "2*a"),
    "rounded": (lambda a, b: (a + 1) // 3, "floor((a + 1)/3)"),
    "ceiling": (lambda a, b: -(-a // 4), "ceil(a/4)"),
    "ceiling of a ceiling": (lambda a, b: -((0 - -(-a // 4)) // b), "ceil(a/(4*b))"),
    "product of ceilings": (lambda a, b: -(-a // 4) * -(-8 // b) * 2, "2*ceil(8/b)*ceil(a/4)"),
    "sum below a ceiling": (lambda a, b: -(-(a + b + 3) // 4) - 1, "ceil((a + b + 3)/4) - 1"),
    "common factor": (lambda a, b: -(-12 * a // (8 * b)), "ceil(3*a/(2*b))"),
    "partly exact": (lambda a, b: (a * b + 7) // b, "a + floor(7/b)"),
    "from a number": (lambda a, b: 100 // b + 7 * b - 1, "7*b + floor(100/b) - 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_dim_arithmetic_keeps_number_and_expression_equal(name: str) -> None:
    compute, text = CASES[name]
    size = compute(Dim.named("a", 10), Dim.named("b", 6))
    assert int(size) == compute(10, 6) and str(Expr.of(size)) == text
    for a, b in itertools.product((1, 7, 12), (1, 3, 8)):
        assert Expr.of(size).at({"a": a, "b": b}) == compute(a, b)


def test_dim_behaves_like_a_plain_integer() -> None:
    size = Dim.named("a", 10)
    assert (size, 10) == (10, size) and hash(size) == hash(10) and str(size) == "10" and size == copy.deepcopy(size)
    assert str(copy.deepcopy(size).expr) == "a"
    assert Expr.of(7).number == 7 and Expr.of(size).number is None and Expr.of(size - size).number == 0
    assert list(names_in((size + 3) // Dim.named("b", 2))) == ["a", "b"]
    assert size / 4 == 2.5 and [0] * size == [0] * 10
