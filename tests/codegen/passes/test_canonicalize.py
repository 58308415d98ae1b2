"""Tests of the `canonicalize` pass: it keeps semantics, folds constants, and never materializes large arrays."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.passes.canonicalize import canonicalize
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.splats import uniform_element
from meshgen.ops import constants
from meshgen.ops.evaluate.evaluator import Evaluator, evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def canonicalized_same(graph: Graph) -> Graph:
    """Return the canonicalized graph after checking that it computes the same results."""
    canonicalized = after(canonicalize, graph)
    args = random_args(graph)
    for got, want in zip(evaluate(canonicalized, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    assert [v.type for v in canonicalized.outputs] == [v.type for v in graph.outputs]
    assert canonicalized.inputs == graph.inputs
    return canonicalized


def test_common_subexpressions_are_merged() -> None:
    b = Body("f32[4]")
    (x,) = b.inputs
    graph = b.done(b.op("add", b.op("tanh", x), b.op("tanh", x)), b.op("subtract", b.op("tanh", x), b.splat(1.0, x)))
    assert ops(canonicalized_same(graph)).count("tanh") == 1


def test_dead_code_is_erased_but_unused_inputs_are_kept() -> None:
    b = Body("f32[4]", "f32[9]")
    b.op("sine", b.inputs[0])
    assert ops(canonicalized_same(b.done(b.op("cosine", b.inputs[0])))) == ["cosine"]


def test_splats_are_folded_without_materializing_arrays() -> None:
    b = Body("f32[1000,1000]")
    (x,) = b.inputs
    big = b.op("multiply", b.splat(3.0, x), b.op("exponential", b.splat(0.0, x)))
    graph = canonicalized_same(b.done(b.op("add", x, big)))
    assert ops(graph) == ["constant", "broadcast_in_dim", "add"]
    assert graph.nodes[0].attrs.value.shape == () and graph.nodes[0].attrs.value == 3


def test_uniform_array_becomes_splat() -> None:
    b = Body("f32[4,5]")
    full = b.graph.add("constant", [], [TensorType((4, 5), "f32")], {"value": np.full((4, 5), 2, np.float32)}).result
    table = b.graph.add("constant", [], [TensorType((5,), "f32")], {"value": np.arange(5, dtype=np.float32)}).result
    y = b.op("add", b.op("multiply", b.inputs[0], full), b.wide(table, full, (1,)))
    graph = canonicalized_same(b.done(y))
    assert sorted(n.attrs.value.shape for n in graph.nodes if n.op == "constant") == [(), (5,)]


@pytest.mark.parametrize(
    "identity", ["add 0", "subtract 0", "multiply 1", "divide 1", "maximum -inf", "minimum inf", "power 1"]
)
def test_arithmetic_identities_are_folded(identity: str) -> None:
    op, constant = identity.split()
    b = Body("f32[3,5]")
    (x,) = b.inputs
    assert ops(canonicalized_same(b.done(b.op("negate", b.op(op, x, b.splat(float(constant), x)))))) == ["negate"]


@pytest.mark.parametrize("op", ["and", "or"])
@pytest.mark.parametrize("constant", [True, False])
def test_boolean_op_with_constant_operand_is_folded(op: str, constant: bool) -> None:
    b = Body("i1[3]")
    (x,) = b.inputs
    sides = [x, b.splat(constant, x)]
    graph = canonicalized_same(b.done(b.op(op, *sides), b.op(op, *reversed(sides))))
    assert op not in ops(graph)
    assert graph.outputs[0] is graph.outputs[1]


def test_array_of_zeros_of_both_signs_is_not_a_splat() -> None:
    b = Body("f32[3]")
    zeros = b.graph.add("constant", [], [TensorType((3,), "f32")], {"value": np.array([0, -0.0, 0], np.float32)}).result
    graph = b.done(b.op("divide", b.inputs[0], zeros))
    assert "broadcast_in_dim" not in ops(canonicalized_same(graph))


def test_inexact_identities_are_not_folded() -> None:
    b = Body("f32[3,5]")
    (x,) = b.inputs
    graph = b.done(
        b.op("multiply", x, b.splat(0.0, x)), b.op("maximum", x, b.splat(0.0, x)), b.op("divide", x, b.splat(3.0, x))
    )
    assert {"multiply", "maximum", "divide"} <= set(
        ops(canonicalized_same(graph))
    )  # NaN * 0 is NaN; x / 3 is not x * (1/3)


def test_chains_of_index_maps_are_composed() -> None:
    b = Body("f32[4,6]")
    (x,) = b.inputs
    y = b.op("reshape", b.op("reshape", x, to="f32[24]"), to="f32[4,6]")
    z = b.op("transpose", b.op("transpose", y, perm=(1, 0)), perm=(1, 0))
    column = b.op(
        "broadcast_in_dim",
        b.op("broadcast_in_dim", b.reduce("add", z, 1), to="f32[4,1]", dims=(0,)),
        to="f32[4,6]",
        dims=(0, 1),
    )
    graph = canonicalized_same(b.done(b.op("add", z, column)))
    assert ops(graph) == ["constant", "reduce", "broadcast_in_dim", "add"]


def test_only_exact_convert_round_trips_are_removed() -> None:
    b = Body("bf16[8]", "f32[8]")
    x, y = b.inputs
    exact = b.op("convert", b.op("convert", x, to="f32[8]"), to="bf16[8]")
    rounding = b.op("convert", b.op("convert", y, to="bf16[8]"), to="f32[8]")
    graph = canonicalized_same(b.done(b.op("negate", exact), rounding))
    assert ops(graph) == ["convert", "convert", "negate"] or ops(graph) == ["negate", "convert", "convert"]


def test_ops_on_empty_values_become_constants() -> None:
    b = Body("f32[0,4]", "f32[0,3]", "f32[2,3]")
    x, y, z = b.inputs
    graph = b.done(b.dot(x, y, ((0,), (0,))), b.reduce("add", x, 0), b.op("concatenate", y, z, dim=0))
    assert set(ops(canonicalized_same(graph))) == {"constant", "broadcast_in_dim"}


def test_regions_use_replacements_of_captured_values() -> None:
    b = Body("f32[]")
    (x,) = b.inputs
    outer = b.op("add", x, b.constant(0.0, "f32"))  # folds to x
    branch = Graph("branch")
    branch.outputs = [branch.add("negate", [outer], [outer.type]).result]
    other = Graph("other", outputs=[outer])
    pred = b.op("compare", x, outer, to="i1[]", direction="LT", compare_type="")
    node = Node("if", [pred], [Value(x.type)], regions=(branch, other))
    b.graph.nodes.append(node)
    canonicalized_same(b.done(node.result))


def test_dead_collectives_are_erased() -> None:
    b = Body("f32[4]")
    b.graph.add("all_reduce", b.inputs, [b.inputs[0].type], {"axes": ("x",), "kind": "sum"})
    assert ops(after(canonicalize, b.done(b.op("negate", b.inputs[0])))) == ["negate"]


@pytest.mark.parametrize("changes", [True, False])
def test_loop_invariant_carries_become_captures(changes: bool) -> None:
    kind, counter = TensorType((4,), "f32"), TensorType((), "i32")
    graph = Graph("main", [Value(kind, "x"), Value(kind, "w"), Value(counter, "n")])
    x, w, n = graph.inputs
    scaled = graph.add("tanh", [w], [kind]).result
    condition = Graph("condition", [Value(counter, "i"), Value(kind, "x"), Value(kind, "w"), Value(counter, "n")])
    test = condition.add("compare", [condition.inputs[0], condition.inputs[3]], [TensorType((), "i1")],
                         {"direction": "LT", "compare_type": "SIGNED"})  # fmt: skip
    condition.outputs = [test.result]
    body = Graph("body", [Value(v.type, v.name) for v in condition.inputs])
    i, inner, factor, limit = body.inputs
    increment = body.add("constant", [], [counter], {"value": np.array(1, np.int32)}).result
    carried = body.add("multiply", [inner, factor], [kind]).result if changes else inner
    body.outputs = [body.add("add", [i, increment], [counter]).result, carried, factor, limit]
    start = graph.add("constant", [], [counter], {"value": np.array(0, np.int32)}).result
    loop = Node("while", [start, x, scaled, n], [Value(v.type) for v in body.inputs], regions=(condition, body))
    graph.nodes.append(loop)
    graph.outputs = [loop.results[1], loop.results[2], loop.results[0]]
    canonicalized = after(canonicalize, graph)
    (loop_after,) = [node for node in canonicalized.nodes if node.op == "while"]
    assert len(loop_after.operands) == len(loop_after.results) == (2 if changes else 1)
    args = [np.linspace(0, 1, 4, dtype=np.float32), np.linspace(1, 2, 4, dtype=np.float32), np.array(3, np.int32)]
    for got, want in zip(Evaluator().graph(canonicalized, args), Evaluator().graph(graph, args), strict=True):
        np.testing.assert_array_equal(got, want)


def test_slice_of_constant_folds_to_scalar() -> None:
    """Check a pattern in the code of random number generators: rotation counts are sliced out of a constant table."""
    b = Body("f32[4]")
    table = b.graph.add(
        "constant", [], [TensorType((2, 3), "f32")], {"value": np.arange(6, dtype=np.float32).reshape(2, 3)}
    ).result
    element = b.op("reshape", b.op("slice", table, start=(1, 1), limit=(2, 2), stride=(1, 1)), to="f32[]")
    graph = canonicalized_same(b.done(b.op("multiply", b.inputs[0], b.wide(element, b.inputs[0], ()))))
    (constant,) = (n for n in graph.nodes if n.op == "constant")
    assert constant.attrs.value.shape == () and constant.attrs.value == 4


def constant_starts(b: Body, *numbers: int) -> list[Value]:
    """Return constant start indices."""
    kind = TensorType((), "i32")
    return [b.graph.add("constant", [], [kind], {"value": np.array(n, np.int32)}).result for n in numbers]


@pytest.mark.parametrize("start", [-3, 0, 2, 9])
def test_dynamic_slice_with_constant_start_becomes_slice(start: int) -> None:
    """Check constant start indices, including starts that are clamped because the window would end out of bounds."""
    b = Body("f32[6,4]")
    part = b.graph.add(
        "dynamic_slice",
        [b.inputs[0], *constant_starts(b, start, 0)],
        [TensorType((2, 4), "f32")],
        {"slice_sizes": (2, 4)},
    )
    assert "dynamic_slice" not in ops(canonicalized_same(b.done(part.result)))


@pytest.mark.parametrize("second, count", [(1, 1), (2, 2), (7, 2)])
def test_overwritten_update_slice_is_erased(second: int, count: int) -> None:
    b = Body("f32[6,4]", "f32[2,4]", "f32[2,4]")
    x, first, then = b.inputs
    for update, start in ((first, 1), (then, second)):
        x = b.graph.add("dynamic_update_slice", [x, update, *constant_starts(b, start, 0)], [x.type]).result
    assert ops(canonicalized_same(b.done(x))).count("dynamic_update_slice") == count


def test_full_update_slice_folds_to_the_update() -> None:
    b = Body("f32[6]", "f32[6]", "i32[]")
    assert (
        ops(canonicalized_same(b.done(b.graph.add("dynamic_update_slice", b.inputs, [b.inputs[0].type]).result))) == []
    )


@pytest.mark.parametrize("kind, count", [("add", 1), ("maximum", 2)])
def test_reduce_windows_with_equal_regions_are_merged(kind: str, count: int) -> None:
    """Check that reduce_windows are merged if their regions are equal, and not if their regions differ."""
    b = Body("i32[6]")
    zero = b.constant(0, "i32")
    results = list[Value]()
    for name in ("add", kind):
        region = Graph("", [Value(TensorType((), "i32")) for _ in range(2)])
        region.outputs = [region.add(name, region.inputs, [TensorType((), "i32")]).result]
        window = {
            "window_dimensions": (6,),
            "window_strides": (1,),
            "base_dilations": (1,),
            "window_dilations": (1,),
            "low": (5,),
            "high": (0,),
        }
        node = Node("reduce_window", [b.inputs[0], zero], [Value(TensorType((6,), "i32"))], window, regions=(region,))
        b.graph.nodes.append(node)
        results += node.results
    assert ops(canonicalized_same(b.done(b.op("subtract", *results)))).count("reduce_window") == count


def test_slice_of_iota_folds_to_scalar() -> None:
    b = Body("i32[]")
    positions = b.graph.add("iota", [], [TensorType((7, 2), "i32")], {"dim": 0}).result
    five = b.op("reshape", b.op("slice", positions, start=(5, 1), limit=(6, 2), stride=(1, 1)), to="i32[]")
    graph = canonicalized_same(b.done(b.op("add", b.inputs[0], five)))
    assert [n.attrs.value.item() for n in graph.nodes if n.op == "constant"] == [5]


def test_constant_is_scanned_for_uniformity_once(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(35, dtype=np.float32).reshape(5, 7)
    array[-1, -1] = array[0, 0]
    b, scanned = Body("f32[5,7]"), list[np.ndarray]()

    def counted(array: np.ndarray) -> np.ndarray | None:
        scanned.append(array)
        return uniform_element(array)

    monkeypatch.setattr(constants, "uniform_element", counted)
    table, x = b.constant(array, "f32"), b.inputs[0]
    for step in range(6):
        x = b.op("add", x, b.op("multiply", x, b.op("reverse", table, dims=(step % 2,))))
    assert ops(canonicalized_same(b.done(x))).count("constant") == 1
    assert sum(scanned_array.shape == array.shape for scanned_array in scanned) == 1
