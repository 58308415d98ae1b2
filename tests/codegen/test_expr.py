"""Tests of index expressions: simplification preserves values, also on a GPU, and reshape chains cancel."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from meshgen.codegen.expr import (
    Expr,
    bounds,
    constant,
    delinearize,
    evaluate,
    linearize,
    render,
    substitute,
    variable,
    variables,
)  # fmt: skip

SIZES = {"a": 3, "b": 4, "c": 6}


def random_expr(rng: np.random.Generator, depth: int) -> Expr:
    if depth == 0:
        name = str(rng.choice(list(SIZES)))
        return variable(name, SIZES[name]) if rng.random() < 0.8 else constant(int(rng.integers(-5, 9)))
    left = random_expr(rng, depth - 1)
    match int(rng.integers(5)):
        case 0:
            return left + random_expr(rng, depth - 1)
        case 1:
            return left * int(rng.choice([-2, 1, 2, 3, 4, 6, 8, 12]))
        case 2:
            return left // int(rng.choice([1, 2, 3, 4, 6, 8, 12]))
        case 3:
            return left % int(rng.choice([1, 2, 3, 4, 6, 8, 12]))
        case _:
            return left - random_expr(rng, depth - 1)


def python_value(expr: Expr, point: dict[str, int]) -> int:
    """Return the value of the rendered source."""
    return eval(render(expr), {}, dict(point))


@pytest.mark.parametrize("seed", range(40))
def test_simplified_expressions_keep_their_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        left, right = random_expr(rng, 3), random_expr(rng, 2)
        divisor = int(rng.choice([2, 3, 4, 6, 8]))
        total, quotient, remainder = left + right * divisor, (left + right) // divisor, (left + right) % divisor
        for point in itertools.product(*(range(s) for s in SIZES.values())):
            values = dict(zip(SIZES, point, strict=True))
            a, b = evaluate(left, values), evaluate(right, values)
            assert evaluate(total, values) == a + b * divisor
            assert evaluate(quotient, values) == (a + b) // divisor
            assert evaluate(remainder, values) == (a + b) % divisor
            assert python_value(remainder, values) == (a + b) % divisor
            assert bounds(total)[0] <= a + b * divisor <= bounds(total)[1]


def device_value(text: str, point: Mapping[str, int]) -> int:
    """Return the value of the source on a GPU: 32-bit wraparound, and `//` and `%` that truncate toward zero."""

    def visit(node: ast.expr) -> int:
        match node:
            case ast.Constant(int(value)):
                return wrapped(value)
            case ast.Name(name):
                return point[name]
            case ast.UnaryOp(ast.USub(), operand):
                return wrapped(-visit(operand))
            case ast.BinOp(left, op, right):
                a, b = visit(left), visit(right)
                quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1) if b else 0
                table = {
                    ast.Add: a + b,
                    ast.Sub: a - b,
                    ast.Mult: a * b,
                    ast.FloorDiv: quotient,
                    ast.Mod: a - quotient * b,
                }
                return wrapped(table[type(op)])
            case _:
                raise AssertionError(ast.dump(node))

    return visit(ast.parse(text, mode="eval").body)


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("seed", range(40))
def test_rendered_expression_has_the_same_value_on_a_gpu(seed: int) -> None:
    """Check deep expressions of every sign at every point. Python rounds down, a GPU truncates toward zero."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(6):
        expr, divisor = random_expr(rng, int(rng.integers(2, 5))), int(rng.integers(2, 9))
        negated = constant(int(rng.integers(-20, 20))) - expr * int(rng.integers(1, 4))
        for variant in (
            expr,
            negated,
            expr // divisor,
            negated // divisor,
            negated % divisor,
            (negated // divisor) % 3,
            (negated % divisor) // 2,
        ):
            text = render(variant)
            for point in itertools.product(*(range(s) for s in SIZES.values())):
                values = dict(zip(SIZES, point, strict=True))
                assert device_value(text, values) == evaluate(variant, values), text


def test_negative_dividends_are_shifted_to_non_negative() -> None:
    x = variable("x", 15)
    assert str((constant(2) - x) // 3) == "((-x + 14) // 3) - 4"
    assert str((constant(2) - x) % 3) == "(-x + 14) % 3"
    assert str((x * 2 + 1) // 3) == "(x * 2 + 1) // 3"  # x * 2 + 1 is never negative, so it needs no shift
    # Adding a multiple of the divisor does not change the form of a quotient, so equal indices stay equal.
    for shift in range(-7, 8):
        assert (constant(2 + 3 * shift) - x) // 3 - shift == (constant(2) - x) // 3
        assert (constant(2 + 3 * shift) - x) % 3 == (constant(2) - x) % 3


def test_index_of_reversed_transposed_reshape_is_correct() -> None:
    """Check the index of x at element i of `x.T.reshape(-1)[::-1]` for x: f32[3,5]."""
    i = variable("i", 15)
    column, row = delinearize(constant(14) - i, (5, 3))
    text = render(linearize((row, column), (3, 5)))
    want = np.arange(15).reshape(3, 5).T.reshape(-1)[::-1]
    assert [device_value(text, {"i": element}) for element in range(15)] == want.tolist()


@pytest.mark.parametrize(
    "shapes", [[(24,), (4, 6), (2, 2, 6), (24,)], [(6, 10), (60,), (3, 2, 10), (6, 10)], [(1, 7), (7, 1), (7,), (1, 7)]]
)
def test_round_trip_of_reshapes_is_the_identity(shapes: list[tuple[int, ...]]) -> None:
    first = tuple(variable(f"d{i}", s) for i, s in enumerate(shapes[0]))
    index = first
    for old, new in itertools.pairwise(shapes):
        index = delinearize(linearize(index, old), new)
    assert index == first


def test_delinearized_row_linearizes_to_contiguous_index() -> None:
    row, col = variable("row", 1024), variable("col", 64)
    index = (row // 256, row % 256, col)
    assert str(linearize(index, (4, 256, 64))) == "row * 64 + col"


def test_quotients_are_simplified() -> None:
    x = variable("x", 16)
    assert (x + 32) // 16 == constant(2)
    assert (x + 32) % 16 == x
    assert (x // 4) // 2 == x // 8
    assert (x * 6 + variable("y", 6)) // 12 == x // 2


@pytest.mark.parametrize("parts", [(3, 2), (2, 3)])
def test_nested_delinearizations_cancel(parts: tuple[int, int]) -> None:
    """Check a reshape of the rows that a reduce keeps.

    The reshape splits the row index into coordinates, although the index was itself combined from coordinates.
    """
    row = variable("row", 12)
    index = (row // 6, row % 6)
    reshaped = delinearize(linearize(index, (2, 6)), (2, *parts))
    assert delinearize(linearize(reshaped, (2, *parts)), (2, 6)) == index


def test_substitute_simplifies_the_result() -> None:
    x, i = variable("x", 64), variable("i", 8)
    (var,) = variables(x // 8)
    assert substitute(x // 8, {var: i * 8 + 5}) == i


def test_variable_of_size_one_is_zero() -> None:
    assert variable("x", 1) == constant(0)
