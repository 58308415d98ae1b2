"""Tests of sharding rules in factor notation: the expected text for each op, and invalid notation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.symbols import Dim
from meshgen.mesh import make_mesh
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.movement import reshape_factors
from meshgen.ops.rules.rule import rule
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.spec import P


def node(op: str, operands: list[tuple[int, ...]], result: tuple[int, ...], dtype: str = "f32", **attrs: Any) -> Node:
    values = [Value(TensorType(shape, dtype)) for shape in operands]
    return (
        Graph("g").add(op, values, [TensorType(result, dtype)], attrs)
        if not values
        else Node(op, values, [Value(TensorType(result, dtype))], attrs)
    )


DOT: dict[str, Any] = {
    "lhs_batch": (0,),
    "rhs_batch": (0,),
    "lhs_contract": (2,),
    "rhs_contract": (1,),
    "precision": (),
}
EMBED: dict[str, Any] = {"offset_dims": (2,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
         "start_index_map": (0,), "index_vector_dim": 2, "slice_sizes": (1, 16), "indices_are_sorted": False}  # fmt: skip

GOLDEN = [
    (node("add", [(4, 6), (4, 6)], (4, 6)), "a b, a b -> a b"),
    (node("tanh", [()], ()), "() -> ()"),
    (node("select", [(), (4,), (4,)], (4,)), "(), a, a -> a"),
    (node("constant", [], (3, 5), value=np.zeros((3, 5))), "-> a b"),
    (node("iota", [], (3, 5), dim=1), "-> a b"),
    (node("broadcast_in_dim", [(4, 1)], (4, 7, 9), dims=(0, 2)), "a 1 -> a b c"),
    (node("transpose", [(4, 6, 8)], (8, 4, 6), perm=(2, 0, 1)), "a b c -> c a b"),
    (node("reshape", [(8, 16, 64)], (128, 64)), "a b c -> (a b) c"),
    (node("reshape", [(8, 64)], (8, 8, 8)), "a (b c) -> a b c"),
    (node("reshape", [(1, 64)], (64,)), "1 a -> a"),
    (node("slice", [(8, 9)], (8, 3), start=(0, 2), limit=(8, 5), stride=(1, 1)), "a b -> a b window(b)"),
    (node("concatenate", [(2, 3), (2, 4)], (2, 7), dim=1), "a b, a b -> a b window(b)"),
    (node("pad", [(2, 3), ()], (2, 5), low=(0, 1), high=(0, 1), interior=(0, 0)), "a b, () -> a b window(b)"),
    (node("reduce", [(4, 6), ()], (4,), dims=(1,), kind="maximum"), "a b, () -> a reduce(b: max)"),
    (node("dot_general", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), **DOT), "a b d, a d c -> a b c reduce(d: sum)"),
    (node("gather", [(32, 16), (4, 6, 1)], (4, 6, 16), **EMBED), "a b, c d 1 -> c d b reduce(a: sum)"),
]  # fmt: skip


@pytest.mark.parametrize("case, text", GOLDEN, ids=[f"{n.op}-{i}" for i, (n, _) in enumerate(GOLDEN)])
def test_rule_is_printed_in_notation(case: Node, text: str) -> None:
    assert rule_of(case).notation() == text


def test_reshape_factors_multiply_to_both_shapes() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        dims = [int(d) for d in rng.integers(1, 13, rng.integers(0, 5))]
        source, target = tuple(dims), tuple(int(d) for d in rng.permutation(_regrouped(dims, rng)))
        sides, sizes, replicated = reshape_factors(source, target)
        for shape, side in zip((source, target), sides, strict=True):
            assert [math.prod(sizes[n] for n in part) for part in side] == list(shape)
        shared = [n for n in sizes if n not in replicated]
        order = [[n for part in side for n in part if n in shared] for side in sides]
        assert order[0] == order[1] == shared, "shared factors are in the same row-major order on both sides"


def _regrouped(dims: list[int], rng: np.random.Generator) -> list[int]:
    """Return dim sizes with the same product as `dims`, whose prime factors are distributed over new dims."""
    primes = [p for d in dims for p in _primes(d)]
    sizes = [1] * int(rng.integers(1, 4))
    for prime in primes:
        sizes[int(rng.integers(len(sizes)))] *= prime
    return sizes


def _primes(number: int) -> list[int]:
    for divisor in range(2, number + 1):
        if number % divisor == 0:
            return [divisor, *_primes(number // divisor)]
    return []


def test_iterator_types_match_the_rfc() -> None:
    assert rule_of(GOLDEN[14][0]).iterator_types() == ("parallel", "parallel", "parallel", "reduction_sum")
    assert rule_of(GOLDEN[10][0]).iterator_types() == ("parallel", "window")


@pytest.mark.parametrize(
    "text, message",
    [
        ("m k, k n", "does not name 2 operands"),
        ("m k, k -> m n", "gives 1 dims to a tensor of rank 2"),
        ("m k, n k -> m n", "has sizes"),
    ],
)
def test_bad_notation_is_refused(text: str, message: str) -> None:
    lhs, rhs, out = TensorType((2, 3), "f32"), TensorType((3, 5), "f32"), TensorType((2, 5), "f32")
    with pytest.raises(ValueError, match=message):
        rule(text, [lhs, rhs], [out])


def test_unknown_reduce_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="no factor 'z'"):
        rule("a -> a", [TensorType((2,), "f32")], [TensorType((2,), "f32")], reduce={"z": "sum"})


@pytest.mark.parametrize(
    ("dtypes", "linear"),
    [("i8 i8 i8", [0, 1]), ("i8 i8 i32", []), ("i32 i8 i32", [0]), ("i32 i32 i8", [0, 1]), ("bf16 bf16 f32", [0, 1])],
)
def test_integer_dot_is_linear_if_accumulator_wraps_like_operand(dtypes: str, linear: list[int]) -> None:
    """Partial i8 operands 100 + 100 wrap to -56, but partial i32 results of dots of them add up without wrapping."""
    dot = node("dot_general", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), **DOT)
    for value, dtype in zip([*dot.operands, dot.result], dtypes.split(), strict=True):
        value.type = TensorType(value.type.shape, dtype)
    assert [form.operands for form in rule_of(dot).linear] == [(number,) for number in linear]


@pytest.mark.parametrize(("source", "target", "is_linear"), [("bf16", "f32", True), ("bf16", "f16", False), ("f16", "bf16", False), ("f8E5M2", "f8E4M3FN", False),
                                                             ("f8E5M2", "f16", True), ("i8", "i32", False), ("f64", "f32", False)])  # fmt: skip
def test_lossless_float_conversion_is_linear(source: str, target: str, *, is_linear: bool) -> None:
    cast = Node("convert", [Value(TensorType((4,), source))], [Value(TensorType((4,), target))])
    assert bool(rule_of(cast).linear) == is_linear


def test_op_without_rule_is_named_in_the_error() -> None:
    with pytest.raises(ProgramError, match="'frobnicate' has no sharding rule"):
        rule_of(node("frobnicate", [(2,)], (2,)))


@pytest.mark.parametrize(("first", "size"), [(8191, Dim.named("n", 8191)), (Dim.named("m", 8193), 8193)])
def test_caches_distinguish_symbolic_sizes_from_equal_integers(first: int, size: int) -> None:
    """Rules and plans are cached by size. A symbolic size compares equal to an integer of the same value."""
    for rows in (first, size):
        kind = TensorType((rows, 4), "f32")
        sharding_rule = rule_of(Node("tanh", [Value(kind)], [Value(kind)], {}))
        assert [type(factor.size) for factor in sharding_rule.factors] == [type(rows), int]
        (step,) = plan_reshard(kind, P(("x", "y"), None), P(("y", "x"), None), make_mesh({"x": 2, "y": 4})).steps
        assert [type(extent) for extent in step.attrs["shape"]] == [type(rows), int]
