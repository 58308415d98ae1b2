"""Error rules of reductions, dots, convolutions and scatters: sums in any order and grouping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value, dtype_name, is_inexact, real_dtype
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.evaluate.common import Array, RunRegion
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.lapack import ROUTINES
from meshgen.ops.precision import TF32, TF32X3, multiplied_as
from meshgen.ops.registry import numpy_semantics
from meshgen.ops.tolerance.tracked import (
    CUT_BITS,
    LARGEST,
    LEAST,
    PARTIAL_ROUNDINGS,
    TF32_LEAST,
    TF32_UNIT,
    TF32X3_UNIT,
    UNIT,
    Tracked,
    absolute,
    default_bound,
    fits,
    holds_integers,
    unknown,
)


def no_region(region: Graph, args: list[Array]) -> list[Array]:
    raise AssertionError("sums and moves run without their regions")


def shadow(node: Node, args: list[Array], run: RunRegion = no_region) -> Array:
    """Apply the node's op to other arrays, in f64: for example to the errors or magnitudes of its operands."""
    operands = [Value(TensorType(a.shape, dtype_name(a.dtype))) for a in args]
    twin = Node(
        node.op, operands, [Value(TensorType(node.results[0].type.shape, "f64"))], node.attrs, regions=node.regions
    )
    return numpy_semantics(node.op)(twin, args, run)[0]


def sum_units(dtype: str, additions: float, roundings: float) -> float:
    """Return the relative error of a sum with `additions` in the accumulator's type and `roundings` to `dtype`."""
    accumulator = UNIT["f64"] if real_dtype(dtype) == "f64" else UNIT["f32"]
    return additions * accumulator + roundings * UNIT[dtype]


