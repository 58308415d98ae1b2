"""Tests of manual sections of GSPMD programs as PyTorch/XLA writes them: valid forms, and the locations of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph, Node
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.testing.oracle import check

W, T = "tensor<8x4xf32>", "tensor<2x4xf32>"  # types of a global tensor, and of the tile of one of four devices
ROWS, COLUMNS = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"


def start(name: str, operand: str, sharding: str = "{manual}", global_type: str = W, tile: str = T) -> str:
    return f'{name} = stablehlo.custom_call @SPMDFullToShardShape({operand}) {{mhlo.sharding = "{sharding}"}} : ({global_type}) -> {tile}'


def end(name: str, operand: str, sharding: str = ROWS, tile: str = T, global_type: str = W) -> str:
    return f'{name} = stablehlo.custom_call @SPMDShardToFullShape({operand}) {{mhlo.sharding = "{sharding}"}} : ({tile}) -> {global_type}'


def marked(name: str, operand: str, sharding: str = ROWS, kind: str = W) -> str:
    return f'{name} = stablehlo.custom_call @Sharding({operand}) {{mhlo.sharding = "{sharding}"}} : ({kind}) -> {kind}'


def total(name: str, operand: str, kind: str = T, groups: str = "[[0, 1, 2, 3]]", shape: str = "1x4") -> str:
    return f"""{name} = "stablehlo.all_reduce"({operand}) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{groups}> : tensor<{shape}xi64>, use_global_device_ids}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({kind}) -> {kind}"""


def program(*lines: str, result: str = "%r", kind: str = W) -> str:
    return "\n".join([
        "module attributes {mhlo.num_partitions = 4 : i32} {",
        f'func.func @main(%x: {W} {{mhlo.sharding = "{ROWS}"}}, %y: {W}) -> {kind} {{', *lines, f"return {result} : {kind}", "}", "}",
    ])  # fmt: skip


def manual_sections(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "manual"]


X, Y = np.random.default_rng(0).standard_normal((2, 8, 4)).astype("f4")


def run(text: str) -> Any:
    """Return the results on all devices. Also checks them with the oracle."""
    executable = plan(text, target="cpu")
    assert check(parse_text(text), pipeline=lambda _: executable.fused, args=[X, Y]).ok
    return executable(X, Y)


def summed(array: np.ndarray) -> np.ndarray:
    """Return the sum of the tiles of all four devices, repeated once per device."""
    return np.tile(array.reshape(4, 2, 4).sum(0), (4, 1))


LINEAR = program(
    start("%0", "%x"),
    marked("%1", "%y"),
    start("%2", "%1"),
    f"%3 = stablehlo.multiply %0, %2 : {T}",
    total("%4", "%3"),
    f'%5 = stablehlo.add %4, %0 {{mhlo.sharding = "{{manual}}"}} : {T}',
    end("%6", "%5"),
    f"%r = stablehlo.tanh %6 : {W}",
)


def test_pytorch_xla_section_becomes_manual_computation() -> None:
    """Values that enter the section keep the sharding of the argument, or of the `@Sharding` call on them."""
    module = parse_text(LINEAR)
    (node,) = manual_sections(module.graph)
    assert node.attrs.axes == ("d0",) and [s.dims for s in node.attrs.in_shardings] == [(("d0",), ())] * 2
    assert [inner.op for inner in node.regions[0].nodes] == ["multiply", "all_reduce", "add"]
    assert node.loc is not None and LINEAR.splitlines()[node.loc.line - 1].startswith("%0 =")
    np.testing.assert_allclose(run(LINEAR), np.tanh(summed(X * Y) + X), rtol=1e-5, atol=1e-5)
    reparsed = parse_text(print_text(module))
    assert print_text(reparsed) == print_text(module)


def test_manual_section_uses_axes_of_given_mesh() -> None:
    module = parse_text(LINEAR, "-", [make_mesh({"a": 2, "b": 2}, "devices")])
    (node,) = manual_sections(module.graph)
    assert node.attrs.axes == ("a", "b") and node.attrs.in_shardings[0].dims == (("a", "b"), ())
    executable = mg.compile(LINEAR, make_mesh({"a": 2, "b": 2}), target="cpu")
    np.testing.assert_allclose(np.asarray(executable(X, Y)), np.tanh(summed(X * Y) + X), rtol=1e-5, atol=1e-5)


def test_manual_sub_axes_of_given_mesh_are_refused() -> None:
    manual = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"
    rows, half = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "tensor<4x4xf32>"
    text = program(
        marked("%0", "%y", rows), start("%1", "%0", manual, tile=half), marked("%2", "%1", manual, half), end("%r", "%2", rows, half)
    )  # fmt: skip
    assert manual_sections(parse_text(text).graph)[0].attrs.axes == ("d0",)
    with pytest.raises(ProgramError, match=r"which are not whole axes of Mesh\(a=4\)") as caught:
        parse_text(text, "-", [make_mesh({"a": 4})])
    first = caught.value.diagnostics[0]
    assert first.code == "MG0204" and first.loc is not None and first.loc.line == 4 and "--mesh" in first.hint


def test_device_value_used_by_two_sections_is_computed_in_both() -> None:
    """The second section starts from global ops on the result of the first."""
    text = program(
        start("%0", "%x"),
        f"%1 = stablehlo.sine %0 : {T}",
        total("%2", "%1"),
        end("%3", "%2"),
        f"%4 = stablehlo.add %3, %y : {W}",
        marked("%5", "%4"),
        start("%6", "%5"),
        f"%7 = stablehlo.subtract %6, %1 : {T}",
        end("%r", "%7"),
    )
    sections = manual_sections(parse_text(text).graph)
    assert [[node.op for node in section.regions[0].nodes] for section in sections] == [
        ["sine", "all_reduce"],
        ["sine", "subtract"],
    ]
    np.testing.assert_allclose(run(text), summed(np.sin(X)) + Y - np.sin(X), rtol=1e-5, atol=1e-5)


def test_section_ends_that_share_values_are_merged() -> None:
    text = program(
        start("%0", "%x"),
        f"%1 = stablehlo.sine %0 : {T}",
        end("%2", "%1"),
        f"%3 = stablehlo.abs %2 : {W}",
        f"%4 = stablehlo.negate %1 : {T}",
        end("%5", "%4"),
        f"%r = stablehlo.add %3, %5 : {W}",
    )
    (section,) = manual_sections(parse_text(text).graph)
    assert len(section.results) == 2
    np.testing.assert_allclose(run(text), np.abs(np.sin(X)) - np.sin(X), rtol=1e-5, atol=1e-5)


def test_manual_section_may_be_inside_a_loop() -> None:
    """The section computes the partition id, and captures a constant from outside the loop."""
    text = program(
        "%c = stablehlo.constant dense<0> : tensor<i32>",
        "%half = stablehlo.constant dense<0.5> : tensor<2x4xf32>",
        f"%0:2 = stablehlo.while(%i = %c, %v = %x) : tensor<i32>, {W}",
        "cond {",
        "  %n = stablehlo.constant dense<3> : tensor<i32>",
        "  %l = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "  stablehlo.return %l : tensor<i1>",
        "} do {",
        marked("%1", "%v"),
        start("%2", "%1"),
        "%id = stablehlo.partition_id : tensor<ui32>",
        "%f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>",
        "%w = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x4xf32>",
        f"%3 = stablehlo.multiply %2, %half : {T}",
        f"%4 = stablehlo.add %3, %w : {T}",
        end("%5", "%4"),
        "  %one = stablehlo.constant dense<1> : tensor<i32>",
        "  %j = stablehlo.add %i, %one : tensor<i32>",
        f"  stablehlo.return %j, %5 : tensor<i32>, {W}",
        "}",
        result="%0#1",
    )
    expected = X
    for _ in range(3):
        expected = expected / 2 + np.repeat(np.arange(4, dtype="f4"), 2)[:, None]
    np.testing.assert_allclose(run(text), expected, rtol=1e-5, atol=1e-5)


def test_nested_section_is_manual_over_remaining_axes() -> None:
    outer, both = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}", "{manual}"
    rows, inner = (
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}",
    )
    half, quarter = "tensor<4x4xf32>", "tensor<4x2xf32>"
    text = program(
        marked("%0", "%y", rows),
        start("%1", "%0", outer, tile=half),
        f"%2 = stablehlo.sine %1 : {half}",
        marked("%3", "%2", inner, half),
        start("%4", "%3", both, half, quarter),
        total("%5", "%4", quarter, "[[0, 1], [2, 3]]", "2x2"),
        marked("%6", "%5", both, quarter),
        end("%7", "%6", inner, quarter, half),
        f"%8 = stablehlo.negate %7 : {half}",
        marked("%9", "%8", outer, half),
        end("%r", "%9", rows, half),
    ).replace(f' {{mhlo.sharding = "{ROWS}"}}', "", 1)
    (section,) = manual_sections(parse_text(text).graph)
    assert section.attrs.axes == ("d0",) and "manual" in [node.op for node in section.regions[0].nodes]
    pairs = np.sin(Y).reshape(8, 2, 2).sum(1)
    np.testing.assert_allclose(run(text), -np.concatenate([pairs, pairs], 1), rtol=1e-5, atol=1e-5)


def test_unused_device_value_is_dropped() -> None:
    text = program(start("%0", "%x"), f"%1 = stablehlo.sine %0 : {T}", f"%r = stablehlo.tanh %y : {W}")
    assert [node.op for node in parse_text(text).graph.nodes] == ["tanh"]


def test_program_with_manual_arguments_is_per_device() -> None:
    text = program(total("%r", "%y", W)).replace(ROWS, "{manual}", 1)
    module = parse_text(text)
    assert (module.stage, module.arguments, module.mesh.size) == ("partition", "local", 4)


def test_conversions_on_one_device_are_dropped() -> None:
    text = program(start("%0", "%x", tile=W), f"%1 = stablehlo.sine %0 : {W}", end("%r", "%1", "{replicated}", W))
    text = text.replace(f' {{mhlo.sharding = "{ROWS}"}}', "", 1).replace("num_partitions = 4", "num_partitions = 1")
    assert [node.op for node in parse_text(text).graph.nodes] == ["sine"]
    np.testing.assert_allclose(run(text), np.sin(X), rtol=1e-5, atol=1e-5)


REFUSED = {
    "no end": ([start("%r", "%x")], T, "MG0104", "no @SPMDShardToFullShape ends the per-device part", 0),
    "no start": ([f"%0 = stablehlo.slice %y [0:2, 0:4] : ({W}) -> {T}", end("%r", "%0")], W, "MG0104", "ends uses %y, which no @SPMDFullToShardShape converts", 1),
    "a whole operand": (
        [start("%0", "%x"), f"%1 = stablehlo.slice %y [0:2, 0:4] : ({W}) -> {T}", f"%2 = stablehlo.add %0, %1 : {T}", end("%r", "%2")],
        W, "MG0104", "ends uses %y, which no", 3,
    ),
    "other tiles": (
        [marked("%0", "%y", COLUMNS), start("%1", "%0"), end("%r", "%1")], W, "MG0204", "argument 0 of the body", 1,
    ),
    "other tiles at the end": ([start("%0", "%x"), end("%r", "%0", COLUMNS)], W, "MG0204", "result 0 of the body", 0),
    "no sharding": ([start("%0", "%y"), end("%r", "%0")], W, "MG0204", "argument 0 of the body", 0),
    "not manual": ([start("%0", "%x", "{replicated}"), end("%r", "%0")], W, "MG0204", "no axis is manual", 0),
    "contradiction": (
        [start("%0", "%x"), marked("%1", "%0", "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}", T), end("%r", "%1")],
        W, "MG0204", "are manual according to", 2,
    ),
    "malformed": ([start("%0", "%x", "{devices=[4]<=[2]}"), end("%r", "%0")], W, "MG0204", "its 4 tiles must be one", 0),
    "two operands": (
        [f"%r = stablehlo.custom_call @SPMDFullToShardShape(%x, %y) : ({W}, {W}) -> {T}"], T, "MG0104", "@SPMDFullToShardShape: needs one operand and one result", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_conversion_is_refused_at_its_location(case: str) -> None:
    lines, kind, code, message, line = REFUSED[case]
    with pytest.raises(ProgramError) as caught:
        parse_text(program(*lines, kind=kind))
    (first,) = caught.value.diagnostics
    assert first.code == code and message in first.message, first
    assert first.loc is not None and first.loc.line == 3 + line


def test_partly_manual_argument_is_refused() -> None:
    text = LINEAR.replace(
        f"%y: {W}", f'%y: {W} {{mhlo.sharding = "{{devices=[2,1,2]<=[4] last_tile_dims={{manual}}}}"}}'
    )
    with pytest.raises(ProgramError, match="an argument or result of the program cannot be manual"):
        parse_text(text)
