"""Tests of the mutation of one op's sharding: the plan keeps it or rejects it."""

from __future__ import annotations

import pytest

import meshgen as mg
from meshgen import api
from meshgen.errors import ShardingError, UsageError

TEXT = """
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x96xf32>) -> tensor<64x96xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x96xf32>) -> tensor<64x96xf32>
  %y = stablehlo.tanh %h : tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}
"""
MESH = {"dp": 2, "tp": 4}


def test_mutated_dot_keeps_its_sharding_in_the_plan() -> None:
    before = api.plan(TEXT, MESH, target="cpu")
    after = api.plan(mg.mutate(before, "h", ["dp", ["tp"], None]), target="cpu")
    product = next(node for node in after.stages["propagate"].graph.nodes if node.op == "dot_general")
    assert product.sharding is not None and product.sharding.option[:2] == (("dp",), ("tp",))
    assert [str(sharding) for sharding in after.stages["partition"].out_shardings] == ["[{dp}, {tp}]"]


def test_mutation_accepts_a_line_number() -> None:
    module, _ = api.read(TEXT, MESH)
    assert mg.mutate(module, "3", ["dp"]).graph.nodes[0].option == (("dp",),)


def test_invalid_mutations_are_rejected() -> None:
    module, _ = api.read(TEXT, MESH)
    with pytest.raises(ShardingError, match="MG0204"):
        api.plan(mg.mutate(module, "h", [None] * 4), target="cpu")
    with pytest.raises(UsageError, match="'x' is an input, which has no loops"):
        mg.mutate(module, "x", ["dp"])
    with pytest.raises(UsageError, match="unknown value 'q'"):
        mg.mutate(module, "q", ["dp"])
