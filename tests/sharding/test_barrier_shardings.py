"""Shardings of optimization barriers: each result has the sharding of its operand; each mesh has separate barriers."""

from __future__ import annotations

from typing import Any

import pytest

from meshgen.errors import ShardingError
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.uniformity import Varying
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.partition import partition
from meshgen.sharding.propagation.edge_tables import edge_tables
from meshgen.testing.oracle import check

T = "tensor<8x4xf32>"
PAIR = f"""
func.func @main(%x: {T} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %y: {T} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}, %n: tensor<i32>) -> ({T}, {T}, tensor<i32>) {{
  %0:3 = stablehlo.optimization_barrier %x, %y, %n : {T}, {T}, tensor<i32>
  %1 = stablehlo.sine %0#0 : {T}
  %2 = stablehlo.cosine %0#1 : {T}
  return %1, %2, %0#2 : {T}, {T}, tensor<i32>
}}
"""


def stages(text: str) -> dict[str, Any]:
    return run_stages(parse_text(text), Options("cpu"), Timing(), "fuse")


def test_barrier_operands_are_sharded_independently() -> None:
    """Check an axis that shards the rows of one operand and the columns of another."""
    text = 'sdy.mesh @mesh = <["x"=2]>' + PAIR
    staged = stages(text)
    (node,) = [n for n in staged["propagate"].graph.nodes if n.op == "optimization_barrier"]
    assert node.sharding.operands == node.sharding.results
    assert [str(s) for s in node.sharding.results] == ["[{x}, {}]", "[{}, {x}]", "[]"]
    assert all("x splits" in line for line in node.sharding.why)
    assert not {n.op for n in staged["partition"].graph.nodes} & {"all_gather", "all_to_all", "all_slice"}
    (local,) = [n for n in staged["partition"].graph.nodes if n.op == "optimization_barrier"]
    assert [v.type.shape for v in local.results] == [(4, 4), (8, 2), ()]
    assert check(parse_text(text), pipeline=lambda _: staged["fuse"]).ok


def test_partial_sum_passes_through_barrier() -> None:
    text = f"""sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: {T} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<4xf32> {{
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : ({T}, tensor<f32>) -> tensor<4xf32>
  %0:2 = stablehlo.optimization_barrier %s, %x : tensor<4xf32>, {T}
  %t = stablehlo.reduce(%0#1 init: %c) applies stablehlo.add across dimensions = [0] : ({T}, tensor<f32>) -> tensor<4xf32>
  %r = stablehlo.add %t, %0#0 : tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""
    staged = stages(text)
    assert [n.op for n in staged["partition"].graph.nodes].count("all_reduce") == 1
    assert check(parse_text(text), pipeline=lambda _: staged["fuse"]).ok


def test_barrier_with_different_result_sharding_is_rejected() -> None:
    """The test swaps the result shardings, because propagation never produces such a program."""
    module = stages('sdy.mesh @mesh = <["x"=2]>' + PAIR)["materialize"]
    (node,) = [n for n in module.graph.nodes if n.op == "optimization_barrier"]
    node.results[0].sharding, node.results[1].sharding = node.results[1].sharding, node.results[0].sharding
    with pytest.raises(
        ShardingError, match=r"MG0206: 'optimization_barrier': operand 0 has sharding \[\{x\}, \{\}\], and result 0"
    ):
        partition(module)


def test_barrier_is_split_by_mesh() -> None:
    text = f"""shard.grid @a(shape = 2) {{axis_names = ["x"]}}
shard.grid @b(shape = 2) {{axis_names = ["y"]}}
func.func @main(%x: {T} {{sdy.sharding = #sdy.sharding<@a, [{{"x"}}, {{}}]>}}, %y: {T} {{sdy.sharding = #sdy.sharding<@b, [{{"y"}}, {{}}]>}}) -> ({T}, {T}) {{
  %s = stablehlo.sine %x : {T}
  %c = stablehlo.constant dense<2.0> : {T}
  %t = stablehlo.cosine %y : {T}
  %0:4 = stablehlo.optimization_barrier %x, %t, %s, %c : {T}, {T}, {T}, {T}
  %1 = stablehlo.sine %0#0 : {T}
  %2 = stablehlo.multiply %1, %0#2 : {T}
  %3 = stablehlo.multiply %0#1, %0#3 : {T}
  return %2, %3 : {T}, {T}
}}
"""
    staged = stages(text)
    for part in staged["propagate"].parts:
        assert "transfer_send" not in {node.op for node in part.graph.nodes}
    barriers = [n for part in staged["propagate"].parts for n in part.graph.nodes if n.op == "optimization_barrier"]
    # %x and %s share a barrier and %t has another. The constant %c needs none: no value is computed before it.
    assert [len(node.operands) for node in barriers] == [2, 1]
    assert check(parse_text(text), pipeline=lambda _: staged["fuse"]).ok


def test_barrier_does_not_share_gathered_copies() -> None:
    price = {(s, t): float(s != t) * (s is not None) for s in (None, 0, "sum") for t in (None, 0, "sum")}
    for produced, shared in ((0, 2.0), ("sum", 1.0)):
        for is_barrier, seconds in ((False, 1.0), (True, shared)):
            edge = edge_tables(
                [3, 5, 6], [produced], [[produced, None], [produced, None]], [price] * 2, [1.0] * 2, [False, is_barrier]
            )
            assert edge.at([0, 1, 1]) == seconds


def test_barrier_result_is_uniform_if_operand_is() -> None:
    module = stages('sdy.mesh @mesh = <["x"=2]>' + PAIR)["partition"]
    (node,) = [n for n in module.graph.nodes if n.op == "optimization_barrier"]
    varying = Varying(module)
    assert [varying.is_uniform(value, ("x",)) for value in node.results] == [False, False, True]


def test_barrier_round_trips_in_pretty_and_generic_form() -> None:
    pretty = f"""func.func @main(%x: {T}, %n: tensor<i32>) -> ({T}, tensor<i32>) {{
  %0:2 = stablehlo.optimization_barrier %x, %n : {T}, tensor<i32>
  return %0#0, %0#1 : {T}, tensor<i32>
}}
"""
    line = f"stablehlo.optimization_barrier %x, %n : {T}, tensor<i32>"
    generic = pretty.replace(
        line, f'"stablehlo.optimization_barrier"(%x, %n) : ({T}, tensor<i32>) -> ({T}, tensor<i32>)'
    )
    texts = {print_text(parse_text(text)) for text in (pretty, generic)}
    (text,) = texts
    assert line in text and print_text(parse_text(text)) == text
