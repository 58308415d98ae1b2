"""The pass `all-reduce-reassociate` merges the all_reduces of summands into one, except in unsupported cases."""

from __future__ import annotations

import pytest

from meshgen.sharding.optimizations.all_reduce_reassociate import all_reduce_reassociate
from meshgen.spec import P
from tests.sharding.local_programs import Program
from tests.sharding.materialized import SUM_X, T, check, module, reduce_


@pytest.mark.parametrize(
    ("op", "kind"), [("add", "sum"), ("subtract", "sum"), ("maximum", "max"), ("multiply", "product")]
)
def test_two_reductions_are_merged(op: str, kind: str) -> None:
    p = Program(x=2)
    spec = P(None, None, partial={"x": kind})
    sums = [reduce_(p, p.input(T, spec), kind=kind) for _ in range(2)]
    check(module(p, p.add(op, sums, T)), all_reduce_reassociate, [op, "all_reduce"])


@pytest.mark.parametrize(("op", "kind"), [("add", "sum"), ("multiply", "product")])
def test_boolean_reductions_are_not_merged(op: str, kind: str) -> None:
    """A sum of booleans wraps, so the sum of two reductions differs from the reduction of the sum."""
    p = Program(x=2)
    sums = [reduce_(p, p.input("i1[8,12]", P(None, None, partial={"x": kind})), kind=kind) for _ in range(2)]
    before = module(p, p.add(op, sums, "i1[8,12]"))
    assert [node.op for node in all_reduce_reassociate(before).graph.nodes] == ["all_reduce", "all_reduce", op]


def test_sum_of_many_reductions_is_merged_into_one() -> None:
    p = Program(x=2)
    total = reduce_(p, p.input(T, SUM_X))
    for _ in range(3):
        total = p.add("add", [total, reduce_(p, p.input(T, SUM_X))], T)
    check(module(p, total), all_reduce_reassociate, ["add"] * 3 + ["all_reduce"])


def test_two_reduce_scatters_are_merged() -> None:
    p = Program(x=2)
    parts = [p.add("reduce_scatter", [p.input(T, SUM_X)], T, P("x"), axes=("x",), dim=0, kind="sum") for _ in range(2)]
    check(module(p, p.add("add", parts, T, P("x"))), all_reduce_reassociate, ["add", "reduce_scatter"])


def test_reduction_added_to_itself_is_moved_after_add() -> None:
    p = Program(x=2)
    v = reduce_(p, p.input(T, SUM_X))
    check(module(p, p.add("add", [v, v], T)), all_reduce_reassociate, ["add", "all_reduce"])


@pytest.mark.parametrize("why", ["product of sums", "another use", "other kinds"])
def test_unsupported_reductions_are_not_merged(why: str) -> None:
    p = Program(x=2)
    kinds = ("sum", "max" if why == "other kinds" else "sum")
    sums = [reduce_(p, p.input(T, P(None, None, partial={"x": kind})), kind=kind) for kind in kinds]
    result = p.add("multiply" if why == "product of sums" else "add", sums, T)
    outputs = [result, sums[0]] if why == "another use" else [result]
    check(module(p, *outputs), all_reduce_reassociate, ["all_reduce", "all_reduce", result_op(why)])


def result_op(why: str) -> str:
    return "multiply" if why == "product of sums" else "add"
