"""Real models at small size, called with the pytrees that JAX takes: JAX's structures and JAX's numbers."""

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
# Packages warn of their own age when they are imported and traced.
pytestmark = pytest.mark.filterwarnings("ignore")
# Sums in f32 over up to a thousand elements, in another order; intermediate values in bf16 are rounded to 2^-9 each.
ALLOWED = {"f32": 1e-5, "bf16": 2e-2}


def skip_without(family: str) -> None:
    if lacking := FAMILIES[family].missing:
        pytest.skip(f"not installed: {', '.join(lacking)}")


@cache
def small(name: str) -> tuple[Any, Executable]:
    """A program and its plan for links without latency: else everything this small is best done on each device."""
    skip_without(FAMILY_OF[name])
    from bench.models.catalog import program

    made = program(name, True)
    mesh = Mesh(tuple(Axis(axis, size, latency=1e-12) for axis, size in made.mesh.items()))
    return made, mg.compile(made.lowered(), mesh, target="cpu")


def error(got: Any, want: Any) -> float:
    """The largest, relative to the largest value."""
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    got, want = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def require_alike(got: Any, want: Any, allowed: float) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert [np.shape(each) for each in jax.tree.leaves(got)] == [each.shape for each in jax.tree.leaves(want)]
    assert max(error(*each) for each in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)) <= allowed


@pytest.mark.parametrize("name", FAMILY_OF)
def test_numbers_and_structures_are_those_of_jax(name: str) -> None:
    made, executable = small(name)
    args = made.values()
    allowed = ALLOWED["bf16" if "bf16" in executable.as_text("import") else "f32"]
    require_alike(executable(*args), jax.jit(made.function)(*args), allowed)


@pytest.mark.parametrize("name", ["dlrm-train", "gpt2-decode", "graph-network-train", "equinox-train"])
def test_a_saved_module_is_called_as_its_program(name: str, tmp_path: Path) -> None:
    made, executable = small(name)
    executable.save(tmp_path / "m.mgx")
    args = made.values()
    require_alike(mg.load(tmp_path / "m.mgx")(*args), executable(*args), ALLOWED["f32"])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_catalog_names_the_programs_of_each_family(family: str) -> None:
    skip_without(family)
    assert tuple(import_module(f"bench.models.{family}").PROGRAMS) == FAMILIES[family].programs
