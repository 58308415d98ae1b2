"""Searches: layouts that are known to be good are found, annotations are kept, plans fit, and none is worse than what was given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import meshgen as mg
from meshgen import api
from meshgen.errors import CodegenError, UsageError
from meshgen.ir.predicates import is_annotation
from meshgen.mlir.text import parse_text
from meshgen.search import best
from meshgen.search.found import Found
from tests.acceptance.cases import needs_cases, realistic, small
from tests.search.transformer import stack

MEGATRON = {"wq": "_,tp,_", "wk": "_,tp,_", "wv": "_,tp,_", "wo": "tp,_,_", "w1": "_,tp", "w2": "tp,_"}


def _weights(found: Found) -> dict[str, set[str]]:
    """The specs of each kind of weight, over all layers."""
    specs: dict[str, set[str]] = {}
    for name, spec in found.specs.items():
        if "." in name:
            specs.setdefault(name.rpartition(".")[2], set()).add(spec)
    return specs


@pytest.fixture(scope="module")
def block_of_few_tokens() -> Found:
    forward, args = stack(1, 2, 64)
    return mg.search(forward, {"dp": 2, "tp": 4}, args=args, target="cpu", seconds=30)


def test_a_block_of_few_tokens_is_split_as_in_megatron(block_of_few_tokens: Found) -> None:
    """Weights are most of what a device reads, so they are split; columns and then rows need one reduction for two products."""
    found = block_of_few_tokens
    assert found.specs["x"] == "dp,_,_" and found.gap == 0
    assert _weights(found) == {name: {spec} for name, spec in MEGATRON.items()}
    assert {each.kind for each in found.planned.comms} == {"all_reduce"}


@pytest.mark.parametrize(("layers", "mesh"), [(32, {"dp": 2, "tp": 4}), (4, {"dp": 4, "tp": 8})], ids=str)
def test_the_first_solution_of_many_layers_is_that_of_megatron(layers: int, mesh: dict[str, int]) -> None:
    """A time limit of no seconds plans it alone: the estimate sees that splitting few tokens leaves all weights to read, and is near the plan's."""
    forward, args = stack(layers, mesh["dp"], 64)
    found = mg.search(forward, mesh, args=args, target="cpu", seconds=0)
    assert found.specs["x"] == "dp,_,_" and found.gap == 0
    assert _weights(found) == {name: {spec} for name, spec in MEGATRON.items()}
    assert found.step_seconds == pytest.approx(found.estimated_seconds, rel=0.1)


def test_weights_are_split_over_the_batch_axis_where_memory_is_short() -> None:
    """As in ZeRO: rows of the batch stay where they are, weights are gathered for each product."""
    forward, args = stack(1, 8, 512)
    limit = 300 * 10**6  # the weights are 403 MB
    found = mg.search(forward, {"dp": 8}, args=args, target="cpu", memory_limit=limit, seconds=60)
    assert found.planned.plan.arena_bytes <= limit
    assert found.specs["x"] == "dp,_,_" and any("dp" in spec for specs in _weights(found).values() for spec in specs)
    assert "all_gather" in {each.kind for each in found.planned.comms}


def test_what_was_found_plans_so_again(block_of_few_tokens: Found) -> None:
    forward, args = stack(1, 2, 64)
    again = api.plan(forward, {"dp": 2, "tp": 4}, args=args, in_specs=block_of_few_tokens.specs, target="cpu")
    assert again.plan.step_seconds == block_of_few_tokens.step_seconds


def test_annotations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first solution, and by what is found near it."""
    monkeypatch.setattr(best, "MUTATIONS", 1)
    forward, args = stack(1, 2, 64)
    given = {"x": "_,_,tp", "layers.0.w1": "dp,tp"}
    found = mg.search(forward, {"dp": 2, "tp": 4}, args=args, in_specs=given, target="cpu", seconds=5)
    assert {name: found.specs[name] for name in given} == given


CASES = ["decode_heads", "mlp_1d_ws_8", "pipeline_roll", "moe_ep_nohint", "xent_vocab_onehot"]


@pytest.mark.parametrize("name", [name for name in CASES if small(name).exists()])
def test_no_result_is_worse_than_the_program_as_given(name: str) -> None:
    given = api.plan(small(name), target="cpu")
    found = mg.search(small(name), target="cpu", seconds=5)
    assert found.step_seconds <= given.plan.step_seconds


@needs_cases
def test_a_training_step_is_no_slower_than_annotated_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first solution has the batch over `tp` and the weights over `dp`: with the axes exchanged, all that is tried here, it is what people write."""
    monkeypatch.setattr(best, "MUTATIONS", 0)
    monkeypatch.setattr(best, "FAR", math.inf)
    given = parse_text(realistic("block_train_dp_tp").read_text())
    assert not any(is_annotation(node) for node in given.graph.nodes)
    found = mg.search(replace(given, in_annotations=[], out_annotations=[]), target="cuda:sm_90", seconds=300)
    assert found.gap == 0
    assert found.step_seconds <= api.plan(given, target="cuda:sm_90").plan.step_seconds


def test_what_activations_take_is_taken_off_what_arguments_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is above all that the arguments of the best solution take, and below its plan."""
    monkeypatch.setattr(best, "MUTATIONS", 0)
    forward, args = stack(1, 2, 64)
    first = mg.search(forward, {"tp": 4}, args=args, target="cpu", seconds=0).planned.plan.arena_bytes
    found = mg.search(forward, {"tp": 4}, args=args, target="cpu", memory_limit=first - 4096, seconds=60)
    assert found.planned.plan.arena_bytes <= first - 4096


def test_compile_searches() -> None:
    def double(x: mg.Tensor) -> mg.Tensor:
        return x + x

    executable = mg.compile(double, {"a": 4}, args=["f32[4096,4096]"], target="cpu", search=True)
    assert not executable.comms and executable.plan.arena_bytes < 4 * 4096 * 4096
    for seconds in ("long", -1, float("nan")):
        with pytest.raises(UsageError, match=r"MG0001.*is not True, nor a number of seconds"):
            mg.compile(double, {"a": 4}, args=["f32[4,4]"], target="cpu", search=seconds)  # pyright: ignore[reportArgumentType]


def test_what_does_not_fit_is_refused() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(CodegenError, match=r"MG0303.*no sharding that was found fits into 1 MB per device"):
        mg.search(forward, {"dp": 2}, args=args, target="cpu", memory_limit=10**6, seconds=5)


def test_a_refusal_says_where_time_was_short() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(CodegenError, match=r"the search was cut short: give it more time \(--seconds\)"):
        mg.search(forward, {"dp": 2}, args=args, target="cpu", memory_limit=9 * 10**7, seconds=0)


def test_a_mesh_of_unknown_size_is_refused() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(UsageError, match=r"MG0001.*are not known"):
        mg.search(forward, {"dp": None}, args=args, target="cpu")
