"""Tests of GEMM kernels that reduce segments of their result rows: norms of heads, softmax of groups, cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from bodies import Body, with_architectures

from meshgen import api
from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.compiled.executable import Executable
from meshgen.ops.classes import DOTS, REDUCTIONS
from tests.emulator.programs import cases_of

Array = Any


def of(shape: tuple[int, ...], dtype: str = "bfloat16") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def rms_norm(x: Array, scale: Array) -> Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


def heads(x: Array, width: int) -> Array:
    return x.reshape(*x.shape[:-1], -1, width)


def queries_and_keys(x: Array, wq: Array, wk: Array, q: Array, k: Array) -> Array:
    """Compute GEMMs of unequal widths, each with the norm of its heads."""
    return rms_norm(heads(x @ wq, q.shape[0]), q), rms_norm(heads(x @ wk, k.shape[0]), k)


def by_heads(x: Array, w: Array, scale: Array) -> Array:
    """Project with weights that have a heads dim, and transpose the result."""
    return rms_norm(jnp.einsum("bsd,dhk->bshk", x, w), scale).transpose(0, 2, 1, 3)


def all_kinds(x: Array, w: Array) -> Array:
    """Return a GEMM result with every kind of reduction over segments of its rows. No size is a multiple of a tile."""
    z = x @ w
    segments = heads(z, 128)
    return (
        z,
        segments.max(-1),
        segments.min(-1),
        segments.sum(-1),
        (segments * segments).sum(-1),
        (segments + 1).prod(-1),
    )


def flags(x: Array, w: Array) -> Array:
    segments = heads(x @ w, 64)
    return (segments > 8).any(-1), (segments > -30).all(-1)


def softmax_of_groups(x: Array, w: Array) -> Array:
    return jax.nn.softmax(heads(x @ w, 32).astype(jnp.float32), -1)


def centered(x: Array, w: Array) -> Array:
    """Center row segments of a batched GEMM."""
    t = heads(jnp.einsum("bmk,bkn->bmn", x, w), 64)
    return t - t.mean(-1, keepdims=True)


def constant_of_rows(x: Array, w: Array) -> Array:
    """Sum a value that is equal in all columns of a segment."""
    t = heads(x @ w, 64)
    return jnp.broadcast_to(t.max(-1, keepdims=True), t.shape).sum(-1)


def loss(x: Array, w: Array, at: Array) -> Array:
    z = (x @ w).astype(jnp.float32)
    return jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, at[:, None], -1)[:, 0]


FUSED = {  # name -> program, types of its arguments, number of launches
    "heads of 64": (queries_and_keys, [of((72, 128)), of((128, 256)), of((128, 128)), *[of((64,), "float32")] * 2], 1),
    "heads of 128": (
        queries_and_keys,
        [of((72, 128)), of((128, 512)), of((128, 256)), *[of((128,), "float32")] * 2],
        1,
    ),
    "weights by heads": (by_heads, [of((2, 40, 96)), of((96, 3, 64)), of((64,), "float32")], 1),
    "all kinds": (all_kinds, [of((130, 64), "float32"), of((64, 384), "float32")], 1),
    "flags": (flags, [of((50, 64)), of((64, 192))], 1),
    "groups of 32": (softmax_of_groups, [of((50, 64)), of((64, 160))], 1),
    "batch": (centered, [of((3, 50, 64), "float16"), of((3, 64, 192), "float16")], 1),
    "constant of rows": (constant_of_rows, [of((50, 64)), of((64, 192))], 1),
    "cross-entropy": (loss, [of((72, 64)), of((64, 640)), of((72,), "int32")], 2),
}
# name -> program, types of its arguments; segments match no tile width, or the reductions are of integers
NOT_FUSED = {
    "heads of 48": (queries_and_keys, [of((72, 128)), of((128, 192)), of((128, 96)), *[of((48,), "float32")] * 2]),
    "integers": (
        lambda x, w: heads(jnp.matmul(x, w, preferred_element_type=jnp.int32), 64).max(-1),
        [of((72, 64), "int8"), of((64, 256), "int8")],
    ),
}


def text_of(program: Callable[..., Array], types: list[jax.ShapeDtypeStruct]) -> str:
    lines = jax.jit(program).lower(*types).as_text().splitlines()
    return "\n".join([lines[0], '  sdy.mesh @mesh = <["x"=1]>', *lines[1:]])


def reducing_dots(program: Executable) -> int:
    """Return the number of kernels that contain both a GEMM and reductions."""
    ops = [{node.op for node in body.nodes} for body in program.plan.kernels.values()]
    return sum(bool(kernel_ops & DOTS) and bool(kernel_ops & REDUCTIONS) for kernel_ops in ops)


@pytest.mark.parametrize("name, arch", with_architectures(FUSED))
def test_gemm_epilogue_reduces_row_segments(name: str, arch: str, tmp_path: Path) -> None:
    program, types, launches = FUSED[name]
    path = tmp_path / "program.mlir"
    path.write_text(text_of(program, types))
    cases = list(cases_of(path, [arch]))
    assert len(cases) == launches
    assert any({node.op for node in case.body.nodes} & DOTS for case in cases)
    for case in cases:
        assert case.excess(case.run()) <= 1 and case.built.spill_bytes == 0


@pytest.mark.parametrize("name", NOT_FUSED)
def test_unsupported_row_segments_are_reduced_in_another_kernel(name: str) -> None:
    program, types = NOT_FUSED[name]
    assert reducing_dots(api.plan(text_of(program, types))) == 0


def test_gemm_epilogue_supports_one_segment_length() -> None:
    """Check reductions over segments of two lengths: another kernel reduces the segments of the second length."""
    program = api.plan(
        text_of(lambda x, w: (heads(x @ w, 64).max(-1), heads(x @ w, 32).min(-1)), [of((72, 64)), of((64, 256))])
    )
    assert (reducing_dots(program), len(program.plan.kernels)) == (1, 2)


def test_large_tile_reduces_two_segments_in_sequence() -> None:
    """Check a warp-specialized tile of 256 columns: two heads of 128 are processed in sequence in registers."""
    types = [of((4096, 2048)), of((2048, 4096)), of((2048, 1024)), *[of((128,), "float32")] * 2]
    program = api.plan(text_of(queries_and_keys, types), target="cuda:sm_90")
    (source,) = program.sources.values()
    assert (source.tile["n"], source.tile["parts"], source.tile["is_specialized"]) == (256, 2, True)


def test_gated_unit_gemms_are_costed_as_independent() -> None:
    """Check that two GEMMs in a gated unit take less than three times the predicted time of one.

    Unlike the two GEMMs of attention, they do not depend on each other.
    """

    def seconds(count: int) -> float:
        b = Body("bf16[256,8192]", *["bf16[8192,4096]"] * count)
        rows, *weights = b.inputs
        gate, *up = (b.dot(rows, weight, ((1,), (0,))) for weight in weights)
        unit = b.op("multiply", b.op("logistic", gate), up[0]) if up else gate
        parts = b.op("reshape", unit, to="bf16[256,32,128]")
        return kernel_seconds(b.done(b.reduce("maximum", parts, 2)), "cuda:sm_90")

    assert seconds(2) < 3 * seconds(1)
