"""Small JAX programs: the reference evaluator matches JAX, and the partitioned program matches the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from meshgen import api
from meshgen.api import read
from meshgen.frontend.mlir import read_mlir
from meshgen.ir.graph import Annotation, Module
from meshgen.mesh import make_mesh
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.runtime.simulate import simulate
from meshgen.spec import P, Sharding, fit
from meshgen.testing.oracle import compare, meaning

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

Function = Callable[..., Any]
RANDOM = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def i32(high: int, *shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, high, shape).astype(np.int32)


def positive(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.uniform(0.2, 0.9, shape).astype(np.float32)


def complexes(*shape: int) -> np.ndarray[Any, Any]:
    return (f32(*shape) + 1j * f32(*shape)).astype(np.complex64)


def grad(function: Function, *numbers: int) -> Function:
    """Return the gradient of the sum of the sines of a function's result."""
    return jax.grad(lambda *args: jnp.sum(jnp.sin(function(*args))), argnums=numbers or (0,))


def conv(**options: Any) -> Function:
    arguments = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options}
    return lambda x, w: lax.conv_general_dilated(x, w, **arguments)


def max_pool(x: Any, size: int = 3, stride: int = 2) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), "SAME")


def batch_norm(x: Any, scale: Any) -> Any:
    centered = x - x.mean((0, 1, 2))
    return centered * lax.rsqrt((centered**2).mean((0, 1, 2)) + 1e-5) * scale


def with_key(draw: Function) -> Function:
    return lambda key: draw(jax.random.wrap_key_data(key, impl="rbg"))


def with_threefry(draw: Function) -> Function:
    return lambda key: draw(jax.random.wrap_key_data(key))


