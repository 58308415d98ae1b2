"""Tests of sort and top-k kernels on the emulated GPU: stable, with any comparator, and exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, check
from tests.codegen.passes.in_parts import in_parts

Array = np.ndarray[Any, Any]


def sorting(*types: str, dim: int, by: int = 0, direction: str = "LT", compare_type: str = "") -> Graph:
    """Return a sort of several operands by operand `by`."""
    b = Body(*types, name="sorting")
    region = Graph("", [Value(TensorType((), v.type.dtype)) for v in b.inputs for _ in range(2)])
    attrs = {"direction": direction, "compare_type": compare_type}
    region.outputs = [region.add("compare", region.inputs[2 * by : 2 * by + 2], [TensorType((), "i1")], attrs).result]
    results = [Value(v.type) for v in b.inputs]
    b.graph.nodes.append(Node("sort", b.inputs, results, {"dim": dim, "is_stable": True}, regions=(region,)))
    return b.done(*results)


def top(type_: str, k: int) -> Graph:
    b = Body(type_, name="top")
    (x,) = b.inputs
    shape = (*x.type.sizes[:-1], k)
    results = [Value(TensorType(shape, x.type.dtype)), Value(TensorType(shape, "i32"))]
    b.graph.nodes.append(Node("top_k", [x], results, {"k": k}))
    return b.done(*results)


def special(*shape: int, dtype: str = "f32", seed: int = 0) -> Array:
    """Return values with many ties, both zeros, infinities and NaN of both signs."""
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, -np.nan])
    return values[np.random.default_rng(seed).integers(0, len(values), shape)].astype(DTYPES[dtype])


@pytest.mark.parametrize(("types", "dim"), [(("i32[300]",), 0), (("i8[5,33]", "f32[5,33]"), 1), (("i32[70,3]", "i1[70,3]", "f64[70,3]"), 0),
                                            (("i32[4,1]",), 1)])  # fmt: skip
def test_sort_keeps_the_order_of_ties(types: tuple[str, ...], dim: int) -> None:
    check(sorting(*types, dim=dim))


def test_sort_by_total_order_handles_special_values() -> None:
    for dtype in ("f32", "f64", "bf16", "f16"):
        graph = sorting(f"{dtype}[2,90]", "i32[2,90]", dim=1, compare_type="TOTALORDER")
        x = special(2, 90, dtype=dtype)
        indices = np.broadcast_to(np.arange(90, dtype=np.int32), (2, 90)).copy()
        check(graph, args=[x, indices], ulps=0)


def test_sort_supports_descending_order_by_second_operand() -> None:
    check(sorting("f32[130]", "ui8[130]", dim=0, by=1, direction="GT"), ulps=0)


@pytest.mark.parametrize(
    ("type_", "k"), [("f32[7,64]", 3), ("bf16[2,300]", 8), ("ui8[3,50]", 50), ("i64[9]", 1), ("f32[4,1]", 1)]
)
def test_top_k_selects_the_first_of_equal_elements(type_: str, k: int) -> None:
    graph = top(type_, k)
    kind = graph.inputs[0].type
    x = special(*kind.sizes, dtype=kind.dtype) if kind.dtype in ("f32", "bf16") else None
    check(graph, args=None if x is None else [x], ulps=0)


@pytest.mark.parametrize(
    ("dtype", "size", "k"), [("f32", 5000, 4), ("bf16", 2049, 200), ("i8", 9000, 3), ("ui32", 4096, 2)]
)
def test_top_k_of_long_rows_is_split(dtype: str, size: int, k: int) -> None:
    graph = top(f"{dtype}[2,{size}]", k)
    ((_, parts),) = in_parts(graph)
    assert [n.op for n in parts.nodes].count("top_k") == 2
    floats = dtype in ("f32", "bf16")
    rng = np.random.default_rng(1)
    x = special(2, size, dtype=dtype) if floats else rng.integers(0, 100, (2, size)).astype(DTYPES[dtype])
    least = -np.nan if floats else np.iinfo(DTYPES[dtype]).min
    # The second array holds only the value that is used as padding; padding must not be selected.
    for values in (x, np.full((2, size), least, DTYPES[dtype])):
        for result, expected in zip(evaluate(parts, [values]), evaluate(graph, [values]), strict=True):
            np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))
