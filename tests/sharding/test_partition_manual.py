"""Manual computations at all stages: results, bytes, and text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.ccl.cost import ring_bytes
from meshgen.ccl.simulated import run_collective
from meshgen.errors import ShardingError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.partition import partition
from meshgen.spec import P
from meshgen.testing.lockstep import on_one_device
from meshgen.testing.oracle import check

HEAD = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\nfunc.func @main(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {\n'
ARRAY = np.arange(96, dtype=np.float32).reshape(8, 12) - 40


def program(
    body: str, ins: str, outs: str, local: str, axes: str = '"x", "y"', before: str = "", after: str = ""
) -> str:
    """Return a program with a manual computation %0 of %x. `before` defines its operand %b, `after` defines the result
    %1.
    """
    source = "%b" if before else "%x"
    return f"""{HEAD}{before}
  %0 = sdy.manual_computation({source}) in_shardings=[<@mesh, [{ins}]>] out_shardings=[<@mesh, [{outs}]>] manual_axes={{{axes}}} (%t: tensor<{local}xf32>) {{
    {body}
    sdy.return %r : tensor<{local}xf32>
  }} : (tensor<8x12xf32>) -> tensor<8x12xf32>
{after}
  return {"%1" if after else "%0"} : tensor<8x12xf32>
}}"""


def pairs(*source_target_pairs: tuple[int, int]) -> str:
    rows = [list(pair) for pair in source_target_pairs]
    return f'%r = "stablehlo.collective_permute"(%t) <{{source_target_pairs = dense<{rows}> : tensor<{len(rows)}x2xi64>}}> : (tensor<4x3xf32>) -> tensor<4x3xf32>'


SCALED = """%p = stablehlo.partition_id : tensor<ui32>
    %f = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
    %s = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %r = stablehlo.add %t, %s : tensor<4x3xf32>"""
# pairs (source, target): each device swaps its tile with that of the other half of the rows
SWAPPED = pairs(*((d, (d + 4) % 8) for d in range(8)))
TO_ONE = pairs((0, 5))
SUMMED = """%q = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b2: tensor<f32>):
        %z = stablehlo.add %a, %b2 : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %r = stablehlo.tanh %q : tensor<4x3xf32>"""
LOOP = """%n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %c = %t) : tensor<i32>, tensor<4x3xf32> cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %m = "stablehlo.collective_permute"(%c) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
      stablehlo.return %j, %m : tensor<i32>, tensor<4x3xf32>
    }
    %r = stablehlo.negate %w#1 : tensor<4x3xf32>"""