def reduce(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    kind, value, (x, init) = node.attrs.kind, results[0], operands
    dtype = dtype_name(value.dtype)
    if kind == "add" and dtype != "i1":
        parts = (shadow(node, [a, b]) for a, b in zip(addends(x), addends(init), strict=True))
        return [summed(value, *parts, terms=x.value.size // max(value.size, 1) + 1, parents=operands)]
    if kind in ("maximum", "minimum"):
        maximum_node = Node("reduce", node.operands, node.results, {**node.attrs, "kind": "maximum"})
        return [Tracked(value, shadow(maximum_node, [np.asarray(x.error), np.asarray(init.error)]), absolute(value))]
    terms = x.value.size // max(value.size, 1) + 1
    return [_product(node, operands, value, terms) if is_inexact(dtype) else default_bound(operands, value)]


def _product(node: Node, factors: list[Tracked], value: Array, terms: int, indices: Sequence[Array] = ()) -> Tracked:
    """Return the error of a product of `terms` factors, taken from both operands in `factors`.

    `indices` are the operands of the node between these two.
    """
    x, y = factors
    ends = [(absolute(x.value) + x.error, absolute(y.value) + y.error), (absolute(x.value), absolute(y.value))]
    outer, inner = (shadow(node, [a, *indices, b]) for a, b in ends)
    dtype = dtype_name(value.dtype)
    rounding = sum_units(dtype, terms, PARTIAL_ROUNDINGS) * outer
    # An underflow changes the product by the type's smallest number, times the factors that follow. An overflow makes
    # the product infinite, and whether it occurs depends on the order of the factors.
    remaining_factors = shadow(node, [np.maximum(ends[0][0], 1.0), *indices, np.maximum(ends[0][1], 1.0)])
    rounding = np.where(remaining_factors > LARGEST[dtype], np.inf, rounding + terms * LEAST[dtype] * remaining_factors)
    if all(np.all(holds_integers([f])) for f in factors) and fits(remaining_factors, dtype).all():
        rounding = np.zeros(value.shape)
    return Tracked(value, outer - inner + rounding, absolute(value), rounding)


def addends(x: Tracked) -> tuple[Array, Array, Array]:
    """Return the errors, magnitudes and squares of the elements of `x`. Their sums determine the error of the sum of
    `x`.
    """
    return np.asarray(x.error), x.magnitude, np.square(absolute(x.value))


def summed(
    value: Array,
    error: Array,
    magnitude: Array,
    spread: Array,
    *,
    terms: int,
    parents: Sequence[Tracked],
    typical: float = 0.0,
    dropped: float = 0.0,
) -> Tracked:
    """Return the sum `value` of `terms` terms with its errors. A sum of integers (`parents`) is exact if it is
    representable.

    The rounding errors of k additions grow like a random walk. Partial sums are typically at most the square root of
    `spread` plus the sum (Higham and Mary, "A new approach to probabilistic rounding error analysis", SISC 41(5),
    2019). The worst case is k times the magnitude.

    Args:
        error, magnitude: the sums of the errors and of the magnitudes of the terms.
        spread: the sum of squares of the terms.
        typical: the typical relative error of each term, if `error` does not include it.
        dropped: the fraction of each term that the computation may omit.
    """
    dtype = dtype_name(value.dtype)
    if not is_inexact(dtype):
        return Tracked(value, error, magnitude)
    if parents and fits(magnitude, dtype).all() and all(np.all(holds_integers([x])) for x in parents):
        return Tracked(value, error, magnitude)
    is_exact = magnitude == 0
    worst = sum_units(dtype, terms, PARTIAL_ROUNDINGS) + dropped
    typical += sum_units(dtype, math.sqrt(terms), math.sqrt(PARTIAL_ROUNDINGS)) + dropped
    error = error + np.where(is_exact, 0.0, worst * (magnitude + error) + terms * LEAST[dtype])
    rounding = np.where(is_exact, 0.0, typical * (absolute(value) + np.sqrt(spread)) + LEAST[dtype])
    return Tracked(value, error, magnitude, rounding)


def bilinear(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of a dot or convolution: |a| e_b + e_a |b| + e_a e_b for operands with errors e_a and e_b, plus
    rounding.

    With `tf32`, the error of an f32 operand includes its conversion to the number format that GPUs multiply in.
    """
    value = results[0]
    multiplied = multiplied_as(node) if tf32 else ""
    factors, groups = operands[:2], [operand.value for operand in operands[2:]]
    cuts = [_truncation_error(operand, multiplied) for operand in factors]
    units = [unit for _, unit in cuts]
    a, b = (replace(operand, error=operand.error + cut) for operand, (cut, _) in zip(factors, cuts, strict=True))
    left, right = absolute(a.value), absolute(b.value)
    error = np.zeros(value.shape)
    if b.is_uncertain:
        error = error + shadow(node, [left + a.error, np.asarray(b.error), *groups])
    if a.is_uncertain:
        error = error + shadow(node, [np.asarray(a.error), right, *groups])
    magnitude = np.maximum(
        shadow(node, [a.magnitude, right + b.error, *groups]), shadow(node, [left + a.error, b.magnitude, *groups])
    )
    spread = shadow(node, [np.square(left), np.square(right), *groups])
    terms, dropped = _terms(node, a.value, b.value), 0.0
    if multiplied == TF32X3 and any(units):
        terms, dropped = 3 * terms, TF32X3_UNIT
    parents = factors if not any(units) else []
    return [summed(value, error, magnitude, spread, terms=terms, parents=parents, typical=sum(units), dropped=dropped)]


def _truncation_error(x: Tracked, multiplied: str) -> tuple[Array | float, float]:
    """Return the bound and the typical relative error of an operand's conversion to the number format `multiplied`.

    Both are 0 for element types that are not wider than tf32.
    """
    if multiplied not in (TF32, TF32X3) or real_dtype(dtype_name(x.value.dtype)) != "f32":
        return 0.0, 0.0
    if not x.is_uncertain and not np.any(np.ascontiguousarray(x.value).view(np.uint32) & np.uint32(CUT_BITS)):
        return 0.0, 0.0
    unit = TF32_UNIT if multiplied == TF32 else TF32X3_UNIT
    size = absolute(x.value)
    return np.where(np.isfinite(size), unit * size + TF32_LEAST, 0.0), unit


def _terms(node: Node, a: Array, b: Array) -> int:
    if node.op == "dot_general":
        return math.prod(a.shape[d] for d in DotDims.of(node).contract[0])
    if node.op == "ragged_dot":
        return a.shape[0 if node.attrs.contracts else 1]
    return b.size // max(b.shape[node.attrs.kernel_output_feature], 1)


def reduce_window(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    kind = fold_kind(node.regions[0])
    if kind not in ("add", "maximum", "minimum", "multiply") or len(operands) != 2:
        return [default_bound(operands, result) for result in results]
    value, (x, init) = results[0], operands
    if kind == "multiply":
        terms = math.prod(node.attrs.window_dimensions) + 1
        is_rounded = is_inexact(dtype_name(value.dtype))
        return [_product(node, operands, value, terms) if is_rounded else default_bound(operands, value)]
    if kind == "add":
        parts = (shadow(node, [a, b]) for a, b in zip(addends(x), addends(init), strict=True))
        return [summed(value, *parts, terms=math.prod(node.attrs.window_dimensions) + 1, parents=operands)]
    largest = Graph("maximum", node.regions[0].inputs)
    largest.outputs = [largest.add("maximum", largest.inputs, [largest.inputs[0].type]).result]
    twin = Node(node.op, node.operands, node.results, node.attrs, regions=(largest,))
    return [Tracked(value, shadow(twin, [np.asarray(x.error), np.asarray(init.error)]), absolute(value))]


def scatter(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of a scatter with add or multiply. Other scatters need exact operands."""
    kind, value = fold_kind(node.regions[0]), results[0]
    is_product = kind == "multiply" and is_inexact(dtype_name(value.dtype))
    if len(operands) != 3 or (kind != "add" and not is_product) or operands[1].is_uncertain:
        return [default_bound(operands, result) for result in results]
    x, indices, updates = operands
    f64 = TensorType((), "f64")

    def twin_of(op: str) -> Node:
        region = Graph(op, [Value(f64), Value(f64)])
        region.outputs = [region.add(op, region.inputs, [f64]).result]
        return Node(node.op, node.operands, node.results, node.attrs, regions=(region,))

    twin = twin_of("add")
    if is_product:
        terms = shadow(twin, [np.ones(x.value.shape), indices.value, np.ones(updates.value.shape)])
        max_terms = int(terms.max(initial=1))
        return [_product(twin_of("multiply"), [x, updates], value, max_terms, [indices.value])]
    pairs = [*zip(addends(x), addends(updates), strict=True), (np.ones(x.value.shape), np.ones(updates.value.shape))]
    error, magnitude, spread, terms = (shadow(twin, [np.array(a), indices.value, b]) for a, b in pairs)
    return [summed(value, error, magnitude, spread, terms=int(terms.max(initial=1)), parents=[x, updates])]


def fft(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of a Fourier transform: a sum over the transformed dims, with roots of unity as weights."""
    (x,), value = operands, results[0]
    dims = tuple(range(value.ndim - len(node.attrs.length), value.ndim))
    scale = 1 / math.prod(node.attrs.length) if node.attrs.kind in ("IFFT", "IRFFT") else 1.0
    # An IRFFT reads half of the frequencies; all except one also represent their complex conjugates.
    scale *= 2 if node.attrs.kind == "IRFFT" else 1
    parts = (np.broadcast_to(p.sum(axis=dims, keepdims=True) * s, value.shape) for p, s in zip(addends(x), (scale, scale, scale**2), strict=True))  # fmt: skip
    stages = math.ceil(math.log2(max(math.prod(node.attrs.length), 2))) * 4
    return [summed(value, *parts, terms=stages, parents=[])]


def factored(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of cholesky or triangular_solve, for which only the Monte Carlo runs estimate propagated errors.

    An execution may add in any order, also with exact operands. Cancellation then leaves an error proportional to the
    size of the matrix.
    """
    value = results[0]
    units = sum_units(dtype_name(value.dtype), math.sqrt(value.shape[-1]), 2)
    dims = tuple(range(-min(2, value.ndim), 0))  # The dims of a matrix, or of a vector of singular values.
    size = np.broadcast_to(_largest_finite(value, dims), value.shape)
    return [Tracked(value, np.full(value.shape, np.inf), absolute(value), units * size)]


def _largest_finite(value: Array, dims: tuple[int, ...]) -> Array:
    """Return the largest finite magnitude along `dims`, which become dims of size 1.

    A factorization that fails midway has NaN next to finite elements.
    """
    sizes = absolute(value)
    return sizes.max(axis=dims, keepdims=True, initial=0.0, where=np.isfinite(sizes))


def lapack(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the errors of a LAPACK routine.

    With uncertain operands, eigenvectors and integer results may change completely. For all other results the Monte
    Carlo runs estimate the errors.
    """
    if not any(x.is_uncertain for x in operands):
        return [default_bound(operands, value) for value in results]
    discontinuous_results, tracked_results = ROUTINES[node.attrs.routine].jumps, list[Tracked]()
    for index, value in enumerate(results):
        if index in discontinuous_results or not is_inexact(dtype_name(value.dtype)):
            size = np.full(value.shape, 2 * _largest_finite(value, tuple(range(value.ndim))))
            tracked_results.append(replace(unknown(value), rounding=size))
        else:
            tracked_results.append(factored(node, operands, [value], tf32)[0])
    return tracked_results
