"""Tests of the `transpose-before-reduce` pass for every permutation and several sets of reduced dims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.codegen.passes.transpose_before_reduce import transpose_before_reduce
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


@pytest.mark.parametrize("dims", [(2,), (0, 3), (1,)], ids=str)
def test_reduce_of_transpose_keeps_result_dim_order(dims: tuple[int, ...]) -> None:
    for perm in itertools.permutations(range(4)):
        b = Body("f32[2,3,4,5]")
        value = b.op("negate", b.inputs[0])
        graph = b.done(b.reduce("maximum", value, *dims), b.op("transpose", value, perm=perm))
        moved = after(transpose_before_reduce, graph)
        (reduce,) = (node for node in moved.nodes if node.op == "reduce")
        assert reduce.operands[0] is not value
        args = random_args(graph)
        for expected, got in zip(evaluate(graph, args), evaluate(moved, args), strict=True):
            np.testing.assert_array_equal(expected, got)
