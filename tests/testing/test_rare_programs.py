"""Tests of shrunk random programs that once failed, for instance with dims of size 0 or values next to a pole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.mlir.text import parse_text
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.pipeline import Options, Timing, context_of, make_schedule, run_stages
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check
from meshgen.testing.random_programs import find_fault

MESH = 'shard.grid @mesh(shape = 2) {axis_names = ["x"]}\n'
WINDOW = "window = {stride = [2], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [2], reverse = [false]}"
PROGRAMS = {
    "a slice of joined tensors without rows": """
      func.func @f(%a: tensor<0x5xui8>) -> tensor<0x1xui8> {
        %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<0x5xui8>, tensor<0x5xui8>) -> tensor<0x5xui8>
        %1 = stablehlo.slice %0 [0:0, 4:5] : (tensor<0x5xui8>) -> tensor<0x1xui8>
        func.return %1 : tensor<0x1xui8>
      }""",
    "the largest of no rows": """
      func.func @f(%a: tensor<0x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<0x4xi32>, tensor<0x4xi32>) {
        %0, %1 = chlo.top_k(%a, k = 4) : tensor<0x4xi32> -> (tensor<0x4xi32>, tensor<0x4xi32>)
        func.return %0, %1 : tensor<0x4xi32>, tensor<0x4xi32>
      }""",
    "a convolution to no rows": f"""
      func.func @f(%a: tensor<1x1x1xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}, {{}}]>}}, %k: tensor<3x1x3xf32>) -> tensor<0x3x1xf32> {{
        %0 = stablehlo.convolution(%a, %k) dim_numbers = [0, f, b]x[o, i, 0]->[0, f, b], {WINDOW}
          {{feature_group_count = 1 : i64, batch_group_count = 1 : i64}} : (tensor<1x1x1xf32>, tensor<3x1x3xf32>) -> tensor<0x3x1xf32>
        func.return %0 : tensor<0x3x1xf32>
      }}""",
    "a sum that is read at other places than it is made at": """
      func.func @f(%a: tensor<2x12x1xi32>, %z: tensor<i32>) -> tensor<4x6x2xi32> {
        %0 = stablehlo.reduce(%a init: %z) applies stablehlo.xor across dimensions = [2] : (tensor<2x12x1xi32>, tensor<i32>) -> tensor<2x12xi32>
        %1 = stablehlo.reshape %0 : (tensor<2x12xi32>) -> tensor<2x6x2xi32>
        %2 = sdy.manual_computation(%1, %1) in_shardings=[<@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}]>] out_shardings=[<@mesh, [{"x"}, {}, {}]>] manual_axes={"x"} (%t: tensor<2x6x2xi32>, %u: tensor<2x6x2xi32>) {
          %3 = stablehlo.xor %u, %t : tensor<2x6x2xi32>
          sdy.return %3 : tensor<2x6x2xi32>
        } : (tensor<2x6x2xi32>, tensor<2x6x2xi32>) -> tensor<4x6x2xi32>
        func.return %2 : tensor<4x6x2xi32>
      }""",
    "an option that alone names its mesh": """
      shard.grid @other(shape = 3) {axis_names = ["y"]}
      func.func @f(%a: tensor<4x6xf32>) -> (tensor<4x6xf32> {meshgen.sharding = #meshgen.annotation<@mesh, [["x"], []]>}) {
        %0 = stablehlo.tanh %a {sharding = [[], ["y"]]} : tensor<4x6xf32>
        %1 = stablehlo.negate %0 : tensor<4x6xf32>
        func.return %1 : tensor<4x6xf32>
      }""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_rare_program_passes_check_and_compiles(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(MESH + PROGRAMS[name])
    assert main(["check", str(path)]) == 0, capsys.readouterr()
    assert main(["compile", str(path), "--target", "cpu", "-o", str(tmp_path / "p.mgx")]) == 0, capsys.readouterr()


def test_sum_read_through_reshape_has_kernel() -> None:
    executable = api.plan(MESH + PROGRAMS["a sum that is read at other places than it is made at"], target="cuda:sm_90")
    assert executable.sources and not executable.without_code


@pytest.mark.parametrize(
    ("tail", "holds"), [(-8.0, True), (-4.03125, False), (-4.09375, False)], ids=["far", "just above", "just below"]
)
def test_error_bound_is_infinite_next_to_pole(tail: float, holds: bool) -> None:
    """Rounding errors of 8.0625 + tail - 4 in bf16 may be as large as the sum, so its logarithm may be infinite or NaN."""
    module = parse_text(
        MESH
        + """func.func @f(%a: tensor<3xbf16>) -> tensor<bf16> {
        %z = stablehlo.constant dense<0.0> : tensor<bf16>
        %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xbf16>, tensor<bf16>) -> tensor<bf16>
        %1 = stablehlo.abs %0 : tensor<bf16>
        %2 = stablehlo.log %1 : tensor<bf16>
        func.return %2 : tensor<bf16>
      }"""
    )
    graph = module.graph
    operand = np.array([8.0625, tail, -4.0]).astype(graph.inputs[0].type.numpy_dtype)
    (bound,) = error_bound(graph, [operand])
    assert np.isfinite(bound).all() == holds


_SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}'
WRAPPING = {
    "a dot": """%r = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<3x64xi8>, tensor<64x1xi8>) -> tensor<3x1xi32>""",
    "a convolution": """%i = stablehlo.reshape %h : (tensor<3x64xi8>) -> tensor<3x1x64xi8>
        %k = stablehlo.reshape %w : (tensor<64x1xi8>) -> tensor<1x1x64xi8>
        %c = stablehlo.convolution(%i, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
          window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}
          {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<3x1x64xi8>, tensor<1x1x64xi8>) -> tensor<3x1x1xi32>
        %r = stablehlo.reshape %c : (tensor<3x1x1xi32>) -> tensor<3x1xi32>""",
}


@pytest.mark.parametrize("use", WRAPPING)
def test_wrapping_sum_is_reduced_before_wider_use(use: str) -> None:
    """If the i8 sum stayed partial, its use in i32 would add summands that have not wrapped."""
    module = parse_text(MESH + f"""func.func @f(%a: tensor<3x8xi8> {_SPLIT}, %b: tensor<8x64xi8>, %w: tensor<64x1xi8>) -> tensor<3x1xi32> {{
        %h = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x8xi8>, tensor<8x64xi8>) -> tensor<3x64xi8>
        {WRAPPING[use]}
        func.return %r : tensor<3x1xi32>
      }}""")  # fmt: skip
    args = [np.full(value.type.sizes, 100, np.int8) for value in module.graph.inputs]
    assert check(
        module,
        pipeline=lambda entered: run_stages(entered, Options("cpu", "local"), Timing(), "fuse")["fuse"],
        args=args,
    ).ok


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("f32", -0.0), ("bf16", -0.0), ("f32", 0.0), ("f8E8M0FNU", 0.25), ("f8E4M3FNUZ", 0.0), ("i1", 1)],
    ids=str,
)
def test_rows_of_one_device_reach_others_bitwise(dtype: str, number: float) -> None:
    """The summands of other devices must be neutral in every bit: 0.0 + -0.0 is 0.0, and scale dtypes have no zero."""
    index_types = "tensor<i32>, tensor<i32>"
    module = parse_text(MESH + f"""func.func @f(%a: tensor<8x3x{dtype}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %i: tensor<i32>, %z: tensor<i32>) -> tensor<1x3x{dtype}> {{
        %r = stablehlo.dynamic_slice %a, %i, %z, sizes = [1, 3] : (tensor<8x3x{dtype}>, {index_types}) -> tensor<1x3x{dtype}>
        func.return %r : tensor<1x3x{dtype}>
      }}""")  # fmt: skip
    fused = run_stages(module, Options("cpu", "local"), Timing(), "fuse")["fuse"]
    rows = np.full((8, 3), number).astype(module.graph.inputs[0].type.numpy_dtype)
    (result,) = simulate(fused, [rows, np.int32(5), np.int32(0)])
    assert result.tobytes() == rows[:1].tobytes()


