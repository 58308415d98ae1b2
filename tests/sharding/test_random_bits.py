"""Random numbers depend only on the global index, not on the mesh or the sharding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.api import compile as compiled
from meshgen.api import load, plan
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.testing.oracle import CheckResult, check

SEED = np.array([3, 2**64 - 5, 2**63], np.uint64)  # the second word of the counter overflows
GENERATED = """sdy.mesh @mesh = <["x"={x}, "y"={y}]>
func.func @main(%s: tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{shape}{kind}> {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) {{
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{shape}{kind}>)
  return %0, %1 : tensor<{words}xui64>, tensor<{shape}{kind}>
}}"""
MESHES = [(1, 1), (2, 2), (3, 4), (1, 7), (11, 1)]
GENERATORS = [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 3)]


def checked(text: str, words: int) -> CheckResult:
    return check(parse_text(text), pipeline=local_form, args=[SEED[:words]])


def local_form(module: Module) -> Module:
    return run_stages(module, Options("cpu", "local"), Timing(), "partition")["partition"]


def program(generator: tuple[str, int], mesh: tuple[int, int], kind: str, dims: str, shape: str = "10x6x") -> str:
    (algorithm, words), (x, y) = generator, mesh
    return GENERATED.format(algorithm=algorithm, words=words, x=x, y=y, kind=kind, dims=dims, shape=shape)


# Tile offsets that are not multiples of a generator word are tested with one generator per kind. The last generator is
# an alias of the third.
SPLIT = ['{"x"}, {"y"}', '{"y"}, {}', '{}, {"x", "y"}']
SPLITS = [
    (generator, dims) for generator in GENERATORS[:3] for dims in (SPLIT if generator in GENERATORS[:2] else SPLIT[:1])
]


@pytest.mark.parametrize(("generator", "dims"), SPLITS, ids=str)
@pytest.mark.parametrize("kind", ["ui8", "i32", "ui64"])
def test_generated_bits_do_not_depend_on_the_mesh(generator: tuple[str, int], kind: str, dims: str) -> None:
    """Compare the bits on each mesh with those of the generator on global arrays. The first mesh has one device."""
    for mesh in MESHES:
        module = parse_text(program(generator, mesh, kind, dims))
        local = local_form(module)
        result = check(module, pipeline=lambda _, local=local: local, args=[SEED[: generator[1]]])
        assert result.ok, (mesh, result)
        assert result.max_abs_error == 0
        assert analyze(local).counts == {}  # no collective: every device generates its own bits
        tile = local.graph.outputs[1].type.size
        # No value is larger than a tile, so no device generates the bits of other tiles.
        assert max(value.type.size for value in local.graph.values()) <= max(tile, 3)


@pytest.mark.parametrize("generator", GENERATORS, ids=str)
@pytest.mark.parametrize(
    ("shape", "dims"), [("", ""), ("7x", '{"x"}'), ("3x5x7x", '{"x"}, {}, {"y"}'), ("0x4x", '{"x"}, {}')]
)
def test_generated_bits_of_any_shape_are_correct(generator: tuple[str, int], shape: str, dims: str) -> None:
    for kind in ("ui16", "ui32", "ui64"):
        result = checked(program(generator, (2, 3), kind, dims, shape), generator[1])
        assert result.ok, (kind, result)


def test_generated_bits_are_mostly_distinct() -> None:
    executable = plan(program(GENERATORS[0], (2, 2), "ui32", '{"x"}, {"y"}'), target="cpu")
    assert len(np.unique(executable(SEED[:2])[1])) > 50


def test_kernels_generate_same_bits_as_cpu(tmp_path: Path) -> None:
    for generator in GENERATORS[:2]:
        text = program(generator, (2, 2), "ui32", '{"x"}, {"y"}')
        compiled(text, target="cuda:sm_90").save(tmp_path / "bits.mgx")
        kernel_bits, reference_bits = (
            load(tmp_path / "bits.mgx").run([SEED[:2]], device="interpret"),
            plan(text, target="cpu")(SEED[:2]),
        )
        for left, right in zip(kernel_bits, reference_bits, strict=True):
            np.testing.assert_array_equal(left, right)


def test_jax_random_numbers_do_not_depend_on_mesh() -> None:
    """JAX expands Threefry in the trace, for a dropout mask and for normal noise."""
    jax = pytest.importorskip("jax")
    random, spec = jax.random, jax.sharding.PartitionSpec
    key, x = np.asarray(random.key_data(random.key(7))), np.ones((12, 8), np.float32)

    def noisy(data: Any, x: Any) -> Any:
        wrapped_key = random.wrap_key_data(data)
        return jax.numpy.where(random.bernoulli(wrapped_key, 0.5, x.shape), x, 0.0), random.normal(wrapped_key, x.shape)

    mask, noise = (np.asarray(item) for item in jax.jit(noisy)(key, x))
    for sizes in ((1, 1), (2, 4), (4, 2), (3, 8)):
        mesh = jax.sharding.AbstractMesh(sizes, ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        shardings = [jax.sharding.NamedSharding(mesh, item) for item in (spec(), spec("x", "y"))]
        lowered = jax.jit(noisy, in_shardings=tuple(shardings), out_shardings=(shardings[1],) * 2)
        executable = plan(lowered.trace(key, x).lower(lowering_platforms=("cpu",)), target="cpu")
        got_mask, got_noise = executable(key, x)
        np.testing.assert_array_equal(got_mask, mask)
        np.testing.assert_allclose(got_noise, noise, rtol=1e-5, atol=1e-6)
