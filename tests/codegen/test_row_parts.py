"""Products whose kernels reduce parts of the rows of their results: norms of heads, softmax of groups, cross-entropy."""

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
    """Products of unequal widths, each with the norm of its heads."""
    return rms_norm(heads(x @ wq, q.shape[0]), q), rms_norm(heads(x @ wk, k.shape[0]), k)


def by_heads(x: Array, w: Array, scale: Array) -> Array:
    """Weights with a dim of heads, and a result with another order of dims."""
    return rms_norm(jnp.einsum("bsd,dhk->bshk", x, w), scale).transpose(0, 2, 1, 3)


def all_kinds(x: Array, w: Array) -> Array:
    """Parts past the last row and the last column of a tile, the product itself, and every kind of reduction."""
    z = x @ w
    t = heads(z, 128)
    return z, t.max(-1), t.min(-1), t.sum(-1), (t * t).sum(-1), (t + 1).prod(-1)


def flags(x: Array, w: Array) -> Array:
    t = heads(x @ w, 64)
    return (t > 8).any(-1), (t > -30).all(-1)


def softmax_of_groups(x: Array, w: Array) -> Array:
    return jax.nn.softmax(heads(x @ w, 32).astype(jnp.float32), -1)


def centred(x: Array, w: Array) -> Array:
    """A batch of products."""
    t = heads(jnp.einsum("bmk,bkn->bmn", x, w), 64)
    return t - t.mean(-1, keepdims=True)


def constant_of_rows(x: Array, w: Array) -> Array:
    """A sum of what is the same in all columns of a part."""
    t = heads(x @ w, 64)
    return jnp.broadcast_to(t.max(-1, keepdims=True), t.shape).sum(-1)


def loss(x: Array, w: Array, at: Array) -> Array:
    z = (x @ w).astype(jnp.float32)
    return jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, at[:, None], -1)[:, 0]


IN_ONE = {  # program, types of its arguments, launches
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
    "batch": (centred, [of((3, 50, 64), "float16"), of((3, 64, 192), "float16")], 1),
    "constant of rows": (constant_of_rows, [of((50, 64)), of((64, 192))], 1),
    "cross-entropy": (loss, [of((72, 64)), of((64, 640)), of((72,), "int32")], 2),
}
APART = {  # parts that no tile has, and parts of sums of integers
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
    """Kernels with a product and reductions."""
    ops = [{node.op for node in body.nodes} for body in program.plan.kernels.values()]
    return sum(bool(each & DOTS) and bool(each & REDUCTIONS) for each in ops)


@pytest.mark.parametrize("name, arch", with_architectures(IN_ONE))
def test_parts_are_reduced_where_they_are_computed(name: str, arch: str, tmp_path: Path) -> None:
    program, types, launches = IN_ONE[name]
    path = tmp_path / "program.mlir"
    path.write_text(text_of(program, types))
    cases = list(cases_of(path, [arch]))
    assert len(cases) == launches
    assert any({node.op for node in case.body.nodes} & DOTS for case in cases)
    for case in cases:
        assert case.excess(case.run()) <= 1 and case.built.spill_bytes == 0


@pytest.mark.parametrize("name", APART)
def test_other_parts_are_reduced_after_the_product(name: str) -> None:
    program, types = APART[name]
    assert reducing_dots(api.plan(text_of(program, types))) == 0


def test_a_tile_has_parts_of_one_length() -> None:
    """Parts of another length are reduced after the product."""
    program = api.plan(
        text_of(lambda x, w: (heads(x @ w, 64).max(-1), heads(x @ w, 32).min(-1)), [of((72, 64)), of((64, 256))])
    )
    assert (reducing_dots(program), len(program.plan.kernels)) == (1, 2)


def test_large_tiles_take_two_parts() -> None:
    """A tile of 256 columns has two heads of 128, one after the other in registers, beside the warps that copy."""
    types = [of((4096, 2048)), of((2048, 4096)), of((2048, 1024)), *[of((128,), "float32")] * 2]
    program = api.plan(text_of(queries_and_keys, types), target="cuda:sm_90")
    (source,) = program.sources.values()
    assert (source.tile["n"], source.tile["parts"], source.tile["is_specialized"]) == (256, 2, True)


def test_joint_products_do_not_wait_for_each_other() -> None:
    """The second product of an attention waits for the first; those of a gated unit with row reductions do not."""

    def seconds(count: int) -> float:
        b = Body("bf16[256,8192]", *["bf16[8192,4096]"] * count)
        rows, *weights = b.inputs
        gate, *up = (b.dot(rows, weight, ((1,), (0,))) for weight in weights)
        unit = b.op("multiply", b.op("logistic", gate), up[0]) if up else gate
        parts = b.op("reshape", unit, to="bf16[256,32,128]")
        return kernel_seconds(b.done(b.reduce("maximum", parts, 2)), "cuda:sm_90")

    assert seconds(2) < 3 * seconds(1)
