"""Tests of clusters, sub-clusters and permutes of the `mesh` dialect, and of the locations of errors."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.sharding.multi_mesh.meshes_programs import assert_correct_at_all_stages, assert_text_round_trips, ops

CLUSTER = "mesh.cluster @m(rank = 2, dim_sizes = [2, 3])\n"
FAULTS = [
    ("mesh.sub_cluster @row(@n, axes = [1])", "MG0201", "unknown cluster '@n' before @row"),
    ("mesh.sub_cluster @row(@m, axes = [2])", "MG0202", "@row: axis 2 is not in Mesh(0=2, 1=3)"),
    ("mesh.sub_cluster @row(@m, axes = [1], index = [0, 0])", "MG0201", "the index has 2 coordinates, but Mesh(0=2, 1=3) has 1 other axes"),
    ("mesh.sub_cluster @row(@m, axes = [1], index = [2])", "MG0201", "coordinate 2 is outside axis '0' of size 2"),
    ("mesh.sub_cluster @row(@m, axes = [1, 1])", "MG0201", "lists an axis twice: [1, 1]"),
    ("mesh.sub_cluster @m(@m, axes = [1])", "MG0201", "@m is declared twice"),
]  # fmt: skip
PERMUTES = [
    ("mesh_axis = [0, 1]", "[[0]]", "[[0]]", "along 2 axes from"),
    ("mesh_axis = 0", "[[0]]", "[[1]]", "along 1 axes from [{0}] to [{1}]"),
    ("mesh_axis = 1", "[[1]]", "[[1]]", "unequal shapes"),
]


def faults_of(text: str) -> list[tuple[str, str, int]]:
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    return [(fault.code, fault.message, fault.loc.line if fault.loc else 0) for fault in caught.value.diagnostics]


@pytest.mark.parametrize(("declaration", "code", "message"), FAULTS)
def test_invalid_sub_cluster_is_refused(declaration: str, code: str, message: str) -> None:
    text = f"{CLUSTER}{declaration}\nfunc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}"
    assert any(fault_code == code and message in words and line == 2 for fault_code, words, line in faults_of(text))


@pytest.mark.parametrize(("attributes", "source", "target", "message"), PERMUTES)
def test_invalid_permute_along_axis_is_refused(attributes: str, source: str, target: str, message: str) -> None:
    types = [f"tensor<4xf32, #mesh.shard<@m, {lists}>>" for lists in (source, target)]
    text = f"""{CLUSTER}func.func @f(%x: {types[0]}) -> {types[1]} {{
  %y = mesh.collective_permute %x {{{attributes}}} : {types[0]} -> {types[1]}
  return %y : {types[1]}
}}"""
    assert any(code == "MG0204" and message in words and line == 3 for code, words, line in faults_of(text))


def test_sub_cluster_is_the_default_mesh_of_its_function() -> None:
    text = f"""{CLUSTER}mesh.sub_cluster @row(@m, axes = [1], index = [0])
func.func @f(%x: tensor<6xf32>) -> tensor<6xf32> attributes {{mesh_cluster = @row}} {{
  %y = mesh.annotate %x {{sharding = [[0]]}} : tensor<6xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}}"""
    module = parse_text(text)
    assert module.graph.nodes[0].attrs.sharding.dims == (("1",),)
    assert module.mesh.name == "row" and module.mesh.sizes == (3,)


STAGES = """mesh.cluster @m(rank = 2, dim_sizes = [2, 3])
mesh.sub_cluster @first(@m, axes = [1], index = [0])
mesh.sub_cluster @second(@m, axes = [1], index = [INDEX])
func.func @f(%x: tensor<6x4xf32>, %w: tensor<4x6xf32>) -> tensor<6x6xf32> {
  %0 = mesh.annotate %x {#mesh.shard<@first, [[0]]>} : tensor<6x4xf32>
  %1 = stablehlo.tanh %0 : tensor<6x4xf32>
  %2 = mesh.annotate %1 {#mesh.shard<@second, [[0]]>, as_result = false} : tensor<6x4xf32>
  %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  %4 = mesh.annotate %3 {#mesh.shard<@LAST, [[0]]>} : tensor<6x6xf32>
  return %4 : tensor<6x6xf32>
}"""


def test_indexed_sub_clusters_become_stages_on_their_devices() -> None:
    module = parse_text(STAGES.replace("INDEX", "1").replace("LAST", "second"))
    assert [(mesh.name, mesh.names, mesh.sizes) for mesh in module.meshes] == [
        ("first", ("1",), (3,)),
        ("second", ("1",), (3,)),
    ]
    fused = assert_correct_at_all_stages(module)["fuse"]
    assert [part.mesh.size for part in fused.parts] == [3, 3] and "transfer_recv" in ops(fused, 1)
    assert_text_round_trips(module)


@pytest.mark.parametrize("index, last", [("1", "m"), ("0", "second")], ids=["the whole is named", "devices are shared"])
def test_overlapping_sub_clusters_run_on_the_whole_cluster(index: str, last: str) -> None:
    module = parse_text(STAGES.replace("INDEX", index).replace("LAST", last))
    assert not module.meshes and module.mesh.name == "m" and module.mesh.sizes == (2, 3)
    assert_correct_at_all_stages(module)
