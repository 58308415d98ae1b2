"""Per op: how errors of operands become errors of results, and what the op's own rounding adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ir.evaluate.common import Array
from meshgen.ir.evaluate.evaluator import HANDLERS
from meshgen.ir.graph import WISHES, Node, dtype_name, is_complex, is_float, is_inexact
from meshgen.ir.special_functions import digamma, erf, erf_inv, erfc, lgamma, polygamma, zeta
from meshgen.ir.tolerance.sums import SUM_RULES, no_region
from meshgen.ir.tolerance.values import (
    FUNCTION_UNITS,
    UNIT,
    Rule,
    Tracked,
    absolute,
    exact,
    in_f64,
    rounded,
    spread_bound,
    unknown,
    widest,
)

# Element-wise ---------------------------------------------------------------------------------------------------


def _monotone(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a monotone function: how far it moves when its argument does."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        here = function(wide)
        moved = np.maximum(np.abs(function(wide + x.error) - here), np.abs(function(wide - x.error) - here))
        return np.where(x.error == 0, 0.0, moved)

    return error


def _bounded_slope(x: Tracked) -> Array:
    return np.minimum(x.error, 2.0)


def _tangent(x: Tracked) -> Array:
    wide = in_f64(x)
    branch = [np.round((wide + sign * x.error) / math.pi) for sign in (-1, 1)]
    return np.where(branch[0] == branch[1], _monotone(np.tan)(x), np.inf)


def _between_poles(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a function that is monotone or convex between its poles 0, -1, ..."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        low, high = wide - x.error, wide + x.error
        return np.where((low <= 0) & (np.floor(low) != np.floor(high)), np.inf, _monotone(function)(x))

    return error


def _within(function: Callable[[Any], Any], low: float, high: float) -> Callable[[Tracked], Array]:
    """The error of a monotone function of an interval, at the ends of which arguments stop."""
    return _monotone(lambda x: function(np.clip(x, low, high)))


def _rsqrt(x: Array) -> Array:
    return np.where(x > 0, 1 / np.sqrt(np.maximum(x, 0)), np.nan)


_FUNCTIONS: dict[str, Callable[[Tracked], Array]] = {
    "exponential": _monotone(np.exp), "exponential_minus_one": _monotone(np.expm1), "log": _monotone(np.log),
    "log_plus_one": _monotone(np.log1p), "logistic": _monotone(lambda x: 1 / (1 + np.exp(-x))),
    "tanh": _monotone(np.tanh), "sqrt": _monotone(lambda x: np.sqrt(np.maximum(x, 0))), "rsqrt": _monotone(_rsqrt),
    "cbrt": _monotone(np.cbrt), "sine": _bounded_slope, "cosine": _bounded_slope, "tan": _tangent,
    "erf": _monotone(erf), "erf_inv": _within(erf_inv, -1, 1), "erfc": _monotone(erfc), "sinh": _monotone(np.sinh),
    "cosh": _monotone(np.cosh), "asin": _within(np.arcsin, -1, 1), "acos": _within(np.arccos, -1, 1),
    "asinh": _monotone(np.arcsinh), "acosh": _within(np.arccosh, 1, np.inf), "atanh": _within(np.arctanh, -1, 1),
    "lgamma": _between_poles(lgamma), "digamma": _between_poles(digamma),
    "bessel_i1e": _bounded_slope,
}  # fmt: skip
WITH_POLES = ("divide", "log", "log_plus_one", "rsqrt", "lgamma", "digamma", "atanh", "tan")
_STEPS: dict[str, Callable[[Tracked], Array]] = {
    "floor": _monotone(np.floor), "ceil": _monotone(np.ceil), "round_nearest_even": _monotone(np.rint),
    "round_nearest_afz": _monotone(lambda x: np.trunc(x + np.copysign(0.5, x))), "sign": _monotone(np.sign),
}  # fmt: skip


def _function(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Of complex numbers only the executions with random errors tell how far an error goes."""
    value, (x,) = results[0], operands
    if is_complex(dtype_name(x.value.dtype)):
        return [rounded(value, np.where(np.asarray(x.error) > 0, np.inf, 0.0), absolute(value), FUNCTION_UNITS)]
    return [rounded(value, _FUNCTIONS[node.op](x), absolute(value), FUNCTION_UNITS)]


