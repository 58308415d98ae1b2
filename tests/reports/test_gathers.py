"""Gathers that no annotation requires: they are reported, and in strict mode rejected with a suggested change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import meshgen as mg
from meshgen import api
from meshgen.cli import main
from meshgen.compiled.executable import Executable
from meshgen.errors import ShardingError, UsageError
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing

HEAD = 'sdy.mesh @mesh = <["x"=2]>\n'
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
DOT = "stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>"
GATHERED = f"""{HEAD}func.func @main(%a: tensor<64x32xf32> {ROWS}, %w: tensor<32x16xf32> {ROWS}) -> tensor<64x16xf32> {{
  %b = {DOT}
  return %b : tensor<64x16xf32>
}}
"""
MEANT = GATHERED.replace(
    f"%b = {DOT}",
    "%v = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<32x16xf32>\n  %b = " + DOT.replace("%w", "%v"),
)
EXCHANGED = f"""{HEAD}func.func @main(%a: tensor<64x32xf32> {ROWS}) -> (tensor<64x32xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) {{
  %b = stablehlo.tanh %a : tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}}
"""


def planned(text: str, strict: bool | list[str | int] = False) -> Executable:
    return api.plan(text, target="cpu", strict=strict)


def test_gather_without_annotation_is_reported() -> None:
    executable = planned(GATHERED)
    (gather,) = executable.gathers()
    assert (gather.value, gather.user, gather.axes) == ("w", "b", ("x",))
    assert (gather.source, gather.target) == ("[{x}, {}]", "[{}, {}]")
    assert gather.ring_bytes == executable.comms.ring_bytes == 32 * 16 * 4 // 2
    assert "Gathered although no annotation requires it" in executable.explain(verbose=True)
    assert "1 value gathered although no annotation requires it, 1.02 kB; most for `w`" in str(executable.explain())


@pytest.mark.parametrize("text", [MEANT, EXCHANGED], ids=["meant", "exchanged"])
def test_required_gathers_and_exchanges_are_not_reported(text: str) -> None:
    executable = planned(text, strict=True)
    assert executable.gathers() == [] and executable.comms.ring_bytes > 0
    assert "Gathered" not in executable.explain(verbose=True)


def test_strict_error_names_both_annotations_and_fix() -> None:
    with pytest.raises(ShardingError) as error:
        planned(GATHERED, strict=True)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0210" and fault.loc is not None and fault.loc.line == 3
    assert "moves 1.02 kB per device" in fault.message and "annotate %w as [{}, {}]" in fault.hint
    notes = [text for text, _ in fault.notes]
    assert any("%w: x splits dim 0, from required annotation [{x}, {}] of input %w" in note for note in notes)
    assert any("%b: x splits dim 0, from required annotation [{x}, {}] of input %a" in note for note in notes)


@pytest.mark.parametrize("strict_at, is_rejected", [(["w"], True), (["%b"], True), ([3], True), (["a"], False)])
def test_strict_can_be_limited_to_values_and_lines(strict_at: list[str | int], is_rejected: bool) -> None:
    if is_rejected:
        with pytest.raises(ShardingError, match="MG0210"):
            planned(GATHERED, strict=strict_at)
    else:
        assert planned(GATHERED, strict=strict_at).gathers()


def test_strict_accepts_one_value_name_as_string() -> None:
    with pytest.raises(ShardingError):
        api.plan(GATHERED, target="cpu", strict="w")


@pytest.mark.parametrize("strict_at", ["aw", 9, ["w", "q"], [""]], ids=str)
def test_strict_with_unknown_value_or_line_is_usage_error(strict_at: str | int | list[str]) -> None:
    with pytest.raises(UsageError, match=r"MG0001.*(unknown value|no value on line)"):
        api.plan(GATHERED, target="cpu", strict=strict_at)  # pyright: ignore[reportArgumentType]


def test_command_line_accepts_strict_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "p.mlir", tmp_path / "p.mgx"
    path.write_text(GATHERED)
    words = ["compile", str(path), "--target", "cpu", "-o", str(out)]
    assert main([*words, "--strict"]) == 1 and not out.exists()
    assert "MG0210" in capsys.readouterr().err
    assert main([*words, "--strict-at", "a"]) == 0 and out.exists()
    assert "1 gather that no annotation requires, 1.02 kB per device" in capsys.readouterr().err
    assert main(["explain", str(path), "--target", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gathers"][0]["value"] == "w"


def test_gathers_on_each_of_several_meshes_are_reported() -> None:
    def stages(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        return mg.annotate(mg.tanh(x), mg.P("b", mesh="second")) @ w

    specs = {"x": mg.P("a", mesh="first"), "w": mg.P("b", mesh="second")}
    meshes = {"first": {"a": 2}, "second": {"b": 2}}
    executable = api.plan(stages, meshes, args=["f32[64,32]", "f32[32,16]"], in_specs=specs, target="cpu")
    assert [gather.value for gather in executable.gathers()] == ["w"]


def test_explicit_gathers_are_not_reported() -> None:
    text = """shard.grid @g(shape = 2)
func.func @f(%a: tensor<3x4xf32>) -> tensor<6x4xf32> {
  %b = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<3x4xf32> -> tensor<6x4xf32>
  return %b : tensor<6x4xf32>
}"""
    executable = api.plan_module(parse_text(text), Options("cpu", strict=True), Timing())
    assert executable.gathers() == [] and len(executable.comms) == 1
