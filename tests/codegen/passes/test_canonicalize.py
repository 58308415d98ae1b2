"""Simplification keeps the meaning, folds what is known, and never builds big arrays."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.passes.canonicalize import canonicalize
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.spread import uniform_element
from meshgen.ops import constants
from meshgen.ops.evaluate.evaluator import Evaluator, evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def same(graph: Graph) -> Graph:
    """The simplified graph, after checking that it computes the same."""
    found = after(canonicalize, graph)
    args = random_args(graph)
    for got, want in zip(evaluate(found, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    assert [v.type for v in found.outputs] == [v.type for v in graph.outputs]
    assert found.inputs == graph.inputs
    return found


def test_common_subexpressions_are_made_once() -> None:
    b = Body("f32[4]")
    (x,) = b.inputs
    graph = b.done(b.op("add", b.op("tanh", x), b.op("tanh", x)), b.op("subtract", b.op("tanh", x), b.splat(1.0, x)))
    assert ops(same(graph)).count("tanh") == 1


def test_dead_code_goes_and_unused_inputs_stay() -> None:
    b = Body("f32[4]", "f32[9]")
    b.op("sine", b.inputs[0])
    assert ops(same(b.done(b.op("cosine", b.inputs[0])))) == ["cosine"]


def test_scalars_are_folded_without_arrays() -> None:
    b = Body("f32[1000,1000]")
    (x,) = b.inputs
    big = b.op("multiply", b.splat(3.0, x), b.op("exponential", b.splat(0.0, x)))
    graph = same(b.done(b.op("add", x, big)))
    assert ops(graph) == ["constant", "broadcast_in_dim", "add"]
    assert graph.nodes[0].attrs.value.shape == () and graph.nodes[0].attrs.value == 3


def test_an_array_of_one_number_becomes_a_splat() -> None:
    b = Body("f32[4,5]")
    full = b.graph.add("constant", [], [TensorType((4, 5), "f32")], {"value": np.full((4, 5), 2, np.float32)}).result
    table = b.graph.add("constant", [], [TensorType((5,), "f32")], {"value": np.arange(5, dtype=np.float32)}).result
    y = b.op("add", b.op("multiply", b.inputs[0], full), b.wide(table, full, (1,)))
    graph = same(b.done(y))
    assert sorted(n.attrs.value.shape for n in graph.nodes if n.op == "constant") == [(), (5,)]


@pytest.mark.parametrize(
    "identity", ["add 0", "subtract 0", "multiply 1", "divide 1", "maximum -inf", "minimum inf", "power 1"]
)
def test_identities(identity: str) -> None:
    op, number = identity.split()
    b = Body("f32[3,5]")
    (x,) = b.inputs
    assert ops(same(b.done(b.op("negate", b.op(op, x, b.splat(float(number), x)))))) == ["negate"]


@pytest.mark.parametrize("op", ["and", "or"])
@pytest.mark.parametrize("known", [True, False])
def test_a_known_truth_decides_or_leaves_the_other(op: str, known: bool) -> None:
    b = Body("i1[3]")
    (x,) = b.inputs
    sides = [x, b.splat(known, x)]
    graph = same(b.done(b.op(op, *sides), b.op(op, *reversed(sides))))
    assert op not in ops(graph)
    assert graph.outputs[0] is graph.outputs[1]


def test_zeros_of_both_signs_are_no_single_number() -> None:
    b = Body("f32[3]")
    zeros = b.graph.add("constant", [], [TensorType((3,), "f32")], {"value": np.array([0, -0.0, 0], np.float32)}).result
    graph = b.done(b.op("divide", b.inputs[0], zeros))
    assert "broadcast_in_dim" not in ops(same(graph))


def test_what_is_no_identity_stays() -> None:
    b = Body("f32[3,5]")
    (x,) = b.inputs
    graph = b.done(
        b.op("multiply", x, b.splat(0.0, x)), b.op("maximum", x, b.splat(0.0, x)), b.op("divide", x, b.splat(3.0, x))
    )
    assert {"multiply", "maximum", "divide"} <= set(ops(same(graph)))  # NaN * 0 is NaN; x / 3 is not x * (1/3)


def test_chains_of_index_maps() -> None:
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
    graph = same(b.done(b.op("add", z, column)))
    assert ops(graph) == ["constant", "reduce", "broadcast_in_dim", "add"]


def test_converts() -> None:
    b = Body("bf16[8]", "f32[8]")
    x, y = b.inputs
    exact = b.op("convert", b.op("convert", x, to="f32[8]"), to="bf16[8]")
    rounding = b.op("convert", b.op("convert", y, to="bf16[8]"), to="f32[8]")
    graph = same(b.done(b.op("negate", exact), rounding))
    assert ops(graph) == ["convert", "convert", "negate"] or ops(graph) == ["negate", "convert", "convert"]


def test_empty_values_are_not_computed() -> None:
    b = Body("f32[0,4]", "f32[0,3]", "f32[2,3]")
    x, y, z = b.inputs
    graph = b.done(b.dot(x, y, ((0,), (0,))), b.reduce("add", x, 0), b.op("concatenate", y, z, dim=0))
    assert set(ops(same(graph))) == {"constant", "broadcast_in_dim"}


def test_regions_see_what_outer_values_became() -> None:
    b = Body("f32[]")
    (x,) = b.inputs
    outer = b.op("add", x, b.constant(0.0, "f32"))  # becomes x
    branch = Graph("branch")
    branch.outputs = [branch.add("negate", [outer], [outer.type]).result]
    other = Graph("other", outputs=[outer])
    pred = b.op("compare", x, outer, to="i1[]", direction="LT", compare_type="")
    node = Node("if", [pred], [Value(x.type)], regions=(branch, other))
    b.graph.nodes.append(node)
    same(b.done(node.result))


def test_dead_collectives_go_on_every_device() -> None:
    b = Body("f32[4]")
    b.graph.add("all_reduce", b.inputs, [b.inputs[0].type], {"axes": ("x",), "kind": "sum"})
    assert ops(after(canonicalize, b.done(b.op("negate", b.inputs[0])))) == ["negate"]


@pytest.mark.parametrize("changes", [True, False])
def test_what_a_loop_carries_unchanged_is_used_from_outside(changes: bool) -> None:
    kind, number = TensorType((4,), "f32"), TensorType((), "i32")
    graph = Graph("main", [Value(kind, "x"), Value(kind, "w"), Value(number, "n")])
    x, w, n = graph.inputs
    scaled = graph.add("tanh", [w], [kind]).result
    condition = Graph("condition", [Value(number, "i"), Value(kind, "x"), Value(kind, "w"), Value(number, "n")])
    test = condition.add("compare", [condition.inputs[0], condition.inputs[3]], [TensorType((), "i1")],
                         {"direction": "LT", "compare_type": "SIGNED"})  # fmt: skip
    condition.outputs = [test.result]
    body = Graph("body", [Value(v.type, v.name) for v in condition.inputs])
    i, inner, factor, limit = body.inputs
    one = body.add("constant", [], [number], {"value": np.array(1, np.int32)}).result
    carried = body.add("multiply", [inner, factor], [kind]).result if changes else inner
    body.outputs = [body.add("add", [i, one], [number]).result, carried, factor, limit]
    start = graph.add("constant", [], [number], {"value": np.array(0, np.int32)}).result
    loop = Node("while", [start, x, scaled, n], [Value(v.type) for v in body.inputs], regions=(condition, body))
    graph.nodes.append(loop)
    graph.outputs = [loop.results[1], loop.results[2], loop.results[0]]
    found = after(canonicalize, graph)
    (slim,) = [node for node in found.nodes if node.op == "while"]
    assert len(slim.operands) == len(slim.results) == (2 if changes else 1)
    args = [np.linspace(0, 1, 4, dtype=np.float32), np.linspace(1, 2, 4, dtype=np.float32), np.array(3, np.int32)]
    for have, want in zip(Evaluator().graph(found, args), Evaluator().graph(graph, args), strict=True):
        np.testing.assert_array_equal(have, want)


def test_an_element_of_a_constant_is_a_number() -> None:
    """The rotations of a random generator are elements of a table."""
    b = Body("f32[4]")
    table = b.graph.add(
        "constant", [], [TensorType((2, 3), "f32")], {"value": np.arange(6, dtype=np.float32).reshape(2, 3)}
    ).result
    element = b.op("reshape", b.op("slice", table, start=(1, 1), limit=(2, 2), stride=(1, 1)), to="f32[]")
    graph = same(b.done(b.op("multiply", b.inputs[0], b.wide(element, b.inputs[0], ()))))
    (number,) = (n for n in graph.nodes if n.op == "constant")
    assert number.attrs.value.shape == () and number.attrs.value == 4


def at(b: Body, *numbers: int) -> list[Value]:
    """Constant starts."""
    kind = TensorType((), "i32")
    return [b.graph.add("constant", [], [kind], {"value": np.array(n, np.int32)}).result for n in numbers]


@pytest.mark.parametrize("start", [-3, 0, 2, 9])
def test_a_window_with_a_known_start_is_a_slice(start: int) -> None:
    """One that would end outside begins earlier."""
    b = Body("f32[6,4]")
    part = b.graph.add(
        "dynamic_slice", [b.inputs[0], *at(b, start, 0)], [TensorType((2, 4), "f32")], {"slice_sizes": (2, 4)}
    )
    assert "dynamic_slice" not in ops(same(b.done(part.result)))


@pytest.mark.parametrize("second, count", [(1, 1), (2, 2), (7, 2)])
def test_what_is_updated_twice_is_written_once(second: int, count: int) -> None:
    b = Body("f32[6,4]", "f32[2,4]", "f32[2,4]")
    x, first, then = b.inputs
    for update, start in ((first, 1), (then, second)):
        x = b.graph.add("dynamic_update_slice", [x, update, *at(b, start, 0)], [x.type]).result
    assert ops(same(b.done(x))).count("dynamic_update_slice") == count


def test_an_update_of_everything_is_the_result() -> None:
    b = Body("f32[6]", "f32[6]", "i32[]")
    assert ops(same(b.done(b.graph.add("dynamic_update_slice", b.inputs, [b.inputs[0].type]).result))) == []


@pytest.mark.parametrize("kind, count", [("add", 1), ("maximum", 2)])
def test_equal_regions_on_equal_operands_are_computed_once(kind: str, count: int) -> None:
    """Windows that are reduced, as cumulative sums are; not those that are reduced otherwise."""
    b = Body("i32[6]")
    zero = b.constant(0, "i32")
    made = list[Value]()
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
        made += node.results
    assert ops(same(b.done(b.op("subtract", *made)))).count("reduce_window") == count


def test_an_element_of_an_iota_is_a_number() -> None:
    b = Body("i32[]")
    numbers = b.graph.add("iota", [], [TensorType((7, 2), "i32")], {"dim": 0}).result
    five = b.op("reshape", b.op("slice", numbers, start=(5, 1), limit=(6, 2), stride=(1, 1)), to="i32[]")
    graph = same(b.done(b.op("add", b.inputs[0], five)))
    assert [n.attrs.value.item() for n in graph.nodes if n.op == "constant"] == [5]


def test_a_constant_is_scanned_once_however_often_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(35, dtype=np.float32).reshape(5, 7)
    array[-1, -1] = array[0, 0]
    b, scanned = Body("f32[5,7]"), list[np.ndarray]()

    def counted(array: np.ndarray) -> np.ndarray | None:
        scanned.append(array)
        return uniform_element(array)

    monkeypatch.setattr(constants, "uniform_element", counted)
    table, x = b.constant(array, "f32"), b.inputs[0]
    for number in range(6):
        x = b.op("add", x, b.op("multiply", x, b.op("reverse", table, dims=(number % 2,))))
    assert ops(same(b.done(x))).count("constant") == 1
    assert sum(each.shape == array.shape for each in scanned) == 1
