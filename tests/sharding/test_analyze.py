"""The analysis: records of collectives, arithmetic and peak memory counted by hand."""

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
    """x{_, y} @ w{y, _} with a partial sum over y=4, then all_reduce and tanh."""
    p = Program(x=2, y=4)
    x, w = p.input("f32[8,16]", P(None, "y")), p.input("f32[16,32]", P("y"))
    dot = p.add("dot_general", [x, w], "f32[8,32]", P(None, None, partial="y"), **MATMUL)
    total = p.add("all_reduce", [dot], "f32[8,32]", axes=("y",), kind="sum", why="because")
    p.graph.nodes[-1].loc = Location("model.py", 7)
    p.graph.outputs = [p.add("tanh", [total], "f32[8,32]")]
    return Module(p.mesh, p.graph, "materialize")


def test_a_record_holds_what_the_command_line_promises() -> None:
    (found,) = analyze(sum_of_dot()).collectives
    record = found._asdict() | {"formula": str(found.formula)}
    assert record.pop("seconds") == pytest.approx(8e-6 + 1536 / 370e9)
    assert record == {
        "kind": "all_reduce", "axes": ("y",), "group_size": 4, "dtype": "f32", "local_bytes": 1024,
        "ring_bytes": 1536, "reduction": "sum", "times": 1, "why": "because", "line": 7, "formula": "2*(n_y-1)/n_y * 1024",
    }  # fmt: skip


def test_totals() -> None:
    found = analyze(sum_of_dot())
    assert found.counts == {"all_reduce": 1}
    assert found.ring_bytes == 1536
    assert found.flops_per_device == 2 * 8 * 32 * 4 + 8 * 32
    # inputs 8x4 and 4x32, two values of 8x32 at a time
    assert found.peak_memory_bytes == 4 * (8 * 4 + 4 * 32 + 2 * 8 * 32)


def test_the_local_program_is_analysed_alike() -> None:
    module = sum_of_dot()
    local = partition(module)
    assert all(value.sharding is None for value in local.graph.values())
    first, second = analyze(module), analyze(local)
    assert first.counts == second.counts
    assert (first.ring_bytes, first.flops_per_device) == (second.ring_bytes, second.flops_per_device)


def test_transfers_have_the_axes_along_which_they_move() -> None:
    p = Program(x=2, y=4)
    source, target = P("x", "y"), P("y", "x")
    v = p.input("f32[64,64]", source)
    p.graph.outputs = [p.add("retile", [v], "f32[64,64]", target, source=source, target=target, shape=(64, 64))]
    (record,) = analyze(Module(p.mesh, p.graph, "optimize")).collectives
    assert (record.axes, record.group_size, record.ring_bytes) == (("x", "y"), 8, 64 * 64 * 4 // 8)


def test_collectives_in_a_loop_count_once_per_trip() -> None:
    kind, number = TensorType((8,), "f32"), TensorType((), "i32")
    p = Program(x=2)
    zero = p.constant(0, "i32")
    condition = Graph("condition", [Value(number, "i"), Value(kind, "v")])
    bound = condition.add("constant", [], [number], {"value": np.array(5, np.int32)}).result
    compare = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], bound], [TensorType((), "i1")], compare).result]
    body = Graph("body", [Value(number, "i"), Value(kind, "v")])
    one = body.add("constant", [], [number], {"value": np.array(1, np.int32)}).result
    step = body.add("add", [body.inputs[0], one], [number]).result
    total = body.add("all_reduce", [body.inputs[1]], [kind], {"axes": ("x",), "kind": "max"}).result
    body.outputs = [step, total]
    loop = p.graph.add("while", [zero, p.input("f32[8]")], [number, kind])
    loop.regions = (condition, body)
    p.graph.outputs = [loop.results[1]]
    found = analyze(Module(p.mesh, p.graph, "optimize"))
    assert found.counts == {"all_reduce": 5}
    assert found.ring_bytes == 5 * 32
    assert found.communication_seconds == pytest.approx(5 * (8e-6 + 32 / 370e9))


def test_memory_of_a_chain_does_not_grow_with_its_length() -> None:
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


def test_uneven_tiles_count_as_they_are_stored() -> None:
    p = Program(x=4)
    p.graph.outputs = [p.add("all_gather", [p.input("f32[10,3]", P("x"))], "f32[10,3]", axes=("x",), dim=0)]
    (record,) = analyze(Module(p.mesh, p.graph, "materialize")).collectives
    assert (record.local_bytes, record.ring_bytes) == (36, 108)


def test_local_slices_are_no_collectives() -> None:
    p = Program(x=4)
    p.graph.outputs = [p.add("all_slice", [p.input("f32[8]")], "f32[8]", P("x"), axes=("x",), dim=0)]
    assert analyze(Module(p.mesh, p.graph, "materialize")).collectives == ()


def test_a_program_without_collectives_yet_is_refused() -> None:
    module = replace(sum_of_dot(), stage="propagate")
    with pytest.raises(UsageError, match="stage 'propagate'"):
        analyze(module)