IMAGE, KERNEL = (4, 10, 9, 4), (3, 3, 4, 6)
SIZES = np.array([3, 0, 5, 2], np.int32)
KEY = np.array([1, 2, 3, 4], np.uint32)
SYMMETRIC = (lambda a: (a @ a.T + 6 * np.eye(6)).astype(np.float32))(f32(6, 6))
ROWS, SPACE, CHANNELS, BOTH = P("x"), P(None, "x"), P(None, None, None, "x"), P("y", "x")
PROGRAMS: dict[str, tuple[Function, tuple[Any, ...], Sharding]] = {
    "conv": (conv(), (f32(*IMAGE), f32(*KERNEL)), SPACE),
    "conv of strides, gradients": (grad(conv(window_strides=(2, 3)), 0, 1), (f32(*IMAGE), f32(*KERNEL)), SPACE),
    "conv of dilations, gradients": (
        grad(conv(rhs_dilation=(2, 1), lhs_dilation=(2, 1), padding=((1, 2), (2, 1))), 0, 1),
        (f32(*IMAGE), f32(*KERNEL)),
        SPACE,
    ),
    "conv that cuts, gradients": (
        grad(conv(padding=((-1, 2), (2, -1))), 0, 1),
        (f32(*IMAGE), f32(*KERNEL)),
        BOTH,
    ),
    "depthwise conv, gradients": (
        grad(conv(feature_group_count=4), 0, 1),
        (f32(*IMAGE), f32(3, 3, 1, 8)),
        CHANNELS,
    ),
    "max pool, gradient": (grad(max_pool), (f32(*IMAGE),), SPACE),
    "batch norm, gradients": (grad(batch_norm, 0, 1), (f32(*IMAGE), f32(4)), ROWS),
    "embedding, gradient": (lambda w, i: grad(lambda v: v[i])(w), (f32(13, 6), i32(13, 4, 5)), ROWS),
    "segment product": (partial(jax.ops.segment_prod, num_segments=5), (f32(12, 4), i32(5, 12)), ROWS),
    "take along an axis": (partial(jnp.take_along_axis, axis=1), (f32(5, 9), i32(9, 5, 4)), SPACE),
    "windows at run time": (
        lambda x, i: jax.vmap(lambda s: lax.dynamic_slice(x, (s, 0), (3, 4)))(i),
        (f32(10, 4), i32(9, 5)),
        ROWS,
    ),
    "scatter of rows": (lambda x, i, v: x.at[i].multiply(v), (f32(10, 4), i32(10, 6), f32(6, 4)), ROWS),
    "median": (partial(jnp.median, axis=0), (f32(9, 4),), ROWS),
    "approximate top k": (lambda x: lax.approx_max_k(x, 3), (f32(6, 11),), SPACE),
    "cumulative product": (partial(lax.cumprod, axis=0), (f32(11, 3),), ROWS),
    "associative scan": (
        lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b)),
        (positive(13, 3), f32(13, 3)),
        ROWS,
    ),
    "padding between rows": (lambda x: lax.pad(x, 1.5, ((1, 2, 2), (0, -1, 1))), (f32(9, 8),), ROWS),
    "gamma functions": (
        lambda x: (lax.lgamma(x), lax.digamma(x), lax.polygamma(jnp.full_like(x, 2), x), lax.zeta(x + 1.5, x)),
        (4 * positive(5, 7),),
        BOTH,
    ),
    "functions and their inverses": (
        lambda x: [f(x) for f in (lax.asin, lax.acos, lax.atanh, lax.asinh, lax.sinh, lax.cosh, lax.erfc, lax.bessel_i1e)],
        (positive(5, 7),),
        BOTH,
    ),
    "neighbors": (lambda x, y: (lax.nextafter(x, y), lax.reduce_precision(x, 5, 7)), (f32(5, 7), f32(5, 7)), BOTH),
    "gelu, gradient": (grad(partial(jax.nn.gelu, approximate=False)), (f32(6, 8),), BOTH),
    "random bits": (with_key(lambda k: jax.random.uniform(k, (9, 5))), (KEY,), P()),
    "random bytes": (with_key(lambda k: jax.random.bits(k, (7, 6), jnp.uint8)), (KEY,), P()),
    "Fourier": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), (f32(4, 12),), ROWS),
    "Fourier of two dims, gradient": (grad(lambda x: jnp.abs(jnp.fft.fft2(x))), (f32(4, 6, 8),), SPACE),
    "complex numbers": (
        lambda a, b: (a * b + a / b, jnp.exp(a), jnp.abs(b), a.sum(0), a @ b.T.conj(), a**2, jnp.where(a == b, a, 1j)),
        (complexes(5, 6), complexes(5, 6)),
        BOTH,
    ),
    "narrow floats": (
        lambda x: [x.astype(t).astype(np.float32) for t in (jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz, jnp.float8_e3m4)],
        (f32(5, 7),),
        BOTH,
    ),
    "dot of rounded operands": (
        lambda a, b: lax.dot_general(
            a, b, (((1,), (0,)), ((), ())), precision=lax.DotAlgorithmPreset.BF16_BF16_F32, preferred_element_type=np.float32
        ),
        (f32(6, 8).astype(jnp.bfloat16).astype(np.float32), f32(8, 5).astype(jnp.bfloat16).astype(np.float32)),
        BOTH,
    ),
}  # fmt: skip
SQUARES, SYMMETRICS = f32(4, 5, 5), np.stack([a @ a.T + 5 * np.eye(5, dtype=np.float32) for a in f32(4, 5, 5)])
FACTORED: dict[str, tuple[Function, tuple[Any, ...], Sharding]] = {
    "Cholesky": (jnp.linalg.cholesky, (SYMMETRICS,), ROWS),
    "Cholesky of what is not positive": (jnp.linalg.cholesky, (-SYMMETRICS,), ROWS),
    "LU, gradient": (grad(jnp.linalg.solve, 0, 1), (SQUARES, f32(4, 5, 3)), ROWS),
    "determinants": (jnp.linalg.slogdet, (SQUARES,), ROWS),
    "triangles": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1, lower=True), (SYMMETRIC, f32(6, 4)), BOTH,
    ),
    "QR": (jnp.linalg.qr, (f32(4, 6, 3),), ROWS),
    "QR of all columns": (partial(jnp.linalg.qr, mode="complete"), (f32(6, 3),), P("x")),
    "QR, pivoted": (lambda a: lax.linalg.qr(a, pivoting=True), (f32(6, 4),), P("x")),
    "eigenvalues, gradient": (grad(jnp.linalg.eigvalsh), (SYMMETRICS,), ROWS),
    "eigenvectors": (lambda a: (lambda w, v: (v * w[..., None, :]) @ v.mT)(*jnp.linalg.eigh(a)), (SYMMETRICS,), ROWS),
    "singular values, gradient": (grad(partial(jnp.linalg.svd, compute_uv=False)), (f32(4, 6, 3),), ROWS),
    "pseudo inverse": (jnp.linalg.pinv, (f32(4, 6, 3),), ROWS),
    "rank": (jnp.linalg.matrix_rank, (f32(4, 6, 3),), ROWS),
    "eigenvalues of any matrix": (lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), (SQUARES,), ROWS),
    "eigenvectors of any matrix": (lambda a: (lambda w, v: a @ v - v * w[..., None, :])(*jnp.linalg.eig(a)), (SQUARES,), ROWS),
    "eigenvalues of complex matrices": (jnp.linalg.eigvalsh, (complexes(4, 5, 5),), ROWS),
    "Schur form": (jax.scipy.linalg.schur, (SYMMETRIC,), P("x")),
    "Hessenberg form": (jax.scipy.linalg.hessenberg, (f32(5, 5),), P("x")),
    "tridiagonal form": (lambda a: lax.linalg.tridiagonal(a)[1:3], (SYMMETRIC,), P("x")),
    "tridiagonal system": (
        lax.linalg.tridiagonal_solve, (f32(6), 5 + f32(6), f32(6), f32(6, 3)), P("x"),
    ),
    "exponential of a matrix": (jax.scipy.linalg.expm, (0.3 * f32(5, 5),), P("x")),
    "loop that hands a value to itself": (with_threefry(lambda k: jax.random.poisson(k, 0.5, (4,))), (KEY[:2],), P("x")),
}  # fmt: skip
# Programs lowered for TPUs, because only there JAX has ops for these functions. JAX executes them on the CPU.
ON_TPU: dict[str, tuple[Function, tuple[Any, ...], Sharding]] = {
    "ragged rows, gradients": (
        lambda a, b, g: grad(lambda a, b: lax.ragged_dot(a, b, g), 0, 1)(a, b),
        (f32(12, 6), f32(4, 6, 5), SIZES),
        P("x"),
    ),
    "ragged contraction": (
        lambda a, b, g: lax.ragged_dot_general(
            a, b, g, lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
        ),
        (f32(12, 6), f32(12, 5), SIZES),
        P("x", "y"),
    ),
    "ragged batch": (
        lambda a, b, g: lax.ragged_dot_general(
            a, b, g, lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), [0], [])
        ),
        (f32(10, 3, 6), f32(10, 6, 5), SIZES),
        P("x"),
    ),
    "batches of ragged rows": (
        jax.vmap(lax.ragged_dot),
        (f32(2, 12, 6), f32(2, 4, 6, 5), np.stack([SIZES, SIZES[::-1]])),
        P("y", "x"),
    ),
    "ragged rows of each matrix": (
        lambda a, b, g: lax.ragged_dot_general(
            a, b, g, lax.RaggedDotDimensionNumbers((((2,), (1,)), ((), ())), [1], [0])
        ),
        (f32(2, 12, 6), f32(4, 6, 5), np.stack([SIZES, SIZES[::-1]])),
        P("y", "x"),
    ),
    "Cholesky, gradient": (grad(jnp.linalg.cholesky), (SYMMETRIC,), P("x")),
    "LU": (jax.scipy.linalg.lu_factor, (f32(5, 5),), P("x")),
    "singular values": (partial(jnp.linalg.svd, compute_uv=False), (f32(6, 3),), P("x")),
    "triangular solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True),
        (SYMMETRIC, f32(6, 7)),
        P(None, "x"),
    ),
    "triangular solve from the right": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=False, unit_diagonal=True),
        (SYMMETRIC / 9, f32(7, 6)),
        P("x"),
    ),
}


