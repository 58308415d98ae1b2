"""Strategies: all axes at once, only what annotations and sizes allow, and the work that they leave."""

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
    number = next(number for number, site in enumerate(problem.sites) if site.node.op == op)
    return problem.strategies[problem.clusters[number]]


def _problem(function: Callable[..., Any], args: list[str], **specs: str) -> Problem:
    return problem_of(api.read(function, {"x": 2, "y": 2}, args=args, in_specs=specs or None)[0])


def test_a_product_splits_any_loop_along_each_axis() -> None:
    found = _strategies(_problem(_product, ["f32[64,32]", "f32[32,96]"]), "dot_general")
    assert len(found.labels) == 16
    both = found.of_result(0)
    assert (0, 1) in both and ("sum", "sum") in both and (None, None) in both


def test_a_product_of_large_tiles_takes_what_its_arithmetic_does() -> None:
    """8192 x 8192 x 8192 in bf16 are 1.1e12 FLOP, at 70 % of an H100's peak 1.6 ms."""
    found = _strategies(_problem(_product, ["bf16[8192,8192]", "bf16[8192,8192]"]), "dot_general")
    both = found.of_result(0)
    whole = found.seconds[both.index((None, None))]
    assert whole == pytest.approx(1.6e-3, rel=0.05)
    assert found.seconds[both.index((0, 1))] == pytest.approx(whole / 4, rel=0.05)
    assert found.seconds[both.index((None, 1))] == pytest.approx(whole / 2, rel=0.05)


def test_a_product_of_few_rows_reads_all_weights_unless_these_are_split() -> None:
    """Splitting the rows leaves a device a quarter of the arithmetic, and nearly all of the traffic, which takes longer."""
    found = _strategies(_problem(_product, ["bf16[64,4096]", "bf16[4096,16384]"]), "dot_general")
    read, made = found.of_operand(1), found.of_result(0)
    whole = found.seconds[made.index((None, None))]
    assert whole == pytest.approx(memory_seconds((64 * 4096 + 4096 * 16384 + 64 * 16384) * 2, device_of("sm_90")))
    assert found.seconds[made.index((0, 0))] == pytest.approx(whole, rel=0.02)
    assert found.seconds[made.index((1, 1))] == pytest.approx(whole / 4, rel=0.02)
    assert found.seconds[read.index((0, 0))] == pytest.approx(whole / 4, rel=0.05)


def test_two_axes_split_one_loop_evenly_or_not_at_all() -> None:
    found = _strategies(_problem(_product, ["f32[6,32]", "f32[32,96]"]), "dot_general").of_operand(0)
    assert (0, 1) in found and (1, 1) in found and (0, 0) not in found


def test_an_annotated_argument_has_one_strategy() -> None:
    found = _strategies(_problem(_product, ["f32[64,32]", "f32[32,96]"], arg0="x,y", x="x,y"), "input")
    assert found.of_result(0) == [(0, 1)]


def test_memory_is_that_of_tiles() -> None:
    problem = _problem(_product, ["f32[64,32]", "f32[32,96]"])
    first = problem.clusters[0]
    placings = problem.strategies[first].of_result(0)
    parts = np.array([2 ** sum(state is not None for state in placing) for placing in placings])
    assert np.array_equal(problem.memory[first], 64 * 32 * 4 / parts)
