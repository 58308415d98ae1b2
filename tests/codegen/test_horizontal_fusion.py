"""Tests of the `horizontal-fusion` pass: kernels become segments of one launch and delay no other launch."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, check, random_args
from test_fuse import launches, run
from test_joins import update

import meshgen.codegen.horizontal_fusion as pass_file
from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.fuse import fuse
from meshgen.codegen.horizontal_fusion import horizontal_fusion
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.scheduling.donation import hoist_donated_reads
from meshgen.codegen.scheduling.schedule import sequential_bytes
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Module, Value
from meshgen.mesh import Axis, Mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.in_place import overwrites
from tests.cost_models import use
from tests.counting import calls

PAIR = Mesh((Axis("x", 2),))


def joined(graph: Graph, mesh: Mesh = ONE) -> Module:
    before = hoist_donated_reads(fuse(Module(mesh, graph, "partition")))
    after = horizontal_fusion(before)
    if len(launches(after)) == len(launches(before)):
        assert after is before
    assert sequential_bytes(after, "cuda:sm_90") <= sequential_bytes(before, "cuda:sm_90")
    return after


def computed(graph: Graph) -> list[str]:
    """Return the launches after checking that each computes its body and that the program computes the same."""
    module, args = joined(graph), random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    for body in module.kernels.values():
        check(body, ulps=64, length=64)
    return launches(module)


def reduced(b: Body, value: Value) -> Value:
    return b.graph.add("all_reduce", [value], [value.type], {"axes": ("x",), "kind": "sum"}).result


def test_updates_of_all_parameters_share_a_launch() -> None:
    kinds = ("f32[64,80]", "f32[96]", "f32[64,80]", "f32[3,5]", "f32[]", "bf16[33]")
    b = Body(*[kind for kind in kinds for _ in range(4)])
    results = [v for n in range(len(kinds)) for v in update(b, *b.inputs[4 * n : 4 * n + 4])]
    assert len(computed(b.done(*results))) == 1


def test_segment_template_selection_takes_linear_time() -> None:
    def work(count: int) -> int:
        b = Body("f32[64,80]", *["f32[64,80]"] * 4 * count)
        results = [v for n in range(count) for v in update(b, *b.inputs[4 * n + 1 : 4 * n + 5])]
        body = b.done(b.reduce("add", b.inputs[0], 1), *results)
        call_count, plan = calls(lambda: plan_body(body, device_of(DEFAULT_TARGET)))
        assert plan.template.name == "segmented"
        return call_count

    assert work(16) < 3 * work(8)


def test_equal_segments_share_their_source() -> None:
    b = Body(*["f32[64,80]"] * 12)
    module = joined(b.done(*(v for n in range(3) for v in update(b, *b.inputs[4 * n : 4 * n + 4]))))
    source = kernel_source("update", next(iter(module.kernels.values())), ONE)
    assert source.template == "segmented"
    assert source.text.count("tl.load") == 4
    assert source.grid == (3 * 64 * 80 // 1024, 1, 1)


def test_reductions_of_unequal_shapes_share_a_launch() -> None:
    b = Body("f32[48,96]", "f32[20,7]", "f32[130]")
    x, y, z = b.inputs
    assert len(computed(b.done(b.reduce("add", x, 0), b.reduce("maximum", y, 1), b.op("tanh", z)))) == 1


def test_dependent_kernels_are_not_joined() -> None:
    b = Body("f32[64,80]", "f32[80,64]")
    x, y = b.inputs
    total = b.reduce("add", b.op("tanh", x), 0)
    wide = b.op("multiply", b.op("transpose", y, perm=(1, 0)), b.wide(b.op("sine", total), x, (1,)))
    assert len(computed(b.done(total, b.reduce("add", wide, 1)))) == 2


def test_kernel_before_a_collective_is_not_delayed() -> None:
    b = Body("f32[512,512]", "f32[96,512]")
    x, y = b.inputs
    early = reduced(b, b.op("tanh", x))
    other = b.op("sine", reduced(b, b.op("exponential", y)))
    module = joined(b.done(b.op("multiply", early, early), b.op("multiply", other, other)), PAIR)
    assert [node.op for node in module.graph.nodes][:4] == ["kernel", "all_reduce"] * 2


def test_late_gradient_does_not_delay_other_updates() -> None:
    """Check that updates run in one more launch instead of all waiting for the last message."""
    b = Body("f32[1024,4096]", "f32[1024,4096]", "f32[64,64]", "f32[4096,4096]")
    w, g, small, large = b.inputs
    updated = b.op("subtract", w, reduced(b, b.op("tanh", g)))
    late = b.op(
        "add",
        small,
        reduced(b, b.op("slice", b.dot(large, large, ((1,), (0,))), start=(0, 0), limit=(64, 64), stride=(1, 1))),
    )
    graph = b.done(updated, late)
    first = [
        body for body in joined(graph, PAIR).kernels.values() if w.type.sizes in {v.type.sizes for v in body.outputs}
    ]
    assert all(small.type.sizes not in {v.type.sizes for v in body.outputs} for body in first)


def test_joined_launches_do_not_increase_memory() -> None:
    """Check several GEMMs whose results are added to an accumulator one by one.

    A single launch of all additions would keep all GEMM results alive.
    """
    b = Body(*["f32[256,256]"] * 5)
    products = [b.dot(x, b.inputs[-1], ((1,), (0,))) for x in b.inputs[:-1]]
    sums = [b.reduce("add", b.op("multiply", p, b.op("tanh", p)), 0) for p in products]
    assert len(launches(joined(b.done(*sums)))) > len(products)


def test_operand_of_several_segments_is_not_overwritten() -> None:
    b = Body("f32[40]", "f32[16,40]")
    row, x = b.inputs
    graph = b.done(b.op("negate", row), b.op("add", x, b.wide(row, x, (1,))))
    assert overwrites(graph) == {1: (1,)}


def test_joined_kernel_has_a_limited_number_of_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"fusion.segment_pointers": 8}, pass_file)
    b = Body(*[f"f32[{n},8]" for n in range(3, 13)])
    assert len(launches(joined(b.done(*(b.op("tanh", x) for x in b.inputs))))) == 3


def test_segments_with_many_programs_are_proven_in_bounds() -> None:
    """Check a launch with too many programs for a proof that enumerates them."""
    b = Body("f32[1500000,1024]", "f32[64]", "f32[64]")
    x, y, z = b.inputs
    source = kernel_source("many", b.done(b.op("tanh", x), b.op("negate", y), b.op("sine", z)), ONE)
    assert source.grid[0] > 2**20
    assert "place" not in source.text


def test_launches_are_joined_across_a_message() -> None:
    """Check that a receive is launched together with its send, at the position after the send."""
    text = """
    builtin.module attributes {meshgen.stage = "partition"} {
      shard.grid @mesh(shape = 2) {axis_names = ["z"]}
      func.func public @main(
          %a: tensor<4xi32> {meshgen.layout = #meshgen.split<@mesh, [["z"]]>, meshgen.global = tensor<8xi32>},
          %b: tensor<4xi32> {meshgen.layout = #meshgen.split<@mesh, [["z"]]>, meshgen.global = tensor<8xi32>}
      ) -> (tensor<4xi32> {meshgen.layout = #meshgen.split<@mesh, [["z"]]>, meshgen.global = tensor<8xi32>},
            tensor<4xi32> {meshgen.layout = #meshgen.split<@mesh, [["z"]]>, meshgen.global = tensor<8xi32>}) {
        %0 = stablehlo.abs %a : tensor<4xi32>
        %1 = shard.send %b on @mesh grid_axes = [0] destination = [0] : (tensor<4xi32>) -> tensor<4xi32>
        %2 = shard.recv %1 on @mesh grid_axes = [0] source = [0] : (tensor<4xi32>) -> tensor<4xi32>
        %3 = stablehlo.negate %b : tensor<4xi32>
        func.return %0, %3 : tensor<4xi32>, tensor<4xi32>
      }
    }"""
    module = horizontal_fusion(hoist_donated_reads(fuse(parse_text(text))))
    assert [node.op for node in module.graph.nodes] == ["send", "recv", "kernel"]
