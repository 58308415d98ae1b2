"""Programs as JAX users write them move what an engineer would move by hand, and compute the same (law 1)."""

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
    """A function of arguments (shape, spec, dtype), the specs of its results, and the bytes it moves by hand."""

    mesh: dict[str, int]
    arguments: Sequence[tuple[Any, ...]]
    results: Sequence[Spec]
    moved: int
    function: Callable[..., Any]


PROGRAMS: dict[str, Program] = {}


def program(mesh: dict[str, int], arguments: Sequence[tuple[Any, ...]], results: Sequence[Spec], moved: float) -> Any:
    """Enter a function into the table."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(mesh, arguments, results, round(moved), function)
        return function

    return register


def ring(nbytes: float, devices: int) -> float:
    """What an all_gather or reduce_scatter of a full value moves; an all_reduce moves twice as much."""
    return nbytes * (devices - 1) / devices


def lowered(each: Program) -> Module:
    """The program as JAX lowers it, with its shardings."""
    sizes = tuple(each.mesh.values())
    mesh = jax.sharding.AbstractMesh(sizes, tuple(each.mesh), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))

    def placed(spec: Spec) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    arguments = [
        jax.ShapeDtypeStruct(shape, rest[0] if rest else np.float32, sharding=placed(spec))
        for shape, spec, *rest in each.arguments
    ]
    results = [placed(spec) for spec in each.results]
    jitted = jax.jit(each.function, out_shardings=tuple(results) if len(results) > 1 else results[0])
    module, _ = read(jitted.trace(*arguments).lower(lowering_platforms=("cpu",)))
    return module


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


X8 = {"x": 8}
NHWC = ("NHWC", "HWIO", "NHWC")


@program(X8, [((16, 8), ("x",)), ((8,), ()), ((8,), ())], [("x",)], 2 * 2 * ring(8 * F32, 8))
def mean_and_variance_written_apart(x: Any, scale: Any, bias: Any) -> Any:
    """`var` computes the mean again: it is reduced once."""
    return (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * scale + bias


def _convolve(stride: int, dilation: int) -> Callable[[Any, Any], Any]:
    def convolve(x: Any, w: Any) -> Any:
        strides, spread = (stride, stride), (dilation, dilation)
        return lax.conv_general_dilated(x, w, strides, "SAME", rhs_dilation=spread, dimension_numbers=NHWC)

    return convolve


ROW = 2 * 8 * 3 * F32  # of a batch of 2, 8 wide, 3 channels
IMAGE = ((2, 16, 8, 3), (None, "x"))
GRADIENTS = [(None, "x"), ()]


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 16, 8, 5), (None, "x"))], GRADIENTS,
         2 * ROW + 2 * ROW * 5 / 3 + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    """A row from each neighbour of x for the kernel's gradient, of dy for the image's; the former is a sum of parts."""
    return jax.vjp(_convolve(1, 1), x, w)[1](dy)


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 8, 4, 5), (None, "x"))], GRADIENTS,
         ROW + ROW / 2 * 5 / 3 + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def strided_convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    """With a stride of 2 windows reach over one end of a tile only."""
    return jax.vjp(_convolve(2, 1), x, w)[1](dy)


@program({"x": 4}, [IMAGE, ((3, 3, 3, 5), ()), ((2, 16, 8, 5), (None, "x"))], GRADIENTS,
         2 * 2 * (ROW + ROW * 5 / 3) + 2 * ring(9 * 15 * F32, 4))  # fmt: skip
def dilated_convolution_gradients(x: Any, w: Any, dy: Any) -> Any:
    return jax.vjp(_convolve(1, 2), x, w)[1](dy)


@program({"x": 4}, [((8, 16), ("x",)), ((16, 8), ())], [("x",)], 2 * ring(8 * 16 * F32 / 4, 4))
def sorted_rows_of_a_split_dim(x: Any, w: Any) -> Any:
    """Sorting looks along the whole dim: it is exchanged for another and back."""
    return jnp.sort(x.T, -1).T


@program({"tp": 8}, [((4, 6, 32), ()), ((32, 16, 4), (None, "tp")), ((32, 2, 4), ()), ((16, 4, 32), ("tp",))], [()],
         2 * ring(4 * 6 * 32 * F32, 8))  # fmt: skip
def grouped_query_attention_with_two_key_heads(x: Any, wq: Any, wk: Any, wo: Any) -> Any:
    """16 heads on 8 devices as 2 groups of 8: 2 devices by groups, 4 in each."""
    q = jnp.einsum("ble,ehd->blhd", x, wq).reshape(4, 6, 2, 8, 4)
    k = jnp.einsum("ble,ehd->blhd", x, wk)
    scores = jax.nn.softmax(jnp.einsum("blkgd,bmkd->bkglm", q, k), -1)
    mixed = jnp.einsum("bkglm,bmkd->blkgd", scores, k).reshape(4, 6, 16, 4)
    return jnp.einsum("blhd,hde->ble", mixed, wo)


@program({"tp": 4}, [((4, 6, 32), ()), ((32, 40), (None, "tp")), ((40, 32), ("tp",))], [()],
         2 * ring(4 * 6 * 32 * F32, 4) + ring(4 * 6 * 20 * F32, 2))  # fmt: skip
def ten_heads_on_four_devices(x: Any, w: Any, wo: Any) -> Any:
    """2 devices split the heads evenly, the other 2 share their columns."""
    return jax.nn.softmax((x @ w).reshape(4, 6, 10, 4), -1).reshape(4, 6, 40) @ wo


@program({"x": 8}, [((2, 16, 8), (None, "x")), ((8, 64), ())], [()], 2 * ring(2 * 8 * F32, 8))
def logits_of_the_last_token(x: Any, w: Any) -> Any:
    """The device that has it gives it, the others zeros."""
    return x[:, -1] @ w


@program({"pp": 4, "tp": 2}, [((6, 4, 8), ()), ((4, 8, 8), ("pp", None, "tp")), ((4, 8, 8), ("pp", "tp"))], [()],
         9 * (4 * 8 * F32 + 2 * ring(4 * 8 * F32, 2)) + 2 * ring(6 * 4 * 8 * F32, 4))  # fmt: skip
def pipeline_of_four_stages(x: Any, w: Any, v: Any) -> Any:
    """Each tick moves one microbatch to the next stage; what the last stage makes is collected once, after the loop."""

    def tick(carried: Any, time: Any) -> Any:
        stages, made = carried
        stages = jnp.roll(stages, 1, 0).at[0].set(x[jnp.minimum(time, 5)])
        stages = stages + jnp.einsum("sle,sef->slf", jnp.tanh(jnp.einsum("sle,sef->slf", stages, w)), v)
        made = lax.dynamic_update_index_in_dim(made, stages[3], jnp.maximum(time - 3, 0), 0)
        return (stages, made), None

    return lax.scan(tick, (jnp.zeros((4, 4, 8)), jnp.zeros((6, 4, 8))), jnp.arange(9))[0][1]


@program({"pp": 4}, [((6, 4, 8), ()), ((4, 8, 8), ("pp",))], [()],
         9 * 4 * 8 * F32 + 2 * ring(6 * 4 * 8 * F32, 4))  # fmt: skip
def pipeline_that_takes_the_last_stage_and_turns(x: Any, w: Any) -> Any:
    """What is taken has the same rows as what the turn moves: it is still summed once, after the loop."""

    def tick(carried: Any, time: Any) -> Any:
        stages, made = carried
        stages = jnp.tanh(jnp.einsum("sle,sef->slf", stages.at[0].set(x[jnp.minimum(time, 5)]), w))
        made = lax.dynamic_update_index_in_dim(made, stages[3], jnp.maximum(time - 3, 0), 0)
        return (jnp.roll(stages, 1, 0), made), None

    return lax.scan(tick, (jnp.zeros((4, 4, 8)), jnp.zeros((6, 4, 8))), jnp.arange(9))[0][1]


@program({"dp": 2}, [((8, 64), ("dp",)), ((8, 64), ("dp",))], [()],
         ring(8 * 64 * F32, 2) + ring(8 * 32 * F32, 2) + ring(64 * 64 * F32, 2))  # fmt: skip
def gradient_of_a_large_weight_from_few_rows(x: Any, dy: Any) -> Any:
    """One operand is gathered and the other exchanged, and the result gathered: less than to reduce parts of it."""
    return x.T @ dy


@program({"x": 4}, [((4, 8), ("x",)), ((4, 8), ("x",))], [("x",)], 8 * F32)
def gradient_of_a_turn(x: Any, dy: Any) -> Any:
    """A sum of two padded slices, which is the turn back: one row from the neighbour."""
    return jax.vjp(lambda y: jnp.roll(y, 1, 0), x)[1](dy)[0]


@program({"tp": 4}, [((8, 16), ()), ((16, 48), (None, "tp")), ((16, 16), ("tp",))], [()],
         3 * 4 * 16 * F32 + 2 * ring(8 * 16 * F32, 4))  # fmt: skip
def fused_projection_taken_apart(x: Any, w: Any, wo: Any) -> Any:
    """Each device gets its heads' columns of q, k and v in one message: a quarter of each third at most."""
    q, k, v = (each.reshape(8, 4, 4) for each in jnp.split(x @ w, 3, -1))
    scores = jax.nn.softmax(jnp.einsum("lhd,mhd->hlm", q, k), -1)
    return jnp.einsum("hlm,mhd->lhd", scores, v).reshape(8, 16) @ wo