def test_what_is_alive_at_the_peak_is_listed_with_its_lines() -> None:
    found = analyze(sum_of_dot())
    assert found.peak.bytes == sum(live.bytes for live in found.peak.live) == found.peak_memory_bytes
    assert [(live.op, live.bytes) for live in found.peak.live] == [
        ("dot_general", 1024), ("all_reduce", 1024), ("input", 512), ("input", 128),
    ]  # fmt: skip
    assert found.peak.at == "all_reduce (model.py:7)"


PLANNED = [
    mlp(),
    mlp(x=("x", "y"), w1=("y", "x"), w2=("", ""), y=("", "x")),
    *(small(name) for name in realistic_names() if small(name).exists()),
    Path(__file__).parents[2] / "examples" / "transformer_block.mlir",
]


@pytest.mark.parametrize("program", PLANNED, ids=range(len(PLANNED)))
def test_the_static_plan_holds_what_the_analysis_counts(program: str | Path) -> None:
    """In the order of issue the analysis finds the bytes that the buffers of the plan have alive at once.

    What is the plan's alone: scratch of collectives and control flow, and sums that are written over their summands. What regions
    of control flow need lies in an arena of their own, in which buffers are aligned: it may hold a little more.
    """
    executable = plan_of(program) if isinstance(program, Path) else api.plan(program, target="cpu")
    plan, memory = executable.plan, executable.memory
    found = analyze(scheduled(executable.fused, plan)).peak
    assert memory.live_bytes <= memory.peak_bytes
    scratch = max((plan.buffers[i.scratch].type.nbytes for i in plan.items if i.scratch is not None), default=0)
    replaced = max((plan.buffers[n].type.nbytes for n in plan.replaced), default=0)
    if scratch or replaced:
        assert found.bytes - replaced <= memory.live_bytes <= 1.1 * found.bytes + scratch
        return
    assert memory.live_bytes == found.bytes
    assert sorted(b.bytes for b in memory.live_at_peak if b.bytes) == sorted(v.bytes for v in found.live if v.bytes)
    assert all(b.source for b in memory.live_at_peak if b.bytes >= 1024)


def test_work_that_other_devices_do_too_is_redundant() -> None:
    p = Program(x=2, y=4)
    whole = p.add("tanh", [p.input("f32[8,16]", P("x"))], "f32[8,16]", P("x"))
    p.graph.outputs = [p.add("abs", [p.input("f32[9,16]", P("y"))], "f32[9,16]", P("y")), whole]
    tanh, absolute = analyze(Module(p.mesh, p.graph, "materialize")).work
    assert (tanh.op, tanh.flops, tanh.redundant) == ("tanh", 4 * 16, 4 * 16 * 3 / 4)  # on all of y
    assert (absolute.flops, absolute.redundant) == (3 * 16, 3 * 16 - 9 * 16 / 8)  # tiles of 3 rows, on all of x


def test_a_program_split_over_all_devices_repeats_nothing() -> None:
    executable = api.plan(mlp(x=("x", ""), w1=("", "y"), w2=("y", "")), target="cpu")
    assert executable.cost.redundant_flops == 0
    record = executable.record()
    assert record["flops_per_device"] == 2 * (4 * 12 * 8) * 2 + 4 * 8
    assert record["communication_seconds"] == pytest.approx(record["exposed_seconds"])  # each layer waits for it
    assert record["overlap_gain_seconds"] == pytest.approx(0, abs=1e-12)


def test_a_convolution_counts_its_multiplications() -> None:
    """2 images of 3 channels, 5 filters of 3x3, 4x4 places."""
    kinds = [TensorType(shape, "f32") for shape in ((2, 3, 6, 6), (5, 3, 3, 3), (2, 5, 4, 4))]
    x, w, y = map(Value, kinds)
    node = Node("convolution", [x, w], [y], {"kernel_output_feature": 0})
    assert node_flops(node) == 2 * (2 * 5 * 4 * 4) * (3 * 3 * 3)


def test_collectives_compute_nothing_of_their_own() -> None:
    kind = TensorType((4,), "f32")
    assert all(node_flops(Node(op, [Value(kind)], [Value(kind)])) == 0 for op in COMMUNICATING)
    graph = Graph("g", [Value(kind)])
    graph.add("tanh", graph.inputs, [kind])
    assert graph_flops(graph) == 4


def test_the_branch_that_needs_most_counts() -> None:
    p = Program(x=2)
    flag, x = p.input("i1[]"), p.input("f32[8]")
    ways: list[Graph] = []
    for size in (2, 64, 4):
        way = Graph("way")
        wide = way.add("broadcast_in_dim", [x], [TensorType((size, 8), "f32")], {"dims": (1,)}).result
        zero = way.add("constant", [], [TensorType((), "f32")], {"value": np.zeros((), np.float32)}).result
        way.outputs = [way.add("reduce", [wide, zero], [x.type], {"dims": (0,), "kind": "add"}).result]
        ways.append(way)
    node = Node("case", [flag], [Value(x.type)], regions=tuple(ways))
    p.graph.nodes.append(node)
    p.graph.outputs = [node.result]
    found = analyze(Module(p.mesh, p.graph, "materialize")).peak
    assert max(live.bytes for live in found.live) == 64 * 8 * 4
    assert found.bytes == sum(live.bytes for live in found.live)
