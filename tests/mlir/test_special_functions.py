"""Special functions near their zeros, where what is computed in other ways cancels."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ops.special_functions import bessel_i1e

# exp(-x) I1(x) from the power series of I1 in 50 digits
VALUES = {
    1e-300: 5e-301,
    1e-20: 5e-21,
    1e-8: 4.99999995e-09,
    0.5: 0.1564208031848717,
    1.0: 0.20791041534970844,
    3.0: 0.19682671329730086,
}


@pytest.mark.parametrize("x", VALUES)
def test_bessel_i1e_is_right_to_f64_and_odd(x: float) -> None:
    found = bessel_i1e(np.array([x, -x]))
    np.testing.assert_allclose(found, [VALUES[x], -VALUES[x]], rtol=1e-12)


def test_bessel_i1e_of_zero_is_zero_of_that_sign() -> None:
    found = bessel_i1e(np.array([0.0, -0.0]))
    assert found.tolist() == [0.0, 0.0] and np.signbit(found).tolist() == [False, True]
