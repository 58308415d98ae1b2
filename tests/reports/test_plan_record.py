"""Saved modules record how they were planned: the options, and the source location of every operation."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen import api
from meshgen.errors import ModuleError
from meshgen.ir.regions import all_nodes
from meshgen.reports.plan_record import differences, program_of
from tests.reports.models import layers


def test_module_program_keeps_locations_and_options(tmp_path: Path) -> None:
    executable = mg.compile(layers(2), target="cuda:sm_90", skip=["chunks"], arguments="global")
    executable.save(tmp_path / "m.mgx")
    loaded = mg.load(tmp_path / "m.mgx")
    module, options = program_of(loaded, "m.mgx")
    assert options == executable.options and "planned" not in loaded.record()
    locations = [(node.op, node.loc) for node in all_nodes(executable.stages["import"].graph)]
    assert [(node.op, node.loc) for node in all_nodes(module.graph)] == locations
    assert {loc.scope for _, loc in locations if loc} == {"layer_0/mlp", "layer_1/mlp"}


@pytest.mark.parametrize("name, value", [
    ("places", 5), ("places", [["a.py", 1]]), ("nodes", 5), ("nodes", ["1"]), ("inputs", {}), ("unnamed", [[1]]), ("skip", 7), ("target", 7), ("memory_limit", "1"),
])  # fmt: skip
def test_malformed_planning_record_is_rejected(tmp_path: Path, name: str, value: object) -> None:
    mg.compile(layers(1), target="cpu").save(tmp_path / "m.mgx")
    loaded = mg.load(tmp_path / "m.mgx")
    loaded.manifest.report["planned"][name] = value
    with pytest.raises(ModuleError, match=f"MG0502.*{name}"):
        program_of(loaded, "m.mgx")


def test_replanned_module_equals_saved_module(tmp_path: Path) -> None:
    mg.compile(layers(2), target="cpu").save(tmp_path / "m.mgx")
    loaded = mg.load(tmp_path / "m.mgx")
    replanned = mg.replan(loaded)
    assert differences(loaded, replanned) == [] and replanned.as_text("schedule") == loaded.stages["schedule"]
    other = api.plan(layers(3), target="cpu")
    assert differences(loaded, other) == ["step_seconds", "ring_bytes", "peak_memory_bytes"]


def test_saved_locations_do_not_depend_on_directory(tmp_path: Path) -> None:
    for name in ("a", "b"):
        mg.compile(layers(1).replace('"model.py"', f'"/{name}/model.py"'), target="cpu").save(tmp_path / f"{name}.mgx")
    assert (tmp_path / "a.mgx").read_bytes() == (tmp_path / "b.mgx").read_bytes()
