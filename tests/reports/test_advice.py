"""Advice about annotations to drop or add, and whether compiling with it gives the predicted figures."""

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


def test_advice_names_expensive_annotation_and_replacement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(GATHERED)
    advice = {advice_item.value: advice_item for advice_item in mg.advise(planned(GATHERED))}
    assert advice["w"].instead == "[{}, {}]" and advice["w"].after["ring_bytes"] == 0
    assert advice["w"].after["peak_memory_bytes"] > 0
    assert main(["explain", str(path), "--target", "cpu", "--collective", "0", "--advise", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {advice_item["value"] for advice_item in document["advice"]} == set(advice)
    assert main(["explain", str(path), "--target", "cpu", "--advise"]) == 0
    assert "required annotation [{x}, {}] of input %w" in capsys.readouterr().out


FIRST_SEED = 8  # the first seed whose random program has gathers that no annotation requires
CASES = ["mlp_train_zero3", "attn_fused_qkv_tp", "xent_vocab_onehot", "block_dp_tp_sp"]


@pytest.mark.parametrize("name", [name for name in CASES if small(name).exists()])
def test_advised_annotation_moves_at_most_predicted_bytes(name: str) -> None:
    executable = plan_of(small(name))
    advised = [advice_item for advice_item in mg.advise(executable) if " more alike " not in advice_item.change]
    assert advised
    for advice in advised:
        changed = annotated_with(executable.stages["import"], {advice.value: parse_sharding(advice.spec)})
        after = api.plan_module(changed, Options("cpu"), Timing())
        assert after.comms.ring_bytes <= advice.after["ring_bytes"]
        assert advice.kind == "annotate" or advice.after["ring_bytes"] < executable.comms.ring_bytes


def test_advice_for_random_programs_improves_figures() -> None:
    gathers, advised = 0, 0
    for seed in trials(4):
        executable = api.plan_module(random_program(FIRST_SEED + seed), Options("cpu"), Timing())
        for gather in executable.gathers():
            gathers += 1
            assert gather.ring_bytes >= 0 and gather.axes and gather.numbers, seed
        for advice in mg.advise(executable):
            advised += 1
            assert advice.before["ring_bytes"] == executable.comms.ring_bytes, seed
            better = "ring_bytes" if advice.kind == "drop" else "step_seconds"
            assert advice.after[better] < advice.before[better], seed
    assert gathers > 1 and advised > 2


def test_strict_error_suggests_most_profitable_change() -> None:
    with pytest.raises(ShardingError) as caught:
        api.plan(GATHERED, target="cpu", strict=True)
    (best, *_) = mg.advise(planned(GATHERED))
    (fault, *_) = caught.value.diagnostics
    assert f"it saves the most to {best.change}: %{best.value} then has sharding {best.instead}" in fault.hint


def test_advice_on_several_meshes_keeps_mesh_assignment() -> None:
    def stages(x: mg.Tensor, w0: mg.Tensor, w1: mg.Tensor) -> mg.Tensor:
        h = mg.gelu(x @ w0)
        return mg.annotate(h, mg.P("dp", mesh="b")) @ w1

    executable = mg.compile(
        stages, {"a": {"dp": 2, "tp": 2}, "b": {"dp": 3}}, args=["f32[24,64]", "f32[64,128]", "f32[128,32]"],
        in_specs={"x": mg.P("dp", "tp", mesh="a"), "w0": mg.P(None, "tp", mesh="a")}, target="cpu",
    )  # fmt: skip
    (advice, *_) = mg.advise(executable)
    assert advice.value == "x" and "input %x" in advice.change
    annotations = {"x": replace(parse_sharding(advice.spec), mesh="a")}
    after = api.plan_module(annotated_with(executable.stages["import"], annotations), executable.options, Timing())
    assert after.record()["ring_bytes"] <= advice.after["ring_bytes"] < executable.record()["ring_bytes"]
    assert [part.mesh.name for part in after.parts] == ["a", "b"]


def test_advice_splits_replicated_work_with_exact_figures() -> None:
    executable = repeating()
    (best, *_) = mg.advise(executable)
    assert best.kind == "annotate" and best.change in ("annotate %c as dp,tp", "annotate %d as dp,tp")
    changed = annotated_with(executable.stages["import"], {best.value: parse_sharding(best.spec)})
    after = api.plan_module(changed, executable.options, Timing())
    figures = after.record()
    assert best.after == {name: figures[name] for name in best.after}
    assert best.after["step_seconds"] < best.before["step_seconds"] / 2
    assert best.after["peak_memory_bytes"] < best.before["peak_memory_bytes"]


def test_advice_annotates_ops_of_repeated_layers_together() -> None:
    def layers(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        for _ in range(3):
            x = mg.tanh(x @ w)
        return x

    replicated_specs = {"x": mg.P(None, None), "w": mg.P(None, None)}
    executable = api.plan(
        layers, mg.make_mesh({"tp": 4}), args=["f32[4096,4096]"] * 2, in_specs=replicated_specs, target="cpu"
    )
    (best, *_) = mg.advise(executable)
    assert "and 2 more alike as" in best.change and best.after["step_seconds"] < best.before["step_seconds"] / 2


def test_advice_splits_replicated_dot_instead_of_gathering() -> None:
    """The operand is gathered because the result is larger; annotating the dot keeps the operand sharded."""

    def wide(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        return mg.tanh(x @ w)

    specs = {"x": mg.P("tp"), "w": mg.P(None, None)}
    executable = api.plan(
        wide, mg.make_mesh({"tp": 4}), args=["f32[512,8]", "f32[8,512]"], in_specs=specs, out_specs=mg.P(None, None), target="cpu",
    )  # fmt: skip
    (gather,) = executable.gathers()
    assert gather.value == "x"
    candidate_splits = [*splits(executable, gather.numbers)]
    assert candidate_splits and candidate_splits[0].then(executable) == ("[{tp}, {}]", "tp,_")
    assert candidate_splits[0].seconds > gather.seconds and [*splits(executable, [])] == []
