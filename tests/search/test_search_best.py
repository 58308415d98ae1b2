"""Tests of the sharding search: it finds known good layouts, keeps annotations, and fits memory."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import meshgen as mg
from meshgen import api
from meshgen.errors import CodegenError, UsageError
from meshgen.ir.predicates import is_annotation
from meshgen.mlir.text import parse_text
from meshgen.search import search_loop
from meshgen.search.result import Found
from tests.acceptance.cases import needs_cases, realistic, small
from tests.search.transformer import stack

MEGATRON = {"wq": "_,tp,_", "wk": "_,tp,_", "wv": "_,tp,_", "wo": "tp,_,_", "w1": "_,tp", "w2": "tp,_"}


def _weights(result: Found) -> dict[str, set[str]]:
    """Return the specs of each kind of weight over all layers."""
    specs: dict[str, set[str]] = {}
    for name, spec in result.specs.items():
        if "." in name:
            specs.setdefault(name.rpartition(".")[2], set()).add(spec)
    return specs


@pytest.fixture(scope="module")
def block_of_few_tokens() -> Found:
    forward, args = stack(1, 2, 64)
    return mg.search(forward, {"dp": 2, "tp": 4}, args=args, target="cpu", seconds=30)


def test_search_shards_block_of_few_tokens_like_megatron(block_of_few_tokens: Found) -> None:
    """Check few tokens: weights are most of the memory traffic, so they are sharded.

    Column then row sharding needs one reduction for two GEMMs.
    """
    result = block_of_few_tokens
    assert result.specs["x"] == "dp,_,_" and result.gap == 0
    assert _weights(result) == {name: {spec} for name, spec in MEGATRON.items()}
    assert {comm.kind for comm in result.planned.comms} == {"all_reduce"}


@pytest.mark.parametrize(("layers", "mesh"), [(32, {"dp": 2, "tp": 4}), (4, {"dp": 4, "tp": 8})], ids=str)
def test_first_solution_for_many_layers_is_megatron_sharding(layers: int, mesh: dict[str, int]) -> None:
    """Check a time limit of zero, so the search returns its first solution.

    Sharding the few tokens would leave each device all weights to read, which the estimate of the solution includes.
    """
    forward, args = stack(layers, mesh["dp"], 64)
    result = mg.search(forward, mesh, args=args, target="cpu", seconds=0)
    assert result.specs["x"] == "dp,_,_" and result.gap == 0
    assert _weights(result) == {name: {spec} for name, spec in MEGATRON.items()}
    assert result.step_seconds == pytest.approx(result.estimated_seconds, rel=0.1)


def test_search_shards_weights_over_batch_axis_to_save_memory() -> None:
    """Check a ZeRO layout: the batch stays sharded, and weights are gathered for each GEMM."""
    forward, args = stack(1, 8, 512)
    limit = 300 * 10**6  # bytes; the weights alone take 403 MB
    result = mg.search(forward, {"dp": 8}, args=args, target="cpu", memory_limit=limit, seconds=60)
    assert result.planned.plan.arena_bytes <= limit
    assert result.specs["x"] == "dp,_,_" and any("dp" in spec for specs in _weights(result).values() for spec in specs)
    assert "all_gather" in {comm.kind for comm in result.planned.comms}


def test_specs_of_search_result_reproduce_its_plan(block_of_few_tokens: Found) -> None:
    forward, args = stack(1, 2, 64)
    replanned = api.plan(forward, {"dp": 2, "tp": 4}, args=args, in_specs=block_of_few_tokens.specs, target="cpu")
    assert replanned.plan.step_seconds == block_of_few_tokens.step_seconds


def test_search_keeps_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the first solution and solutions found near it."""
    monkeypatch.setattr(search_loop, "MUTATIONS", 1)
    forward, args = stack(1, 2, 64)
    annotations = {"x": "_,_,tp", "layers.0.w1": "dp,tp"}
    result = mg.search(forward, {"dp": 2, "tp": 4}, args=args, in_specs=annotations, target="cpu", seconds=5)
    assert {name: result.specs[name] for name in annotations} == annotations


CASES = ["decode_heads", "mlp_1d_ws_8", "pipeline_roll", "moe_ep_nohint", "xent_vocab_onehot"]


@pytest.mark.parametrize("name", [name for name in CASES if small(name).exists()])
def test_search_result_is_not_worse_than_the_annotated_program(name: str) -> None:
    unsearched = api.plan(small(name), target="cpu")
    result = mg.search(small(name), target="cpu", seconds=5)
    assert result.step_seconds <= unsearched.plan.step_seconds


@needs_cases
def test_searched_training_step_is_not_slower_than_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a search that tries only one change of its first solution.

    It exchanges the mesh axes of the batch and of the weights, which yields the usual layout.
    """
    monkeypatch.setattr(search_loop, "MUTATIONS", 0)
    monkeypatch.setattr(search_loop, "FAR", math.inf)
    annotated = parse_text(realistic("block_train_dp_tp").read_text())
    assert not any(is_annotation(node) for node in annotated.graph.nodes)
    result = mg.search(replace(annotated, in_annotations=[], out_annotations=[]), target="cuda:sm_90", seconds=300)
    assert result.gap == 0
    assert result.step_seconds <= api.plan(annotated, target="cuda:sm_90").plan.step_seconds


def test_search_reserves_memory_for_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a memory limit between the argument bytes and the total bytes of the best solution."""
    monkeypatch.setattr(search_loop, "MUTATIONS", 0)
    forward, args = stack(1, 2, 64)
    first_bytes = mg.search(forward, {"tp": 4}, args=args, target="cpu", seconds=0).planned.plan.arena_bytes
    result = mg.search(forward, {"tp": 4}, args=args, target="cpu", memory_limit=first_bytes - 4096, seconds=60)
    assert result.planned.plan.arena_bytes <= first_bytes - 4096


def test_compile_accepts_search_option() -> None:
    def double(x: mg.Tensor) -> mg.Tensor:
        return x + x

    executable = mg.compile(double, {"a": 4}, args=["f32[4096,4096]"], target="cpu", search=True)
    assert not executable.comms and executable.plan.arena_bytes < 4 * 4096 * 4096
    for seconds in ("long", -1, float("nan")):
        with pytest.raises(UsageError, match=r"MG0001.*is not True, nor a number of seconds"):
            mg.compile(double, {"a": 4}, args=["f32[4,4]"], target="cpu", search=seconds)  # pyright: ignore[reportArgumentType]


def test_search_reports_memory_limit_that_no_plan_fits() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(CodegenError, match=r"MG0303.*no sharding that was found fits into 1 MB per device"):
        mg.search(forward, {"dp": 2}, args=args, target="cpu", memory_limit=10**6, seconds=5)


def test_search_failure_mentions_the_time_limit() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(CodegenError, match=r"the search was cut short: give it more time \(--seconds\)"):
        mg.search(forward, {"dp": 2}, args=args, target="cpu", memory_limit=9 * 10**7, seconds=0)


def test_search_rejects_mesh_of_unknown_size() -> None:
    forward, args = stack(1, 2, 64)
    with pytest.raises(UsageError, match=r"MG0001.*are not known"):
        mg.search(forward, {"dp": None}, args=args, target="cpu")
