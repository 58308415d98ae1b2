"""Values with error bounds, and the unit roundoffs of the element types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from meshgen.ir.graph import COMPLEX_PARTS, DTYPES, Node, dtype_name, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.common import Array

_FLOATS = {name: ml_dtypes.finfo(kind) for name, kind in DTYPES.items() if is_float(name)}
# Error of a complex multiplication: sqrt(5) unit roundoffs of the type of its parts. Source: Brent, Percival and
# Zimmermann, "Error bounds on complex floating-point multiplication", 2007.
_COMPLEX_UNITS = 4
UNIT = {
    **{name: float(limits.eps) / 2 for name, limits in _FLOATS.items()},
    **{name: _COMPLEX_UNITS * float(_FLOATS[part].eps) / 2 for name, part in COMPLEX_PARTS.items()},
}
LEAST = {
    **{name: float(limits.smallest_subnormal) for name, limits in _FLOATS.items()},
    **{name: float(_FLOATS[part].smallest_subnormal) for name, part in COMPLEX_PARTS.items()},
}
LARGEST = {  # The largest finite number.
    **{name: float(limits.max) for name, limits in _FLOATS.items()},
    **{name: float(_FLOATS[part].max) for name, part in COMPLEX_PARTS.items()},
}
# Tensor cores truncate f32 operands to the 11-bit significand of tf32 (Triton does not round them first). For TF32x3,
# each operand becomes a sum of two numbers of 11 bits, and the GEMM of the two low parts is omitted.
TF32_UNIT, TF32X3_UNIT = 2.0**-10, 2.0**-22
CUT_BITS = 0x1FFF  # The low 13 of the 23 fraction bits of f32, which tf32 does not have.
TF32_LEAST = 2.0**-136  # The smallest positive number that tf32 represents.
FUNCTION_UNITS = 8  # Functions are accurate to 4 ulp (8 unit roundoffs) of the compute type in NumPy, libm and on GPUs.
# Number of times that a sum may be rounded to its element type: as a partial sum, after one reduction stage, at the
# end.
PARTIAL_ROUNDINGS = 3


@dataclass(frozen=True)
class Tracked:
    """A value with error bounds.

    Attributes:
        value: the computed value.
        error: a bound of the distance from the exact value.
        magnitude: the sum of absolute values of the terms that linear ops added up; at least |value|.
        rounding: the typical size of the error that the op itself adds.
        samples: the value in each Monte Carlo run; floats are f64.
    """

    value: Array
    error: Array
    magnitude: Array
    rounding: Array | float = 0.0
    samples: tuple[Array, ...] = ()

    @property
    def is_uncertain(self) -> bool:
        return bool(np.any(self.error > 0))


Rule = Callable[[Node, list[Tracked], list[Array], bool], list[Tracked]]


def widest(value: Array) -> Array:
    """Convert `value` to f64, or to c128 if it is complex."""
    return value.astype(np.complex128 if is_complex(dtype_name(value.dtype)) else np.float64)


def absolute(value: Array) -> Array:
    return np.abs(widest(value))


def exact(value: Array) -> Tracked:
    """Return `value` with error 0."""
    return Tracked(value, np.broadcast_to(0.0, value.shape), absolute(value))


def unknown(value: Array) -> Tracked:
    """Return `value` with an unbounded error."""
    return Tracked(value, np.broadcast_to(np.inf, value.shape), absolute(value))


def default_bound(operands: Sequence[Tracked], result: Array) -> Tracked:
    """Return the bound for ops without an error rule: exact if all operands are exact, else unbounded."""
    return unknown(result) if any(t.is_uncertain for t in operands) else exact(result)


def rounded(value: Array, error: Array, magnitude: Array, units: float = 1, parents: Sequence[Tracked] = ()) -> Tracked:
    """Return a value whose error includes the op's own rounding.

    The rounding error is `units` unit roundoffs of the result's type, relative to the magnitude plus the error. It is 0
    if all terms of the value are 0, or if the op adds integers (`parents`) and the type represents the result exactly.
    """
    dtype = dtype_name(value.dtype)
    if not is_inexact(dtype):
        return Tracked(value, error, magnitude)
    is_exact = (magnitude == 0) | (fits(magnitude, dtype) & holds_integers(parents)) if parents else False
    worst, typical = units * UNIT[dtype] * (magnitude + error), units * UNIT[dtype] * absolute(value)
    return Tracked(
        value,
        error + np.where(is_exact, 0.0, worst + LEAST[dtype]),
        magnitude,
        np.where(is_exact, 0.0, typical + LEAST[dtype]),
    )


def fits(magnitude: Array, dtype: str) -> Array:
    """Return, per element, whether float type `dtype` represents all integers up to this magnitude."""
    return magnitude <= 1 / UNIT[dtype]


def holds_integers(parents: Sequence[Tracked]) -> Array | bool:
    """Return, per element, whether all of `parents` are exact and integers."""
    are_integers: Array | bool = True
    for x in parents:
        are_integers = are_integers & (x.error == 0) & (np.rint(in_f64(x)) == in_f64(x))
    return are_integers


def in_f64(tracked: Tracked) -> Array:
    return widest(tracked.value)
