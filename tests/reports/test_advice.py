"""Advice: annotations that are worth dropping or adding, and figures that hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import meshgen as mg
from meshgen import api
from meshgen.cli import main
from meshgen.errors import ShardingError
from meshgen.notation import parse_sharding
from meshgen.pipeline import Options, Timing
from meshgen.reports.advice_splits import splits
from meshgen.reports.what_if import annotated_with
from meshgen.testing.random_graphs import random_program
from tests.acceptance.cases import small
from tests.plans import plan_of
from tests.reports.test_gathers import GATHERED, planned
from tests.reports.test_repeated import planned as repeating
from tests.trials import trials


def test_advice_tells_which_annotation_costs_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "p.mlir"
    place.write_text(GATHERED)
    advice = {each.value: each for each in mg.advise(planned(GATHERED))}
    assert advice["w"].instead == "[{}, {}]" and advice["w"].after["ring_bytes"] == 0
    assert advice["w"].after["peak_memory_bytes"] > 0
    assert main(["explain", str(place), "--target", "cpu", "--collective", "0", "--advise", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {each["value"] for each in document["advice"]} == set(advice)
    assert main(["explain", str(place), "--target", "cpu", "--advise"]) == 0
    assert "required annotation [{x}, {}] of input %w" in capsys.readouterr().out


FIRST = 8  # seeds from this one on have programs with gathers that no annotation asks for
CASES = ["mlp_train_zero3", "attn_fused_qkv_tp", "xent_vocab_onehot", "block_dp_tp_sp"]


@pytest.mark.parametrize("name", [name for name in CASES if small(name).exists()])
def test_advice_is_what_compiling_so_gives(name: str) -> None:
    """Annotated as advised, instead of left out, the program moves as much as was promised."""
    executable = plan_of(small(name))
    advised = [each for each in mg.advise(executable) if " more alike " not in each.change]
    assert advised
    for advice in advised:
        changed = annotated_with(executable.stages["import"], {advice.value: parse_sharding(advice.spec)})
        after = api.plan_module(changed, Options("cpu"), Timing())
        assert after.comms.ring_bytes <= advice.after["ring_bytes"]
        assert advice.kind == "annotate" or advice.after["ring_bytes"] < executable.comms.ring_bytes


def test_random_programs_get_advice_that_holds() -> None:
    gathers, advised = 0, 0
    for seed in trials(4):
        executable = api.plan_module(random_program(FIRST + seed), Options("cpu"), Timing())
        for gather in executable.gathers():
            gathers += 1
            assert gather.ring_bytes >= 0 and gather.axes and gather.numbers, seed
        for advice in mg.advise(executable):
            advised += 1
            assert advice.before["ring_bytes"] == executable.comms.ring_bytes, seed
            better = "ring_bytes" if advice.kind == "drop" else "step_seconds"
            assert advice.after[better] < advice.before[better], seed
    assert gathers > 1 and advised > 2


def test_a_refusal_names_the_change_that_saves_the_most() -> None:
    with pytest.raises(ShardingError) as caught:
        api.plan(GATHERED, target="cpu", strict=True)
    (best, *_) = mg.advise(planned(GATHERED))
    (fault, *_) = caught.value.diagnostics
    assert f"it saves the most to {best.change}: %{best.value} then has sharding {best.instead}" in fault.hint


def test_advice_about_several_meshes_keeps_values_where_they_are() -> None:
    def stages(x: mg.Tensor, w0: mg.Tensor, w1: mg.Tensor) -> mg.Tensor:
        h = mg.gelu(x @ w0)
        return mg.annotate(h, mg.P("dp", mesh="b")) @ w1

    executable = mg.compile(
        stages, {"a": {"dp": 2, "tp": 2}, "b": {"dp": 3}}, args=["f32[24,64]", "f32[64,128]", "f32[128,32]"],
        in_specs={"x": mg.P("dp", "tp", mesh="a"), "w0": mg.P(None, "tp", mesh="a")}, target="cpu",
    )  # fmt: skip
    (advice, *_) = mg.advise(executable)
    assert advice.value == "x" and "input %x" in advice.change
    wishes = {"x": replace(parse_sharding(advice.spec), mesh="a")}
    after = api.plan_module(annotated_with(executable.stages["import"], wishes), executable.options, Timing())
    assert after.record()["ring_bytes"] <= advice.after["ring_bytes"] < executable.record()["ring_bytes"]
    assert [part.mesh.name for part in after.parts] == ["a", "b"]


def test_a_split_of_what_every_device_computes_is_found_and_holds() -> None:
    executable = repeating()
    (best, *_) = mg.advise(executable)
    assert best.kind == "annotate" and best.change in ("annotate %c as dp,tp", "annotate %d as dp,tp")
    changed = annotated_with(executable.stages["import"], {best.value: parse_sharding(best.spec)})
    after = api.plan_module(changed, executable.options, Timing())
    figures = after.record()
    assert best.after == {name: figures[name] for name in best.after}
    assert best.after["step_seconds"] < best.before["step_seconds"] / 2
    assert best.after["peak_memory_bytes"] < best.before["peak_memory_bytes"]


def test_ops_of_repeated_layers_are_annotated_together() -> None:
    def layers(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        for _ in range(3):
            x = mg.tanh(x @ w)
        return x

    whole = {"x": mg.P(None, None), "w": mg.P(None, None)}
    executable = api.plan(layers, mg.make_mesh({"tp": 4}), args=["f32[4096,4096]"] * 2, in_specs=whole, target="cpu")
    (best, *_) = mg.advise(executable)
    assert "and 2 more alike as" in best.change and best.after["step_seconds"] < best.before["step_seconds"] / 2


def test_a_gather_for_repeated_work_is_met_by_splitting_that() -> None:
    """The result is whole for callers and larger than the operand, so this is gathered: annotating the dot keeps it split."""

    def wide(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        return mg.tanh(x @ w)

    specs = {"x": mg.P("tp"), "w": mg.P(None, None)}
    executable = api.plan(
        wide, mg.make_mesh({"tp": 4}), args=["f32[512,8]", "f32[8,512]"], in_specs=specs, out_specs=mg.P(None, None), target="cpu",
    )  # fmt: skip
    (gather,) = executable.gathers()
    assert gather.value == "x"
    found = [*splits(executable, gather.numbers)]
    assert found and found[0].then(executable) == ("[{tp}, {}]", "tp,_")
    assert found[0].seconds > gather.seconds and [*splits(executable, [])] == []
