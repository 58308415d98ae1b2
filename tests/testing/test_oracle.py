"""Tests of the oracle: it accepts correct programs, and detects errors of padding, replicas and rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen.errors import ArgumentError
from meshgen.ir.graph import Annotation, Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import P
from meshgen.testing.oracle import check, compare
from meshgen.testing.random_graphs import random_arguments, random_program
from meshgen.testing.shrink import shrink
from tests.sharding.local_programs import Program, tensor
from tests.trials import trials

GROUPS = trials(6)  # number of groups, each of 16 random programs, so that a failure names few seeds


def _local(module: Module) -> Module:
    return partition(materialize(propagate(module)))


def _global(module: Module) -> Module:
    return partition(materialize(propagate(module)), "global")


def _optimized(module: Module) -> Module:
    return partition(optimize(materialize(propagate(module))))


@pytest.mark.parametrize("group", GROUPS)
def test_pipelines_preserve_results_of_random_programs(group: int) -> None:
    for seed in range(16 * group, 16 * group + 16):
        pipeline = (_local, _global, _optimized, _optimized)[seed % 4]
        result = check(random_program(seed), pipeline=pipeline, seed=seed)
        assert result.ok, f"seed {seed}: {result.faults}"


def _without(op: str) -> Callable[[Module], Module]:
    """Return a pipeline that removes each op named `op` and forwards its operand."""

    def cut(graph: Graph, replacements: dict[Value, Value]) -> Graph:
        nodes: list[Node] = []
        for node in graph.nodes:
            operands = [replacements.get(v, v) for v in node.operands]
            if node.op == op:
                replacements[node.result] = operands[0]
            else:
                nodes.append(
                    replace(node, operands=operands, regions=tuple(cut(r, replacements) for r in node.regions))
                )
        return Graph(graph.name, graph.inputs, nodes, [replacements.get(v, v) for v in graph.outputs])

    def pipeline(module: Module) -> Module:
        local = _local(module)
        return replace(local, graph=cut(local.graph, {}))

    return pipeline


@pytest.mark.parametrize("op", ["mask_padding", "all_reduce", "to_partial"])
def test_pipeline_that_drops_an_op_is_detected(op: str) -> None:
    pipeline = _without(op)
    assert any(not check(random_program(seed), pipeline=pipeline).ok for seed in range(200)), f"none needs {op}"


def test_oracle_record_has_fields_of_command_line_report() -> None:
    module = random_program(3)
    record = check(module, pipeline=_local).record()
    assert record["ok"] is True
    assert 0 <= record["max_abs_error"] <= record["tolerance"]
    types = [value.type for value in module.graph.outputs]
    assert [(o["shape"], o["dtype"]) for o in record["outputs"]] == [(list(t.shape), t.dtype) for t in types]


def test_check_rejects_mismatched_arguments() -> None:
    graph = Graph("main")
    module = Module(make_mesh({"x": 2}), graph)
    graph.inputs = [Value(TensorType((3,), "f32"), "a")]
    graph.outputs = [graph.add("negate", graph.inputs, [TensorType((3,), "f32")]).result]
    with pytest.raises(ArgumentError):
        check(module, pipeline=_local, args=[np.zeros(4, np.float32)])


@pytest.mark.parametrize(
    "expected, actual, bound, ok",
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0, True),
        ([1.0, np.inf], [1.0, np.inf], 0.0, True),
        ([1.0, np.inf], [1.0, -np.inf], 9.0, False),
        ([1.0, 2.0], [1.0, np.nan], 9.0, False),
        ([1.0, np.nan], [1.0, 2.0], 9.0, False),
        ([1.0, 2.0], [1.0, 2.5], 0.5, True),
        ([1.0, 2.0], [1.0, 2.5], 0.25, False),
        ([1.0, 2.0], [1.0, 2.5], np.array([0.0, 0.5]), True),
    ],
)
def test_compare_applies_bound_elementwise(expected: list[float], actual: list[float], bound: float, ok: bool) -> None:
    left, right = (np.array(x, np.float32) for x in (expected, actual))
    assert compare(tensor("f32[2]"), left, right, bound).ok is ok


def test_compare_detects_off_by_one_in_big_integers() -> None:
    left = np.array([2**62, 5], np.int64)
    result = compare(tensor("i64[2]"), left, left + np.array([1, 0]), 0.0)
    assert not result.ok and result.place == (0,) and result.max_abs_error == 1.0


def test_compare_accepts_empty_arrays() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert compare(tensor("f32[0,3]"), empty, empty, 0.0).ok


def test_random_arguments_are_seeded_and_not_zero() -> None:
    module = random_program(11)
    first, second = random_arguments(module, 5), random_arguments(module, 5)
    for a, b in zip(first, second, strict=True):
        assert_array_equal(a, b)
        assert a.dtype == np.bool_ or np.all(a.astype(np.float32) != 0)
    assert any(not np.array_equal(a, b) for a, b in zip(first, random_arguments(module, 6), strict=True))


def test_random_program_is_determined_by_seed() -> None:
    left, right = random_program(42), random_program(42)
    assert [(n.op, str(n.results[0].type)) for n in left.graph.nodes] == [
        (n.op, str(n.results[0].type)) for n in right.graph.nodes
    ]
    assert left.mesh == right.mesh and left.in_annotations == right.in_annotations


def test_shrink_keeps_only_failing_ops() -> None:
    """Without masks, a sum over an unevenly sharded dim is wrong.

    Shrinking leaves only this op, with three rows on two devices.
    """
    graph, init = Graph("main"), TensorType((), "f32")
    graph.inputs = [Value(tensor("f32[13,7]"), "a"), Value(init, "b"), Value(tensor("f32[7]"), "c")]
    nonlinear = graph.add("tanh", graph.inputs[:1], [tensor("f32[13,7]")]).result
    total = graph.add("reduce", [nonlinear, graph.inputs[1]], [tensor("f32[7]")], {"dims": (0,), "kind": "add"}).result
    shifted = graph.add("add", [total, graph.inputs[2]], [tensor("f32[7]")]).result
    graph.outputs = [shifted, total, nonlinear]
    module = Module(make_mesh({"x": 4, "y": 2}), graph, in_annotations=[Annotation(P(("x", "y"), None)), None, None])
    pipeline = _without("mask_padding")

    def fails(candidate: Module) -> bool:
        return not check(candidate, pipeline=pipeline).ok

    small = shrink(module, fails)
    assert fails(small) and [node.op for node in small.graph.nodes] == ["reduce"]
    assert [str(value.type) for value in small.graph.inputs] == ["f32[3,1]", "f32[]"]
    assert str(small.mesh) == "Mesh(x=2)" or str(small.mesh) == "Mesh(y=2)"


def test_shrink_returns_minimal_program_unchanged() -> None:
    module = random_program(0)
    assert shrink(module, lambda candidate: candidate is module) is module


@cache
def entered(seed: int, stage: str) -> Module:
    """Return the program of `seed` after a stage; cached, since tests do not change it."""
    if stage == "propagate":
        return propagate(random_program(seed))
    return materialize(entered(seed, "propagate")) if stage == "materialize" else optimize(entered(seed, "materialize"))


@pytest.mark.parametrize("stage", ["propagate", "materialize", "optimize"])
def test_check_accepts_program_of_every_stage(stage: str) -> None:
    rest = {"propagate": lambda m: partition(materialize(m)), "materialize": partition, "optimize": partition}[stage]
    for seed in trials(24):
        assert check(entered(seed, stage), pipeline=rest).ok, f"seed {seed}"


def test_check_of_local_program_detects_lost_summand() -> None:
    """A program may reduce partial values at another point, but must not lose a summand."""
    p = Program(x=4)
    a, b = p.input("f32[8]", P(partial="x")), p.input("f32[8]", P(partial="x"))
    both = [p.add("all_reduce", [v], "f32[8]", axes=("x",), kind="sum") for v in (a, b)]
    written = p.local(p.add("add", both, "f32[8]"))
    p = Program(x=4)
    a, b = p.input("f32[8]", P(partial="x")), p.input("f32[8]", P(partial="x"))
    total = p.add("add", [a, b], "f32[8]", P(partial="x"))
    folded = p.local(p.add("all_reduce", [total], "f32[8]", axes=("x",), kind="sum"))
    lost = p.local(p.add("all_reduce", [a], "f32[8]", axes=("x",), kind="sum"))
    assert check(written, pipeline=lambda module: module).max_abs_error == 0
    assert check(written, pipeline=lambda module: folded).ok
    assert not check(written, pipeline=lambda module: lost).ok
