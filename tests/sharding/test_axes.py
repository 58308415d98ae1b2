"""From where the axes are decided: other starts are looked at, and never move more."""

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
from meshgen.sharding.rewrites.compare import planned_seconds
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


def test_an_argument_is_laid_out_anew_where_that_moves_less_than_gathering_it() -> None:
    found = analyze(partitioned(SORTED))
    assert found.counts == {"all_to_all": 1} and found.ring_bytes == 16 * 32 // 4 * 4 * 3 // 4


BETTER = [
    ("pins", ("[{}, {}]", '[{"b"}, {"a"}]', '[{}, {"b", "a"}]', '[{"a", "b"}, {}]'), 4032),
    ("pins", ('[{"b"}, {}]', '[{"a"}, {"b"}]', '[{}, {"b", "a"}]', '[{"a"}, {}]'), 4608),
    ("is_last_first", ('[{"b"}, {}]', '[{"a", "b"}, {}]', '[{"a"}, {"b"}]', '[{"a"}, {"b"}]'), 4736),
]


@pytest.mark.parametrize("name, specs, most", BETTER)
def test_starts_move_less_than_the_usual_one(
    name: str, specs: tuple[str, str, str, str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, starts, usual = mlp(*specs), Axes.starts, getattr(USUAL, name)
    assert analyze(partitioned(text)).ring_bytes <= most
    monkeypatch.setattr(Axes, "starts", lambda *of: (s for s in starts(*of) if getattr(s, name) == usual))
    assert analyze(partitioned(text)).ring_bytes > most


def test_another_order_is_not_tried_where_no_axis_depends_on_the_others() -> None:
    """Rows over one axis and columns over the other, as of data and tensor parallelism: the other order finds the same."""
    taken = solve(parse_text(mlp('[{"a"}, {}]', '[{}, {"b"}]', '[{"b"}, {}]', '[{"a"}, {}]')))
    assert not any(start.is_last_first for start in taken.axes.starts(USUAL, taken.decisions))
    last = taken.axes.decide(Start(is_last_first=True))
    assert {axis: each.solution.labels for axis, each in last.items()} == taken.labels


def test_no_start_moves_less_with_a_shorter_step_than_what_is_taken() -> None:
    for seed in range(8):
        taken = solve(random_program(seed))
        known = planned_seconds(taken, annotated(taken), Compilation())
        for start in (Start(last, pins) for last in (False, True) for pins in (False, True)):
            other = replace(taken, decisions=taken.axes.decide(start), start=start)
            found = planned_seconds(other, annotated(other), Compilation())
            assert not (found < known and found.links <= known.links)
