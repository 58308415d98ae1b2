"""Programs in the style of JAX users. Their plans send no more bytes than an engineer's schedule, and compute the same
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from meshgen.api import read
from meshgen.ir.graph import Module
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
Spec = tuple[Any, ...]
F32 = 4  # bytes


@dataclass(frozen=True)
class Program:
    """A function, its arguments (shape, spec, dtype), its result specs, and the bytes that a schedule by an engineer
    sends.
    """

    mesh: dict[str, int]
    arguments: Sequence[tuple[Any, ...]]
    results: Sequence[Spec]
    moved: int
    function: Callable[..., Any]


PROGRAMS: dict[str, Program] = {}


def program(mesh: dict[str, int], arguments: Sequence[tuple[Any, ...]], results: Sequence[Spec], moved: float) -> Any:
    """Register the decorated function in `PROGRAMS`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(mesh, arguments, results, round(moved), function)
        return function

    return register


def ring(nbytes: float, devices: int) -> float:
    """Return the bytes that each device sends in an all_gather or reduce_scatter of `nbytes` over a ring. An all_reduce
    sends twice as many.
    """
    return nbytes * (devices - 1) / devices


def lowered(entry: Program) -> Module:
    """Return the program as JAX lowers it, with its shardings."""
    sizes = tuple(entry.mesh.values())
    mesh = jax.sharding.AbstractMesh(sizes, tuple(entry.mesh), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))

    def named_sharding(spec: Spec) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    arguments = [
        jax.ShapeDtypeStruct(shape, rest[0] if rest else np.float32, sharding=named_sharding(spec))
        for shape, spec, *rest in entry.arguments
    ]
    results = [named_sharding(spec) for spec in entry.results]
    jitted = jax.jit(entry.function, out_shardings=tuple(results) if len(results) > 1 else results[0])
    module, _ = read(jitted.trace(*arguments).lower(lowering_platforms=("cpu",)))
    return module


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


X8 = {"x": 8}
NHWC = ("NHWC", "HWIO", "NHWC")


@program(X8, [((16, 8), ("x",)), ((8,), ()), ((8,), ())], [("x",)], 2 * 2 * ring(8 * F32, 8))
def mean_and_variance_computed_separately(x: Any, scale: Any, bias: Any) -> Any:
    """`var` recomputes the mean. The two equal means must be reduced across devices only once."""
    return (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * scale + bias


def _convolve(stride: int, dilation: int) -> Callable[[Any, Any], Any]:
    def convolve(x: Any, w: Any) -> Any:
        strides, spread = (stride, stride), (dilation, dilation)
        return lax.conv_general_dilated(x, w, strides, "SAME", rhs_dilation=spread, dimension_numbers=NHWC)

    return convolve


ROW = 2 * 8 * 3 * F32  # bytes of one image row: batch 2, width 8, 3 channels
IMAGE = ((2, 16, 8, 3), (None, "x"))
GRADIENTS = [(None, "x"), ()]


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 16, 8, 5), (None, "x"))], GRADIENTS,
         2 * ROW + 2 * ROW * 5 / 3 + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    """A device receives a row of x (for the kernel gradient) and a row of dy (for the image gradient) from each
    neighbor. The partial kernel gradients are summed.
    """
    return jax.vjp(_convolve(1, 1), x, w)[1](dy)


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 8, 4, 5), (None, "x"))], GRADIENTS,
         ROW + ROW / 2 * 5 / 3 + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def strided_convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    """With stride 2, windows extend beyond only one end of a device's rows, so there is one neighbor."""
    return jax.vjp(_convolve(2, 1), x, w)[1](dy)


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 16, 8, 5), (None, "x"))], GRADIENTS,
         2 * 2 * (ROW + ROW * 5 / 3) + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def dilated_convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    return jax.vjp(_convolve(1, 2), x, w)[1](dy)


@program({"x": 4}, [((8, 16), ("x",)), ((16, 8), ())], [("x",)], 2 * ring(8 * 16 * F32 / 4, 4))
def sorted_rows_of_a_split_dim(x: Any, w: Any) -> Any:
    """The sorted dim must be unsplit. One all_to_all moves the split to another dim, and a second one moves the split
    back.
    """
    return jnp.sort(x.T, -1).T


@program({"tp": 8}, [((4, 6, 32), ()), ((32, 16, 4), (None, "tp")), ((32, 2, 4), ()), ((16, 4, 32), ("tp",))], [()],
         2 * ring(4 * 6 * 32 * F32, 8))  # fmt: skip
def grouped_query_attention_with_two_key_heads(x: Any, wq: Any, wk: Any, wo: Any) -> Any:
    """Each key head serves 8 of the 16 query heads. Of 8 devices, 2 split the key heads, and 4 split the query heads of
    each.
    """
    q = jnp.einsum("ble,ehd->blhd", x, wq).reshape(4, 6, 2, 8, 4)
    k = jnp.einsum("ble,ehd->blhd", x, wk)
    scores = jax.nn.softmax(jnp.einsum("blkgd,bmkd->bkglm", q, k), -1)
    mixed = jnp.einsum("bkglm,bmkd->blkgd", scores, k).reshape(4, 6, 16, 4)
    return jnp.einsum("blhd,hde->ble", mixed, wo)


