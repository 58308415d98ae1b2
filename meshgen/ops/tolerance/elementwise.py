"""Error rules of element-wise ops: the propagated errors of the operands, plus the op's own rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from meshgen.ir.graph import Node, dtype_name, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.common import Array
from meshgen.ops.tolerance.functions import logarithm_error, monotone, zeta_error
from meshgen.ops.tolerance.tracked import (
    FUNCTION_UNITS,
    UNIT,
    Rule,
    Tracked,
    absolute,
    default_bound,
    in_f64,
    rounded,
    widest,
)


def function(error: Callable[[Tracked], Array], computed: Callable[[Array, Array], Array] | None = None) -> Rule:
    """Return the rule of a rounded unary function.

    For complex numbers only the Monte Carlo runs estimate the propagated error.

    Args:
        error: how far the result moves when the argument moves by its error.
        computed: the error of an f64 computation of the function, from the argument and the result.
    """

    def bound(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        value, (x,) = results[0], operands
        if is_complex(dtype_name(x.value.dtype)):
            return [rounded(value, np.where(np.asarray(x.error) > 0, np.inf, 0.0), absolute(value), FUNCTION_UNITS)]
        computation_error = computed(in_f64(x), widest(value)) if computed else 0.0
        return [rounded(value, error(x) + computation_error, absolute(value), FUNCTION_UNITS)]

    return bound


def step(error: Callable[[Tracked], Array]) -> Rule:
    """Return the rule of a unary function whose result is not rounded."""

    def bound(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        return [Tracked(results[0], error(operands[0]), absolute(results[0]))]

    return bound


def polygamma_or_zeta(function: Callable[[Array, Array], Array]) -> Rule:
    """Return the rule of polygamma and zeta, which are monotone in an argument above 0.

    The error is unbounded if the order is uncertain.
    """

    def bound(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        order, x = operands
        error = monotone(lambda argument: function(in_f64(order), argument))(x)
        is_unbounded = (order.error > 0) | ((x.error > 0) & (in_f64(x) <= x.error))
        error = error + zeta_error(in_f64(order), in_f64(x), widest(results[0]))
        return [rounded(results[0], np.where(is_unbounded, np.inf, error), absolute(results[0]), FUNCTION_UNITS)]

    return bound


def next_after(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    x, y = operands
    step = 2 * np.abs(in_f64(x) - widest(results[0]))
    error = np.where((x.error > 0) | (y.error > 0), x.error + step, 0.0)
    return [Tracked(results[0], error, absolute(results[0]))]


def reduce_precision(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of reduce_precision, a step function: perturbed arguments may round to adjacent steps."""
    (x,) = operands
    step = 2.0**-node.attrs.mantissa_bits * (absolute(x.value) + x.error)
    least = 2.0 ** (2 - (1 << min(node.attrs.exponent_bits, 11) - 1))  # The exponent of f64 has 11 bits.
    return [Tracked(results[0], np.where(x.error > 0, x.error + step + least, 0.0), absolute(results[0]))]