@program({"x": 4}, [((8, 3), ("x",)), ((8, 3), ("x",))], [("x",)], 4 * 3 * F32)
def two_tensors_joined_along_a_split_dim(x: Any, y: Any) -> Any:
    """A device holds 2 rows of each and wants 4 of one: in one message it receives 4 and sends 4 at most."""
    return jnp.concatenate([x, y], 0)


@program({"x": 4}, [((16, 3), ("x",))], [("x",)], 4 * 3 * F32)
def halves_of_a_split_dim_multiplied(x: Any) -> Any:
    left, right = jnp.split(x, 2, 0)
    return left * right


@program({"x": 2, "y": 4}, [((8, 16), ("x", "y"))], [("x", "y")], 2 * 4 * F32 + 2 * 4 * F32)
def stencil_as_slices_of_a_padded_tensor(u: Any) -> Any:
    """One row or column from each neighbour: tiles of 4 x 4."""
    p = jnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u


@program({"x": 2, "y": 4}, [((32, 16), ("x", "y"))], [("x", "y")], 5 * (4 * F32 + 2 * 16 * F32))
def stencil_of_a_padded_tensor_in_a_loop(u: Any) -> Any:
    """In each of 5 trips a row from the one neighbour along x, a column from each of two along y."""
    return lax.fori_loop(0, 5, lambda _, v: stencil_as_slices_of_a_padded_tensor(v), u)


