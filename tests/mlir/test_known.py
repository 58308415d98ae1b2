"""Tests of integer folding: halo sizes and offsets from constants and arithmetic in the program."""

from __future__ import annotations

import pytest

from meshgen.errors import MeshgenError
from meshgen.mlir.text import parse_text
from meshgen.spec import Sharding

PROGRAM = """shard.grid @g(shape = 4)
func.func @main(%x: tensor<16x6xf32>, %k: i64) -> tensor<16x6xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : i64
  %c2 = arith.addi %c1, %c1 : i64
  %c5 = arith.constant 5 : i64
  %c3 = arith.ceildivsi %c5, %c2 : i64
  %n = tensor.dim %x, %c0 : tensor<16x6xf32>
  %n64 = arith.index_cast %n : index to i64
  %zero = arith.constant 0 : i64
  %q = arith.divsi %n64, %zero : i64
  %s = shard.sharding @g split_axes = [[0]] {tail} : !shard.sharding
  %y = shard.shard %x to %s : tensor<16x6xf32>
  return %y : tensor<16x6xf32>
}}
"""


def sharding(tail: str) -> Sharding:
    module = parse_text(PROGRAM.format(tail=tail))
    node = next(node for node in module.graph.nodes if node.op == "annotate")
    return node.attrs.sharding


def test_sharding_offsets_are_folded_through_arithmetic() -> None:
    assert sharding("sharded_dims_offsets = [0, %c2, %c3, 9, %n64]").offsets == ((0, 2, 3, 9, 16), ())


def test_halo_sizes_are_folded_through_arithmetic() -> None:
    assert sharding("halo_sizes = [%c1, %c3]").halo == ((1, 3), (0, 0))


@pytest.mark.parametrize(("value", "attribute"), [("%k", "halo size"), ("%q", "halo size")])
def test_halo_size_unknown_at_compile_time_is_refused(value: str, attribute: str) -> None:
    with pytest.raises(MeshgenError, match=f":12: error MG0103: {attribute} is not known at compile time"):
        sharding(f"halo_sizes = [{value}, 1]")
