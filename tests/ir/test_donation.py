"""Tests of donated arguments in text, contradictory donations, and operands that a kernel may overwrite."""

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


def test_donation_attributes_round_trip_through_text() -> None:
    text = program("tf.aliasing_output = 1 : i32", "jax.buffer_donor = true")
    module = parse_text(text)
    assert module.donations == {0: 1, 1: None}
    printed = print_text(module)
    assert "tf.aliasing_output = 1 : i32" in printed and "jax.buffer_donor = true" in printed
    assert parse_text(printed).donations == module.donations
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
def test_contradictory_donation_is_refused(name: str) -> None:
    arguments, message = FAULTS[name]
    with pytest.raises(ProgramError, match=f"MG0110.*{message}"):
        parse_text(program(*arguments))


def test_alias_with_result_of_another_type_is_refused() -> None:
    text = f"func.func @main(%a: {T} {{tf.aliasing_output = 0 : i32}}, %x: tensor<4x6xf32>) -> {WIDE} {{\n"
    text += f"  %y = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : ({T}, tensor<4x6xf32>) -> {WIDE}\n  return %y : {WIDE}\n}}\n"
    with pytest.raises(ProgramError, match=r"MG0110.*f32\[8,4\].*f32\[8,6\]"):
        parse_text(text)


def test_donor_is_paired_with_first_free_matching_result() -> None:
    mesh, kind = make_mesh({"x": 2}), TensorType((8, 4), "f32")
    graph = Graph("main", [Value(kind, name) for name in "abc"])
    graph.outputs = [graph.add("tanh", [value], [kind]).result for value in graph.inputs]
    module = Module(mesh, graph, in_types=[kind] * 3, out_types=[kind] * 3)
    split, replicated = sharding_of(P("x", None), 2, mesh), sharding_of(P(None, None), 2, mesh)
    module.in_shardings, module.out_shardings = [split, replicated, split], [replicated, split, split]
    module.donations = {0: None, 1: 2, 2: None}
    donation = settled(module)
    assert (
        donation.pairs == {0: 1}
        and "its sharding is" in donation.unused[1]
        and "no remaining result" in donation.unused[2]
    )


def body(*nodes: tuple[str, tuple[int, ...], TensorType], inputs: int = 2, outputs: tuple[int, ...] = (-1,)) -> Graph:
    """Return a kernel on values of type f32[8,4]. Operands are indices into its inputs, followed by its nodes."""
    graph = Graph("k", [Value(TensorType((8, 4), "f32")) for _ in range(inputs)])
    values = list(graph.inputs)
    for op, operands, kind in nodes:
        values.append(
            graph.add(op, [values[n] for n in operands], [kind], {"perm": (1, 0)} if op == "transpose" else {}).result
        )
    graph.outputs = [values[n] for n in outputs]
    return graph


K, TURNED = TensorType((8, 4), "f32"), TensorType((4, 8), "f32")


def test_elementwise_operand_may_be_overwritten() -> None:
    update = body(("multiply", (0, 1), K), ("subtract", (0, 2), K))
    assert overwrites(update) == {0: (0,), 1: (0,)}
    transposed = body(("transpose", (0,), TURNED), ("transpose", (2,), K), ("add", (3, 1), K))
    assert overwrites(transposed) == {
        1: (0,)
    }  # the transpose reads operand 0 and writes its result at different indices, so they cannot share a buffer
    moment = body(("multiply", (0, 1), K), ("add", (0, 2), K), ("tanh", (1,), K), outputs=(4, 2, 3))
    assert overwrites(moment) == {0: (1, 2), 1: (0, 2)}  # both operands are loaded before any result is stored


def test_operand_that_another_result_loads_later_is_not_overwritten() -> None:
    flat = TensorType((32,), "f32")
    reshaped = body(("tanh", (0,), K), ("reshape", (0,), flat), inputs=1, outputs=(1, 2))
    assert overwrites(reshaped) == {}
    assert overwrites(body(("reshape", (0,), flat), inputs=1)) == {0: (0,)}


def test_update_of_whole_tensor_does_not_alias_its_operand() -> None:
    row, index = TensorType((1, 4), "f32"), TensorType((), "i32")
    for shape, expected in ((row, (0, 1)), (K, ())):
        graph = Graph("k", [Value(K), Value(shape), Value(index), Value(index)])
        updated = graph.add("dynamic_update_slice", graph.inputs, [K]).result
        graph.outputs = [updated, graph.add("tanh", [graph.inputs[0]], [K]).result]
        assert overwrites(graph).get(0, ()) == expected