@program({"tp": 4}, [((4, 6, 32), ()), ((32, 40), (None, "tp")), ((40, 32), ("tp",))], [()],
         2 * ring(4 * 6 * 32 * F32, 4) + ring(4 * 6 * 20 * F32, 2))  # fmt: skip
def ten_heads_on_four_devices(x: Any, w: Any, wo: Any) -> Any:
    """Only 2 devices can split 10 heads evenly. Each pair of devices gathers its columns of `x @ w` before the softmax."""
    return jax.nn.softmax((x @ w).reshape(4, 6, 10, 4), -1).reshape(4, 6, 40) @ wo


@program({"x": 8}, [((2, 16, 8), (None, "x")), ((8, 64), ())], [()], 2 * ring(2 * 8 * F32, 8))
def logits_of_the_last_token(x: Any, w: Any) -> Any:
    """The device with the last token adds the token to a sum over devices. All other devices add zeros."""
    return x[:, -1] @ w


@program({"pp": 4, "tp": 2}, [((6, 4, 8), ()), ((4, 8, 8), ("pp", None, "tp")), ((4, 8, 8), ("pp", "tp"))], [()],
         9 * (4 * 8 * F32 + 2 * ring(4 * 8 * F32, 2)) + 2 * ring(6 * 4 * 8 * F32, 4))  # fmt: skip
def pipeline_of_four_stages(x: Any, w: Any, v: Any) -> Any:
    """Each loop iteration sends a microbatch from one stage to the next. The outputs of the last stage are summed once,
    after the loop.
    """

    def tick(carried: Any, time: Any) -> Any:
        stages, outputs = carried
        stages = jnp.roll(stages, 1, 0).at[0].set(x[jnp.minimum(time, 5)])
        stages = stages + jnp.einsum("sle,sef->slf", jnp.tanh(jnp.einsum("sle,sef->slf", stages, w)), v)
        outputs = lax.dynamic_update_index_in_dim(outputs, stages[3], jnp.maximum(time - 3, 0), 0)
        return (stages, outputs), None

    return lax.scan(tick, (jnp.zeros((4, 4, 8)), jnp.zeros((6, 4, 8))), jnp.arange(9))[0][1]


@program({"pp": 4}, [((6, 4, 8), ()), ((4, 8, 8), ("pp",))], [()],
         9 * 4 * 8 * F32 + 2 * ring(6 * 4 * 8 * F32, 4))  # fmt: skip
def pipeline_that_reads_last_stage_and_rotates(x: Any, w: Any) -> Any:
    """The slice of the last stage has the same rows that the rotation sends. The slice is nevertheless summed once
    after the loop, not in each iteration.
    """

    def tick(carried: Any, time: Any) -> Any:
        stages, outputs = carried
        stages = jnp.tanh(jnp.einsum("sle,sef->slf", stages.at[0].set(x[jnp.minimum(time, 5)]), w))
        outputs = lax.dynamic_update_index_in_dim(outputs, stages[3], jnp.maximum(time - 3, 0), 0)
        return (jnp.roll(stages, 1, 0), outputs), None

    return lax.scan(tick, (jnp.zeros((4, 4, 8)), jnp.zeros((6, 4, 8))), jnp.arange(9))[0][1]


@program({"dp": 2}, [((8, 64), ("dp",)), ((8, 64), ("dp",))], [()],
         ring(8 * 64 * F32, 2) + ring(8 * 32 * F32, 2) + ring(64 * 64 * F32, 2))  # fmt: skip
def gradient_of_a_large_weight_from_few_rows(x: Any, dy: Any) -> Any:
    """Gathering one operand, an all_to_all of the other and gathering the result cost less than reducing partial
    results.
    """
    return x.T @ dy


@program({"x": 4}, [((4, 8), ("x",)), ((4, 8), ("x",))], [("x",)], 8 * F32)
def gradient_of_roll(x: Any, dy: Any) -> Any:
    """JAX writes the gradient as the sum of two padded slices. It equals the inverse rotation, for which a neighbor
    sends one row.
    """
    return jax.vjp(lambda y: jnp.roll(y, 1, 0), x)[1](dy)[0]


@program({"tp": 4}, [((8, 16), ()), ((16, 48), (None, "tp")), ((16, 16), ("tp",))], [()],
         3 * 4 * 16 * F32 + 2 * ring(8 * 16 * F32, 4))  # fmt: skip