_OF_TWO: dict[str, Callable[[Array, Array], Array]] = {"polygamma": polygamma, "zeta": zeta}


def _of_order(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """polygamma and zeta: monotone in their argument above 0; nothing is known of another order."""
    order, x = operands
    function = _OF_TWO[node.op]
    error = _monotone(lambda at: function(in_f64(order), at))(x)
    lost = (order.error > 0) | ((x.error > 0) & (in_f64(x) <= x.error))
    return [rounded(results[0], np.where(lost, np.inf, error), absolute(results[0]), FUNCTION_UNITS)]


def _next_after(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    x, y = operands
    step = 2 * np.abs(in_f64(x) - widest(results[0]))
    error = np.where((x.error > 0) | (y.error > 0), x.error + step, 0.0)
    return [Tracked(results[0], error, absolute(results[0]))]


def _reduce_precision(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """A step function: two arguments may lie on both sides of a step."""
    (x,) = operands
    step = 2.0 ** -node.attrs["mantissa_bits"] * (absolute(x.value) + x.error)
    least = 2.0 ** (2 - (1 << node.attrs["exponent_bits"] - 1))
    return [Tracked(results[0], np.where(x.error > 0, x.error + step + least, 0.0), absolute(results[0]))]


def _parts(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """real, imag and complex: no part is rounded."""
    error = sum((np.asarray(x.error) for x in operands), np.zeros(results[0].shape))
    magnitude = sum((x.magnitude for x in operands), np.zeros(results[0].shape))
    return [Tracked(results[0], error, magnitude)]


def _step(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    return [Tracked(results[0], _STEPS[node.op](operands[0]), absolute(results[0]))]


def _same_error(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """abs and negate; not of i1."""
    (x,) = operands
    magnitude = x.magnitude if node.op == "negate" else absolute(results[0])
    if node.op == "abs" and is_complex(dtype_name(x.value.dtype)):
        return [rounded(results[0], np.asarray(x.error), magnitude, FUNCTION_UNITS)]
    return [Tracked(results[0], x.error, magnitude)]


def _add(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    return [rounded(results[0], a.error + b.error, a.magnitude + b.magnitude, parents=operands)]


def _multiply(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    left, right = absolute(a.value), absolute(b.value)
    error = left * b.error + a.error * right + a.error * b.error
    return [rounded(results[0], error, np.maximum(a.magnitude * right, left * b.magnitude), parents=operands)]


def _divide(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    if not is_inexact(dtype_name(results[0].dtype)):
        return [spread_bound(operands, results[0])]
    bottom = absolute(b.value)
    error = (a.error + np.abs(in_f64(a) / in_f64(b)) * b.error) / (bottom - b.error)
    error = np.where(bottom > b.error, error, np.where((a.error == 0) & (b.error == 0), 0.0, np.inf))
    return [rounded(results[0], error, a.magnitude / bottom, FUNCTION_UNITS)]


def _power(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    if is_complex(dtype_name(results[0].dtype)):
        error = np.where((a.error > 0) | (b.error > 0), np.inf, 0.0)
        return [rounded(results[0], error, absolute(results[0]), FUNCTION_UNITS)]
    here, error = np.power(in_f64(a), in_f64(b)), np.zeros(results[0].shape)
    for i in (-1, 1):  # monotone in each argument: the extremes are at corners
        for j in (-1, 1):
            error = np.maximum(error, np.abs(np.power(in_f64(a) + i * a.error, in_f64(b) + j * b.error) - here))
    crosses = (a.error > 0) & (absolute(a.value) <= a.error)  # the sign of the base is not known
    error = np.where(crosses, np.maximum(error, np.abs(here)), error)
    return [rounded(results[0], error, absolute(results[0]), FUNCTION_UNITS)]


def _atan2(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    y, x = operands
    radius, moved = np.hypot(in_f64(y), in_f64(x)), x.error + y.error
    cut = (in_f64(x) - x.error < 0) & (absolute(y.value) <= y.error) & (moved > 0)
    error = np.where((moved >= radius) | cut, 2 * math.pi, math.pi / 2 * moved / (radius - moved))
    return [rounded(results[0], np.where(moved == 0, 0.0, error), absolute(results[0]), FUNCTION_UNITS)]


def _remainder(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    jump = np.where((a.error == 0) & (b.error == 0), 0.0, absolute(b.value) + b.error)
    return [rounded(results[0], a.error + jump, absolute(results[0]))]


def _extreme(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    return [Tracked(results[0], np.maximum(a.error, b.error), absolute(results[0]))]


def _clamp(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    low, x, high = operands
    return [Tracked(results[0], np.maximum(np.maximum(low.error, x.error), high.error), absolute(results[0]))]


def _compare(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    a, b = operands
    slack = a.error + b.error
    near = (slack > 0) & ~(np.abs(in_f64(a) - in_f64(b)) > slack)
    return [Tracked(results[0], np.where(near, 1.0, 0.0), absolute(results[0]))]


def _logical(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """A certain False decides an `and`, a certain True an `or`; integers must be certain."""
    if results[0].dtype != np.bool_:
        return [spread_bound(operands, results[0])]
    a, b = operands
    open_ = (a.error > 0) | (b.error > 0)
    if node.op != "xor":
        decides = node.op == "or"
        for x in operands:
            open_ = open_ & ~((x.error == 0) & (x.value == decides))
    return [Tracked(results[0], np.where(open_, 1.0, 0.0), absolute(results[0]))]


def _select(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    choice, a, b = operands
    either = np.abs(in_f64(a) - in_f64(b)) + np.maximum(a.error, b.error)
    error = np.where(choice.error > 0, either, np.where(choice.value, a.error, b.error))
    magnitude = np.where(choice.value, a.magnitude, b.magnitude)
    return [Tracked(results[0], error, magnitude)]


def _convert(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    x, value = operands[0], results[0]
    target, source = dtype_name(value.dtype), dtype_name(x.value.dtype)
    if is_inexact(target):
        narrows = not is_inexact(source) or UNIT[target] > UNIT[source]
        return [rounded(value, x.error, x.magnitude, 1, operands) if narrows else Tracked(value, x.error, x.magnitude)]
    if target == "i1":
        near = (x.error > 0) & (absolute(x.value) <= x.error)
        return [Tracked(value, np.where(near, 1.0, 0.0), absolute(value))]
    error = _monotone(np.trunc)(x) if is_float(source) else x.error
    return [Tracked(value, error, absolute(value))]


# Movement -------------------------------------------------------------------------------------------------------


def _move(data: int) -> Rule:
    """Ops that move the elements of their first `data` operands (-1: all); the others are indices."""

    def rule(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        count = len(operands) if data < 0 else data
        moved, indices = operands[:count], operands[count:]
        if any(t.is_uncertain for t in indices):
            return [_anything_of(moved, results[0])]
        fixed = [t.value for t in indices]
        (error,) = HANDLERS[node.op](node, [np.asarray(t.error) for t in moved] + fixed, no_region)
        (magnitude,) = HANDLERS[node.op](node, [t.magnitude for t in moved] + fixed, no_region)
        return [Tracked(results[0], error, magnitude)]

    return rule


def _anything_of(operands: Sequence[Tracked], result: Array) -> Tracked:
    """Some element of the operands, it is not known which."""
    if is_complex(dtype_name(result.dtype)):
        return unknown(result)
    values = [in_f64(t) for t in operands if t.value.size]
    low, high = min(v.min() for v in values), max(v.max() for v in values)
    worst = max(float(np.max(t.error)) for t in operands if t.value.size)
    return Tracked(result, np.broadcast_to(high - low + worst, result.shape), absolute(result))


# Order ---------------------------------------------------------------------------------------------------------


def _extremum_region(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """argmax and argmin: the value moves by at most the greatest error; the index is certain where no rival is near."""
    x, count = operands[0], len(operands) // 2
    dims = tuple(node.attrs["dims"])
    chosen = results[0].astype(np.float64)
    wide = in_f64(x)
    picks = [wide.max(axis=dims, initial=-np.inf), wide.min(axis=dims, initial=np.inf)]
    if not any(t.is_uncertain for t in operands) or count != 2 or not any((p == chosen).all() for p in picks):
        return [spread_bound(operands, result) for result in results]
    worst = np.broadcast_to(np.asarray(x.error), x.value.shape).max(axis=dims, initial=0.0)
    near = np.abs(wide - np.expand_dims(chosen, dims)) <= 2 * np.expand_dims(worst, dims)
    rivals = near.sum(axis=dims) > 1
    index = np.where(rivals & (worst > 0), np.inf, 0.0)
    return [Tracked(results[0], worst, absolute(results[0])), Tracked(results[1], index, absolute(results[1]))]


def _sorted(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Sorting one tensor moves each place by at most the row's greatest error; what goes with it may be anything."""
    dim = node.attrs.get("dim", operands[0].value.ndim - 1)
    if not operands[0].is_uncertain:
        if node.op == "top_k" or not any(t.is_uncertain for t in operands):
            return [exact(result) for result in results]
        return [_anything_of([t], r) for t, r in zip(operands, results, strict=True)]
    worst = np.asarray(operands[0].error).max(axis=dim, keepdims=True, initial=0.0)
    first = Tracked(results[0], np.broadcast_to(worst, results[0].shape), absolute(results[0]))
    if node.op == "top_k":
        return [first, unknown(results[1])]
    return [first, *(_anything_of([t], r) for t, r in zip(operands[1:], results[1:], strict=True))]


def _on_rank(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """mask_padding, all_slice, to_partial: places that are not copied are exact, so the greatest error is a bound."""
    worst = float(np.max(operands[0].error)) if operands[0].value.size else 0.0
    reach = float(np.max(operands[0].magnitude, initial=0.0, where=np.isfinite(operands[0].magnitude)))
    magnitude = np.maximum(absolute(results[0]), reach if worst else 0.0)
    return [Tracked(results[0], np.broadcast_to(worst, results[0].shape), magnitude)]


_MOVES = {"broadcast_in_dim": 1, "transpose": 1, "reshape": 1, "view": 1, "reverse": 1, "slice": 1, "concatenate": -1,
          "pad": 2, "gather": 1, "dynamic_slice": 1, "dynamic_update_slice": 2}  # fmt: skip
RULES: dict[str, Rule] = {
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(_STEPS, _step),
    **dict.fromkeys(("abs", "negate", *WISHES, "not"), _same_error),
    **dict.fromkeys(("add", "subtract"), _add),
    **dict.fromkeys(("maximum", "minimum"), _extreme),
    **dict.fromkeys(("and", "or", "xor"), _logical),
    **{op: _move(data) for op, data in _MOVES.items()},
    **SUM_RULES,
    **dict.fromkeys(("sort", "top_k"), _sorted),
    **dict.fromkeys(("mask_padding", "all_slice", "to_partial"), _on_rank),
    **dict.fromkeys(_OF_TWO, _of_order),
    **dict.fromkeys(("real", "imag", "complex"), _parts),
    "next_after": _next_after,
    "reduce_precision": _reduce_precision,
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "atan2": _atan2,
    "remainder": _remainder,
    "clamp": _clamp,
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "reduce_region": _extremum_region,
}
