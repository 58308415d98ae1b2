"""Programs compiled for a machine: their text and modules carry the machine profile, which cost predictions and reports
use.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.cli import main
from meshgen.errors import MeshgenError, UsageError
from meshgen.ir.encode_values import mesh_from_json, mesh_to_json
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES, Link, Machine
from meshgen.machine.reading import machine_record
from meshgen.mesh import Axis, Mesh, make_mesh
from tests.programs import mlp

H100 = MACHINES["dgx-h100"]
PAIRS = Machine("pairs", (Link("nvlink", 2, 370e9, 8e-6), Link("network", None, 10e9, 20e-6)))


def profile(folder: Path, machine: Machine = PAIRS, **changes: Any) -> str:
    (folder / "own.json").write_text(json.dumps(machine_record(machine) | changes))
    return str(folder / "own.json")


@pytest.mark.parametrize("machine", [H100, PAIRS, replace(H100, memory_bytes=1 << 30)], ids=str)
def test_text_of_every_stage_includes_machine(machine: Machine) -> None:
    executable = plan(mlp(), target="cuda:sm_90", machine=machine)
    for stage in executable.stages:
        reparsed = mg.lower(executable.as_text(stage), stage=stage)
        assert reparsed.mesh == executable.mesh and reparsed.mesh.machine == machine
    assert plan(executable.as_text("import")).as_text("fuse") == executable.as_text("fuse")


def test_axis_bandwidth_and_latency_override_machine(tmp_path: Path) -> None:
    mesh = Mesh((Axis("x", 2, bandwidth=1e9), Axis("y", 2, latency=1e-3)), machine=PAIRS)
    text = plan(mlp(), mesh, target="cpu").as_text("import")
    assert "bandwidth = [1.000000e+09 : f64, unit], latency = [unit, 1.000000e-03 : f64]" in text
    assert mg.lower(text, stage="import").mesh == replace(mesh, name="mesh")
    other = mg.lower(text, stage="import", machine="dgx-a100").mesh
    assert other.machine == MACHINES["dgx-a100"] and other.axes == mesh.axes, "the option goes before the text"


@pytest.mark.parametrize("machine", ["dgx-x100", "{\\22name\\22: \\22a\\22}", "own.json", ""])
def test_malformed_machine_in_text_is_rejected(machine: str) -> None:
    text = plan(mlp(), machine="dgx-h100").as_text("import").replace('"dgx-h100"', f'"{machine}"')
    with pytest.raises(MeshgenError, match=r"<text>:2.*(.|\n)*MG0001|MG0001(.|\n)*(unknown|malformed) machine"):
        mg.lower(text, stage="import")


def test_saved_module_keeps_machine(tmp_path: Path) -> None:
    replicated_program = mlp(y=("", ""))  # The result is gathered over x, which crosses between hosts of two devices.
    executable, plain = (
        mg.compile(replicated_program, target="cpu", machine=PAIRS),
        mg.compile(replicated_program, target="cpu"),
    )
    executable.save(tmp_path / "own.mgx")
    loaded = mg.load(tmp_path / "own.mgx")
    assert loaded.mesh.machine == PAIRS
    for program in (executable, loaded):
        assert mg.simulate(program).machine == replace(PAIRS, device="sm_90")
        assert mg.simulate(program, "dgx-h100").machine == H100
    assert mg.simulate(plain).machine == replace(MACHINES[DEFAULT_MACHINE], device="sm_90")
    assert mg.simulate(loaded).step_seconds > mg.simulate(plain).step_seconds


def test_malformed_machine_in_module_is_rejected() -> None:
    mesh = replace(make_mesh({"x": 2}), machine=PAIRS)
    assert mesh_from_json(json.loads(json.dumps(mesh_to_json(mesh)))) == mesh
    for malformed in ("dgx-h100", {"name": "a"}, machine_record(PAIRS) | {"links": []}):
        with pytest.raises(MeshgenError, match=r"MG0502.*mesh.machine"):
            mesh_from_json(mesh_to_json(mesh) | {"machine": malformed})


def test_default_target_follows_machine() -> None:
    assert plan(mlp()).target == "cuda:sm_90"
    assert plan(mlp(), machine="dgx-a100").target == "cuda:sm_80"
    assert plan(mlp(), machine="dgx-a100", target="cpu").target == "cpu"
    assert plan(mlp(), machine=PAIRS).target == "cuda:sm_90"
    assert plan(mlp(), machine="dgx-a100", target="cuda:sm_80,sm_90").target == "cuda:sm_80,sm_90"
    with pytest.raises(
        UsageError, match=r"MG0001: the devices of machine 'dgx-a100' are sm_80, but the target is cuda:sm_90,sm_80"
    ):
        plan(mlp(), machine="dgx-a100", target="cuda:sm_90,sm_80")


def test_open_sizes_are_specialized_for_machine(tmp_path: Path) -> None:
    sizes = [{"mesh": {"x": 2}}]
    executable = mg.compile(mlp(), {"x": None, "y": 2}, target="cpu", machine=PAIRS, sizes=sizes)
    executable.save(tmp_path / "open.mgx")
    module = mg.load(tmp_path / "open.mgx")
    for x in (2, 4):  # The first size was compiled ahead of time, the second compiles on first use.
        assert module.at({"x": x}).mesh.machine == PAIRS


def test_reports_name_machine_and_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mlp.mlir").write_text(mlp(y=("", "")))
    profile_path, out = profile(tmp_path), str(tmp_path / "mlp.mgx")
    words = [str(tmp_path / "mlp.mlir"), "--machine", profile_path]
    assert main(["compile", *words, "-o", out, "--target", "cpu", "--report", str(tmp_path / "r.html")]) == 0
    assert "Links of pairs (H200), per device and step" in capsys.readouterr().out
    page = (tmp_path / "r.html").read_text()
    assert "Mesh(x=2, y=2) on pairs (H200), cpu" in page and "Links of pairs" in page
    assert main(["explain", *words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["machine"] == machine_record(replace(PAIRS, device="sm_90"))
    assert [(link["name"], link["axes"]) for link in record["links"]] == [("nvlink", ["y"]), ("network", ["x"])]
    assert sum(link["ring_bytes"] for link in record["links"]) == record["ring_bytes"]
    assert main(["simulate", out]) == 0
    assert "on pairs" in capsys.readouterr().out
    assert main(["explain", words[0], "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["machine"]["name"] == "one-host" and "links" not in record


@pytest.mark.parametrize(
    ("command", "words"),
    [("explain", []), ("check", []), ("opt", []), ("report", ["-o", "r.html"]), ("compile", ["-o", "o.mgx"])],
)
def test_planning_command_accepts_machine_option(
    command: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mlp.mlir").write_text(mlp())
    assert main([command, "mlp.mlir", *words, "--machine", profile(tmp_path)]) == 0
    for machine, code, message in (
        ("dgx", "MG0001", "unknown machine 'dgx'"),
        ("no.json", "MG0002", "cannot read no.json"),
    ):
        assert main([command, "mlp.mlir", *words, "--machine", machine]) == 2
        error_text = capsys.readouterr().err
        assert code in error_text and message in error_text
    assert main([command, "mlp.mlir", *words, "--machine", profile(tmp_path, links=[])]) == 2
    assert "links must be a list" in capsys.readouterr().err


def test_compile_command_applies_memory_limit_and_skip_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mlp.mlir").write_text(mlp())
    words = ["compile", str(tmp_path / "mlp.mlir"), "--target", "cpu", "-o", str(tmp_path / "mlp.mgx")]
    assert main([*words, "--memory-limit", "16B"]) != 0
    assert "MG0303" in capsys.readouterr().err
    assert main([*words, "--skip", "everything"]) == 2
    assert main([*words, "--machine", profile(tmp_path, memory_bytes=16)]) != 0
    assert "more than the limit of 16" in capsys.readouterr().err


def test_program_split_into_meshes_keeps_machine() -> None:
    def two(x: Any) -> Any:
        return mg.annotate(mg.exp(mg.annotate(mg.tanh(x), mg.P(mesh="a"))), mg.P(mesh="b"))

    executable = plan(two, {"a": {"x": 2}, "b": {"x": 2}}, args=["f32[8]"], target="cpu", machine=PAIRS)
    text = executable.as_text("materialize")
    assert [part.mesh.machine for part in plan(text, target="cpu").parts] == [PAIRS, PAIRS]
    with pytest.raises(UsageError, match=r"MG0001.*divided into its meshes"):
        plan(text, target="cpu", machine="dgx-h100")
