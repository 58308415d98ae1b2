"""Real models at small sizes, called with JAX's pytrees: the structures and values of results match JAX's."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from bench.models.catalog import FAMILIES, FAMILY_OF
from meshgen.compiled.executable import Executable
from meshgen.mesh import Axis, Mesh

jax = pytest.importorskip("jax")
# Some packages emit deprecation warnings when they are imported or traced.
pytestmark = pytest.mark.filterwarnings("ignore")
# Relative errors. f32: sums of up to a thousand elements, in another order. bf16: each intermediate value is rounded to
# 2^-9.
ALLOWED = {"f32": 1e-5, "bf16": 2e-2}


def skip_without(family: str) -> None:
    if missing_packages := FAMILIES[family].missing:
        pytest.skip(f"not installed: {', '.join(missing_packages)}")


@cache
def small(name: str) -> tuple[Any, Executable]:
    """Return a program and its plan for links without latency. If links have latency, the best plan replicates programs
    this small.
    """
    skip_without(FAMILY_OF[name])
    from bench.models.catalog import program

    model = program(name, True)
    mesh = Mesh(tuple(Axis(axis, size, latency=1e-12) for axis, size in model.mesh.items()))
    return model, mg.compile(model.lowered(), mesh, target="cpu")


def error(got: Any, want: Any) -> float:
    """Return the largest absolute error of `got`, divided by the largest absolute value of `want`."""
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    got, want = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def require_alike(got: Any, want: Any, allowed: float) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert [np.shape(leaf) for leaf in jax.tree.leaves(got)] == [leaf.shape for leaf in jax.tree.leaves(want)]
    assert max(error(*leaf) for leaf in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)) <= allowed


@pytest.mark.parametrize("name", FAMILY_OF)
def test_model_matches_jax_in_values_and_structure(name: str) -> None:
    model, executable = small(name)
    args = model.values()
    allowed = ALLOWED["bf16" if "bf16" in executable.as_text("import") else "f32"]
    require_alike(executable(*args), jax.jit(model.function)(*args), allowed)


@pytest.mark.parametrize("name", ["dlrm-train", "gpt2-decode", "graph-network-train", "equinox-train"])
def test_saved_model_is_called_like_its_program(name: str, tmp_path: Path) -> None:
    model, executable = small(name)
    executable.save(tmp_path / "m.mgx")
    args = model.values()
    require_alike(mg.load(tmp_path / "m.mgx")(*args), executable(*args), ALLOWED["f32"])


@pytest.mark.parametrize("family", FAMILIES)
def test_catalog_lists_the_programs_of_each_family(family: str) -> None:
    skip_without(family)
    assert tuple(import_module(f"bench.models.{family}").PROGRAMS) == FAMILIES[family].programs
