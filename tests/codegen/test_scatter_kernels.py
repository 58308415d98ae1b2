"""Tests of scatters as kernels: any indices, windows and batches become row scatters that combine updates in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.codegen.passes.scatter_to_rows import scatter_to_rows
from meshgen.codegen.triton_source import kernel_source
from meshgen.errors import CodegenError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import ONE, Body, check, emulated, random_args
from tests.codegen.passes.after import after

Array = np.ndarray[Any, Any]
ROWS = {"update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
        "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "unique_indices": False}  # fmt: skip


def scatter(operand: str, indices: str, updates: str, kind: str, **attrs: Any) -> Graph:
    """Return a scatter that combines by the op `kind`. "set" replaces the operand by the update."""
    b = Body(operand, indices, updates, name="scattering")
    region = Graph("", [Value(TensorType((), b.inputs[0].type.dtype)) for _ in range(2)])
    combined = (
        region.inputs[1] if kind == "set" else region.add(kind, region.inputs, [region.inputs[0].type], {}).result
    )
    region.outputs = [combined]
    result = Value(b.inputs[0].type)
    b.graph.nodes.append(Node("scatter", b.inputs, [result], {**ROWS, **attrs}, regions=(region,)))
    return b.done(result)


def given(graph: Graph, low: int, high: int, *, is_sorted: bool = False) -> list[Array]:
    """Return random arguments with indices in [low, high)."""
    args = random_args(graph)
    args[1] = np.random.default_rng(5).integers(low, high, args[1].shape).astype(args[1].dtype)
    if is_sorted:
        args[1] = np.sort(args[1], axis=0)
    return args


FORMS: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "rows": ("f32[9,5]", "i32[60,1]", "f32[60,5]", "add", {}),
    "long rows": ("bf16[7,200]", "i32[40,1]", "bf16[40,200]", "add", {}),
    "of i64": ("i32[9,5]", "i64[60,1]", "i32[60,5]", "maximum", {}),
    "of ui8": ("i16[9,5]", "ui8[60,1]", "i16[60,5]", "add", {}),
    "set": ("i1[300]", "i32[50,1]", "i1[50]", "set", {"update_window_dims": ()}),
    "few": ("f32[9,5]", "i32[4,1]", "f32[4,5]", "multiply", {}),
    "none": ("f32[9,5]", "i32[0,1]", "f32[0,5]", "add", {}),
    "one element": ("f32[1,1]", "i32[40,1]", "f32[40,1]", "add", {}),
    "columns": ("f32[5,9]", "i32[50,1]", "f32[5,50]", "add",
                {"update_window_dims": (0,), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,)}),
    "two indices": ("f32[4,6,3]", "i32[40,2]", "f32[40,3]", "add",
                    {"inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (1, 0)}),
    "windows": ("f32[12,5]", "i32[8,1]", "f32[8,4,3]", "add", {"update_window_dims": (1, 2), "inserted_window_dims": ()}),
    "batches": ("f32[6,10]", "i32[6,3,1]", "f32[6,3]", "add",
                {"update_window_dims": (), "inserted_window_dims": (1,), "input_batching_dims": (0,),
                 "scatter_indices_batching_dims": (0,), "scatter_dims_to_operand_dims": (1,), "index_vector_dim": 2}),
    "implicit vector": ("f32[9,5]", "i32[50]", "f32[50,5]", "add", {}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_any_scatter_becomes_a_row_scatter(form: str) -> None:
    """Check repeated indices, and indices out of bounds at both ends.

    Results are bitwise equal, since updates are combined in their order.
    """
    operand, indices, updates, kind, attrs = FORMS[form]
    graph = scatter(operand, indices, updates, kind, **attrs)
    low = 0 if "ui8" in indices else -4
    args = given(graph, low, 16)
    rows = after(scatter_to_rows, graph)
    (node,) = [n for n in rows.nodes if n.op == "scatter"]
    assert node.operands[0].type.rank == node.operands[1].type.rank == 2
    for result, expected in zip(evaluate(rows, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "kind, dtype",
    [("add", "f32"), ("add", "bf16"), ("add", "i32"), ("maximum", "f32"), ("and", "i32"), ("multiply", "i16")],
)
def test_scatter_of_many_updates_to_few_rows_becomes_a_reduction(kind: str, dtype: str) -> None:
    """Check the rewritten graph and its kernel. Some indices are out of bounds, and their updates are dropped."""
    graph = scatter(f"{dtype}[5,2]", "i32[4200,1]", f"{dtype}[4200,2]", kind)
    args = given(graph, -3, 9)
    rows = after(scatter_to_rows, graph)
    assert not {"sort", "scatter"} & {node.op for node in rows.nodes}
    for result, expected in zip(evaluate(rows, args), evaluate(graph, args), strict=True):
        if dtype.startswith("i") or kind == "maximum":
            np.testing.assert_array_equal(result, expected)
        atol = 4200 * 2.0**-8 * np.abs(args[2].astype(np.float64)).max() if dtype == "bf16" else 1e-3
        np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), rtol=0, atol=atol)
    check(rows, args=args, length=4200)


@pytest.mark.parametrize("types, kind", [
    (("f32[5,2]", "i32[4096,1]", "f32[4096,2]"), "add"), (("f32[5,2]", "i32[4200,1]", "f32[4200,2]"), "set"),
    (("f32[4000,2]", "i32[4200,1]", "f32[4200,2]"), "add"), (("f32[9,300]", "i32[4200,1]", "f32[4200,300]"), "add"),
    (("i1[5,2]", "i32[4200,1]", "i1[4200,2]"), "add"),
], ids=["fewer updates", "the last one counts", "many rows", "long rows", "no neutral element"])  # fmt: skip
def test_other_scatters_are_sorted(types: tuple[str, str, str], kind: str) -> None:
    """Check scatters for which reading all updates for each row is slower, or whose updates cannot be reduced."""
    assert [node.op for node in after(scatter_to_rows, scatter(*types, kind)).nodes].count("sort") == 1


def test_scatters_at_equal_indices_share_a_sort() -> None:
    """Check scatters of scalars and of rows at the same indices: one sort serves both.

    A scatter into another number of rows clamps the indices differently and needs a sort of its own.
    """
    b = Body("f32[9]", "f32[9,5]", "f32[12]", "i32[60,1]", "f32[60]", "f32[60,5]", name="scattering")
    scalars, rows, other, indices, ones, many = b.inputs
    region = Graph("", [Value(TensorType((), "f32")) for _ in range(2)])
    region.outputs = [region.add("add", region.inputs, [region.inputs[0].type], {}).result]
    results = [Value(x.type) for x in (scalars, rows, other)]
    for operand, updates, result in zip((scalars, rows, other), (ones, many, ones), results, strict=True):
        attrs = {**ROWS, "update_window_dims": (1,)[: operand.type.rank - 1]}
        b.graph.nodes.append(Node("scatter", [operand, indices, updates], [result], attrs, regions=(region,)))
    graph = b.done(*results)
    args = random_args(graph)
    args[3] = np.random.default_rng(5).integers(-2, 14, (60, 1)).astype(np.int32)
    rewritten = after(scatter_to_rows, graph)
    assert [node.op for node in rewritten.nodes].count("sort") == 2
    for got, want in zip(evaluate(rewritten, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        (("f32[20,5]", "i32[60,1]", "f32[60,5]"), "add"),
        (("bf16[7,300]", "i32[40,1]", "bf16[40,300]"), "add"),
        (("i1[90,1]", "i64[40,1]", "i1[40,1]"), "set"),
        (("f32[1,1]", "i32[40,1]", "f32[40,1]"), "maximum"),
        (("i32[6,130]", "i32[1,1]", "i32[1,130]"), "xor"),
    ],
)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_scatter_kernel_combines_updates_of_a_row(types: tuple[str, str, str], kind: str, is_sorted: bool) -> None:
    graph = scatter(*types, kind, indices_are_sorted=is_sorted)
    rows = graph.inputs[0].type.sizes[0]
    check(graph, args=given(graph, -2, rows + 2, is_sorted=is_sorted), length=60)


def test_scatter_kernel_handles_hot_and_untouched_rows() -> None:
    graph = scatter("f32[300,3]", "i32[200,1]", "f32[200,3]", "add", indices_are_sorted=True)
    args = given(graph, 0, 1)
    args[1][150:] = 299
    check(graph, args=args, length=200)


def test_scatter_kernel_adds_updates_in_order() -> None:
    """Check updates of very different magnitudes, whose sum in any other order has other bits."""
    graph = scatter("f32[4,3]", "i32[100,1]", "f32[100,3]", "add", indices_are_sorted=True)
    args = given(graph, 0, 4, is_sorted=True)
    args[2] = (args[2] * 10.0 ** np.random.default_rng(2).integers(-6, 6, args[2].shape)).astype(np.float32)
    expected = np.array(args[0])
    for row, update in zip(args[1][:, 0], args[2], strict=True):
        expected[row] += update
    (result,) = emulated(kernel_source("scattering", graph, ONE), graph, args)
    np.testing.assert_array_equal(result, expected)


def test_scatter_kernel_rejects_non_row_scatter() -> None:
    operand, indices, updates, kind, attrs = FORMS["columns"]
    graph = scatter(operand, indices, updates, kind, **attrs)
    with pytest.raises(CodegenError, match="no kernel can be generated for 'scatter'"):
        kernel_source("scattering", graph, ONE)
