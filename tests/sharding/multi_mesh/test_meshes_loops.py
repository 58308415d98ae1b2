"""Loops whose bodies span several meshes."""

from __future__ import annotations

import pytest

from meshgen.errors import ShardingError
from tests.sharding.multi_mesh.meshes_programs import (
    assert_correct_at_all_stages,
    on_main,
    ops,
    stages_of,
)

LOOP = """
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %i0, %v = %x) : tensor<i32>, tensor<10x7xf32>
   cond {
    %c = stablehlo.compare LT, %i, LIMIT : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
   } do {
    %s0 = shard.sharding @a split_axes = [[0], []] : !shard.sharding
    %v0 = shard.shard %v to %s0 : tensor<10x7xf32>
    %t = stablehlo.tanh %v0 : tensor<10x7xf32>
    %s1 = shard.sharding @b split_axes = [[0], []] : !shard.sharding
    %v1 = shard.shard %t to %s1 : tensor<10x7xf32>
    %u = stablehlo.exponential %v1 : tensor<10x7xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %u : tensor<i32>, tensor<10x7xf32>
   }
  return %r#1 : tensor<10x7xf32>"""


def test_counted_loop_over_meshes_is_unrolled() -> None:
    stages = assert_correct_at_all_stages(on_main(LOOP.replace("LIMIT", "%n")))
    assert ops(stages["propagate"], 0).count("transfer_send") == 3
    assert ops(stages["propagate"], 1).count("transfer_recv") == 3


def test_loop_over_meshes_with_unknown_trip_count_is_rejected() -> None:
    module = on_main(LOOP.replace("LIMIT", "%m"), "%x: tensor<10x7xf32>, %m: tensor<i32>")
    with pytest.raises(ShardingError) as error:
        stages_of(module)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0209" and fault.loc is not None and fault.loc.line == 8 and "@a and @b" in fault.message
