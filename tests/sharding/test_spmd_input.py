"""Per-device programs with explicit collectives are optimized as well, and keep their results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.mlir.text import parse_text, print_text

HEAD = "shard.grid @g(shape = 4)\nfunc.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {\n"
TWO_SUMS = """  %a = shard.all_reduce %x on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  %b = shard.all_reduce %y on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  %c = arith.addf %a, %b : tensor<8xf32>
  return %c : tensor<8xf32>
}
"""
THERE_AND_BACK = """  %a = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<8xf32> -> tensor<32xf32>
  %b = shard.all_slice %a on @g grid_axes = [0] slice_axis = 0 : tensor<32xf32> -> tensor<8xf32>
  %c = arith.addf %b, %y : tensor<8xf32>
  return %c : tensor<8xf32>
}
"""


@pytest.mark.parametrize("body, counts", [(TWO_SUMS, {"all_reduce": 1}), (THERE_AND_BACK, {})], ids=["sums", "gather"])
def test_explicit_collectives_are_optimized(
    body: str, counts: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(HEAD + body)
    assert main(["check", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["check"]["ok"] and document["counts"] == counts


def test_partition_of_program_with_explicit_collectives_is_noop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(HEAD + TWO_SUMS)
    assert main(["opt", str(path), "--passes", "optimize,partition,fuse"]) == 0
    assert capsys.readouterr().out.count("shard.all_reduce") == 1


NUMBERS = """shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<i64>) -> (index, i64, tensor<i64>, tensor<i64>) {
  %i = shard.process_linear_index on @g : index
  %j = arith.index_cast %i : index to i64
  %t = tensor.from_elements %j : tensor<i64>
  %s = shard.all_reduce %t on @g grid_axes = [1] : tensor<i64> -> tensor<i64>
  %a = shard.all_reduce %s on @g grid_axes = [0] : tensor<i64> -> tensor<i64>
  %b = stablehlo.add %a, %x : tensor<i64>
  return %i, %j, %s, %b : index, i64, tensor<i64>, tensor<i64>
}"""


def test_scalar_that_differs_between_devices_has_row_per_device() -> None:
    """Check also a scalar that is provably equal on all devices, such as a loss: it stays a scalar."""
    executable = mg.compile(NUMBERS, target="cpu")
    index, copy, sums, total = executable(np.array(100))
    assert index.tolist() == copy.tolist() == [0, 1, 2, 3, 4, 5]
    assert sums.tolist() == [3, 3, 3, 12, 12, 12]
    assert total.shape == () and total == 115


def test_per_device_scalars_round_trip_through_text() -> None:
    module = parse_text(NUMBERS)
    assert [kind.shape for kind in module.out_types] == [(6,), (6,), (6,), ()]
    assert print_text(parse_text(print_text(module))) == print_text(module)
