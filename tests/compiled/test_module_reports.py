"""Loaded modules offer the same views (collectives, memory, cost, explanations) as the programs they were saved from."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import meshgen as mg
from meshgen.compiled.executable import Executable
from meshgen.errors import MeshgenError, UsageError
from meshgen.runtime.loading import load
from meshgen.runtime.module import LoadedModule
from tests.compiled.open_programs import written
from tests.sharding.multi_mesh.meshes_programs import MESHES, TYPES, two_stages


def _mlp(x: mg.Tensor, w1: mg.Tensor, w2: mg.Tensor) -> mg.Tensor:
    return mg.gelu(x @ w1) @ w2


def _compiled_and_loaded(path: Path) -> tuple[Executable, LoadedModule]:
    specs = {"w1": "_,tp", "w2": "tp,_"}
    executable = mg.compile(
        _mlp, {"tp": 4}, args=["f32[8,16]", "f32[16,32]", "f32[32,16]"], in_specs=specs, target="cpu"
    )
    executable.save(path / "mlp.mgx")
    return executable, mg.load(path / "mlp.mgx")


def test_loaded_module_views_equal_program_views(tmp_path: Path) -> None:
    executable, module = _compiled_and_loaded(tmp_path)
    assert module.comms.rows == executable.comms.rows and module.comms.counts == {"all_reduce": 1}
    assert (module.memory, module.cost, module.warnings) == (executable.memory, executable.cost, executable.warnings)
    for value in (None, "w1"):
        assert module.explain(value) == executable.explain(value) and module.show(value) == executable.show(value)
    assert module.explain(verbose=True) == executable.explain(verbose=True)
    assert module.gathers() == executable.gathers() and module.tree() == executable.tree()
    assert getattr(module, "_repr_html_")() == getattr(executable, "_repr_html_")()  # noqa: B009  # as notebooks ask
    module.report(tmp_path / "module.html")
    assert "all_reduce" in (tmp_path / "module.html").read_text()
    assert module.record()["ring_bytes"] == executable.comms.ring_bytes and "planned" not in module.record()


def test_collectives_are_read_from_schedule_without_planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, module = _compiled_and_loaded(tmp_path)
    monkeypatch.setattr("meshgen.compiled.module_reports.ModuleViews.program", None)
    assert [row.kind for row in module.comms] == ["all_reduce"] and module.memory.peak_bytes > 0


def test_module_on_several_meshes_lists_all_collectives(tmp_path: Path) -> None:
    executable = mg.compile(two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu")
    executable.save(tmp_path / "two.mgx")
    module = mg.load(tmp_path / "two.mgx")
    assert module.comms.rows == executable.comms.rows and module.memory == executable.memory
    assert module.explain() == executable.explain()


def test_views_of_open_module_require_sizes(tmp_path: Path) -> None:
    module = mg.load(written(tmp_path / "open.mgx"))
    with pytest.raises(MeshgenError, match=r"MG0201|MG0601"):
        module.comms  # noqa: B018
    specialization = module.at({"0": 2}, {"x": (6, 12)})
    assert specialization.comms.counts == mg.replan(specialization).comms.counts


def test_pickled_module_keeps_views(tmp_path: Path) -> None:
    _, module = _compiled_and_loaded(tmp_path)
    assert pickle.loads(pickle.dumps(module)).comms.rows == module.comms.rows


def test_runtime_module_has_no_reports(tmp_path: Path) -> None:
    _compiled_and_loaded(tmp_path)
    with pytest.raises(UsageError, match=r"MG0001(.|\n)*load it with meshgen\.load"):
        load(tmp_path / "mlp.mgx").comms  # noqa: B018
