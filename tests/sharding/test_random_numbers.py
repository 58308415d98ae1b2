"""Law 10: random numbers are those of the global index, whatever the mesh and however they are split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.api import plan

SEED = np.array([3, 5], np.uint64)
GENERATED = """sdy.mesh @mesh = <["x"={x}, "y"={y}]>
func.func @main(%s: tensor<2xui64>) -> (tensor<10x6x{kind}> {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) {{
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<10x6x{kind}>)
  return %1 : tensor<10x6x{kind}>
}}"""
MESHES = [(1, 1), (2, 2), (3, 4), (1, 7), (16, 1)]


def generated(mesh: tuple[int, int], kind: str, dims: str) -> np.ndarray[Any, Any]:
    executable = plan(GENERATED.format(x=mesh[0], y=mesh[1], kind=kind, dims=dims), target="cpu")
    assert executable.comms.counts == {}  # every device makes its own
    return np.asarray(executable(SEED))


@pytest.mark.parametrize("kind", ["ui32", "ui64"])
@pytest.mark.parametrize("dims", ['{"x"}, {"y"}', '{"y"}, {}', '{}, {"x", "y"}'])
def test_generated_bits_do_not_depend_on_the_mesh(kind: str, dims: str) -> None:
    first, *others = (generated(mesh, kind, dims) for mesh in MESHES)
    assert len(np.unique(first)) > 50  # they are random
    assert all(np.array_equal(first, other) for other in others)


def test_jax_keys_give_the_same_numbers_on_every_mesh() -> None:
    """Threefry as JAX writes it out; the mask of a dropout and normal noise."""
    jax = pytest.importorskip("jax")
    random, spec = jax.random, jax.sharding.PartitionSpec
    key, x = np.asarray(random.key_data(random.key(7))), np.ones((12, 8), np.float32)

    def noisy(data: Any, x: Any) -> Any:
        made = random.wrap_key_data(data)
        return jax.numpy.where(random.bernoulli(made, 0.5, x.shape), x, 0.0), random.normal(made, x.shape)

    mask, noise = (np.asarray(each) for each in jax.jit(noisy)(key, x))
    for sizes in ((1, 1), (2, 4), (4, 2), (3, 8)):
        mesh = jax.sharding.AbstractMesh(sizes, ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        shardings = [jax.sharding.NamedSharding(mesh, each) for each in (spec(), spec("x", "y"))]
        lowered = jax.jit(noisy, in_shardings=tuple(shardings), out_shardings=(shardings[1],) * 2)
        executable = plan(lowered.trace(key, x).lower(lowering_platforms=("cpu",)), target="cpu")
        got_mask, got_noise = executable(key, x)
        np.testing.assert_array_equal(got_mask, mask)
        np.testing.assert_allclose(got_noise, noise, rtol=1e-5, atol=1e-6)
