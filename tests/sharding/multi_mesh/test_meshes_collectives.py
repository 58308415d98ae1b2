"""Collectives on a mesh other than the first: in manual computations, and in programs with sharded types."""

from __future__ import annotations

import pytest

from meshgen.errors import MeshgenError
from meshgen.mlir.text import parse_text
from tests.sharding.multi_mesh.meshes_programs import assert_text_round_trips, ops, stages_of

ALL_MANUAL = """
sdy.mesh @a = <["x"=2]>
sdy.mesh @b = <["y"=4]>
func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {}]>}) -> tensor<8x4xf32> {
  %h = stablehlo.tanh %x : tensor<8x4xf32>
  %r = sdy.manual_computation(%h) in_shardings=[<@b, [{"y"}, {}]>] out_shardings=[<@b, [{"y"}, {}]>] manual_axes={"y"} (%t: tensor<2x4xf32>) {
    %s = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %z = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %u = stablehlo.add %s, %t : tensor<2x4xf32>
    sdy.return %u : tensor<2x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
"""

OPEN = """
sdy.mesh @a = <["x"=2]>
sdy.mesh @b = <["y"=2, "z"=3]>
func.func @main(%x: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {}]>}, %w: tensor<6x6xf32>) -> tensor<8x6xf32> {
  %h = stablehlo.tanh %x : tensor<8x6xf32>
  %r = sdy.manual_computation(%h) in_shardings=[<@b, [{"y", ?}, {?}]>] out_shardings=[<@b, [{"y", ?}, {?}]>] manual_axes={"y"} (%t: tensor<4x6xf32>) {
    %d = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
    %c = sdy.sharding_constraint %d <@b, [{}, {"z"}]> : tensor<4x6xf32>
    %s = "stablehlo.collective_permute"(%c) <{source_target_pairs = dense<[[0,3],[1,4],[2,5],[3,0],[4,1],[5,2]]> : tensor<6x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    sdy.return %s : tensor<4x6xf32>
  } : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %q = sdy.manual_computation(%r) in_shardings=[<@a, [{"x"}, {}]>] out_shardings=[<@a, [{"x"}, {}]>] manual_axes={"x"} (%t: tensor<4x6xf32>) {
    %u = stablehlo.exponential %t : tensor<4x6xf32>
    sdy.return %u : tensor<4x6xf32>
  } : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %q : tensor<8x6xf32>
}
"""

NESTED = """
sdy.mesh @a = <["x"=2]>
sdy.mesh @b = <["y"=2, "z"=3]>
func.func @main(%x: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {}]>}) -> tensor<8x6xf32> {
  %h = stablehlo.tanh %x : tensor<8x6xf32>
  %r = sdy.manual_computation(%h) in_shardings=[<@b, [{"y"}, {}]>] out_shardings=[<@b, [{"y"}, {}]>] manual_axes={"y"} (%t: tensor<4x6xf32>) {
    %n = sdy.manual_computation(%t) in_shardings=[<@b, [{}, {"z"}]>] out_shardings=[<@b, [{}, {"z"}]>] manual_axes={"z"} (%u: tensor<4x2xf32>) {
      %s = "stablehlo.all_gather"(%u) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0,1,2],[3,4,5]]> : tensor<2x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4x2xf32>) -> tensor<4x6xf32>
      %v = stablehlo.slice %s [0:4, 1:3] : (tensor<4x6xf32>) -> tensor<4x2xf32>
      sdy.return %v : tensor<4x2xf32>
    } : (tensor<4x6xf32>) -> tensor<4x6xf32>
    sdy.return %n : tensor<4x6xf32>
  } : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %r : tensor<8x6xf32>
}
"""

