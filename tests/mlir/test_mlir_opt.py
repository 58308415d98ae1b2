"""Tests with mlir-opt of LLVM 22: it accepts text printed in upstream's dialects, and its output gives the same plan."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.ir.graph import Module
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.text import parse_text
from meshgen.mlir.upstream.module import print_upstream
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.testing.oracle import compare, meaning
from meshgen.testing.random_graphs import random_arguments
from tests.mlir.mlir_opt import local_types, mlir_opt, partitioned

DATA = Path(__file__).parent.parent / "data"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FILES = [
    *DATA.glob("mlir/[a-c]*.mlir"), *DATA.glob("rfc_*option.mlir"), DATA / "rfc_fig2b_plain.mlir", EXAMPLES / "pipeline_stages.mlir",
    EXAMPLES / "transformer_block.mlir",
]  # fmt: skip
LOCAL = DATA.glob("mlir/[hi]*.mlir")
LOOP = """shard.grid @mesh(shape = 2x2) {axis_names = ["dp", "tp"]}
func.func @main(%x: tensor<8x16xf32> {meshgen.sharding = #meshgen.split<@mesh, [["dp"], []]>}, %w: tensor<16x16xf32>, %n: tensor<i32>)
    -> tensor<8x16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r, %i, %k, %v = stablehlo.while(%a = %x, %b = %zero, %m = %n, %u = %w) : tensor<8x16xf32>, tensor<i32>, tensor<i32>, tensor<16x16xf32>
  cond {
    %c = stablehlo.compare LT, %b, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %h = stablehlo.dot_general %a, %u, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %t = stablehlo.tanh %h : tensor<8x16xf32>
    %j = stablehlo.add %b, %one : tensor<i32>
    stablehlo.return %t, %j, %m, %u : tensor<8x16xf32>, tensor<i32>, tensor<i32>, tensor<16x16xf32>
  }
  return %r : tensor<8x16xf32>
}"""
IMAGES = """shard.grid @mesh(shape = 4) {axis_names = ["x"]}
func.func @main(%x: tensor<4x8x8x6xf32> {meshgen.sharding = #meshgen.split<@mesh, [["x"]]>}, %w: tensor<3x3x3x4xf32>) -> tensor<4x4x4x4xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<4x8x8x6xf32>, tensor<3x3x3x4xf32>) -> tensor<4x8x8x4xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %p = "stablehlo.reduce_window"(%y, %low) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>,
      padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>} : (tensor<4x8x8x4xf32>, tensor<f32>) -> tensor<4x4x4x4xf32>
  return %p : tensor<4x4x4x4xf32>
}"""
EMBEDDING = """shard.grid @mesh(shape = 2x2) {axis_names = ["dp", "tp"]}
func.func @main(%t: tensor<32x16xf32> {meshgen.sharding = #meshgen.split<@mesh, [["tp"], []]>},
                %i: tensor<8x4x1xui32> {meshgen.sharding = #meshgen.split<@mesh, [["dp"]]>}) -> tensor<8x4x16xf32> {
  %r = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0],
      index_vector_dim = 2>, slice_sizes = array<i64: 1, 16>} : (tensor<32x16xf32>, tensor<8x4x1xui32>) -> tensor<8x4x16xf32>
  return %r : tensor<8x4x16xf32>
}"""
BRANCHES = """shard.grid @g(shape = 4)
func.func @main(%x: tensor<4x6xf32>, %i: tensor<i32>) -> (tensor<4x6xf32>, tensor<i32>) {
  %r, %s = "stablehlo.case"(%i) ({
    %a = stablehlo.tanh %x : tensor<4x6xf32>
    stablehlo.return %a, %i : tensor<4x6xf32>, tensor<i32>
  }, {
    %a = stablehlo.negate %x : tensor<4x6xf32>
    %j = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %a, %j : tensor<4x6xf32>, tensor<i32>
  }) : (tensor<i32>) -> (tensor<4x6xf32>, tensor<i32>)
  return %r, %s : tensor<4x6xf32>, tensor<i32>
}"""
ARGMAX = """shard.grid @mesh(shape = 2x2) {axis_names = ["dp", "tp"]}
func.func @main(%x: tensor<8x16xf32> {meshgen.sharding = #meshgen.split<@mesh, [["dp"], ["tp"]]>}) -> tensor<8xi32> {
  %n = stablehlo.iota dim = 1 : tensor<8x16xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %low), (%n init: %zero) across dimensions = [1] : (tensor<8x16xf32>, tensor<8x16xi32>, tensor<f32>, tensor<i32>)
      -> (tensor<8xf32>, tensor<8xi32>)
    reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
    %greater = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %nan = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %first = stablehlo.or %greater, %nan : tensor<i1>
    %equal = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %before = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tie = stablehlo.and %equal, %before : tensor<i1>
    %taken = stablehlo.or %first, %tie : tensor<i1>
    %value = stablehlo.select %first, %a, %c : tensor<i1>, tensor<f32>
    %index = stablehlo.select %taken, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %value, %index : tensor<f32>, tensor<i32>
  }
  return %r#1 : tensor<8xi32>
}"""
PROGRAMS = {path.stem: path.read_text() for path in sorted(FILES)} | {
    "loop": LOOP, "branches": BRANCHES, "images": IMAGES, "embedding": EMBEDDING, "argmax": ARGMAX,
}  # fmt: skip
# Programs that the partition pass of LLVM 22 supports: no uneven tiles, swapped axes or shrinking halos.
PARTITIONED = [
    "a02_mlp_partly_annotated", "a06_mlp_sequence_parallel", "a09_mlp_dp_tp", "b06_k_scatter_cols", "b09_m_and_k", "b11_summa",
    "b20_accumulate", "b22_chain", "c17_move_both", "c38_size1_axis", "rfc_fig2a_option",
]  # fmt: skip


def plan_summary(program: str) -> Any:
    """Return collectives, launches, bytes, predicted time and peak memory of the plan of a program.

    Returns the codes of the errors if the program has no plan.
    """
    try:
        plan = api.plan(program, target="cuda:sm_90")
        cost = plan.cost
        return plan.comms.counts, cost.kernels, cost.ring_bytes, cost.step_seconds, plan.memory.peak_bytes
    except mg.MeshgenError as error:
        return [fault.code for fault in error.diagnostics]


def compute_same_results(module: Module, *texts: str) -> bool:
    """Whether the global programs `texts` compute the same results as `module`."""
    args = random_arguments(module)
    references, bounds = meaning(module.graph, args, module.mesh, *module.meshes)
    types = [value.type for value in module.graph.outputs]
    results = [evaluate(parse_text(text).graph, args) for text in texts]
    return all(
        compare(*comparison).ok
        for result in results
        for comparison in zip(types, references, result, bounds, strict=True)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_mlir_opt_round_trip_keeps_the_plan(name: str) -> None:
    module = parse_text(PROGRAMS[name])
    text = print_upstream(module)
    reprinted = mlir_opt(text)
    assert plan_summary(reprinted) == plan_summary(PROGRAMS[name])
    assert compute_same_results(module, reprinted, mlir_opt(text, "--mlir-print-op-generic"))


@pytest.mark.parametrize("path", sorted(LOCAL), ids=lambda path: path.stem)
def test_mlir_opt_round_trip_keeps_the_plan_of_per_device_program(path: Path) -> None:
    module = parse_text(path.read_text())
    assert module.stage == "partition"
    assert plan_summary(mlir_opt(print_upstream(module))) == plan_summary(path.read_text())


@pytest.mark.parametrize("name", PARTITIONED)
def test_upstream_partition_inserts_the_same_collectives(name: str) -> None:
    """LLVM 22 has no reduce_scatter. Its partition pass inserts an all_reduce and an all_slice instead."""
    stages = api.plan(PROGRAMS[name], target="cpu").stages
    local = stages["partition"].graph
    expected = Counter(node.op for node in local.nodes if node.op.startswith(("all_", "reduce_scatter")))
    count = expected.pop("reduce_scatter", 0)
    expected += Counter({"all_reduce": count, "all_slice": count})
    text = partitioned(print_upstream(stages["propagate"]))
    assert Counter(re.findall(r"= shard\.(all_\w+)", text)) == expected
    assert local_types(text) == [tensor_text(value.type) for value in local.inputs]


@pytest.mark.parametrize("stage", ["propagate", "materialize", "optimize"])
@pytest.mark.parametrize("name", PARTITIONED[:3])
def test_planning_a_planned_program_keeps_the_plan(name: str, stage: str) -> None:
    plan = api.plan(PROGRAMS[name], target="cuda:sm_90")
    replanned = api.plan(mlir_opt(print_upstream(plan.stages[stage])), target="cuda:sm_90")
    assert replanned.comms.counts == plan.comms.counts and replanned.cost.ring_bytes == plan.cost.ring_bytes


def test_mlir_opt_round_trip_keeps_partitioned_program() -> None:
    plan = api.plan(PROGRAMS["a06_mlp_sequence_parallel"], target="cpu")
    replanned = api.plan(mlir_opt(print_upstream(plan.stages["partition"])), target="cpu")
    assert replanned.comms.counts == plan.comms.counts == {"all_gather": 1, "reduce_scatter": 1}
    np.testing.assert_equal(replanned.cost.ring_bytes, plan.cost.ring_bytes)