def parts(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the errors of real, imag and complex, which do not round."""
    error = sum((np.asarray(x.error) for x in operands), np.zeros(results[0].shape))
    magnitude = sum((x.magnitude for x in operands), np.zeros(results[0].shape))
    return [Tracked(results[0], error, magnitude)]


def negated(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    (x,) = operands
    return [Tracked(results[0], x.error, x.magnitude)]


def unchanged(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the operand's error, for ops that add none: annotations and `not`."""
    (x,) = operands
    return [Tracked(results[0], x.error, absolute(results[0]))]


def magnitude(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of abs, which only rounds complex numbers."""
    (x,) = operands
    if is_complex(dtype_name(x.value.dtype)):
        return [rounded(results[0], np.asarray(x.error), absolute(results[0]), FUNCTION_UNITS)]
    return unchanged(node, operands, results, tf32)


def add(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    return [rounded(results[0], a.error + b.error, a.magnitude + b.magnitude, parents=operands)]


def multiply(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    left, right = absolute(a.value), absolute(b.value)
    error = left * b.error + a.error * right + a.error * b.error
    return [rounded(results[0], error, np.maximum(a.magnitude * right, left * b.magnitude), parents=operands)]


def divide(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    if not is_inexact(dtype_name(results[0].dtype)):
        return [default_bound(operands, results[0])]
    bottom = absolute(b.value)
    error = (a.error + np.abs(in_f64(a) / in_f64(b)) * b.error) / (bottom - b.error)
    error = np.where(bottom > b.error, error, np.where((a.error == 0) & (b.error == 0), 0.0, np.inf))
    return [rounded(results[0], error, a.magnitude / bottom, FUNCTION_UNITS)]


def power(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    if is_complex(dtype_name(results[0].dtype)):
        error = np.where((a.error > 0) | (b.error > 0), np.inf, 0.0)
        return [rounded(results[0], error, absolute(results[0]), FUNCTION_UNITS)]
    unperturbed, error = np.power(in_f64(a), in_f64(b)), np.zeros(results[0].shape)
    # The power is monotone in each argument, so its extremes over the error intervals are at the corners.
    for i in (-1, 1):
        for j in (-1, 1):
            error = np.maximum(error, np.abs(np.power(in_f64(a) + i * a.error, in_f64(b) + j * b.error) - unperturbed))
    crosses = (a.error > 0) & (absolute(a.value) <= a.error)  # The sign of the base is uncertain.
    error = np.where(crosses, np.maximum(error, np.abs(unperturbed)), error) + logarithm_error(unperturbed)
    return [rounded(results[0], error, absolute(results[0]), FUNCTION_UNITS)]


def atan2(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    y, x = operands
    if is_complex(dtype_name(results[0].dtype)):
        error = np.where((y.error > 0) | (x.error > 0), np.inf, 0.0)
        return [rounded(results[0], error, absolute(results[0]), FUNCTION_UNITS)]
    radius, shift = np.hypot(in_f64(y), in_f64(x)), x.error + y.error
    crosses_branch_cut = (in_f64(x) - x.error < 0) & (absolute(y.value) <= y.error) & (shift > 0)
    error = np.where((shift >= radius) | crosses_branch_cut, 2 * math.pi, math.pi / 2 * shift / (radius - shift))
    return [rounded(results[0], np.where(shift == 0, 0.0, error), absolute(results[0]), FUNCTION_UNITS)]


def remainder(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    jump = np.where((a.error == 0) & (b.error == 0), 0.0, absolute(b.value) + b.error)
    return [rounded(results[0], a.error + jump, absolute(results[0]))]


def extreme(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    return [Tracked(results[0], np.maximum(a.error, b.error), absolute(results[0]))]


def clamp(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    low, x, high = operands
    return [Tracked(results[0], np.maximum(np.maximum(low.error, x.error), high.error), absolute(results[0]))]


def compare(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    slack = a.error + b.error
    near = (slack > 0) & ~(np.abs(in_f64(a) - in_f64(b)) > slack)
    return [Tracked(results[0], np.where(near, 1.0, 0.0), absolute(results[0]))]


def logical(decides: bool | None) -> Rule:
    """Return the rule of logical ops.

    For booleans, one certain operand can decide the result: False decides an `and`, True an `or`, neither decides an
    `xor`. Integers must be certain.
    """

    def bound(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        if results[0].dtype != np.bool_:
            return [default_bound(operands, results[0])]
        a, b = operands
        is_undecided = (a.error > 0) | (b.error > 0)
        for x in operands if decides is not None else ():
            is_undecided = is_undecided & ~((x.error == 0) & (x.value == decides))
        return [Tracked(results[0], np.where(is_undecided, 1.0, 0.0), absolute(results[0]))]

    return bound


def select(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    choice, a, b = operands
    branch_difference = np.abs(in_f64(a) - in_f64(b)) + np.maximum(a.error, b.error)
    error = np.where(choice.error > 0, branch_difference, np.where(choice.value, a.error, b.error))
    magnitude = np.where(choice.value, a.magnitude, b.magnitude)
    return [Tracked(results[0], error, magnitude)]


def convert(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    x, value = operands[0], results[0]
    target, source = dtype_name(value.dtype), dtype_name(x.value.dtype)
    if is_inexact(target):
        narrows = not is_inexact(source) or UNIT[target] > UNIT[source]
        return [rounded(value, x.error, x.magnitude, 1, operands) if narrows else Tracked(value, x.error, x.magnitude)]
    if target == "i1":
        near = (x.error > 0) & (absolute(x.value) <= x.error)
        return [Tracked(value, np.where(near, 1.0, 0.0), absolute(value))]
    error = monotone(np.trunc)(x) if is_float(source) else x.error
    return [Tracked(value, error, absolute(value))]
