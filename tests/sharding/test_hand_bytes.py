"""Programs as JAX users write them move what an engineer would move by hand, and compute the same (law 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from meshgen.api import read
from meshgen.ir.graph import Module
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.oracle import check

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
    mesh = jax.sharding.AbstractMesh(tuple(each.mesh.values()), tuple(each.mesh))

    def placed(spec: Spec) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    arguments = [
        jax.ShapeDtypeStruct(shape, rest[0] if rest else np.float32, sharding=placed(spec))
        for shape, spec, *rest in each.arguments
    ]
    results = tuple(map(placed, each.results))
    jitted = jax.jit(each.function, out_shardings=results if len(results) > 1 else results[0])
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_moves_what_it_does_by_hand(name: str) -> None:
    module = lowered(PROGRAMS[name])
    assert analyze(partitioned(module)).ring_bytes <= PROGRAMS[name].moved
    result = check(module, pipeline=partitioned)
    assert result.ok, result.faults[0]
