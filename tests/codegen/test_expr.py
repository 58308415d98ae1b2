"""Index expressions: every simplification keeps the value, also as a GPU computes it, and chains of reshapes vanish."""

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
    """What the rendered source computes."""
    return eval(render(expr), {}, dict(point))


@pytest.mark.parametrize("seed", range(40))
def test_simplified_expressions_keep_their_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        left, right = random_expr(rng, 3), random_expr(rng, 2)
        by = int(rng.choice([2, 3, 4, 6, 8]))
        total, quotient, remainder = left + right * by, (left + right) // by, (left + right) % by
        for point in itertools.product(*(range(s) for s in SIZES.values())):
            at = dict(zip(SIZES, point, strict=True))
            a, b = evaluate(left, at), evaluate(right, at)
            assert evaluate(total, at) == a + b * by
            assert evaluate(quotient, at) == (a + b) // by
            assert evaluate(remainder, at) == (a + b) % by
            assert python_value(remainder, at) == (a + b) % by
            assert bounds(total)[0] <= a + b * by <= bounds(total)[1]


def device_value(text: str, point: Mapping[str, int]) -> int:
    """What source computes on a GPU: 32 bits that wrap, and `//` and `%` that cut towards zero."""

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
def test_what_is_printed_means_the_same_on_a_gpu(seed: int) -> None:
    """Deep expressions with every sign, at every point: Python rounds down, a GPU cuts towards zero."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(6):
        expr, by = random_expr(rng, int(rng.integers(2, 5))), int(rng.integers(2, 9))
        turned = constant(int(rng.integers(-20, 20))) - expr * int(rng.integers(1, 4))
        for made in (expr, turned, expr // by, turned // by, turned % by, (turned // by) % 3, (turned % by) // 2):
            text = render(made)
            for point in itertools.product(*(range(s) for s in SIZES.values())):
                at = dict(zip(SIZES, point, strict=True))
                assert device_value(text, at) == evaluate(made, at), text


def test_dividends_that_could_be_negative_are_raised() -> None:
    x = variable("x", 15)
    assert str((constant(2) - x) // 3) == "((-x + 14) // 3) - 4"
    assert str((constant(2) - x) % 3) == "(-x + 14) % 3"
    assert str((x * 2 + 1) // 3) == "(x * 2 + 1) // 3"  # nothing to raise
    for shift in range(-7, 8):  # one form, however far the whole is moved: equal indices stay equal
        assert (constant(2 + 3 * shift) - x) // 3 - shift == (constant(2) - x) // 3
        assert (constant(2 + 3 * shift) - x) % 3 == (constant(2) - x) % 3


def test_a_reversed_reshape_of_a_transpose_reads_inside_its_operand() -> None:
    """`x.T.reshape(-1)[::-1]` of x: f32[3,5], the index of x at element i."""
    i = variable("i", 15)
    column, row = delinearize(constant(14) - i, (5, 3))
    text = render(linearize((row, column), (3, 5)))
    want = np.arange(15).reshape(3, 5).T.reshape(-1)[::-1]
    assert [device_value(text, {"i": place}) for place in range(15)] == want.tolist()


@pytest.mark.parametrize(
    "shapes", [[(24,), (4, 6), (2, 2, 6), (24,)], [(6, 10), (60,), (3, 2, 10), (6, 10)], [(1, 7), (7, 1), (7,), (1, 7)]]
)
def test_a_round_trip_of_reshapes_is_the_identity(shapes: list[tuple[int, ...]]) -> None:
    first = tuple(variable(f"d{i}", s) for i, s in enumerate(shapes[0]))
    index = first
    for old, new in itertools.pairwise(shapes):
        index = delinearize(linearize(index, old), new)
    assert index == first


def test_rows_of_a_flat_tile_are_contiguous() -> None:
    row, col = variable("row", 1024), variable("col", 64)
    index = (row // 256, row % 256, col)
    assert str(linearize(index, (4, 256, 64))) == "row * 64 + col"


def test_a_quotient_that_cannot_vary_is_a_constant() -> None:
    x = variable("x", 16)
    assert (x + 32) // 16 == constant(2)
    assert (x + 32) % 16 == x
    assert (x // 4) // 2 == x // 8
    assert (x * 6 + variable("y", 6)) // 12 == x // 2


@pytest.mark.parametrize("parts", [(3, 2), (2, 3)])
def test_what_is_taken_apart_twice_is_joined(parts: tuple[int, int]) -> None:
    """The kept elements of a reduce are rows of one flat dim; a reshape of them takes the same rows apart again."""
    row = variable("row", 12)
    place = (row // 6, row % 6)
    there = delinearize(linearize(place, (2, 6)), (2, *parts))
    assert delinearize(linearize(there, (2, *parts)), (2, 6)) == place


def test_substitute_simplifies_again() -> None:
    x, i = variable("x", 64), variable("i", 8)
    (var,) = variables(x // 8)
    assert substitute(x // 8, {var: i * 8 + 5}) == i


def test_a_variable_of_one_value_is_zero() -> None:
    assert variable("x", 1) == constant(0)
