"""The analysis of a sharded program: collectives, flops and peak memory against numbers counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshgen import api
from meshgen.codegen.scheduling.schedule_stage import scheduled
from meshgen.errors import Location, UsageError
from meshgen.ir.attributes.movement import Constant
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.flops import graph_flops, node_flops
from meshgen.sharding.analyze import analyze
from meshgen.sharding.partition import partition
from meshgen.spec import P
from tests.acceptance.cases import realistic_names, small
from tests.plans import plan_of
from tests.programs import mlp
from tests.sharding.local_programs import Program

MATMUL = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}


def sum_of_dot() -> Module:
    """Return x{_, y} @ w{y, _} with a partial sum over y = 4, followed by all_reduce and tanh."""
    p = Program(x=2, y=4)
    x, w = p.input("f32[8,16]", P(None, "y")), p.input("f32[16,32]", P("y"))
    dot = p.add("dot_general", [x, w], "f32[8,32]", P(None, None, partial="y"), **MATMUL)
    total = p.add("all_reduce", [dot], "f32[8,32]", axes=("y",), kind="sum", why="because")
    p.graph.nodes[-1].loc = Location("model.py", 7)
    p.graph.outputs = [p.add("tanh", [total], "f32[8,32]")]
    return Module(p.mesh, p.graph, "materialize")


def test_collective_record_has_documented_fields() -> None:
    (collective,) = analyze(sum_of_dot()).collectives
    record = collective._asdict() | {"formula": str(collective.formula)}
    assert record.pop("seconds") == pytest.approx(8e-6 + 1536 / 370e9)
    assert record == {
        "kind": "all_reduce", "axes": ("y",), "group_size": 4, "dtype": "f32", "local_bytes": 1024,
        "ring_bytes": 1536, "reduction": "sum", "times": 1, "why": "because", "line": 7, "formula": "2*(n_y-1)/n_y * 1024",
    }  # fmt: skip


def test_analysis_totals_of_dot_and_all_reduce() -> None:
    analysis = analyze(sum_of_dot())
    assert analysis.counts == {"all_reduce": 1}
    assert analysis.ring_bytes == 1536
    assert analysis.flops_per_device == 2 * 8 * 32 * 4 + 8 * 32
    # inputs of 8x4 and 4x32, and two values of 8x32 at the same time
    assert analysis.peak_memory_bytes == 4 * (8 * 4 + 4 * 32 + 2 * 8 * 32)


def test_local_program_has_same_analysis() -> None:
    module = sum_of_dot()
    local = partition(module)
    assert all(value.sharding is None for value in local.graph.values())
    first, second = analyze(module), analyze(local)
    assert first.counts == second.counts
    assert (first.ring_bytes, first.flops_per_device) == (second.ring_bytes, second.flops_per_device)


def test_retile_record_has_axes_it_moves_along() -> None:
    p = Program(x=2, y=4)
    source, target = P("x", "y"), P("y", "x")
    v = p.input("f32[64,64]", source)
    p.graph.outputs = [p.add("retile", [v], "f32[64,64]", target, source=source, target=target, shape=(64, 64))]
    (record,) = analyze(Module(p.mesh, p.graph, "optimize")).collectives
    assert (record.axes, record.group_size, record.ring_bytes) == (("x", "y"), 8, 64 * 64 * 4 // 8)


def test_collectives_in_loop_count_once_per_iteration() -> None:
    kind, scalar = TensorType((8,), "f32"), TensorType((), "i32")
    p = Program(x=2)
    zero = p.constant(0, "i32")
    condition = Graph("condition", [Value(scalar, "i"), Value(kind, "v")])
    bound = condition.add("constant", [], [scalar], {"value": np.array(5, np.int32)}).result
    compare = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], bound], [TensorType((), "i1")], compare).result]
    body = Graph("body", [Value(scalar, "i"), Value(kind, "v")])
    one = body.add("constant", [], [scalar], {"value": np.array(1, np.int32)}).result
    step = body.add("add", [body.inputs[0], one], [scalar]).result
    total = body.add("all_reduce", [body.inputs[1]], [kind], {"axes": ("x",), "kind": "max"}).result
    body.outputs = [step, total]
    loop = p.graph.add("while", [zero, p.input("f32[8]")], [scalar, kind])
    loop.regions = (condition, body)
    p.graph.outputs = [loop.results[1]]
    analysis = analyze(Module(p.mesh, p.graph, "optimize"))
    assert analysis.counts == {"all_reduce": 5}
    assert analysis.ring_bytes == 5 * 32
    assert analysis.communication_seconds == pytest.approx(5 * (8e-6 + 32 / 370e9))


def test_peak_memory_of_chain_does_not_grow_with_length() -> None:
    def chain(length: int) -> Module:
        p = Program(x=2)
        value = p.input("f32[8]", P("x"))
        for _ in range(length):
            value = p.add("tanh", [value], "f32[8]", P("x"))
        p.graph.outputs = [value]
        return Module(p.mesh, p.graph, "materialize")

    assert analyze(chain(3)).peak_memory_bytes == analyze(chain(9)).peak_memory_bytes == 3 * 16


def test_views_and_splats_take_no_memory() -> None:
    p = Program(x=2)
    v = p.add("reshape", [p.input("f32[4,2]")], "f32[8]")
    splat = p.constant(np.broadcast_to(np.float32(1), (8,)), "f32")
    splat_node = p.graph.nodes[-1]
    splat_node.attrs = Constant(value=np.broadcast_to(np.float32(1), (8,)))
    p.graph.outputs = [p.add("add", [v, splat], "f32[8]")]
    assert analyze(Module(p.mesh, p.graph, "materialize")).peak_memory_bytes == 64


def test_uneven_tiles_count_with_padding() -> None:
    p = Program(x=4)
    p.graph.outputs = [p.add("all_gather", [p.input("f32[10,3]", P("x"))], "f32[10,3]", axes=("x",), dim=0)]
    (record,) = analyze(Module(p.mesh, p.graph, "materialize")).collectives
    assert (record.local_bytes, record.ring_bytes) == (36, 108)


def test_local_slice_is_not_counted_as_collective() -> None:
    p = Program(x=4)
    p.graph.outputs = [p.add("all_slice", [p.input("f32[8]")], "f32[8]", P("x"), axes=("x",), dim=0)]
    assert analyze(Module(p.mesh, p.graph, "materialize")).collectives == ()


def test_analysis_before_materialize_is_rejected() -> None:
    module = replace(sum_of_dot(), stage="propagate")
    with pytest.raises(UsageError, match="stage 'propagate'"):
        analyze(module)


def test_live_values_at_peak_are_listed() -> None:
    analysis = analyze(sum_of_dot())
    assert analysis.peak.bytes == sum(live.bytes for live in analysis.peak.live) == analysis.peak_memory_bytes
    assert [(live.op, live.bytes) for live in analysis.peak.live] == [
        ("dot_general", 1024), ("all_reduce", 1024), ("input", 512), ("input", 128),
    ]  # fmt: skip
    assert analysis.peak.at == "all_reduce (model.py:7)"


PLANNED = [
    mlp(),
    mlp(x=("x", "y"), w1=("y", "x"), w2=("", ""), y=("", "x")),
    *(small(name) for name in realistic_names() if small(name).exists()),
    Path(__file__).parents[2] / "examples" / "transformer_block.mlir",
]


@pytest.mark.parametrize("program", PLANNED, ids=range(len(PLANNED)))
def test_planned_live_bytes_equal_analyzed_peak(program: str | Path) -> None:
    """Compare the live bytes of the plan's buffers with the analysis in issue order.

    Only the plan has scratch buffers of collectives and control flow, and reductions in place. Regions of control flow
    have separate arenas with aligned buffers, which may be a little larger.
    """
    executable = plan_of(program) if isinstance(program, Path) else api.plan(program, target="cpu")
    plan, memory = executable.plan, executable.memory
    peak = analyze(scheduled(executable.fused, plan)).peak
    assert memory.live_bytes <= memory.peak_bytes
    scratch = max((plan.buffers[i.scratch].type.nbytes for i in plan.items if i.scratch is not None), default=0)
    replaced = max((plan.buffers[n].type.nbytes for n in plan.replaced), default=0)
    if scratch or replaced:
        assert peak.bytes - replaced <= memory.live_bytes <= 1.1 * peak.bytes + scratch
        return
    assert memory.live_bytes == peak.bytes
    assert sorted(b.bytes for b in memory.live_at_peak if b.bytes) == sorted(v.bytes for v in peak.live if v.bytes)
    assert all(b.source for b in memory.live_at_peak if b.bytes >= 1024)


def test_replicated_and_padded_work_is_redundant() -> None:
    p = Program(x=2, y=4)
    replicated = p.add("tanh", [p.input("f32[8,16]", P("x"))], "f32[8,16]", P("x"))
    p.graph.outputs = [p.add("abs", [p.input("f32[9,16]", P("y"))], "f32[9,16]", P("y")), replicated]
    tanh, absolute = analyze(Module(p.mesh, p.graph, "materialize")).work
    # each tile of 4 x 16 is computed by the 4 devices along y
    assert (tanh.op, tanh.flops, tanh.redundant) == ("tanh", 4 * 16, 4 * 16 * 3 / 4)
    # tiles of 3 rows; the 9 x 16 elements are needed once, but all 8 devices compute a tile
    assert (absolute.flops, absolute.redundant) == (3 * 16, 3 * 16 - 9 * 16 / 8)


def test_fully_sharded_program_has_no_redundant_flops() -> None:
    executable = api.plan(mlp(x=("x", ""), w1=("", "y"), w2=("y", "")), target="cpu")
    assert executable.cost.redundant_flops == 0
    record = executable.record()
    assert record["flops_per_device"] == 2 * (4 * 12 * 8) * 2 + 4 * 8
    # no collective overlaps with a kernel, since each layer waits for its own
    assert record["communication_seconds"] == pytest.approx(record["exposed_seconds"])
    assert record["overlap_gain_seconds"] == pytest.approx(0, abs=1e-12)


def test_convolution_flops_count_multiplications() -> None:
    """Convolve 2 images of 3 channels with 5 filters of 3x3 at 4x4 positions."""
    kinds = [TensorType(shape, "f32") for shape in ((2, 3, 6, 6), (5, 3, 3, 3), (2, 5, 4, 4))]
    x, w, y = map(Value, kinds)
    node = Node("convolution", [x, w], [y], {"kernel_output_feature": 0})
    assert node_flops(node) == 2 * (2 * 5 * 4 * 4) * (3 * 3 * 3)


def test_collectives_have_no_flops() -> None:
    kind = TensorType((4,), "f32")
    assert all(node_flops(Node(op, [Value(kind)], [Value(kind)])) == 0 for op in COMMUNICATING)
    graph = Graph("g", [Value(kind)])
    graph.add("tanh", graph.inputs, [kind])
    assert graph_flops(graph) == 4


def test_peak_memory_counts_largest_branch() -> None:
    p = Program(x=2)
    flag, x = p.input("i1[]"), p.input("f32[8]")
    branches: list[Graph] = []
    for size in (2, 64, 4):
        branch = Graph("way")
        wide = branch.add("broadcast_in_dim", [x], [TensorType((size, 8), "f32")], {"dims": (1,)}).result
        zero = branch.add("constant", [], [TensorType((), "f32")], {"value": np.zeros((), np.float32)}).result
        branch.outputs = [branch.add("reduce", [wide, zero], [x.type], {"dims": (0,), "kind": "add"}).result]
        branches.append(branch)
    node = Node("case", [flag], [Value(x.type)], regions=tuple(branches))
    p.graph.nodes.append(node)
    p.graph.outputs = [node.result]
    peak = analyze(Module(p.mesh, p.graph, "materialize")).peak
    assert max(live.bytes for live in peak.live) == 64 * 8 * 4
    assert peak.bytes == sum(live.bytes for live in peak.live)
