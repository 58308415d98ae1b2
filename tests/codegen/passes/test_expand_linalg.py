"""Tests of the `expand-linalg` pass: factorizations and triangular solves become loops that kernels can run."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.codegen.passes.expand_linalg import expand_linalg
from meshgen.ir.graph import Graph, Module
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.spec import P
from tests.codegen.bodies import ONE, Body
from tests.codegen.passes.after import after


def agree(graph: Graph, args: list[np.ndarray], rtol: float) -> None:
    expanded = after(expand_linalg, graph)
    assert {"cholesky", "triangular_solve"}.isdisjoint(node.op for node in expanded.nodes)
    with np.errstate(all="ignore"):
        (got,), (want,) = evaluate(expanded, args), evaluate(graph, args)
    assert got.dtype == want.dtype
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(np.asarray(got, wide), np.asarray(want, wide), rtol=rtol, atol=rtol)


def matrices(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Return positive definite, well-conditioned matrices."""
    x = np.random.default_rng(5).standard_normal(shape)
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (2, 3, 5, 5)])
def test_expanded_cholesky_matches_reference(shape: tuple[int, ...], lower: bool) -> None:
    sizes = ",".join(map(str, shape))
    b = Body(f"f64[{sizes}]")
    agree(b.done(b.op("cholesky", b.inputs[0], lower=lower)), [matrices(*shape)], 1e-12)
    b = Body(f"f32[{sizes}]")
    agree(b.done(b.op("cholesky", b.inputs[0], lower=lower)), [matrices(*shape, dtype="float32")], 1e-5)


def test_cholesky_of_indefinite_matrix_is_nan_from_the_bad_pivot() -> None:
    x = matrices(4, 4)
    x[2, 2] = -1
    b = Body("f64[4,4]")
    graph = b.done(b.op("cholesky", b.inputs[0], lower=True))
    agree(graph, [x], 1e-12)
    (factor,) = evaluate(after(expand_linalg, graph), [x])
    assert np.isfinite(factor[:, :2]).all() and np.isnan(factor[2:, 2]).all()


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_expanded_triangular_solve_matches_reference(transpose: str, left: bool, lower: bool, unit: bool) -> None:
    """Check that the other half of the matrix is not read."""
    a, rhs = matrices(2, 4, 4), np.random.default_rng(1).standard_normal((2, 4, 3))
    half = np.tril(np.ones((4, 4))) if lower else np.triu(np.ones((4, 4)))
    a = np.where(half == 1, a, np.nan)
    right = rhs if left else np.swapaxes(rhs, -1, -2)
    b = Body("f64[2,4,4]", f"f64[{','.join(map(str, right.shape))}]")
    solution = b.op(
        "triangular_solve", *b.inputs, left_side=left, lower=lower, unit_diagonal=unit, transpose_a=transpose
    )
    agree(b.done(solution), [a, right], 1e-10)


@pytest.mark.parametrize("lower", [True, False])
def test_complex_factorizations_are_expanded(lower: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 4)) + 1j * rng.standard_normal((2, 4, 4))
    positive_definite, right = x @ x.conj().swapaxes(1, 2) + 4 * np.eye(4), x[:, :, :3]
    b = Body("c128[2,4,4]")
    agree(b.done(b.op("cholesky", b.inputs[0], lower=lower)), [positive_definite], 1e-12)
    half = (np.tril if lower else np.triu)(x) + 4 * np.eye(4)
    for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        b = Body("c128[2,4,4]", "c128[2,4,3]")
        options = {"left_side": True, "lower": lower, "unit_diagonal": False, "transpose_a": transpose}
        agree(b.done(b.op("triangular_solve", *b.inputs, **options)), [half, right], 1e-12)


def test_expanded_linalg_ops_all_have_kernels() -> None:
    b = Body("f32[6,6]", "f32[6,2]")
    lower = b.op("cholesky", b.inputs[0], lower=True)
    graph = b.done(
        b.op(
            "triangular_solve",
            lower,
            b.inputs[1],
            left_side=True,
            lower=True,
            unit_diagonal=False,
            transpose_a="NO_TRANSPOSE",
        )
    )
    types, result = [value.type for value in graph.inputs], graph.outputs[0].type
    fused = fuse(Module(ONE, graph, "partition", "main", in_types=types, out_types=[result],
                        in_shardings=[P(None, None)] * 2, out_shardings=[P(None, None)]))  # fmt: skip
    assert not missing_kernel_faults((body, 1) for body in fused.kernels.values())
