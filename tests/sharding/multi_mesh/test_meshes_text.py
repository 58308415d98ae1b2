"""Text of programs on several meshes: dialects, every stage, and programs that are already split into meshes."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import MeshgenError, ProgramError
from meshgen.mlir.text import parse_text
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check
from tests.sharding.multi_mesh.meshes_programs import (
    annotate_on_grid,
    assert_correct_at_all_stages,
    assert_text_round_trips,
    on_main,
    ops,
    stages_of,
    traced,
)


def test_sdy_and_mesh_dialects_declare_several_meshes() -> None:
    sdy = (
        'sdy.mesh @a = <["x"=2, "y"=2]>\nsdy.mesh @b = <["x"=3]>\nsdy.mesh @unused = <["z"=2]>\n'
        'func.func @main(%x: tensor<10x7xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {}]>}) '
        '-> (tensor<10x7xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}, {}]>}) {\n'
        "  %h = stablehlo.tanh %x : tensor<10x7xf32>\n  return %h : tensor<10x7xf32>\n}\n"
    )
    module = parse_text(sdy)
    assert [mesh.name for mesh in module.meshes] == ["a", "b"]
    assert_correct_at_all_stages(module)
    text = (
        "mesh.cluster @m0(rank = 1, dim_sizes = [2])\nmesh.cluster @m1(rank = 1, dim_sizes = [2])\n"
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes { mesh_cluster = @m0 } {\n"
        "  %0 = mesh.annotate %x {sharding = [[0]], required = true, as_result = true} : tensor<8xf32> -> tensor<8xf32>\n"
        "  %1 = mesh.annotate %0 {#mesh.shard<@m1, [[0]]>, required = true, as_result = true} : tensor<8xf32> -> tensor<8xf32>\n"
        "  return %1 : tensor<8xf32>\n}\n"
    )
    stages = assert_correct_at_all_stages(parse_text(text))
    assert ops(stages["propagate"], 0) == ["annotate", "transfer_send"]


def test_program_is_assigned_to_the_one_mesh_it_uses() -> None:
    module = on_main(annotate_on_grid("y", "x", "b") + "  return %y : tensor<10x7xf32>")
    assert module.mesh.name == "b" and not module.meshes
    assert not stages_of(module)["fuse"].parts


def test_every_stage_on_several_meshes_round_trips_through_text() -> None:
    assert_text_round_trips(traced())


SPMD = """
builtin.module {
  builtin.module @a {
    shard.grid @a(shape = 2)
    shard.grid @b(shape = 3)
    func.func @main(%x: tensor<3x4xf32>) {
      %y = stablehlo.tanh %x : tensor<3x4xf32>
      %t = meshgen.transfer_send %y to @b channel = 0 {shape = array<i64: 6, 4>, source = #meshgen.split<@a, [[0], []]>, target = #meshgen.split<@b, [[0], []]>} : tensor<3x4xf32> -> tensor<i1>
      return
    }
  }
  builtin.module @b {
    shard.grid @b(shape = 3)
    shard.grid @a(shape = 2)
    func.func @main() -> tensor<2x4xf32> {
      %y, %t = meshgen.transfer_recv from @a channel = 0 {shape = array<i64: 6, 4>, source = #meshgen.split<@a, [[0], []]>, target = #meshgen.split<@b, [[0], []]>} -> tensor<2x4xf32>, tensor<i1>
      %z = stablehlo.exponential %y : tensor<2x4xf32>
      return %z : tensor<2x4xf32>
    }
  }
}
"""


def test_local_programs_with_transfers_are_parsed_and_run() -> None:
    module = parse_text(SPMD)
    assert module.stage == "partition"
    fused = stages_of(module)["fuse"]
    assert check(module, pipeline=lambda _: fused).ok
    x = np.random.default_rng(1).standard_normal((6, 4)).astype("f4")
    np.testing.assert_allclose(simulate(fused, [x])[0], np.exp(np.tanh(x)), rtol=1e-6)


@pytest.mark.parametrize(
    "old, new, code, text",
    [
        ("from @a channel = 0", "from @a channel = 1", "MG0104", "has no"),
        ("array<i64: 6, 4>, source = #meshgen.split<@a, [[0], []]>, target = #meshgen.split<@b, [[0], []]>} ->",
         "array<i64: 6, 4>, source = #meshgen.split<@a, [[], []]>, target = #meshgen.split<@b, [[0], []]>} ->", "MG0104", "source"),
        ("builtin.module @b {\n    shard.grid @b(shape = 3)\n    shard.grid @a(shape = 2)",
         "builtin.module @b {\n    shard.grid @a(shape = 2)\n    shard.grid @b(shape = 3)", "MG0209", "one program"),
        ("to @b", "to @c", "MG0201", "unknown grid '@c'"),
        (", source = #meshgen.split<@a, [[0], []]>, target = #meshgen.split<@b, [[0], []]>} ->", "} ->", "MG0104", "transfer_recv needs its layouts"),
        (", target = #meshgen.split<@b, [[0], []]>} :", "} :", "MG0104", "transfer_send needs its layouts"),
    ],
)  # fmt: skip
def test_inconsistent_programs_of_meshes_are_rejected(old: str, new: str, code: str, text: str) -> None:
    assert old in SPMD
    with pytest.raises(MeshgenError) as error:
        parse_text(SPMD.replace(old, new, 1))
    assert code in {fault.code for fault in error.value.diagnostics} and text in str(error.value)


def test_collective_permute_to_other_mesh_becomes_transfer() -> None:
    text = (
        "mesh.cluster @mesh0(rank = 1, dim_sizes = [2])\nmesh.cluster @mesh1(rank = 1, dim_sizes = [2])\n"
        "func.func @main(%0: tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>) -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>> {\n"
        "  %1 = mesh.collective_permute %0 : tensor<4xf32, #mesh.shard<@mesh0, [[0]]>> -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>\n"
        "  return %1 : tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>\n}\n"
    )
    module = parse_text(text)
    assert module.stage == "materialize"
    stages = assert_correct_at_all_stages(module)
    assert [ops(stages["partition"], part) for part in (0, 1)] == [["transfer_send"], ["transfer_recv"]]


def test_split_program_without_input_indices_uses_order() -> None:
    module = parse_text(SPMD)
    assert [part.in_numbers for part in module.parts] == [(0,), ()]
    with pytest.raises(ProgramError, match="each must occur once"):
        parse_text(SPMD.replace("builtin.module @b {", 'builtin.module @b attributes {meshgen.out_numbers = "[3]"} {'))
