"""`mg.linalg` and `mg.fft`, compared with NumPy on three devices. Of a factorization, the product of the factors is
compared, because the signs of factors are arbitrary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from tests.frontend.numpy_expressions import ARGS, check, compare

LINALG = (
    "xp.linalg.cholesky(s @ s.mT + 1e-3 * xp.eye(3, dtype=xp.float32))", "xp.linalg.cholesky(s @ s.mT, upper=True)", "xp.linalg.det(s)", "xp.linalg.slogdet(s)",
    "xp.linalg.inv(s)", "xp.linalg.solve(s, z.mT[:, :3])", "xp.linalg.solve(s[0], v[:3])", "xp.linalg.solve(s, s[:1])", "xp.linalg.eigvalsh(s + s.mT)", "xp.linalg.svdvals(z)",
    "xp.linalg.pinv(x)", "xp.linalg.pinv(z)", "xp.linalg.matrix_rank(z)", "xp.linalg.matrix_rank(xp.outer(v, v))", "xp.linalg.matrix_power(s, 3)",
    "xp.linalg.matrix_power(s, 0)", "xp.linalg.matrix_power(s, -2)", "xp.linalg.vector_norm(x)", "xp.linalg.vector_norm(x, axis=1)", "xp.linalg.vector_norm(x, axis=0, ord=1)",
    "xp.linalg.vector_norm(x, axis=0, ord=xp.inf, keepdims=True)", "xp.linalg.vector_norm(x, axis=0, ord=3)", "xp.linalg.matrix_norm(z)", "xp.linalg.matrix_norm(z, ord='nuc')",
    "xp.linalg.matrix_norm(z, ord=1)", "xp.linalg.matrix_norm(z, ord=-xp.inf, keepdims=True)", "xp.linalg.matrix_norm(z, ord=2)", "xp.linalg.norm(x)",
    "xp.linalg.norm(x, axis=1)", "xp.linalg.norm(x, 'fro')", "xp.linalg.norm(v, 1)", "xp.linalg.cross(z[..., :3], z[..., 1:])", "xp.linalg.cross(z.mT[:, :3], s.mT, axis=1)",
    "xp.linalg.diagonal(z, offset=1)", "xp.linalg.trace(s)", "xp.linalg.outer(v, n)", "xp.linalg.matmul(s, z)", "xp.linalg.tensordot(x, y)", "xp.linalg.vecdot(x, y)",
    "xp.linalg.matrix_transpose(z)",
)  # fmt: skip
TRANSFORMS = (
    *(f"xp.fft.{name}(x{more})" for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"] for more in ("", ", n=6", ", axis=0, norm='ortho'", ", norm='forward'")),
    *(f"xp.fft.{name}(z{more})" for name in ["fftn", "ifftn", "rfftn", "irfftn"] for more in ("", ", axes=(0, 2)", ", s=(4, 2), axes=(1, 2)")),
    "xp.fft.fft(c)", "xp.fft.ifft(c, n=3)", "xp.fft.irfft(c, n=7)", "xp.fft.fftshift(x)", "xp.fft.ifftshift(x, axes=1)", "xp.fft.fftshift(v)",
)  # fmt: skip


@pytest.mark.parametrize("text", LINALG)
def test_linalg_functions_match_numpy(text: str) -> None:
    check(text, LINALG)


@pytest.mark.parametrize("text", TRANSFORMS)
def test_fft_functions_match_numpy(text: str) -> None:
    check(text, TRANSFORMS)


def test_fft_frequencies_match_numpy() -> None:
    def program(x: Any) -> Any:
        return x[0] * mg.fft.fftfreq(5, 0.5), x[0, :3] * mg.fft.rfftfreq(5)

    result = mg.compile(program, {"d": 3}, args=[ARGS["x"]], target="cpu")(ARGS["x"])
    compare(
        result, (ARGS["x"][0] * np.fft.fftfreq(5, 0.5).astype("f4"), ARGS["x"][0, :3] * np.fft.rfftfreq(5).astype("f4"))
    )


def test_product_of_factors_is_the_matrix() -> None:
    def factors(x: Any, s: Any) -> Any:
        square = s + s.mT
        return (
            mg.linalg.qr(x),
            mg.linalg.qr(x, mode="complete"),
            mg.linalg.svd(x),
            mg.linalg.svd(x, full_matrices=False),
            mg.linalg.eigh(square),
        )

    x, s = ARGS["x"].T.copy(), ARGS["s"]
    reduced, complete, full, thin, (values, vectors) = mg.compile(factors, {"d": 3}, args=[x, s], target="cpu")(x, s)
    for q, r in (reduced, complete):
        compare(q @ r, x)
        compare(q.T @ q, np.eye(q.shape[1], dtype=np.float32))
        compare(r, np.triu(r))
    assert (reduced.Q.shape, complete.Q.shape, full.U.shape, thin.U.shape) == ((5, 4), (5, 5), (5, 5), (5, 4))
    for u, singular, vh in (full, thin):
        compare(u[:, :4] * singular @ vh, x)
    compare(vectors * values[:, None] @ vectors.transpose(0, 2, 1), s + s.transpose(0, 2, 1))


def test_linalg_of_non_square_matrix_is_rejected() -> None:
    for function in (mg.linalg.solve, lambda a, b: mg.linalg.inv(a), lambda a, b: mg.linalg.det(a)):
        with pytest.raises(ProgramError, match=r"MG0104: f32\[4,5\] is not a square matrix"):
            mg.trace(function, ["f32[4,5]", "f32[4]"])
    with pytest.raises(ProgramError, match="rfft transforms real numbers"):
        mg.trace(mg.fft.rfft, ["c64[4]"])
