"""Start points for the axis-by-axis search: alternatives are tried, and the chosen one never moves more bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshgen.compilation import Compilation
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.propagate import solve
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.axes import USUAL, Axes, Start
from meshgen.sharding.rewrites.program_cost import planned_seconds
from meshgen.testing.random_graphs import random_program

HEAD = 'sdy.mesh @m = <["a"=2, "b"=4]>\n'


def sharding(spec: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@m, {spec}>}}"


def mlp(x: str, w: str, v: str, y: str) -> str:
    dots = "contracting_dims = [1] x [0]"
    return f"""{HEAD}func.func @main(%x: tensor<16x32xf32> {sharding(x)}, %w: tensor<32x64xf32> {sharding(w)},
    %v: tensor<64x32xf32> {sharding(v)}) -> (tensor<16x32xf32> {sharding(y)}) {{
  %0 = stablehlo.dot_general %x, %w, {dots} : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %1 = stablehlo.tanh %0 : tensor<16x64xf32>
  %2 = stablehlo.dot_general %1, %v, {dots} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %2 : tensor<16x32xf32>
}}
"""


ROWS, COLUMNS = sharding('[{"b"}, {}]'), sharding('[{}, {"b"}]')
SORTED = f"""{HEAD}func.func @main(%x: tensor<16x32xf32> {ROWS}) -> (tensor<16x32xf32> {COLUMNS}) {{
  %0 = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}}
"""


def partitioned(text: str) -> Module:
    return run_stages(parse_text(text), Options(), Timing(), "partition")["partition"]


def test_sorted_argument_is_resharded_with_all_to_all() -> None:
    analysis = analyze(partitioned(SORTED))
    assert analysis.counts == {"all_to_all": 1} and analysis.ring_bytes == 16 * 32 // 4 * 4 * 3 // 4


BETTER = [
    ("pins", ("[{}, {}]", '[{"b"}, {"a"}]', '[{}, {"b", "a"}]', '[{"a", "b"}, {}]'), 4032),
    ("pins", ('[{"b"}, {}]', '[{"a"}, {"b"}]', '[{}, {"b", "a"}]', '[{"a"}, {}]'), 4608),
    ("is_last_first", ('[{"b"}, {}]', '[{"a", "b"}, {}]', '[{"a"}, {"b"}]', '[{"a"}, {"b"}]'), 4736),
]


@pytest.mark.parametrize("name, specs, most", BETTER)
def test_alternative_start_moves_fewer_bytes_than_default(
    name: str, specs: tuple[str, str, str, str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, starts, usual = mlp(*specs), Axes.starts, getattr(USUAL, name)
    assert analyze(partitioned(text)).ring_bytes <= most
    monkeypatch.setattr(Axes, "starts", lambda *of: (s for s in starts(*of) if getattr(s, name) == usual))
    assert analyze(partitioned(text)).ring_bytes > most


def test_axis_order_is_not_varied_for_independent_axes() -> None:
    """Check data and tensor parallelism: one axis shards the rows and the other the columns, so their order does not
    matter.
    """
    solved = solve(parse_text(mlp('[{"a"}, {}]', '[{}, {"b"}]', '[{"b"}, {}]', '[{"a"}, {}]')))
    assert not any(start.is_last_first for start in solved.axes.starts(USUAL, solved.decisions))
    last = solved.axes.decide(Start(is_last_first=True))
    assert {axis: decision.solution.labels for axis, decision in last.items()} == solved.labels


def test_chosen_start_is_not_worse_than_any_other_start() -> None:
    for seed in range(8):
        solved = solve(random_program(seed))
        chosen_seconds = planned_seconds(solved, annotated(solved), Compilation())
        for start in (Start(last, pins) for last in (False, True) for pins in (False, True)):
            other = replace(solved, decisions=solved.axes.decide(start), start=start)
            other_seconds = planned_seconds(other, annotated(other), Compilation())
            assert not (other_seconds < chosen_seconds and other_seconds.links <= chosen_seconds.links)