@program({"x": 4}, [((256, 8), ("x",)), ((256, 8), ("x",))], [("x",)], 2 * 8 * F32)
def differences_added_in_place(e: Any, h: Any) -> Any:
    """Rows 1 to 255 get the difference to the row before: one row from the neighbour, and one for the other field."""
    h = h.at[:-1].add(e[1:] - e[:-1])
    return e.at[1:].multiply(h[1:] - h[:-1])


@program({"x": 4}, [((2, 16, 6), (None, "x")), ((4, 6), ())], [(None, "x")], 3 * 2 * 6 * F32)
def causal_convolution_as_shifted_slices(x: Any, w: Any) -> Any:
    """Windows of 1, 2 and 3 earlier rows overlap: 3 rows are fetched."""
    padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
    return sum(padded[:, i : i + 16] * w[i] for i in range(4))


@program({"x": 4}, [((2, 16, 8, 3), (None, "x")), ((2, 8, 4, 3), (None, "x"))], [(None, "x")], 0)
def gradient_of_a_maximum_over_windows(x: Any, dy: Any) -> Any:
    """Windows that lie side by side stay on a device."""
    ones = (1, 2, 2, 1)
    return jax.vjp(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, ones, ones, "VALID"), x)[1](dy)[0]


def _cache(cache: Any, key: Any, place: Any) -> Any:
    return jax.vmap(lambda c, k, p: lax.dynamic_update_slice(c, k, (p, 0, 0)))(cache, key, place)


@program({"tp": 4}, [((3, 8, 4, 2), (None, "tp")), ((3, 1, 4, 2), ()), ((3,), (), np.int32)], [(None, "tp")], 0)
def cache_split_by_sequence(cache: Any, key: Any, place: Any) -> Any:
    return _cache(cache, key, place)


@program({"tp": 4}, [((3, 8, 4, 2), (None, None, "tp")), ((3, 1, 4, 2), (None, None, "tp")), ((3,), (), np.int32)],
         [(None, None, "tp")], 0)  # fmt: skip
def cache_split_by_heads(cache: Any, key: Any, place: Any) -> Any:
    return _cache(cache, key, place)


@program({"x": 4}, [((3, 8, 5), (None, "x")), ((3,), (), np.int32)], [()], 2 * ring(3 * 5 * F32, 4))
def a_row_of_each_sequence(x: Any, place: Any) -> Any:
    """Whoever has the row gives it."""
    return jax.vmap(lambda row, p: lax.dynamic_slice(row, (p, 0), (1, 5)))(x, place)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_moves_what_it_does_by_hand(name: str) -> None:
    """Links without latency: with it, moving more at once is better for programs this small."""
    module = lowered(PROGRAMS[name])
    axes = tuple(replace(axis, latency=0.0) for axis in module.mesh.axes)
    module = replace(module, mesh=replace(module.mesh, axes=axes))
    assert analyze(partitioned(module)).ring_bytes <= PROGRAMS[name].moved
    result = check(module, pipeline=partitioned)
    assert result.ok, result.faults[0]
