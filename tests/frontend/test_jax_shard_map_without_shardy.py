"""JAX's shard_map without Shardy, compared with JAX. JAX lowers it to GSPMD's conversions between full and shard
shapes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.testing.oracle import check
from tests.frontend.shard_map_without_shardy import ARGUMENT

jax = pytest.importorskip("jax")
SCRIPT = Path(__file__).with_name("shard_map_without_shardy.py")
NAMES = (
    "psum", "all_gather", "ring", "psum_scatter", "all_to_all", "axis_index", "index alone", "scan inside", "in scan",
    "in while", "captured", "gradient", "remat", "two", "branch", "transposed", "size one", "one axis", "vmap",
    "jit inside", "same", "auto", "auto index", "auto matmul", "auto loop", "auto gradient", "auto in scan",
    "auto of three", "auto size one", "auto with one", "nested",
)  # fmt: skip
WITHOUT_CONVERSIONS = "auto size one"  # this case has no conversions, because its only manual axis has size 1


@pytest.fixture(scope="module")
def jax_numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("jax") / "cases.npz"
    subprocess.run([sys.executable, str(SCRIPT), str(path)], check=True, capture_output=True)
    with np.load(path) as arrays:
        numbers = dict(arrays)
    assert {name.removesuffix("/text") for name in numbers if name.endswith("/text")} == {*NAMES}
    return numbers


@pytest.mark.parametrize("name", NAMES)
def test_shard_map_without_shardy_matches_jax(jax_numbers: dict[str, Any], name: str) -> None:
    text = str(jax_numbers[f"{name}/text"])
    assert ("@SPMDShardToFullShape" in text) == (name != WITHOUT_CONVERSIONS) and "sdy." not in text
    executable = plan(text, target="cpu")
    _compare(executable(ARGUMENT), jax_numbers, name)
    result = check(parse_text(text), pipeline=lambda _: executable.fused, args=[ARGUMENT])
    assert result.ok, result.faults


def _compare(results: Any, jax_numbers: dict[str, Any], name: str) -> None:
    expected = [jax_numbers[f"{name}/expected/{index}"] for index in range(jax_numbers[f"{name}/count"])]
    for actual, reference in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), reference, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["gradient", "captured", "auto matmul", "nested"])
def test_mesh_axes_are_matched_with_text_without_names(jax_numbers: dict[str, Any], name: str) -> None:
    executable = mg.compile(str(jax_numbers[f"{name}/text"]), make_mesh({"dp": 2, "tp": 4}), target="cpu")
    _compare(executable(ARGUMENT), jax_numbers, name)


@pytest.fixture
def without_shardy() -> Iterator[None]:
    jax.config.update("jax_use_shardy_partitioner", False)
    yield
    jax.config.update("jax_use_shardy_partitioner", True)


@pytest.mark.usefixtures("without_shardy")
def test_mesh_axes_are_taken_from_trace() -> None:
    """The text does not name the mesh axes. Their names are in the traced function."""
    spec = jax.sharding.PartitionSpec(("dp", "tp"))
    mesh = jax.sharding.AbstractMesh((2, 4), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    mapped = jax.shard_map(lambda a: a - jax.lax.psum(a, "tp"), mesh=mesh, in_specs=spec, out_specs=spec)
    executable = mg.compile(jax.jit(mapped), make_mesh({"dp": 2, "tp": 4}), args=(ARGUMENT,), target="cpu")
    sums = ARGUMENT.reshape(2, 4, 8).sum(1).repeat(4, 0)
    np.testing.assert_allclose(np.asarray(executable(ARGUMENT)), ARGUMENT - sums, rtol=1e-5, atol=1e-5)