def _check(module: Module, args: list[Any], spec: Sharding, of_jax: list[Any]) -> None:
    """Compare the reference evaluator with JAX, and the program partitioned over 3 x 2 devices (with uneven tiles) with
    the reference.
    """
    mesh = make_mesh({"x": 3, "y": 2})
    first = module.graph.inputs[0].type.rank
    split = Sharding(fit(spec, max(first, spec.rank)).dims[:first])
    annotations = [Annotation(split, True, (False,) * first), *[None] * (len(args) - 1)]
    module = replace(module, mesh=mesh, in_annotations=annotations)
    local = run_stages(module, Options("cpu", "local"), Timing(), "partition")["partition"]
    expected, bounds = meaning(module.graph, args, mesh)
    _agrees(expected, of_jax, bounds)
    outputs = zip(local.out_types, expected, simulate(local, args, tolerance=bounds), bounds, strict=True)
    assert not [comparison for comparison in (compare(*values) for values in outputs) if not comparison.ok]


def _agrees(expected: list[Any], of_jax: list[Any], bounds: list[Any]) -> None:
    """Require equality within the rounding bounds plus 30 ulp of f32, about the error of JAX's own functions."""
    for actual, reference, bound in zip(expected, of_jax, bounds, strict=True):
        assert (actual.shape, actual.dtype) == (reference.shape, reference.dtype)
        slack = 4e-6 * (1 + np.abs(reference)) if reference.dtype.kind in "fc" else 0
        error = np.abs(actual.astype(np.complex128) - reference.astype(np.complex128))
        same = (actual == reference) | ((actual != actual) & (reference != reference))
        assert np.all(same | (error <= bound + slack)), float(np.nanmax(error))


@pytest.mark.parametrize("name", [*PROGRAMS, *FACTORED])
def test_jax_program_matches_jax(name: str) -> None:
    function, args, spec = {**PROGRAMS, **FACTORED}[name]
    lowered = jax.jit(function).lower(*args)
    module, _ = read(lowered, {"x": 3, "y": 2})
    _check(module, list(args), spec, [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*args))])


@pytest.mark.parametrize("name", [name for name in ON_TPU if "ragged" in name])
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_ragged_dot_of_any_platform_is_one_matmul(name: str, platform: str) -> None:
    """JAX lowers a ragged dot to basic ops for CPUs and to a composite for GPUs. meshgen imports both as one ragged
    matmul, except in batches.
    """
    function, args, _ = ON_TPU[name]
    text = jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    kernels = api.plan(text).plan.kernels.values()
    ops = [node.op for body in kernels for node in body.nodes]
    assert ops.count("ragged_dot") == {"ragged rows, gradients": 3, "ragged contraction": 1}.get(name, 0)


@pytest.mark.parametrize("name", ON_TPU)
def test_program_lowered_for_tpu_matches_jax(name: str) -> None:
    function, args, spec = ON_TPU[name]
    text = jax.jit(function).trace(*args).lower(lowering_platforms=("tpu",)).as_text()
    module = read_mlir(text)
    _check(module, list(args), spec, [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*args))])