def test_unused_recv_keeps_its_order() -> None:
    """Sends and receives are matched in order, so the first receive may not be delayed."""
    local, rows = (
        "tensor<1x1xi32>",
        '{meshgen.layout = #meshgen.split<@mesh, [["x"], []]>, meshgen.global = tensor<2x1xi32>}',
    )
    text = f"""builtin.module attributes {{meshgen.stage = "partition"}} {{
  shard.grid @mesh(shape = 2) {{axis_names = ["x"]}}
  func.func public @main(%a: {local} {rows}, %p: tensor<i1> {{meshgen.layout = #meshgen.split<@mesh, []>, meshgen.global = tensor<i1>}}) -> ({local} {rows}) {{
    %b = shard.send %a on @mesh grid_axes = [0] destination = [0] : ({local}) -> {local}
    %c = shard.recv %b on @mesh grid_axes = [0] source = [1] : ({local}) -> {local}
    %d = shard.send %b on @mesh grid_axes = [0] destination = [1] : ({local}) -> {local}
    %e = shard.recv %d on @mesh grid_axes = [0] source = [1] : ({local}) -> {local}
    %f = shard.shift %e on @mesh grid_axes = [0] shift_axis = 0 offset = 1 : {local} -> {local}
    %g = stablehlo.select %p, %e, %f : tensor<i1>, {local}
    func.return %g : {local}
  }}
}}"""
    module = parse_text(text)
    options = Options("cpu", "local")
    fused = run_stages(module, options, Timing(), "fuse")["fuse"]
    messages = [item.op for item in make_schedule(fused, context_of(options)).items if item.op in ("send", "recv")]
    assert messages == ["send", "recv", "send", "recv"]
    assert find_fault(module, options) is None


def test_reshape_chooses_nested_sub_axes(tmp_path: Path) -> None:
    """8 x 6 becomes 24 x 2, sharded by an axis of size 6. One dim would split the axis at 2 and another at 3, and these
    sub-axes do not nest.
    """
    path = tmp_path / "p.mlir"
    path.write_text("""shard.grid @mesh(shape = 6) {axis_names = ["x"]}
      func.func @f(%a: tensor<8x6xf32>) -> (tensor<24x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
        %0 = stablehlo.reshape %a : (tensor<8x6xf32>) -> tensor<24x2xf32>
        func.return %0 : tensor<24x2xf32>
      }""")
    assert main(["check", str(path)]) == 0


@pytest.mark.parametrize("arguments", ["local", "global"])
def test_alternating_partial_kinds_are_initialized_outside_in(arguments: str, tmp_path: Path) -> None:
    """For partial kinds xor, and, xor, the inner reduction must yield the neutral element of the outer one."""
    path = tmp_path / "p.mlir"
    path.write_text("""shard.grid @mesh(shape = 2x2x2) {axis_names = ["x", "y", "z"]}
      func.func @f(%a: tensor<5xi32> {meshgen.sharding = #meshgen.annotation<@mesh, [[]] partial = xor["x"] and["y"] xor["z"]>}) -> tensor<5xi32> {
        %0 = stablehlo.multiply %a, %a : tensor<5xi32>
        func.return %0 : tensor<5xi32>
      }""")
    assert main(["check", str(path), "--arguments", arguments]) == 0
