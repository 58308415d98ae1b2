"""Compilation with a tuning table of measured tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.codegen.triton_source import kernel_sources
from meshgen.codegen.tuning.keys import kernel_digest, shape_class
from meshgen.codegen.tuning.table import Row, TuningTable
from meshgen.compiled.executable import Executable
from meshgen.errors import UsageError
from meshgen.runtime.loading import load

MATMUL = """func.func @main(%a: tensor<ROWSx512xbf16>, %b: tensor<512x512xbf16>, %bias: tensor<512xbf16>) -> tensor<ROWSx512xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<ROWSx512xbf16>, tensor<512x512xbf16>) -> tensor<ROWSx512xbf16>
  %1 = stablehlo.tanh %0 : tensor<ROWSx512xbf16>
  return %1 : tensor<ROWSx512xbf16>
}
"""


def compiled(rows: int = 512, **options: Any) -> Executable:
    return mg.compile(MATMUL.replace("ROWS", str(rows)), {"x": 1}, target="cuda:sm_90", **options)


def tuning_row_of(executable: Executable, candidate_index: int) -> Row:
    """Return a row of a tuning table that selects the candidate with this index."""
    ((name, body),) = executable.plan.kernels.items()
    tile = [*kernel_sources(name, body, executable.mesh)][candidate_index].tile
    return Row(kernel_digest(body), shape_class(body), "GPU 1", "sm_90", "dot", tile, 1e-3, 1e-3, 2e-3, 15)


@pytest.fixture(scope="module")
def predicted() -> Executable:
    return compiled()


def test_measured_tile_replaces_predicted_tile(predicted: Executable, tmp_path: Path) -> None:
    row = tuning_row_of(predicted, 3)
    TuningTable([row]).write(tmp_path / "t.json")
    for rows in (512, 480):  # Both row counts are in the same shape class.
        for tuning in (tmp_path / "t.json", str(tmp_path / "t.json"), TuningTable([row])):
            executable = compiled(rows, tuning=tuning)
            ((name, source),) = executable.sources.items()
            assert source.tile == row.tile and source.is_measured
            assert source.text != predicted.sources[name].text or source.constants != predicted.sources[name].constants
            assert executable.measured == {name: row.provenance}
    executable.save(tmp_path / "m.mgx")
    assert load(tmp_path / "m.mgx").record()["tuning"] == {name: row.provenance}


@pytest.mark.parametrize("change", [{"tile": {"m": 3}}, {"arch": "sm_80"}, {"shapes": "f32[]"}, {"kernel": "ab"}])
def test_unmatched_tuning_row_is_ignored(change: dict[str, Any], predicted: Executable) -> None:
    executable = compiled(tuning=TuningTable([replace(tuning_row_of(predicted, 3), **change)]))
    assert executable.members() == predicted.members() and executable.measured == {}


def test_measured_tile_with_spills_is_kept(predicted: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured time includes spills, so another candidate is compiled only if the tile cannot be launched."""
    from meshgen.codegen.building import build

    compile_each = build.compile_each

    def spilling(*args: Any, **options: Any) -> Any:
        built, faults = compile_each(*args, **options)
        return {key: replace(kernel, spill_bytes=8) for key, kernel in built.items()}, faults

    monkeypatch.setattr(build, "compile_each", spilling)
    row = tuning_row_of(predicted, 3)
    (source,) = compiled(tuning=TuningTable([row])).sources.values()
    assert source.tile == row.tile


def test_inspect_lists_measured_tiles(
    predicted: Executable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from meshgen.cli import main

    compiled(tuning=TuningTable([tuning_row_of(predicted, 1)])).save(tmp_path / "m.mgx")
    assert main(["inspect", str(tmp_path / "m.mgx")]) == 0
    shown = capsys.readouterr().out
    assert "tile measured on" in shown and "GPU 1" in shown
    predicted.save(tmp_path / "p.mgx")
    assert main(["inspect", str(tmp_path / "p.mgx")]) == 0
    assert "tile measured on" not in capsys.readouterr().out


def test_invalid_tuning_tables_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    for tuning, code in ((tmp_path / "t.json", "MG0007"), (tmp_path / "none", "MG0002"), (3, "MG0001")):
        with pytest.raises(UsageError, match=code):
            compiled(tuning=tuning)
