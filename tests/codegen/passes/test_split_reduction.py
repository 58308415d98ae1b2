"""Reductions in two launches: the same sums, in an order that shapes alone decide."""

from __future__ import annotations

import numpy as np

from meshgen.codegen.passes.split_reduction import split_reduction
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def test_big_sums_are_split_in_a_fixed_order() -> None:
    b = Body("f32[4096,96]")
    graph = b.done(b.reduce("add", b.inputs[0], 0))
    split = after(split_reduction, graph)
    assert [n.op for n in split.nodes].count("reduce") == 2
    args = random_args(graph)
    np.testing.assert_allclose(evaluate(split, args)[0], args[0].astype(np.float64).sum(0), atol=4096 * 2.0**-24 * 256)
    b = Body("f32[40,9]")
    assert [n.op for n in after(split_reduction, b.done(b.reduce("add", b.inputs[0], 0))).nodes] == [
        "constant",
        "reduce",
    ]


def test_sums_of_runs_of_rows_are_in_two_already() -> None:
    b = Body("f32[256,64,1024]")
    graph = b.done(b.reduce("add", b.reduce("add", b.inputs[0], 1), 0))
    assert [n.op for n in after(split_reduction, graph).nodes].count("reduce") == 2
    b = Body("f32[256,8,2,1024]")
    graph = b.done(b.reduce("add", b.reduce("add", b.inputs[0], 2), 0, 1))
    assert [n.op for n in after(split_reduction, graph).nodes].count("reduce") == 3, "over more than the runs"
