"""Tests of special functions near their zeros, where straightforward formulas lose digits by cancellation."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ops.special_functions import bessel_i1e

# exp(-x) I1(x), from the power series of I1 with 50 digits
VALUES = {
    1e-300: 5e-301,
    1e-20: 5e-21,
    1e-8: 4.99999995e-09,
    0.5: 0.1564208031848717,
    1.0: 0.20791041534970844,
    3.0: 0.19682671329730086,
}


@pytest.mark.parametrize("x", VALUES)
def test_bessel_i1e_is_accurate_and_odd(x: float) -> None:
    result = bessel_i1e(np.array([x, -x]))
    np.testing.assert_allclose(result, [VALUES[x], -VALUES[x]], rtol=1e-12)


def test_bessel_i1e_keeps_the_sign_of_zero() -> None:
    result = bessel_i1e(np.array([0.0, -0.0]))
    assert result.tolist() == [0.0, 0.0] and np.signbit(result).tolist() == [False, True]
