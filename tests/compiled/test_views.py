"""Loaded modules say of themselves what the compiled program says that they were saved from."""

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


def _pair(path: Path) -> tuple[Executable, LoadedModule]:
    specs = {"w1": "_,tp", "w2": "tp,_"}
    executable = mg.compile(
        _mlp, {"tp": 4}, args=["f32[8,16]", "f32[16,32]", "f32[32,16]"], in_specs=specs, target="cpu"
    )
    executable.save(path / "mlp.mgx")
    return executable, mg.load(path / "mlp.mgx")


def test_a_loaded_module_says_what_the_program_says(tmp_path: Path) -> None:
    executable, module = _pair(tmp_path)
    assert module.comms.rows == executable.comms.rows and module.comms.counts == {"all_reduce": 1}
    assert (module.memory, module.cost, module.warnings) == (executable.memory, executable.cost, executable.warnings)
    for what in (None, "w1"):
        assert module.explain(what) == executable.explain(what) and module.show(what) == executable.show(what)
    assert module.explain(verbose=True) == executable.explain(verbose=True)
    assert module.gathers() == executable.gathers() and module.tree() == executable.tree()
    assert getattr(module, "_repr_html_")() == getattr(executable, "_repr_html_")()  # noqa: B009  # as notebooks ask
    module.report(tmp_path / "module.html")
    assert "all_reduce" in (tmp_path / "module.html").read_text()
    assert module.record()["ring_bytes"] == executable.comms.ring_bytes and "planned" not in module.record()


def test_collectives_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read off the schedule: nothing is planned for them."""
    _, module = _pair(tmp_path)
    monkeypatch.setattr("meshgen.compiled.views.ModuleViews.program", None)
    assert [row.kind for row in module.comms] == ["all_reduce"] and module.memory.peak_bytes > 0


def test_a_module_on_several_meshes_lists_the_collectives_of_each(tmp_path: Path) -> None:
    executable = mg.compile(two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu")
    executable.save(tmp_path / "two.mgx")
    module = mg.load(tmp_path / "two.mgx")
    assert module.comms.rows == executable.comms.rows and module.memory == executable.memory
    assert module.explain() == executable.explain()


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    module = mg.load(written(tmp_path / "open.mgx"))
    with pytest.raises(MeshgenError, match=r"MG0201|MG0601"):
        module.comms  # noqa: B018
    found = module.at({"0": 2}, {"x": (6, 12)})
    assert found.comms.counts == mg.replan(found).comms.counts


def test_a_pickled_module_still_says_it(tmp_path: Path) -> None:
    _, module = _pair(tmp_path)
    assert pickle.loads(pickle.dumps(module)).comms.rows == module.comms.rows


def test_what_the_runtime_loads_has_no_reports(tmp_path: Path) -> None:
    _pair(tmp_path)
    with pytest.raises(UsageError, match=r"MG0001(.|\n)*load it with meshgen\.load"):
        load(tmp_path / "mlp.mgx").comms  # noqa: B018
