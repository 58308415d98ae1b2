"""Donated arguments in text, what contradicts itself, and which operands a kernel may write over."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.frontend.shardings import sharding_of
from meshgen.ir.donation import settled
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.runtime.in_place import overwrites
from meshgen.spec import P

T, WIDE = "tensor<8x4xf32>", "tensor<8x6xf32>"


def program(a: str = "", b: str = "", results: str = f"{T}, {T}", mesh: str = "") -> str:
    head = f"{mesh}func.func @main(%a: {T} {{{a}}}, %b: {T} {{{b}}}) -> ({results})"
    return f"{head} {{\n  %s = stablehlo.add %a, %b : {T}\n  %d = stablehlo.tanh %b : {T}\n  return %s, %d : {T}, {T}\n}}\n"


def test_text_says_it_as_xla_does_and_is_printed_so() -> None:
    text = program("tf.aliasing_output = 1 : i32", "jax.buffer_donor = true")
    module = parse_text(text)
    assert module.donations == {0: 1, 1: None}
    again = print_text(module)
    assert "tf.aliasing_output = 1 : i32" in again and "jax.buffer_donor = true" in again
    assert parse_text(again).donations == module.donations
    assert parse_text(program("jax.buffer_donor = false")).donations == {}
    assert parse_text(program("jax.buffer_donor")).donations == {0: None}


FAULTS = {
    "two arguments, one result": (("tf.aliasing_output = 1 : i32",) * 2, "and so is another argument"),
    "no such result": (("tf.aliasing_output = 2 : i32", ""), "result 2, but there are 2"),
    "a negative number": (("tf.aliasing_output = -1 : i32", ""), "result -1, but there are 2"),
    "both": (("tf.aliasing_output = 1 : i32, jax.buffer_donor = true", ""), "exclude each other"),
    "no number": (('tf.aliasing_output = "x"', ""), "must be the number of a result"),
    "no truth": (('jax.buffer_donor = "x"', ""), "must be true or false"),
    "on a result": (("", "", f"{T} {{jax.buffer_donor = true}}, {T}"), "applies to arguments only"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_contradictions_are_refused(name: str) -> None:
    arguments, message = FAULTS[name]
    with pytest.raises(ProgramError, match=f"MG0110.*{message}"):
        parse_text(program(*arguments))


def test_a_result_of_another_type_is_no_alias() -> None:
    text = f"func.func @main(%a: {T} {{tf.aliasing_output = 0 : i32}}, %x: tensor<4x6xf32>) -> {WIDE} {{\n"
    text += f"  %y = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : ({T}, tensor<4x6xf32>) -> {WIDE}\n  return %y : {WIDE}\n}}\n"
    with pytest.raises(ProgramError, match=r"MG0110.*f32\[8,4\].*f32\[8,6\]"):
        parse_text(text)


def test_a_donor_takes_the_first_result_that_fits_and_is_left() -> None:
    mesh, kind = make_mesh({"x": 2}), TensorType((8, 4), "f32")
    graph = Graph("main", [Value(kind, name) for name in "abc"])
    graph.outputs = [graph.add("tanh", [value], [kind]).result for value in graph.inputs]
    module = Module(mesh, graph, in_types=[kind] * 3, out_types=[kind] * 3)
    split, whole = sharding_of(P("x", None), 2, mesh), sharding_of(P(None, None), 2, mesh)
    module.in_shardings, module.out_shardings = [split, whole, split], [whole, split, split]
    module.donations = {0: None, 1: 2, 2: None}
    found = settled(module)
    assert found.pairs == {0: 1} and "its sharding is" in found.unused[1] and "no remaining result" in found.unused[2]


def body(*nodes: tuple[str, tuple[int, ...], TensorType], inputs: int = 2, outputs: tuple[int, ...] = (-1,)) -> Graph:
    """A kernel on f32[8,4]; operands are numbers of inputs and nodes in order."""
    graph = Graph("k", [Value(TensorType((8, 4), "f32")) for _ in range(inputs)])
    values = list(graph.inputs)
    for op, operands, kind in nodes:
        values.append(
            graph.add(op, [values[n] for n in operands], [kind], {"perm": (1, 0)} if op == "transpose" else {}).result
        )
    graph.outputs = [values[n] for n in outputs]
    return graph


K, TURNED = TensorType((8, 4), "f32"), TensorType((4, 8), "f32")


def test_what_is_read_element_by_element_may_be_overwritten() -> None:
    update = body(("multiply", (0, 1), K), ("subtract", (0, 2), K))
    assert overwrites(update) == {0: (0,), 1: (0,)}
    turned = body(("transpose", (0,), TURNED), ("transpose", (2,), K), ("add", (3, 1), K))
    assert overwrites(turned) == {1: (0,)}  # the first operand is read at other places than it would be written
    moment = body(("multiply", (0, 1), K), ("add", (0, 2), K), ("tanh", (1,), K), outputs=(4, 2, 3))
    assert overwrites(moment) == {0: (1, 2), 1: (0, 2)}  # each load serves all results


def test_what_one_result_does_not_load_may_be_loaded_after_it() -> None:
    flat = TensorType((32,), "f32")
    reshaped = body(("tanh", (0,), K), ("reshape", (0,), flat), inputs=1, outputs=(1, 2))
    assert overwrites(reshaped) == {}
    assert overwrites(body(("reshape", (0,), flat), inputs=1)) == {0: (0,)}


def test_only_what_is_left_of_an_update_stays() -> None:
    row, index = TensorType((1, 4), "f32"), TensorType((), "i32")
    for shape, expected in ((row, (0, 1)), (K, ())):
        graph = Graph("k", [Value(K), Value(shape), Value(index), Value(index)])
        updated = graph.add("dynamic_update_slice", graph.inputs, [K]).result
        graph.outputs = [updated, graph.add("tanh", [graph.inputs[0]], [K]).result]
        assert overwrites(graph).get(0, ()) == expected
