"""Tests of tensor dims whose size is unknown until load: input shapes determine all others, or contradict the program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import MeshgenError, ProgramError, UsageError
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh, make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.sizes.program import has_open_results, with_shapes
from meshgen.testing.oracle import check

DOT = """
sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func @main(%x: tensor<?x?xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<6x8xf32>) -> tensor<?x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<6x8xf32>) -> tensor<?x8xf32>
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<8xf32>) -> tensor<5x8xf32>
  %2 = stablehlo.tanh %0 : tensor<?x8xf32>
  %3 = stablehlo.reshape %2 : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  %4 = stablehlo.convert %3 : (tensor<?x2x4xf32>) -> tensor<?x2x4xbf16>
  %5 = stablehlo.convert %4 : (tensor<?x2x4xbf16>) -> tensor<?x2x4xf32>
  %6 = stablehlo.reshape %5 : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  %7 = stablehlo.add %6, %1 : (tensor<?x8xf32>, tensor<5x8xf32>) -> tensor<?x8xf32>
  return %7 : tensor<?x8xf32>
}
"""


def lowered(module: Module) -> Module:
    return partition(optimize(materialize(propagate(module))))


def codes(error: pytest.ExceptionInfo[MeshgenError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_unknown_dims_are_parsed_and_all_reported() -> None:
    module = parse_text(DOT, "dot.mlir")
    assert module.graph.inputs[0].type.shape == (None, None) and parse_text(print_text(module)).graph.inputs[0].type == module.graph.inputs[0].type  # fmt: skip
    with pytest.raises(ProgramError) as error:
        propagate(module)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0208" and "dims 0, 1" in fault.message and "--shape x=8x8" in fault.hint
    assert fault.loc is not None and fault.loc.line == 3


def test_input_shapes_determine_all_other_shapes() -> None:
    module = with_shapes(parse_text(DOT), {"x": (5, 6)})
    assert [node.result.type.shape for node in module.graph.nodes] == [
        (5, 8), (8,), (5, 8), (5, 8), (5, 2, 4), (5, 2, 4), (5, 2, 4), (5, 8), (5, 8),
    ][: len(module.graph.nodes)]  # fmt: skip
    assert all(None not in value.type.shape for value in module.graph.values())
    assert check(module, pipeline=lowered).ok


@pytest.mark.parametrize(
    "shapes, code, text",
    [
        ({"z": (5, 6)}, "MG0001", "unknown input 'z'"),
        ({"w": (6, 9)}, "MG0001", "not f32[6,9]"),
        ({"x": (5, 6, 1)}, "MG0001", "not f32[5,6,1]"),
        ({"x": (5, 7)}, "MG0104", "dot_general"),
        ({"x": (4, 6)}, "MG0104", "add"),
    ],
)
def test_contradicting_shapes_are_rejected(shapes: dict[str, tuple[int, ...]], code: str, text: str) -> None:
    with pytest.raises(MeshgenError) as error:
        with_shapes(parse_text(DOT), shapes)
    assert code in codes(error) and text in str(error.value)


def test_constant_of_computed_shape_must_have_matching_size() -> None:
    """A constant of six elements becomes two rows of n, which is only valid for n = 3."""
    module = parse_text("""
    func.func @main(%x: tensor<?xi32>) -> tensor<2x?xi32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
      %one = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %shape = stablehlo.concatenate %two, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %six = stablehlo.constant dense<7> : tensor<6xi32>
      %y = stablehlo.dynamic_reshape %six, %shape : (tensor<6xi32>, tensor<2xi32>) -> tensor<2x?xi32>
      func.return %y : tensor<2x?xi32>
    }
    """)
    assert with_shapes(module, {"x": (3,)}).graph.outputs[0].type.shape == (2, 3)
    with pytest.raises(ProgramError) as error:
        with_shapes(module, {"x": (4,)})
    assert codes(error) == ["MG0104"] and "8" in str(error.value)


def test_undetermined_size_is_rejected() -> None:
    text = DOT.replace("tensor<?x8xf32>\n  %c", "tensor<?x8xf32>\n  %i = stablehlo.iota dim = 0 : tensor<?xf32>\n  %c")
    with pytest.raises(ProgramError) as error:
        with_shapes(parse_text(text), {"x": (5, 6)})
    assert codes(error) == ["MG0208"] and "iota" in str(error.value)


def test_sizes_inside_loops_are_inferred() -> None:
    text = """
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<?x4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %k : tensor<i32>
      %z = stablehlo.tanh %y : tensor<?x4xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<?x4xf32>
    }
  return %0#1 : tensor<?x4xf32>
}
"""
    module = with_shapes(parse_text(text), {"x": (6, 4)})
    assert module.graph.outputs[0].type.shape == (6, 4)
    (loop,) = (node for node in module.graph.nodes if node.op == "while")
    assert loop.regions[1].outputs[1].type.shape == (6, 4)
    module = replace(module, mesh=Mesh(make_mesh({"x": 2}).axes))
    assert check(module, pipeline=lowered).ok


GENERATED = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<?xf32>) -> (tensor<?x4xi32>, tensor<?xi32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %c0 = arith.constant 0 : index
  %seven = arith.constant 7 : i32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    %k = arith.muli %i, %j : index
    %v = arith.index_cast %k : index to i32
    tensor.yield %v : i32
  } : tensor<?x4xi32>
  %one = tensor.generate %n {
  ^bb0(%i: index):
    tensor.yield %seven : i32
  } : tensor<?xi32>
  %rs = shard.shard %r to %s : tensor<?x4xi32>
  return %rs, %one : tensor<?x4xi32>, tensor<?xi32>
}"""


