"""Tests of search strategies: they cover all axes at once, respect annotations and sizes, and cost the remaining work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.codegen.roofline.kernel_time import device_of, memory_seconds
from meshgen.search.problem import Problem, problem_of
from meshgen.search.strategies import Strategies


def _product(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    return mg.matmul(x, w)


def _strategies(problem: Problem, op: str) -> Strategies:
    index = next(index for index, site in enumerate(problem.sites) if site.node.op == op)
    return problem.strategies[problem.clusters[index]]


def _problem(function: Callable[..., Any], args: list[str], **specs: str) -> Problem:
    return problem_of(api.read(function, {"x": 2, "y": 2}, args=args, in_specs=specs or None)[0])


def test_dot_strategies_shard_any_loop_along_each_axis() -> None:
    strategies = _strategies(_problem(_product, ["f32[64,32]", "f32[32,96]"]), "dot_general")
    assert len(strategies.labels) == 16
    results = strategies.of_result(0)
    assert (0, 1) in results and ("sum", "sum") in results and (None, None) in results


def test_large_dot_strategy_cost_is_compute_bound() -> None:
    """Check 8192 x 8192 x 8192 in bf16: 1.1e12 FLOP, which take 1.6 ms at 70 % of an H100's peak."""
    strategies = _strategies(_problem(_product, ["bf16[8192,8192]", "bf16[8192,8192]"]), "dot_general")
    results = strategies.of_result(0)
    replicated_seconds = strategies.seconds[results.index((None, None))]
    assert replicated_seconds == pytest.approx(1.6e-3, rel=0.05)
    assert strategies.seconds[results.index((0, 1))] == pytest.approx(replicated_seconds / 4, rel=0.05)
    assert strategies.seconds[results.index((None, 1))] == pytest.approx(replicated_seconds / 2, rel=0.05)


def test_dot_of_few_rows_strategy_cost_is_memory_bound() -> None:
    """Check that sharding the rows leaves a quarter of the FLOPs but nearly all of the memory traffic, which dominates."""
    strategies = _strategies(_problem(_product, ["bf16[64,4096]", "bf16[4096,16384]"]), "dot_general")
    weights, results = strategies.of_operand(1), strategies.of_result(0)
    replicated_seconds = strategies.seconds[results.index((None, None))]
    assert replicated_seconds == pytest.approx(
        memory_seconds((64 * 4096 + 4096 * 16384 + 64 * 16384) * 2, device_of("sm_90"))
    )
    assert strategies.seconds[results.index((0, 0))] == pytest.approx(replicated_seconds, rel=0.02)
    assert strategies.seconds[results.index((1, 1))] == pytest.approx(replicated_seconds / 4, rel=0.02)
    assert strategies.seconds[weights.index((0, 0))] == pytest.approx(replicated_seconds / 4, rel=0.05)


def test_two_axes_shard_one_loop_only_evenly() -> None:
    operand_states = _strategies(_problem(_product, ["f32[6,32]", "f32[32,96]"]), "dot_general").of_operand(0)
    assert (0, 1) in operand_states and (1, 1) in operand_states and (0, 0) not in operand_states


def test_annotated_argument_has_one_strategy() -> None:
    strategies = _strategies(_problem(_product, ["f32[64,32]", "f32[32,96]"], arg0="x,y", x="x,y"), "input")
    assert strategies.of_result(0) == [(0, 1)]


def test_strategy_memory_is_that_of_tiles() -> None:
    problem = _problem(_product, ["f32[64,32]", "f32[32,96]"])
    first = problem.clusters[0]
    placements = problem.strategies[first].of_result(0)
    parts = np.array([2 ** sum(state is not None for state in placement) for placement in placements])
    assert np.array_equal(problem.memory[first], 64 * 32 * 4 / parts)
