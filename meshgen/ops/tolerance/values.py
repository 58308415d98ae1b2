"""A value with what is known of its error, and the unit roundoffs that errors are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from meshgen.ir.graph import COMPLEX_PARTS, DTYPES, Node, dtype_name, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.common import Array

_FLOATS = {name: ml_dtypes.finfo(kind) for name, kind in DTYPES.items() if is_float(name)}
_COMPLEX_UNITS = 4  # a product of complex numbers is right to sqrt(5) unit roundoffs of its parts
UNIT = {
    **{name: float(limits.eps) / 2 for name, limits in _FLOATS.items()},
    **{name: _COMPLEX_UNITS * float(_FLOATS[part].eps) / 2 for name, part in COMPLEX_PARTS.items()},
}
LEAST = {
    **{name: float(limits.smallest_subnormal) for name, limits in _FLOATS.items()},
    **{name: float(_FLOATS[part].smallest_subnormal) for name, part in COMPLEX_PARTS.items()},
}
LARGEST = {  # that is finite
    **{name: float(limits.max) for name, limits in _FLOATS.items()},
    **{name: float(_FLOATS[part].max) for name, part in COMPLEX_PARTS.items()},
}
# Matrix units cut f32 operands to the 11 bits of tf32 (Triton does not round them first). Of three products, the operands are rounded to
# two numbers of 11 bits each, and the product of the smaller ones is left out.
TF32_UNIT, TF32X3_UNIT = 2.0**-10, 2.0**-22
CUT_BITS = 0x1FFF  # of an f32 that tf32 lacks: 13 of its 23 bits of fraction
TF32_LEAST = 2.0**-136  # the last bit that tf32 keeps of the smallest numbers
FUNCTION_UNITS = 8  # functions are right to 4 ulp of the compute type: NumPy, libm and GPUs all are
PARTIAL_ROUNDINGS = 3  # a sum may be rounded to its type as partial sums, after one stage of reducing, and at the end


@dataclass(frozen=True)
class Tracked:
    """A value, the bound of its error, and its magnitude (at least |value|), all of one shape.

    `rounding` is the typical error that the op itself adds. `samples` are the value in other executions, floats in
    f64.
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
    """The array in f64, or in complex numbers of that."""
    return value.astype(np.complex128 if is_complex(dtype_name(value.dtype)) else np.float64)


def absolute(value: Array) -> Array:
    return np.abs(widest(value))


def exact(value: Array) -> Tracked:
    """A value without error."""
    return Tracked(value, np.broadcast_to(0.0, value.shape), absolute(value))


def unknown(value: Array) -> Tracked:
    """A value of which nothing is known."""
    return Tracked(value, np.broadcast_to(np.inf, value.shape), absolute(value))


def spread_bound(operands: Sequence[Tracked], result: Array) -> Tracked:
    """The rule for ops without one: exact operands give an exact result, any other nothing."""
    return unknown(result) if any(t.is_uncertain for t in operands) else exact(result)


def rounded(value: Array, error: Array, magnitude: Array, units: float = 1, parents: Sequence[Tracked] = ()) -> Tracked:
    """Add the rounding of `units` unit roundoffs of the result's type on its magnitude.

    Nothing is rounded where the value is 0 by all its parts, or where the op keeps integers (`parents`) that fit.
    """
    dtype = dtype_name(value.dtype)
    if not is_inexact(dtype):
        return Tracked(value, error, magnitude)
    kept = (magnitude == 0) | (fits(magnitude, dtype) & holds_integers(parents)) if parents else False
    worst, typical = units * UNIT[dtype] * (magnitude + error), units * UNIT[dtype] * absolute(value)
    return Tracked(
        value, error + np.where(kept, 0.0, worst + LEAST[dtype]), magnitude, np.where(kept, 0.0, typical + LEAST[dtype])
    )


def fits(magnitude: Array, dtype: str) -> Array:
    """Where integers of this magnitude are exact in a float type."""
    return magnitude <= 1 / UNIT[dtype]


def holds_integers(parents: Sequence[Tracked]) -> Array | bool:
    """Where all of these are integers and certain."""
    found: Array | bool = True
    for x in parents:
        found = found & (x.error == 0) & (np.rint(in_f64(x)) == in_f64(x))
    return found


def in_f64(tracked: Tracked) -> Array:
    return widest(tracked.value)
