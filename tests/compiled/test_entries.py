"""Modules with several entry functions, from MLIR text or Python: files that entries share, and selection of an entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import EntriesExecutable, plan
from meshgen.cli import main
from meshgen.errors import ArgumentError, ModuleError, UsageError
from meshgen.runtime.module_file.container import Container
from tests.runtime.module_files import normal
from tests.runtime.test_module_damage import forged

W, X = "tensor<8x4xf32>", "tensor<4x6xf32>"
DOT = f"%y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : ({W}, {X}) -> tensor<8x6xf32>"
SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
TWO = f"""sdy.mesh @mesh = <["x"=2]>
func.func public @prefill(%w: {W} {SPLIT}, %x: {X}) -> tensor<8x6xf32> {{
  {DOT}
  return %y : tensor<8x6xf32>
}}
func.func public @decode(%w: {W} {SPLIT}, %x: {X}, %s: tensor<8x6xf32> {{tf.aliasing_output = 0 : i32}}) -> tensor<8x6xf32> {{
  %y = func.call @both(%w, %x) : ({W}, {X}) -> tensor<8x6xf32>
  %z = stablehlo.add %y, %s : tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}}
func.func private @both(%w: {W}, %x: {X}) -> tensor<8x6xf32> {{
  {DOT}
  return %y : tensor<8x6xf32>
}}
"""
ARGS = {"w": normal(8, 4), "x": normal(4, 6, seed=1), "s": normal(8, 6, seed=2)}
EXPECTED = {"prefill": ARGS["w"] @ ARGS["x"], "decode": ARGS["w"] @ ARGS["x"] + ARGS["s"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    executable = plan(TWO, target="cpu")
    assert isinstance(executable, EntriesExecutable) and [*executable] == ["prefill", "decode"]
    executable.save(tmp_path / "two.mgx")
    return tmp_path / "two.mgx"


def run(path: Path, name: str) -> Any:
    module = mg.load(path, entry=name)
    (result,) = module.run({b.name: ARGS[b.name] for b in module.inputs})
    return result


def test_public_functions_of_text_become_entries(path: Path) -> None:
    for name, expected in EXPECTED.items():
        assert np.allclose(run(path, name), expected, rtol=1e-5, atol=1e-5)
    assert [*mg.load(path, entry="decode").entries] == ["prefill", "decode"]


def test_missing_or_unknown_entry_is_usage_error(path: Path) -> None:
    module = mg.load(path)
    with pytest.raises(UsageError, match=r"MG0001.*2 entry functions: prefill, decode"):
        module.run({"w": ARGS["w"], "x": ARGS["x"]})
    with pytest.raises(UsageError, match=r"MG0001.*unknown entry function 'decide'"):
        mg.load(path, entry="decide")
    executable = plan(TWO, target="cpu")
    assert executable["decode"].comms is not None  # type: ignore[index]
    with pytest.raises(UsageError, match=r"MG0001.*2 entry functions"):
        _ = executable.plan
    assert isinstance(plan(TWO, target="cpu", entry="decode"), mg.Executable)


def test_main_is_default_entry(tmp_path: Path) -> None:
    text = TWO.replace("@decode", "@main")
    assert not isinstance(plan(text, target="cpu"), EntriesExecutable)
    plan(text, target="cpu", entry=["prefill", "main"]).save(tmp_path / "two.mgx")
    module = mg.load(tmp_path / "two.mgx")
    assert len(module.inputs) == 3 and np.allclose(module(**ARGS), EXPECTED["decode"], rtol=1e-5, atol=1e-5)


def test_python_entries_have_separate_arguments_and_donation(tmp_path: Path) -> None:
    programs = {"prefill": lambda w, x: w @ x, "decode": lambda w, x, s: w @ x + s}
    argument_specs = {name: [mg.spec("f32[8,4]"), mg.spec("f32[4,6]"), mg.spec("f32[8,6]")][: 2 + (name == "decode")] for name in programs}  # fmt: skip
    executable = plan(
        programs, {"x": 2}, args=argument_specs, in_specs={"w": mg.P("x", None)}, donate={"decode": "s"}, target="cpu"
    )
    assert executable["decode"].plan.donated and not executable["prefill"].plan.donated  # type: ignore[index]
    executable.save(tmp_path / "two.mgx", weights={"w": ARGS["w"]})
    for name, expected in EXPECTED.items():
        assert np.allclose(run(tmp_path / "two.mgx", name), expected, rtol=1e-5, atol=1e-5)
    weight_members = [name for name in Container(tmp_path / "two.mgx") if name.endswith("weights.safetensors")]
    assert weight_members == ["entries/00/weights.safetensors"], "both have the same weights: they are in the file once"
    with pytest.raises(ArgumentError, match=r"MG0601.*weight for an unknown input 'v'"):
        executable.save(tmp_path / "two.mgx", weights={"v": ARGS["w"]})


def test_equal_kernels_of_entries_are_stored_once(tmp_path: Path) -> None:
    mg.compile({"one": TWO, "other": TWO}, entry="prefill", target="cuda:sm_80").save(tmp_path / "two.mgx")
    member_names = list(Container(tmp_path / "two.mgx"))
    assert (
        sum(name.endswith(".cubin") for name in member_names) == sum(name.endswith(".py") for name in member_names) == 1
    )


@pytest.mark.parametrize("programs", [{}, {"": TWO}, {3: TWO}])
def test_invalid_entry_names_are_rejected(programs: Any) -> None:
    with pytest.raises(UsageError, match=r"MG0001.*names of entry functions must be identifiers"):
        plan(programs, target="cpu")


def test_command_line_selects_entry(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "two.mlir"
    source.write_text(TWO)
    assert main(["compile", str(source), "--target", "cpu", "-o", str(path), "--json"]) == 0
    assert [*json.loads(capsys.readouterr().out)["entries"]] == ["prefill", "decode"]
    assert main(["run", str(path)]) == 2
    assert "--entry prefill" in capsys.readouterr().err
    assert main(["run", str(path), "--entry", "decode"]) == 0
    assert main(["inspect", str(path), "--json"]) == 0
    assert "Entry function" not in (text := capsys.readouterr().out.partition("{")[2])
    assert "decode" in json.loads("{" + text)["entries"]
    assert main(["simulate", str(path), "--entry", "prefill"]) == 0


def drop_entry(manifest: Any) -> None:
    manifest["entries"].pop()


def duplicate_entry_name(manifest: Any) -> None:
    manifest["entries"][1]["name"] = "prefill"


def missing_member(manifest: Any) -> None:
    manifest["entries"][0]["members"]["manifest.json"] = "0" * 64


def other_member(manifest: Any) -> None:
    first, second = manifest["entries"]
    first["members"]["constants.safetensors"] = second["members"]["manifest.json"]


@pytest.mark.parametrize(
    "change", [drop_entry, duplicate_entry_name, missing_member, other_member, lambda m: m.update(entries=[])]
)
def test_forged_entries_are_rejected(path: Path, change: Any) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        mg.load(forged(path, change))


def test_entries_beyond_limit_are_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meshgen.runtime.module_file.limits import LIMITS

    monkeypatch.setitem(LIMITS, "entries", 1)
    with pytest.raises(ModuleError, match="MG0504"):
        mg.load(path)


def test_native_export_requires_one_entry(path: Path) -> None:
    from meshgen.runtime.native.export import write_native

    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"MG0001.*2 entry functions: prefill, decode"):
        write_native(path, path)
    assert path.read_bytes() == before
