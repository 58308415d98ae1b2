"""Tests of the reference evaluator for control flow and random bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate, evaluate_node
from tests.ops.one_op import run, scalar_region


def test_while_reads_captured_values() -> None:
    i32 = TensorType((), "i32")
    graph = Graph("main", [Value(i32), Value(i32)])
    limit, step = graph.inputs
    start = graph.add("constant", [], [i32], {"value": np.int32(0).reshape(())}).result
    condition, body = Graph("cond", [Value(i32)]), Graph("body", [Value(i32)])
    attrs = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], limit], [TensorType((), "i1")], attrs).result]
    body.outputs = [body.add("add", [body.inputs[0], step], [i32]).result]
    node = graph.add("while", [start], [i32])
    node.regions = (condition, body)
    graph.outputs = [node.result]
    assert evaluate(graph, [np.int32(10), np.int32(3)])[0] == 12


def test_if_and_case_select_branches() -> None:
    branches = tuple(scalar_region(op) for op in ("add", "multiply", "subtract"))
    args = (np.float32(5), np.float32(2))
    assert run("if", np.bool_(True), *args, regions=branches[:2]) == 7
    assert run("if", np.bool_(False), *args, regions=branches[:2]) == 10
    assert [run("case", np.int32(i), *args, regions=branches) for i in (0, 1, 2, 7, -1)] == [7, 10, 3, 3, 3]


SHAPES = [(), (1,), (7,), (4, 3), (3, 4), (5, 3), (3, 3), (5, 2, 3)]


@pytest.mark.parametrize("dtype", ["ui8", "ui16", "ui32", "ui64"])
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX", "DEFAULT"])
def test_random_bits_match_xla(dtype: str, algorithm: str) -> None:
    jax = pytest.importorskip("jax")
    kind = getattr(jax.lax.RandomAlgorithm, f"RNG_{algorithm}")
    shapes = SHAPES[-1:] if algorithm == "DEFAULT" else SHAPES  # DEFAULT is an alias of another algorithm

    @jax.jit  # compiles once for all shapes
    def xla_random_bits(key: Any) -> list[Any]:
        return [jax.lax.rng_bit_generator(key, shape, dtype=DTYPES[dtype], algorithm=kind) for shape in shapes]

    with jax.enable_x64(True):
        for counter in (0xFFFFFFFE, 2**64 - 2):
            key = np.array([0x123456789ABCDEF0, counter], np.uint64)
            for shape, (state, bits) in zip(shapes, xla_random_bits(key), strict=True):
                types = [TensorType((2,), "ui64"), TensorType(shape, dtype)]
                result = run("rng_bit_generator", key, results=types, algorithm=algorithm)
                assert (result[1] == np.asarray(bits)).all() and (result[0] == np.asarray(state)).all(), shape


def test_op_without_evaluator_is_refused() -> None:
    with pytest.raises(ProgramError, match="'custom_call' cannot be evaluated"):
        evaluate_node(Node("custom_call", [], []), [])
