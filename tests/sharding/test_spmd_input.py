"""Programs written with collectives on local values are optimised too, and mean the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen.cli import main

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
def test_collectives_of_the_user_are_optimised(
    body: str, counts: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(HEAD + body)
    assert main(["check", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["check"]["ok"] and document["counts"] == counts


def test_a_number_that_devices_do_not_share_needs_a_dim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """shard.grid @g(shape = 2)
func.func @main() -> index {
  %i = shard.process_linear_index on @g : index
  return %i : index
}"""
    file = tmp_path / "p.mlir"
    file.write_text(text)
    assert main(["check", str(file)]) == 3
    assert "give it one, of size 1" in capsys.readouterr().err
