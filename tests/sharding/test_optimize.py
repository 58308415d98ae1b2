"""Optimizations of collectives: each rewrite, each case that stays unchanged, and correct results of random programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.compilation import Compilation, Pass
from meshgen.ir.definitions import definition_faults
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import Axis, Mesh
from meshgen.runtime.simulate import simulate
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimizations.all_gather_sink import all_gather_sink
from meshgen.sharding.optimizations.all_reduce_fold import all_reduce_fold
from meshgen.sharding.optimizations.cancel_inverse_collectives import cancel_inverse_collectives
from meshgen.sharding.optimizations.canonicalize_collectives import canonicalize_collectives
from meshgen.sharding.optimizations.collective_cse import collective_cse
from meshgen.sharding.optimizations.convert_sink import convert_sink
from meshgen.sharding.optimizations.gather_slice_to_all_to_all import gather_slice_to_all_to_all
from meshgen.sharding.optimizations.reshard_replan import reshard_replan
from meshgen.sharding.optimizations.slice_hoist import slice_hoist
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import P
from tests.sharding.local_programs import Program, whole_numbers
from tests.sharding.materialized import SUM_X, SUM_XY, T, check, cut, gather, module, reduce_
from tests.sharding.test_materialize import exact_numbers, random_program


def test_collectives_over_one_device_are_removed() -> None:
    p = Program(one=1, x=2)
    v = p.input(T, P("one", None, partial="x"))
    moved = p.add(
        "permute",
        [v],
        T,
        P(None, None, partial="x"),
        source=v.sharding,
        target=P(None, None, partial="x"),
        shape=(8, 12),
    )
    check(module(p, reduce_(p, gather(p, moved, SUM_X, ("one",)))), canonicalize_collectives, ["all_reduce"])


def test_gather_over_two_devices_is_kept() -> None:
    p = Program(x=2)
    check(module(p, gather(p, p.input(T, P("x")))), canonicalize_collectives, ["all_gather"])


def test_equal_collectives_are_merged() -> None:
    p = Program(x=2)
    v = p.input(T, P("x"))
    one, two = gather(p, v), gather(p, v)
    check(module(p, p.add("add", [one, two], T)), collective_cse, ["all_gather", "add"])


def _mean_and_variance(p: Program, x: Value) -> list[Value]:
    """Return the mean and the variance of rows of 8 elements that are sharded over the devices."""
    partial = P(partial="x")

    def average(value: Value) -> Value:
        total = p.add("reduce", [value, p.constant(0, "f32")], "f32[6]", partial, dims=(1,), kind="add")
        part = p.add("divide", [total, p.constant(np.full(6, 8), "f32")], "f32[6]", partial)
        return p.add("all_reduce", [part], "f32[6]", axes=("x",), kind="sum")

    mean = average(x)
    spread = p.add("broadcast_in_dim", [mean], "f32[6,8]", x.sharding, dims=(0,))
    centered = p.add("subtract", [x, spread], "f32[6,8]", x.sharding)
    return [mean, average(p.add("multiply", [centered, centered], "f32[6,8]", x.sharding))]


def test_equal_means_of_mean_and_variance_are_merged() -> None:
    """`x.mean()` and `x.var()` both compute the sum, the row count and the division."""
    p = Program(x=4)
    x = p.input("f32[6,8]", P(None, "x"))
    outputs = [*_mean_and_variance(p, x), *_mean_and_variance(p, x)]
    merged = collective_cse(Module(p.mesh, replace(p.graph, outputs=outputs), "materialize"))
    assert [node.op for node in merged.graph.nodes].count("all_reduce") == 2
    data = whole_numbers("f32[6,8]")
    mean, variance, *repeated = simulate(partition(merged, "local"), [data])
    np.testing.assert_allclose(mean, data.mean(1))
    np.testing.assert_allclose(variance, data.var(1), rtol=1e-6)
    np.testing.assert_array_equal(repeated, [mean, variance])


def test_cse_keeps_region_shared_by_several_nodes() -> None:
    kind = TensorType((4,), "f32")
    captured, flag, branch = Value(kind), Value(TensorType((), "i1")), Graph("branch")
    branch.outputs = branch.add("tanh", [captured], [kind]).results
    nodes = [Node("if", [flag], [Value(kind)], regions=(branch, branch)) for _ in range(2)]
    graph = Graph("main", [flag, captured], nodes, [node.result for node in nodes])
    assert not definition_faults(collective_cse(Module(Mesh((Axis("x", 2),)), graph, "partition")).graph)


def test_reductions_over_different_axes_are_not_merged() -> None:
    p = Program(x=2, y=2)
    v = p.input(T, SUM_XY)
    one, two = reduce_(p, v, P(None, None, partial="y")), reduce_(p, v, P(None, None, partial="x"), ("y",))
    check(module(p, reduce_(p, one, axes=("y",)), reduce_(p, two)), collective_cse, ["all_reduce"] * 4)


def test_consecutive_all_reduces_are_folded_with_both_reasons() -> None:
    p = Program(x=2, y=2)
    v = p.input(T, SUM_XY)
    done = check(
        module(p, reduce_(p, reduce_(p, v, P(None, None, partial="x"), ("y",)))), all_reduce_fold, ["all_reduce"]
    )
    (folded,) = done.graph.nodes
    assert folded.attrs.axes == ("x", "y")
    assert folded.notes.why == "reduce arg0; and reduce  [two all_reduces folded into one]"


def local(*axes: tuple[str, ...], kind: str = "sum") -> Module:
    """Return a local program of consecutive all_reduces, one for each element of `axes`. The shardings are unknown."""
    p = Program(x=2, y=2)
    value = p.input("f32[4]")
    for names in axes:
        value = reduce_(p, value, None, names, kind)
    for graph_value in p.graph.values():
        graph_value.sharding = None
    return Module(p.mesh, replace(p.graph, outputs=[value]), "partition")


def test_repeated_sum_becomes_multiplication_and_maximum_is_folded() -> None:
    folded_sum = all_reduce_fold(local(("x",), ("x",)))
    assert [n.op for n in folded_sum.graph.nodes] == [
        "all_reduce",
        "constant",
        "multiply",
    ]  # after the first sum, all devices hold the same value, so the second sum doubles it
    assert len(all_reduce_fold(local(("x", "y"), ("x",), kind="max")).graph.nodes) == 1
    assert len(all_reduce_fold(local(("x",), ("y",))).graph.nodes) == 1


def test_all_reduce_with_other_user_is_not_folded() -> None:
    p = Program(x=2, y=2)
    first = reduce_(p, p.input(T, SUM_XY), P(None, None, partial="x"), ("y",))
    both = module(p, reduce_(p, first), first)
    check(both, all_reduce_fold, ["all_reduce", "all_reduce"])


def test_all_reduce_and_slice_become_reduce_scatter() -> None:
    p = Program(x=2)
    check(module(p, cut(p, reduce_(p, p.input(T, SUM_X)), P(None, "x"), dim=1)), all_reduce_fold, ["reduce_scatter"])


def test_all_reduce_and_slice_over_other_axes_are_not_folded() -> None:
    p = Program(x=2, y=2)
    check(
        module(p, cut(p, reduce_(p, p.input(T, SUM_X)), P("y"), ("y",))), all_reduce_fold, ["all_reduce", "all_slice"]
    )


def test_gather_and_slice_cancel() -> None:
    p = Program(x=2)
    check(module(p, cut(p, gather(p, p.input(T, P("x"))), P("x"))), cancel_inverse_collectives, [])


def test_slice_and_gather_cancel_only_for_a_replicated_value() -> None:
    p = Program(x=2)
    with_shardings = module(p, gather(p, cut(p, p.input(T), P("x"))))
    check(with_shardings, cancel_inverse_collectives, [])
    for value in with_shardings.graph.values():
        value.sharding = None
    without_shardings = replace(with_shardings, stage="partition")
    assert [n.op for n in cancel_inverse_collectives(without_shardings).graph.nodes] == ["all_slice", "all_gather"]


def test_gather_and_slice_of_other_dim_become_all_to_all() -> None:
    p = Program(x=2)
    check(
        module(p, cut(p, gather(p, p.input(T, P("x"))), P(None, "x"), dim=1)),
        gather_slice_to_all_to_all,
        ["all_to_all"],
    )


def test_opposite_all_to_alls_cancel() -> None:
    p = Program(x=2)
    v = p.add("all_to_all", [p.input(T, P("x"))], T, P(None, "x"), axes=("x",), split_dim=1, concat_dim=0)
    check(
        module(p, p.add("all_to_all", [v], T, P("x"), axes=("x",), split_dim=0, concat_dim=1)),
        cancel_inverse_collectives,
        [],
    )


def test_gathers_sink_below_elementwise_ops() -> None:
    p = Program(x=2)
    both = [gather(p, p.input(T, P("x"))) for _ in range(2)]
    done = check(module(p, p.add("tanh", [p.add("add", both, T)], T)), all_gather_sink, ["add", "tanh", "all_gather"])
    sharding = done.graph.nodes[0].sharding
    assert sharding and sharding.option == (("x",), ()) and sharding.results == (P("x", None),)


def test_sinking_gather_does_not_repeat_axis_of_one_device() -> None:
    """Check an axis of one device that both shards the rows and makes the result partial. Neither changes the value."""
    p = Program(x=2, one=1)
    rows = gather(p, p.input(T, P(("one", "x"))), P("one"))
    before = module(p, p.add("negate", [rows], T, P(None, partial={"one": "sum"})))
    after = check(before, all_gather_sink, ["negate", "all_gather"])
    assert all(not v.sharding.faults(v.type.shape, after.mesh) for v in after.graph.values() if v.sharding)


def test_gather_sinks_below_narrowing_but_not_widening_cast() -> None:
    for text, expected_ops in (("bf16[8,12]", ["convert", "all_gather"]), ("f64[8,12]", ["all_gather", "convert"])):
        p = Program(x=2)
        check(module(p, p.add("convert", [gather(p, p.input(T, P("x")))], text)), all_gather_sink, expected_ops)


def test_sinking_gather_slices_replicated_operand() -> None:
    p = Program(x=2)
    v = p.add("add", [gather(p, p.input("f32[7,3]", P("x"))), p.input("f32[7,3]")], "f32[7,3]")
    check(module(p, v), all_gather_sink, ["all_slice", "add", "all_gather"])


def test_gather_with_other_user_or_layout_does_not_sink() -> None:
    p = Program(x=2)
    rows, columns = gather(p, p.input(T, P("x"))), gather(p, p.input(T, P(None, "x")), dim=1)
    check(module(p, p.add("add", [rows, columns], T)), all_gather_sink, ["all_gather", "all_gather", "add"])
    p = Program(x=2)
    rows = gather(p, p.input(T, P("x")))
    check(module(p, p.add("tanh", [rows], T), rows), all_gather_sink, ["all_gather", "tanh"])


def test_widening_cast_sinks_below_gather() -> None:
    p = Program(x=2)
    wide = p.add("convert", [p.input("bf16[8,12]", P("x"))], T, P("x"))
    check(module(p, gather(p, wide)), convert_sink, ["all_gather", "convert"])


@pytest.mark.parametrize(
    ("kind", "expected_ops"), [("sum", ["convert", "all_reduce"]), ("max", ["all_reduce", "convert"])]
)
def test_widening_cast_sinks_below_maximum_but_not_sum(kind: str, expected_ops: list[str]) -> None:
    p = Program(x=2)
    spec = P(None, None, partial={"x": kind})
    check(
        module(p, reduce_(p, p.add("convert", [p.input("bf16[8,12]", spec)], T, spec), kind=kind)),
        convert_sink,
        expected_ops,
    )


def test_slice_is_hoisted_to_all_reduce() -> None:
    p = Program(x=2)
    total = p.add("add", [reduce_(p, p.input(T, SUM_X)), p.input(T)], T)
    risen = check(
        module(p, cut(p, p.add("tanh", [total], T), P("x"))),
        slice_hoist,
        ["all_reduce", "all_slice", "all_slice", "add", "tanh"],
    )
    check(risen, all_reduce_fold, ["reduce_scatter", "all_slice", "add", "tanh"])


def test_slice_is_not_hoisted_above_op_with_other_user() -> None:
    p = Program(x=2)
    v = p.add("tanh", [p.input(T)], T)
    check(module(p, cut(p, v, P("x")), v), slice_hoist, ["tanh", "all_slice"])


def test_reshard_chain_is_replanned() -> None:
    p = Program(x=2, y=2)
    half_gathered = gather(p, p.input(T, P("x", "y")), P(None, "y"))
    done = check(module(p, cut(p, gather(p, half_gathered, None, ("y",), 1), P("x"))), reshard_replan, ["all_gather"])
    assert done.graph.nodes[0].attrs.axes == ("y",)


def test_canceled_collectives_in_loop_use_captured_value() -> None:
    p = Program(x=2)
    v = reduce_(p, p.input(T, SUM_X))
    body = Graph("body", [Value(v.type, "c", P(None, None))])
    inner = body.add("all_slice", [v], [v.type], {"axes": ("x",), "dim": 0}).result
    inner.sharding = P("x", None)
    gathered = body.add("all_gather", [inner], [v.type], {"axes": ("x",), "dim": 0}).result
    gathered.sharding = P(None, None)
    body.outputs = [gathered]
    condition = Graph("condition", [Value(v.type, "c", P(None, None))])
    no = p.constant(False, "i1")
    condition.outputs = [no]
    loop = p.graph.add("while", [p.input(T)], [v.type])
    loop.regions, loop.result.sharding = (condition, body), P(None, None)
    done = optimize(module(p, loop.result))
    assert [n.op for n in done.graph.nodes] == ["constant", "all_reduce", "while"]
    assert done.graph.nodes[2].regions[1].nodes == []


def test_pass_that_moves_more_bytes_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Program(x=2)
    before = module(p, p.input(T, P("x")))

    def worse(module: Module, context: Compilation) -> Module:
        q = Program(x=2)
        return replace(module, graph=replace(q.graph, outputs=[gather(q, q.input(T, P("x")))]))

    monkeypatch.setattr(
        "meshgen.sharding.optimize.PASSES", (Pass("worse", worse, ("materialize",), "unless more expensive"),)
    )
    context = Compilation()
    assert optimize(before, context).graph.nodes == []
    record = context.records["worse"]
    assert (record.fired, record.kept, record.rejected, record.before) == (1, 0, 1, 0)
    assert record.after > 0 and record.unit == "B"


@pytest.mark.parametrize("size", [12, 7, 2])
@pytest.mark.parametrize("seed", range(15))
def test_optimized_random_programs_are_correct_without_more_bytes(seed: int, size: int) -> None:
    rng = np.random.default_rng([seed, size, 1])
    program = random_program(rng, size)
    args, expected = exact_numbers(rng, program.graph, size)
    done = materialize(propagate(program))
    better = optimize(done)
    assert better.stage == "optimize"
    assert total_bytes(better.graph, better.mesh) <= total_bytes(done.graph, done.mesh)
    for got, expected_result in zip(simulate(partition(better), args), expected, strict=True):
        np.testing.assert_array_equal(got, expected_result)
