"""Tests of reshards of many dtypes through the whole pipeline: compiled, saved, loaded, and run on simulated ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.ir.graph import DTYPES
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding, fit
from tests.sharding.reshard.test_reshard_random import random_end
from tests.trials import trials

LOGICAL = ("and", "or", "xor")
ARITHMETIC = ("sum", "max", "min", "product")
KINDS = {
    "i1": LOGICAL,
    "i8": (*ARITHMETIC, *LOGICAL),
    "i32": (*ARITHMETIC, *LOGICAL),
    "bf16": ARITHMETIC,
    "f32": ARITHMETIC,
}
SHAPES = [(), (7,), (8, 6), (5, 1, 4), (2, 3, 4, 2), (3, 2, 2, 1, 4)]
MESHES = [make_mesh({"x": 2, "y": 3}), make_mesh({"x": 4, "y": 2}), make_mesh({"x": 2, "one": 1, "y": 2, "z": 2})]


def reshard(x: np.ndarray, source: Sharding, target: Sharding, mesh: Mesh, path: Path) -> np.ndarray:
    """Compile, save, load and run a program that only reshards `x` from `source` to `target`. Return its result."""
    dtype = next(name for name, numpy_dtype in DTYPES.items() if numpy_dtype == x.dtype)
    spec = f"{dtype}[{','.join(map(str, x.shape))}]"
    executable = mg.compile(
        lambda x: x,
        mesh,
        args=[spec],
        in_specs=[source],
        out_specs=[target],
        target="cpu",
    )
    executable.save(path)
    result = mg.load(path)(x)
    assert isinstance(result, np.ndarray)
    return result


def assert_same(result: np.ndarray, x: np.ndarray) -> None:
    """Check that values are equal. Compares bf16 as f32, because NumPy does not recognize a bf16 NaN."""
    assert result.dtype == x.dtype
    wide = np.float32 if x.dtype == ml_dtypes.bfloat16 else x.dtype
    np.testing.assert_array_equal(result.astype(wide), x.astype(wide))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("seed", trials(4))
def test_reshard_preserves_values(dtype: str, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, len(dtype), len(KINDS[dtype])])
    mesh, shape = MESHES[seed % len(MESHES)], SHAPES[int(rng.integers(len(SHAPES)))]
    x = _numbers(rng, shape, dtype)
    source, target = (random_end(rng, shape, mesh, KINDS[dtype]) for _ in range(2))
    result = reshard(x, source, target, mesh, tmp_path / "reshard.mgx")
    assert_same(result, x)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return random values that include the limits of the dtype and, for floats, infinities and NaN."""
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    numbers = rng.integers(-128, 128, shape)
    x = numbers.astype(DTYPES[dtype])
    if dtype in ("bf16", "f32") and x.size > 3:
        x.reshape(-1)[:3] = np.asarray([np.inf, -np.inf, np.nan], x.dtype)
    return x


@pytest.mark.parametrize("kind", ["max", "min", "product", "sum"])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_reduction_neutral_elements_preserve_special_floats(kind: str, dtype: str, tmp_path: Path) -> None:
    mesh = make_mesh({"x": 2, "y": 2})
    x = np.asarray([np.inf, -np.inf, np.nan, 0.0, 1e-30, -3.0], ml_dtypes.bfloat16 if dtype == "bf16" else np.float32)
    source, target = fit(P(None, partial={"x": kind}), 1), fit(P("y", partial={"x": kind}), 1)
    for shardings in ((source, fit(P("x"), 1)), (fit(P("x"), 1), source), (target, fit(P("x"), 1)), (source, target)):
        assert_same(reshard(x, *shardings, mesh, tmp_path / "reshard.mgx"), x)


@pytest.mark.parametrize("before", [0, 2])
def test_reshard_slices_off_old_halo_and_fetches_new_halo(before: int, tmp_path: Path) -> None:
    mesh = make_mesh({"x": 4})
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    plain = fit(P("x"), 2)
    wide = replace(plain, halo=((before, 1), (0, 0)))
    executable = mg.compile(lambda x: x, mesh, args=["f32[10,3]"], in_specs=[wide], out_specs=[plain], target="cpu")
    assert not executable.comms
    np.testing.assert_array_equal(executable(x), x)
    executable = mg.compile(lambda x: x, mesh, args=["f32[10,3]"], in_specs=[plain], out_specs=[wide], target="cpu")
    assert [(c.kind, c.ring_bytes) for c in executable.comms] == [("update_halo", (before + 1) * 3 * 4)]
    executable.save(tmp_path / "wide.mgx")
    np.testing.assert_array_equal(mg.load(tmp_path / "wide.mgx")(x), x)


def test_replicated_array_is_sliced_into_uneven_shards_locally(tmp_path: Path) -> None:
    """A table gives the first row of each device, and nothing is sent."""
    mesh = make_mesh({"x": 4, "y": 2})
    x = np.arange(60, dtype=np.int32).reshape(10, 6)
    uneven = replace(fit(P("x", "y"), 2), offsets=((0, 0, 7, 8, 10), (0, 5, 6)))
    executable = mg.compile(lambda x: x, mesh, args=["i32[10,6]"], in_specs=[P()], out_specs=[uneven], target="cpu")
    assert not executable.comms
    executable.save(tmp_path / "uneven.mgx")
    np.testing.assert_array_equal(mg.load(tmp_path / "uneven.mgx")(x), x)