TILES = '{"x"}, {"y"}'
# elements of the global array: the index of the device that holds the element
NUMBERS = np.kron(np.arange(8).reshape(2, 4), np.ones((4, 3)))
PROGRAMS = {
    "index": (program(SCALED, TILES, TILES, "4x3"), ARRAY + NUMBERS),
    "swapped": (program(SWAPPED, TILES, TILES, "4x3"), np.roll(ARRAY, 4, 0)),
    "to one": (program(TO_ONE, TILES, TILES, "4x3"), np.where(NUMBERS == 5, np.roll(ARRAY, (4, 3), (0, 1)), 0)),
    "summed": (program(SUMMED, TILES, TILES, "4x3"), np.tanh(np.tile(ARRAY[:4] + ARRAY[4:], (2, 1)))),
    "loop": (program(LOOP, TILES, TILES, "4x3"), -np.roll(ARRAY, 9, 1)),
    "free axis": (program("%r = stablehlo.negate %t : tensor<8x3xf32>", '{}, {"y"}', '{}, {"y"}', "8x3", '"y"'), -ARRAY),
    "around": (
        program(SWAPPED, TILES, TILES, "4x3", before="  %b = stablehlo.negate %x : tensor<8x12xf32>",
                after="  %1 = stablehlo.tanh %0 : tensor<8x12xf32>"), np.tanh(np.roll(-ARRAY, 4, 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_manual_computation_is_correct_and_round_trips_at_all_stages(name: str) -> None:
    text, expected = PROGRAMS[name]
    module = parse_text(text)
    stages = run_stages(module, Options("cpu"), Timing(), "fuse")
    for stage in stages.values():
        assert print_text(parse_text(print_text(stage))) == print_text(stage)
    (reference,) = evaluate(on_one_device(module.graph, module.mesh), [ARRAY])
    # Below 1, tanh has an error of 4 ulp.
    np.testing.assert_allclose(reference, expected, rtol=0, atol=8 * float(np.finfo(np.float32).eps))
    result = check(module, pipeline=lambda _: stages["fuse"], args=[ARRAY])
    assert result.ok, result.faults
    assert result.outputs[0].unbounded == 0


def test_check_detects_wrong_manual_body() -> None:
    """Check that `check` reports wrong source-target pairs in the local program, since its reference is computed
    independently.
    """

    def wrong_pipeline(entered: Module) -> Module:
        local = run_stages(entered, Options("cpu"), Timing(), "partition")["partition"]
        sent = next(node for node in local.graph.nodes if node.op == "permute_pairs")
        sent.attrs = replace(sent.attrs, pairs=((0, 4),))
        return local

    assert not check(parse_text(PROGRAMS["to one"][0]), pipeline=wrong_pipeline, args=[ARRAY]).ok


def test_manual_operands_are_resharded_to_declared_shardings() -> None:
    """The argument has another sharding, so it is resharded before the computation; the reason names the manual op."""
    text = program(SWAPPED, TILES, TILES, "4x3").replace(
        "%x: tensor<8x12xf32>", '%x: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}'
    )
    stages = run_stages(parse_text(text), Options("cpu"), Timing(), "partition")
    manual = next(node for node in stages["materialize"].graph.nodes if node.op == "manual")
    assert manual.operands[0].sharding == manual.attrs.in_shardings[0]
    moves = [node for node in stages["optimize"].graph.nodes if node.op != "manual"]
    assert moves and all("manual" in node.notes.why for node in moves)
    assert check(parse_text(text), pipeline=lambda _: stages["partition"], args=[ARRAY]).ok


def test_collectives_in_manual_body_are_counted() -> None:
    stages = run_stages(parse_text(PROGRAMS["to one"][0]), Options("cpu"), Timing(), "partition")
    for stage in ("materialize", "optimize", "partition"):
        analysis = analyze(stages[stage])
        assert (analysis.counts, analysis.ring_bytes) == ({"permute_pairs": 1}, 4 * 3 * 4)


def test_permute_pairs_moves_tiles_and_zeroes_others() -> None:
    mesh, kind = make_mesh({"x": 3}), TensorType((2,), "f32")
    attrs = {"axes": ("x",), "pairs": ((0, 2), (1, 1))}
    node = Node("permute_pairs", [Value(kind)], [Value(kind)], attrs)
    shards = [np.full(2, rank + 1, np.float32) for rank in range(3)]
    assert [shard.tolist() for shard in run_collective(node, mesh, shards)] == [[0, 0], [2, 2], [1, 1]]
    assert ring_bytes("permute_pairs", attrs, kind, kind, mesh) == 8
    assert ring_bytes("permute_pairs", {"axes": (), "pairs": ((1, 1),)}, kind, kind, mesh) == 0


def test_collectives_of_manual_body_are_scheduled() -> None:
    executable = plan(PROGRAMS["to one"][0], target="cpu")
    assert [record["kind"] for record in executable.record()["collectives"]] == ["permute_pairs"]


def test_manual_operand_with_other_sharding_is_rejected() -> None:
    stages = run_stages(parse_text(PROGRAMS["swapped"][0]), Options("cpu"), Timing(), "optimize")
    node = stages["optimize"].graph.nodes[-1]
    node.operands[0].sharding = P(None, None)
    with pytest.raises(ShardingError, match="declared with"):
        partition(stages["optimize"])


def test_padding_in_manual_body_is_nan_in_reference() -> None:
    """The second device has one row and one padding row, which is NaN in the reference."""
    mesh, kind = make_mesh({"x": 2}), TensorType((3,), "f32")
    body, graph = Graph("", [Value(kind)]), Graph("main", [Value(kind)])
    body.outputs = body.add("all_slice", body.inputs, [TensorType((2,), "f32")], {"axes": ("x",), "dim": 0}).results
    attrs = {"in_shardings": (P(None),), "out_shardings": (P("x"),), "axes": ("x",)}
    node = Node("manual", list(graph.inputs), [Value(TensorType((4,), "f32"))], attrs, regions=(body,))
    graph.nodes, graph.outputs = [node], node.results
    (result,) = evaluate(on_one_device(graph, mesh), [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(result, [0, 1, 2, np.nan])