ROTATED = """
mesh.cluster @m0(rank = 1, dim_sizes = [2])
mesh.cluster @m1(rank = 2, dim_sizes = [2, 3])
func.func @main(%0: tensor<12x4xf32, #mesh.shard<@m0, [[0]]>>) -> tensor<12x4xf32, #mesh.shard<@m1, [[1]]>> {
  %1 = mesh.collective_permute %0 : tensor<12x4xf32, #mesh.shard<@m0, [[0]]>> -> tensor<12x4xf32, #mesh.shard<@m1, [[1]]>>
  %2 = mesh.collective_permute %1 {mesh_axis=1} : tensor<12x4xf32, #mesh.shard<@m1, [[1]]>> -> tensor<12x4xf32, #mesh.shard<@m1, [[1]]>>
  return %2 : tensor<12x4xf32, #mesh.shard<@m1, [[1]]>>
}
"""

TYPED = """
shard.grid @a(shape = 2) {axis_names = ["x"]}
shard.grid @b(shape = 2x2) {axis_names = ["y", "z"]}
func.func @main(%x: tensor<8x4xf32, #meshgen.split<@a, [["x"], []]>>) -> tensor<8x4xf32, #meshgen.split<@b, [[], []]>> {
  %h = stablehlo.tanh %x : tensor<8x4xf32, #meshgen.split<@a, [["x"], []]>>
  %g = meshgen.permute %h on @b : tensor<8x4xf32, #meshgen.split<@a, [["x"], []]>> -> tensor<8x4xf32, #meshgen.split<@b, [["z"], []]>>
  %k = stablehlo.exponential %g : tensor<8x4xf32, #meshgen.split<@b, [["z"], []]>>
  %w = shard.all_gather %k on @b grid_axes = [1] gather_axis = 0 : tensor<8x4xf32, #meshgen.split<@b, [["z"], []]>> -> tensor<8x4xf32, #meshgen.split<@b, [[], []]>>
  return %w : tensor<8x4xf32, #meshgen.split<@b, [[], []]>>
}
"""

TILES = """
shard.grid @a(shape = 2) {axis_names = ["x"]}
shard.grid @b(shape = 2x2) {axis_names = ["y", "z"]}
func.func @main(%x: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %w = shard.all_gather %x on @b grid_axes = [1] gather_axis = 0 : tensor<4x4xf32> -> tensor<8x4xf32>
  return %w : tensor<8x4xf32>
}
"""


@pytest.mark.parametrize(
    "text", [ALL_MANUAL, OPEN, NESTED, ROTATED, TYPED], ids=["whole", "open", "nested", "rotated", "typed"]
)
def test_collectives_on_second_mesh_parse_back_at_every_stage(text: str) -> None:
    module = parse_text(text)
    assert_text_round_trips(module)
    partitioned = stages_of(module, "partition")["partition"]
    moves = {"all_reduce", "all_gather", "shift", "permute_pairs"}
    assert moves & {*ops(partitioned, 1)}


def test_local_program_is_assigned_to_the_grid_of_its_collectives() -> None:
    module = parse_text(TILES)
    assert module.stage == "partition" and module.mesh.name == "b" and not module.meshes
    assert_text_round_trips(module)


def test_local_program_with_collectives_on_two_grids_is_rejected() -> None:
    both = TILES.replace(
        "return %w", "%v = shard.all_reduce %w on @a grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>\n  return %v"
    )
    with pytest.raises(MeshgenError) as error:
        parse_text(both)
    fault = error.value.diagnostics[0]
    assert fault.code == "MG0209" and fault.loc and fault.loc.line == 5 and "over @b" in fault.message


def test_collective_on_other_grid_than_its_types_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="the values around it are on @b") as error:
        parse_text(TYPED.replace("shard.all_gather %k on @b", "shard.all_gather %k on @a"))
    assert "MG0209" in {fault.code for fault in error.value.diagnostics}


def test_manual_computation_on_two_meshes_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="names @b and @a") as error:
        parse_text(ALL_MANUAL.replace('out_shardings=[<@b, [{"y"}, {}]>]', "out_shardings=[<@a, [{}, {}]>]"))
    assert error.value.diagnostics[0].code == "MG0209"
    with pytest.raises(MeshgenError, match="manual axis 'x' is not in"):
        parse_text(ALL_MANUAL.replace('manual_axes={"y"}', 'manual_axes={"x"}'))