def test_tensor_generate_supports_open_sizes() -> None:
    products, sevens = mg.compile(GENERATED, target="cpu", args={"x": (5,)})(np.zeros(5, np.float32))
    np.testing.assert_array_equal(products, np.outer(np.arange(5), np.arange(4)))
    np.testing.assert_array_equal(sevens, np.full(5, 7))
    with pytest.raises(ProgramError, match="0 sizes for the dynamic dims"):
        parse_text(GENERATED.replace("generate %n", "generate"))


def test_shapes_are_accepted_from_python_and_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in ({"x": (5, 6)}, {"x": "f32[5,6]"}, ["f32[5,6]"], [(5, 6), None]):
        assert mg.lower(DOT, stage="partition", args=args).out_types[0].shape == (5, 8)
    with pytest.raises(UsageError, match="takes 2"):
        mg.lower(DOT, stage="partition", args=[None] * 3)
    file = tmp_path / "dot.mlir"
    file.write_text(DOT)
    assert main(["explain", str(file)]) == 1 and "MG0208" in capsys.readouterr().err
    assert main(["check", str(file), "--shape", "x=5x6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"]["outputs"][0]["shape"] == [5, 8]
    assert main(["check", str(file), "--shape", "x=5xb"]) == 2 and "MG0001" in capsys.readouterr().err


HEAD = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n'
BOTH = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}'
OPEN: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "sums and products": (f"""{HEAD}func.func @main(%x: tensor<?x?xf32> {BOTH}, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>) {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = stablehlo.pad %0, %z, low = [1, 0], high = [0, 2], interior = [0, 0] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?x?xf32>
  %2 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
  %4 = stablehlo.add %3, %b : tensor<?xf32>
  %5 = stablehlo.reverse %2, dims = [1] : tensor<?x?xf32>
  %6 = stablehlo.reshape %5 : (tensor<?x?xf32>) -> tensor<?xf32>
  %7 = stablehlo.tanh %6 : tensor<?xf32>
  return %4, %1, %7 : tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>
}}""", {"x": (5, 7), "b": (7,)}),
    "batches": (f"""{HEAD}func.func @main(%x: tensor<?x?x?xf32>, %w: tensor<?x?x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}, {{"y"}}]>}}) -> tensor<?x?x4xf32> {{
  %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<?x?x?xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  return %0 : tensor<?x?x4xf32>
}}""", {"x": (3, 5, 7), "w": (3, 7, 4)}),
    "branches": (f"""{HEAD}func.func @main(%p: tensor<i1>, %x: tensor<?x8xf32> {BOTH}) -> tensor<?x2xf32> {{
  %r = "stablehlo.if"(%p) ({{
    %a = stablehlo.tanh %x : tensor<?x8xf32>
    stablehlo.return %a : tensor<?x8xf32>
  }}, {{
    %b = stablehlo.negate %x : tensor<?x8xf32>
    stablehlo.return %b : tensor<?x8xf32>
  }}) : (tensor<i1>) -> tensor<?x8xf32>
  %0 = stablehlo.reshape %r : (tensor<?x8xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}}""", {"x": (5, 8)}),
}  # fmt: skip


@pytest.mark.parametrize("arguments", ["local", "global"])
@pytest.mark.parametrize("sizes", [(1, 2), (2, 3), (3, 1), (7, 1), (1, 7)], ids=str)
@pytest.mark.parametrize("name", OPEN)
def test_open_dims_work_on_any_mesh_in_both_argument_modes(name: str, sizes: tuple[int, int], arguments: str) -> None:
    """Programs have several open dims, and sums and products of these, with uneven and empty tiles."""
    text, shapes = OPEN[name]
    module = replace(with_shapes(parse_text(text), shapes), mesh=make_mesh({"x": sizes[0], "y": sizes[1]}))
    result = check(module, pipeline=lambda sized_module: mg.lower(sized_module, stage="partition", arguments=arguments))
    assert result.ok and not any(output.unbounded for output in result.outputs), result.faults


def test_bitcast_convert_keeps_open_dims() -> None:
    """The bytes of an element form a new last dim. The other dims are those of the operand."""
    text = "func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3x4xi8> {\n  %a = stablehlo.bitcast_convert %x : (tensor<?x3xf32>) -> tensor<?x3x4xi8>\n  return %a : tensor<?x3x4xi8>\n}\n"
    for shapes, rows in (({"x": (5, 3)}, 5), ({"x": (0, None)}, 0)):
        assert with_shapes(parse_text(text), shapes).graph.outputs[0].type.shape == (rows, 3, 4)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_option_on_open_rows_supports_few_and_no_rows(rows: int) -> None:
    text = """
shard.grid @g(shape = 4)
func.func @f(%x: tensor<?x1xf32>, %y: tensor<?x1xf32>) -> tensor<?x1xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %ys = shard.shard %y to %s annotate_for_users {required = false} : tensor<?x1xf32>
  %a = stablehlo.divide %x, %ys {sharding = [[0], []]} : tensor<?x1xf32>
  return %a : tensor<?x1xf32>
}
"""
    module = with_shapes(parse_text(text), {"x": (rows, 1), "y": (rows, 1)})
    assert check(module, pipeline=lowered).ok


@pytest.mark.parametrize(
    ("line", "is_open"),
    [
        ("%1 = stablehlo.tanh %x : (tensor<6xf32>) -> tensor<?xf32>", True),
        ("%1 = stablehlo.tanh %x : tensor<6xf32>", False),
    ],
    ids=["unknown", "known"],
)
def test_results_may_be_open_although_inputs_are_not(line: str, is_open: bool) -> None:
    kind = line.rpartition(" ")[2]
    text = f"""func.func @main(%x: tensor<6xf32>) -> {kind} {{
  {line}
  return %1 : {kind}
}}"""
    assert has_open_results(parse_text(text)) is is_open
    assert not has_open_results(parse_text(DOT))
