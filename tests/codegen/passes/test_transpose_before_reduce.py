"""Reduces of transposed values: every order of dims, and every set of reduced ones, computes the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.codegen.passes.transpose_before_reduce import transpose_before_reduce
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


@pytest.mark.parametrize("dims", [(2,), (0, 3), (1,)], ids=str)
def test_results_have_their_dims_in_the_order_of_before(dims: tuple[int, ...]) -> None:
    for perm in itertools.permutations(range(4)):
        b = Body("f32[2,3,4,5]")
        value = b.op("negate", b.inputs[0])
        graph = b.done(b.reduce("maximum", value, *dims), b.op("transpose", value, perm=perm))
        moved = after(transpose_before_reduce, graph)
        (reduce,) = (node for node in moved.nodes if node.op == "reduce")
        assert reduce.operands[0] is not value
        args = random_args(graph)
        for one, other in zip(evaluate(graph, args), evaluate(moved, args), strict=True):
            np.testing.assert_array_equal(one, other)
