"""Tests of every entry of the table of identities, with random and special operands of several dtypes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from meshgen.codegen.algebra.identities import IDENTITIES
from meshgen.codegen.passes.canonicalize import canonicalize
from meshgen.ir.builder import Builder
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value, is_float
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.passes.after import after

ELEMENTWISE = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "and", "or")
NUMBERS = (0, 1, 2, -1, 4, -0.0, 0.5, 3)
Case = Callable[[Builder, Value], Value]


def special(kind: TensorType, seed: int) -> np.ndarray:
    """Return random numbers. Float arrays include zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    if kind.dtype == "i1":
        return np.asarray(rng.random(kind.sizes) < 0.5)
    if not is_float(kind.dtype):
        return rng.integers(-9, 9, kind.sizes).astype(DTYPES[kind.dtype])
    numbers = rng.standard_normal(kind.sizes)
    special_values = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], kind.sizes)
    return np.where(rng.random(kind.sizes) < 0.4, special_values, numbers).astype(DTYPES[kind.dtype])


def canonical(graph: Graph) -> Graph:
    """Return the canonicalized graph after checking its results. Signs of zeros may differ: `x + 0.0` folds to `x`."""
    canonicalized = after(canonicalize, graph)
    args = [special(value.type, seed) for seed, value in enumerate(graph.inputs)]
    for got, want in zip(evaluate(canonicalized, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
        assert got.dtype == want.dtype and got.shape == want.shape
    return canonicalized


@pytest.mark.parametrize(("op", "dtype"), [
    (op, dtype) for op in ELEMENTWISE for dtype in ("f32", "bf16", "f64", "i32", "i8", "i1")
    if dtype in ("i32", "i1") or op not in ("and", "or")
    if dtype != "i1" or op in ("and", "or", "maximum", "minimum")
    if op != "power" or is_float(dtype)
])  # fmt: skip
def test_elementwise_identities_hold(op: str, dtype: str) -> None:
    kind, applied = TensorType((64,), dtype), 0
    constants = [n for n in NUMBERS if is_float(dtype) or (float(n).is_integer() and (dtype != "i1" or n in (0, 1)))]
    if op in ("maximum", "minimum", "and", "or"):
        constants.append(neutral(op, dtype).item())
    for constant, is_first in itertools.product((None, *constants), (True, False)):
        if op == "divide" and not is_float(dtype) and (constant in (0, None) or is_first):
            continue  # integer division by zero is undefined
        if op == "power" and is_first:
            continue
        x = Value(kind)
        builder = Builder(Graph("f", [x]))
        other = x if constant is None else builder.broadcast_scalar(constant, kind)
        builder.graph.outputs = [builder.elementwise(op, *((other, x) if is_first else (x, other)))]
        applied += all(node.op != op for node in canonical(builder.graph).nodes)
    assert applied


def chain(*ops: Callable[[Builder, Value], Value]) -> Case:
    def case(builder: Builder, x: Value) -> Value:
        for op in ops:
            x = op(builder, x)
        return x

    return case


def to(dtype: str) -> Case:
    return lambda b, x: b.convert(x, dtype)


def seen(*shape: int) -> Case:
    return lambda b, x: b.reshape(x, shape)


def wide(shape: Sequence[int], *dims: int) -> Case:
    return lambda b, x: b.spread(x, shape, dims)


def turned(*perm: int) -> Case:
    return lambda b, x: b.transpose(x, perm)


def filled(shape: Sequence[int], number: float) -> Case:
    return lambda b, x: b.broadcast_scalar(number, x.type.with_shape(shape))


def constants(b: Builder, *numbers: int) -> list[Value]:
    return [b.splat(number, TensorType((), "i32")) for number in numbers]


def window(starts: Sequence[int], sizes: Sequence[int]) -> Case:
    def case(b: Builder, x: Value) -> Value:
        return b.emit("dynamic_slice", [x, *constants(b, *starts)], x.type.with_shape(sizes), slice_sizes=tuple(sizes))

    return case


def updated_twice(b: Builder, x: Value) -> Value:
    for number in (1, 2):
        update = b.broadcast_scalar(number, x.type.with_shape((2, 3)))
        x = b.emit("dynamic_update_slice", [x, update, *constants(b, 1, 0)], x.type)
    return x


def replaced(b: Builder, x: Value) -> Value:
    return b.emit("dynamic_update_slice", [b.elementwise("negate", x), x, *constants(b, 5, 5)], x.type)


def padded(low: Sequence[int], high: Sequence[int]) -> Case:
    return lambda b, x: b.pad(x, b.splat(7, x.type.with_shape(())), low, high)


def reduced(kind: str, *dims: int) -> Case:
    def case(b: Builder, x: Value) -> Value:
        init = b.splat(neutral(kind, x.type.dtype), x.type.with_shape(()))
        result = x.type.with_shape(n for d, n in enumerate(x.type.sizes) if d not in dims)
        return b.emit("reduce", [x, init], result, dims=dims, kind=kind)

    return case


def outer(b: Builder, x: Value) -> Value:
    dims = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (), "rhs_contract": ()}
    return b.emit("dot_general", [x, x], x.type.with_shape((*x.type.sizes, *x.type.sizes)), **dims)


def chosen(flag: bool) -> Case:
    def case(b: Builder, x: Value) -> Value:
        flags = b.broadcast_scalar(flag, TensorType(x.type.shape, "i1"))
        return b.emit("select", [flags, x, b.elementwise("negate", x)], x.type)

    return case


def of_empty_rows(b: Builder, x: Value) -> Value:
    ends = [b.emit("constant", [], TensorType((2,), "i32"), value=np.array(e, np.int32)) for e in ([0, 2], [2, 4])]
    matrices = b.broadcast_scalar(1, x.type.with_shape((2, 0, 3)))
    return b.emit("ragged_dot", [x, matrices, *ends], x.type.with_shape((4, 3)), contracts=False)


STRUCTURAL: dict[str, list[tuple[str, Case]]] = {
    "convert": [("f32[4]", chain(to("f64"), to("f32"))), ("bf16[4]", chain(to("f32"), to("f64"))), ("i8[4]", chain(to("i16"), to("i8")))],
    "reshape": [("f32[4,6]", chain(seen(24), seen(2, 12))), ("f32[4,6]", chain(seen(24), seen(4, 6))), ("i32[2]", chain(filled((4, 2), 3), seen(8)))],
    "broadcast_in_dim": [("f32[3]", chain(wide((2, 3), 1), wide((4, 2, 3), 1, 2))), ("f32[3]", chain(filled((3,), 2), wide((2, 3), 1)))],
    "transpose": [("f32[2,3,4]", chain(turned(1, 2, 0), turned(2, 0, 1))), ("f32[2,3,4]", chain(turned(1, 2, 0), turned(1, 0, 2))),
                  ("i32[1]", chain(filled((2, 5), 4), turned(1, 0)))],
    "slice": [("f32[4,6]", lambda b, x: b.slice(x, (0, 0), (4, 6))), ("f32[2]", chain(filled((4, 6), 5), lambda b, x: b.rows(x, 0, 1, 3))),
              ("i32[1]", lambda b, x: b.rows(b.emit("iota", [], TensorType((9,), "i32"), dim=0), 0, 4, 5))],
    "dynamic_slice": [("f32[4,6]", window((1, 2), (2, 3))), ("f32[4,6]", window((9, -3), (2, 6))), ("f32[4,6]", window((2, 1), (4, 6)))],
    "dynamic_update_slice": [("f32[4,3]", updated_twice), ("bf16[4,3]", replaced)],
    "pad": [("f32[4,6]", padded((0, 0), (0, 0))), ("i32[0,2]", padded((1, 0), (1, 0)))],
    "concatenate": [("f32[4,6]", lambda b, x: b.concatenate([b.concatenate([x, x], 0), x], 0)), ("f32[4,6]", lambda b, x: b.concatenate([x], 1)),
                    ("f32[4,6]", lambda b, x: b.concatenate([x, b.rows(x, 0, 2, 2)], 0))],
    "reduce": [("f32[4,1]", reduced("add", 1)), ("i32[1,3]", reduced("maximum", 0)), ("f32[0,3]", reduced("multiply", 0))],
    "dot_general": [("f32[4]", outer), ("f64[2,3]", outer), ("f32[0]", outer)],
    "ragged_dot": [("f32[4,0]", of_empty_rows)],
    "select": [("f32[8]", chosen(True)), ("i32[8]", chosen(False)), ("bf16[3]", lambda b, x: b.emit("select", [b.compare("LT", x, x), x, x], x.type))],
}  # fmt: skip


@pytest.mark.parametrize("op", STRUCTURAL)
def test_structural_identities_hold(op: str) -> None:
    for type_, case in STRUCTURAL[op]:
        dtype, sizes = type_.rstrip("]").split("[")
        x = Value(TensorType(tuple(map(int, sizes.split(","))), dtype))
        builder = Builder(Graph("f", [x]))
        builder.graph.outputs = [case(builder, x)]
        before, canonicalized = builder.graph, canonical(builder.graph)
        assert before.nodes[-1].op == op
        assert len(canonicalized.nodes) < len(before.nodes) or [n.op for n in canonicalized.nodes] != [
            n.op for n in before.nodes
        ]


def test_identity_table_is_fully_covered() -> None:
    assert {*ELEMENTWISE, *STRUCTURAL} == {*IDENTITIES}