def fused_qkv_projection_split_by_heads(x: Any, w: Any, wo: Any) -> Any:
    """A device receives the columns of q, k and v for its heads in one message: at most a quarter of the columns of
    each.
    """
    q, k, v = (projection.reshape(8, 4, 4) for projection in jnp.split(x @ w, 3, -1))
    scores = jax.nn.softmax(jnp.einsum("lhd,mhd->hlm", q, k), -1)
    return jnp.einsum("hlm,mhd->lhd", scores, v).reshape(8, 16) @ wo


@program({"x": 4}, [((8, 3), ("x",)), ((8, 3), ("x",))], [("x",)], 4 * 3 * F32)
def concatenation_along_a_split_dim(x: Any, y: Any) -> Any:
    """A device holds 2 rows of x and of y, and its 4 result rows are from only one of them. It sends at most 4 rows,
    all in one collective.
    """
    return jnp.concatenate([x, y], 0)


@program({"x": 4}, [((16, 3), ("x",))], [("x",)], 4 * 3 * F32)
def halves_of_a_split_dim_multiplied(x: Any) -> Any:
    left, right = jnp.split(x, 2, 0)
    return left * right


@program({"x": 2, "y": 4}, [((8, 16), ("x", "y"))], [("x", "y")], 2 * 4 * F32 + 2 * 4 * F32)
def stencil_as_slices_of_a_padded_tensor(u: Any) -> Any:
    """Each device holds a tile of 4 x 4 and receives one row or column from each neighbor."""
    p = jnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u


@program({"x": 2, "y": 4}, [((32, 16), ("x", "y"))], [("x", "y")], 5 * (4 * F32 + 2 * 16 * F32))
def stencil_of_a_padded_tensor_in_a_loop(u: Any) -> Any:
    """Each of 5 iterations receives a row from the neighbor along x, and a column from each of two neighbors along y."""
    return lax.fori_loop(0, 5, lambda _, v: stencil_as_slices_of_a_padded_tensor(v), u)


@program({"x": 4}, [((256, 8), ("x",)), ((256, 8), ("x",))], [("x",)], 2 * 8 * F32)
def differences_added_in_place(e: Any, h: Any) -> Any:
    """Rows 1 to 255 subtract the row before. For each of the two fields, a device receives one row from its neighbor."""
    h = h.at[:-1].add(e[1:] - e[:-1])
    return e.at[1:].multiply(h[1:] - h[:-1])


@program({"x": 4}, [((2, 16, 6), (None, "x")), ((4, 6), ())], [(None, "x")], 3 * 2 * 6 * F32)
def causal_convolution_as_shifted_slices(x: Any, w: Any) -> Any:
    """The slices are shifted by 1, 2 and 3 rows. A device receives 3 rows in total, because the slices overlap."""
    padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
    return sum(padded[:, i : i + 16] * w[i] for i in range(4))


@program({"x": 4}, [((2, 16, 8, 3), (None, "x")), ((2, 8, 4, 3), (None, "x"))], [(None, "x")], 0)
def gradient_of_a_maximum_over_windows(x: Any, dy: Any) -> Any:
    """Windows are disjoint, and none extends over two devices, so nothing is sent."""
    ones = (1, 2, 2, 1)
    return jax.vjp(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, ones, ones, "VALID"), x)[1](dy)[0]


def _write_cache(cache: Any, key: Any, positions: Any) -> Any:
    return jax.vmap(lambda c, k, p: lax.dynamic_update_slice(c, k, (p, 0, 0)))(cache, key, positions)


@program({"tp": 4}, [((3, 8, 4, 2), (None, "tp")), ((3, 1, 4, 2), ()), ((3,), (), np.int32)], [(None, "tp")], 0)
def cache_split_by_sequence(cache: Any, key: Any, positions: Any) -> Any:
    return _write_cache(cache, key, positions)


@program({"tp": 4}, [((3, 8, 4, 2), (None, None, "tp")), ((3, 1, 4, 2), (None, None, "tp")), ((3,), (), np.int32)],
         [(None, None, "tp")], 0)  # fmt: skip
def cache_split_by_heads(cache: Any, key: Any, positions: Any) -> Any:
    return _write_cache(cache, key, positions)


@program({"x": 4}, [((3, 8, 5), (None, "x")), ((3,), (), np.int32)], [()], 2 * ring(3 * 5 * F32, 4))
def dynamic_row_of_each_sequence(x: Any, positions: Any) -> Any:
    """The device with the row adds the row to a sum over devices. All other devices add zeros."""
    return jax.vmap(lambda row, p: lax.dynamic_slice(row, (p, 0), (1, 5)))(x, positions)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_sends_no_more_bytes_than_by_hand(name: str) -> None:
    """The links have no latency. With latency, small programs like these send more bytes in fewer messages."""
    module = lowered(PROGRAMS[name])
    axes = tuple(replace(axis, latency=0.0) for axis in module.mesh.axes)
    module = replace(module, mesh=replace(module.mesh, axes=axes))
    assert analyze(partitioned(module)).ring_bytes <= PROGRAMS[name].moved
    result = check(module, pipeline=partitioned)
    assert result.ok, result.faults[0]
