"""Reasons why a value stays inside one kernel or is stored in memory between kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from meshgen.reports.fusion import FusionEdge, fusion_edges
from tests.reports.explained import document

PROGRAM = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %w: tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<256x256xf32>)
    -> (tensor<256x256xf32>, tensor<256xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = stablehlo.tanh %a : tensor<256x512xf32>
  %p = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
  %e = stablehlo.exponential %p : tensor<256x256xf32>
  %q = stablehlo.dot_general %e, %b, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %m = stablehlo.multiply %q, %q : tensor<256x256xf32>
  %s = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<256x256xf32>, tensor<f32>) -> tensor<256xf32>
  return %q, %s : tensor<256x256xf32>, tensor<256xf32>
}
"""


@pytest.fixture(scope="module")
def edges() -> list[FusionEdge]:
    return fusion_edges(api.plan(PROGRAM, target="cuda:sm_90").fused, "cuda:sm_90")


def reasons(edges: list[FusionEdge], value: str) -> dict[str, bool]:
    return {edge.why: edge.is_fused for edge in edges if edge.value == value}


def test_every_value_between_kernels_has_reason(edges: list[FusionEdge]) -> None:
    between = [edge for edge in edges if not edge.kernel]
    assert between
    assert all(edge.why and not edge.is_fused for edge in between)
    assert "each tile that needs it would recompute it" in "".join(reasons(edges, "t"))


def test_row_sum_of_matmul_result_is_not_fused(edges: list[FusionEdge]) -> None:
    assert reasons(edges, "q") == {"a program has a tile of the GEMM, but the reader reduces over entire rows": False}


def test_report_says_operand_of_collective_is_stored(edges: list[FusionEdge]) -> None:
    assert any(why.endswith("is a collective") for edge in edges if not edge.is_fused for why in [edge.why])


def test_report_says_fused_reduction_operand_is_not_stored(edges: list[FusionEdge]) -> None:
    assert reasons(edges, "m") == {"each element is computed where it is reduced": True}


def test_explain_lists_fusion_edges_by_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    records = document(capsys, "explain", path)["fusion"]
    assert {record["is_fused"] for record in records} == {True, False}
    sizes = [record["nbytes"] for record in records if not record["is_fused"]]
    assert sizes == sorted(sizes, reverse=True)
