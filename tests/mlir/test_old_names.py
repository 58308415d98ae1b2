"""Tests of former dialect names: a program imports the same under the former and the current name."""

import re
from pathlib import Path

import pytest

from meshgen.mlir.text import parse_text, print_text

COLLECTIVES = """{mesh} @m(shape = 2x4)
func.func @main(%a: tensor<4x8xf32>) -> (tensor<4x32xf32>, tensor<4x8xf64>, tensor<1x8xf32>, tensor<4x8xf32>) {{
  %g = {d}.all_gather %a on @m {axes} = [1] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x32xf32>
  %r = {d}.all_reduce %a on @m {axes} = [1, 0] reduction = <max> : tensor<4x8xf32> -> tensor<4x8xf64>
  %s = {d}.reduce_scatter %a on @m {axes} = [1] scatter_axis = 0 : tensor<4x8xf32> -> tensor<1x8xf32>
  %t = {d}.all_to_all %a on @m {axes} = [0] split_axis = 0 concat_axis = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %b = {d}.broadcast %t on @m {axes} = [0] root = [1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = {d}.shift %b on @m {axes} = [1] shift_axis = 1 offset = 1 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  return %g, %r, %s, %h : tensor<4x32xf32>, tensor<4x8xf64>, tensor<1x8xf32>, tensor<4x8xf32>
}}"""
QUERIES = """{mesh} @m(shape = 2x4)
func.func @main(%a: tensor<8xi64>) -> tensor<4xi64> {{
  %p:2 = {d}.process_multi_index on @m : index, index
  %l = {d}.process_linear_index on @m : index
  %n = {shape} @m axes = [1] : index
  %t = tensor.from_elements %p#0, %p#1, %l, %n : tensor<4xindex>
  %i = arith.index_cast %t : tensor<4xindex> to tensor<4xi64>
  return %i : tensor<4xi64>
}}"""
ANNOTATED = """{mesh} @m(shape = 2x4)
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %s = {d}.sharding @m split_axes = [[0], [1]] halo_sizes = [1, 1, 0, 1] : !{d}.sharding
  %0 = {d}.shard %a to %s : tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  %t = {d}.sharding @m split_axes = [[1]] : !{d}.sharding
  %2 = {d}.shard %1 to %t annotate_for_users : tensor<8x8xf32>
  %3 = math.tanh %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}}"""
OLD = {"d": "mesh", "mesh": "mesh.mesh", "axes": "mesh_axes", "shape": "mesh.mesh_shape"}
NEW = {"d": "shard", "mesh": "shard.grid", "axes": "grid_axes", "shape": "shard.grid_shape"}


def reprint(text: str) -> str:
    return print_text(parse_text(text))


@pytest.mark.parametrize("program", [COLLECTIVES, QUERIES, ANNOTATED], ids=["collectives", "queries", "annotated"])
def test_mesh_dialect_imports_like_shard(program: str) -> None:
    assert reprint(program.format(**OLD)) == reprint(program.format(**NEW))


GENERIC = """"builtin.module"() ({{
  "{mesh}"() {o}shape = array<i64: 2, 4>, sym_name = "m"{c} : () -> ()
  "func.func"() ({{
  ^bb0(%a: tensor<4x8xf32>):
    %0 = "{d}.all_reduce"(%a) {o}{g} = @m, {axes} = array<i16: 1>, reduction = #{d}.partial<max>{c} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "{d}.all_gather"(%0) {o}{g} = @m, {axes} = array<i16: 0>, gather_axis = 1 : index{c} : (tensor<4x8xf32>) -> tensor<4x16xf32>
    %2 = "{d}.shift"(%1) {o}{g} = @m, {axes} = array<i16: 1>, shift_axis = 1 : index, offset = 1 : i64, rotate{c} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    "func.return"(%2) : (tensor<4x16xf32>) -> ()
  }}) {{function_type = (tensor<4x8xf32>) -> tensor<4x16xf32>, sym_name = "main"}} : () -> ()
}}) : () -> ()"""
GENERIC_ANNOTATED = """"builtin.module"() ({{
  "{mesh}"() <{{shape = array<i64: 2, 4>, sym_name = "m"}}> : () -> ()
  "func.func"() <{{function_type = (tensor<8x6xf32>) -> tensor<8x6xf32>, sym_name = "main"}}> ({{
  ^bb0(%a: tensor<8x6xf32>):
    %s = "{d}.sharding"() <{{{g} = @m, split_axes = #{d}.axisarray[[0]], operandSegmentSizes = array<i32: 0, 0>}}> : () -> !{d}.sharding
    %0 = "{d}.shard"(%a, %s) : (tensor<8x6xf32>, !{d}.sharding) -> tensor<8x6xf32>
    "func.return"(%0) : (tensor<8x6xf32>) -> ()
  }}) : () -> ()
}}) : () -> ()"""


@pytest.mark.parametrize("brackets", [("{", "}"), ("<{", "}>")], ids=["attributes", "properties"])
@pytest.mark.parametrize("program", [GENERIC, GENERIC_ANNOTATED], ids=["collectives", "annotated"])
def test_generic_mesh_dialect_imports_like_shard(program: str, brackets: tuple[str, str]) -> None:
    around = dict(zip("oc", brackets, strict=True))
    assert reprint(program.format(**OLD, **around, g="mesh")) == reprint(program.format(**NEW, **around, g="grid"))


FIRST = """mesh.cluster @m(rank = 2, dim_sizes = {sizes})
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) -> tensor<8x4xf32> {{
  %0 = {first} : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %2 = {second} : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}}"""


def test_mesh_shard_attribute_imports_like_annotate() -> None:
    first = FIRST.format(
        sizes="2x4", first="mesh.shard %a to <@m, [[], [0]]> annotate_for_users",
        second="mesh.shard %1 to <@m, [[1]], partial = sum[0]>",
    )  # fmt: skip
    rfc = FIRST.format(
        sizes="[2, 4]", first="mesh.annotate %a {#mesh.shard<@m, [[], [0]]>, as_result = false}",
        second="mesh.annotate %1 {#mesh.shard<@m, [[1], [], [0]]>}",
    )  # fmt: skip
    assert reprint(first) == reprint(rfc)


def test_mesh_shard_attribute_keeps_partial_kind() -> None:
    text = FIRST.format(
        sizes="2x?", first="mesh.shard %a to <@m, [[0]]>", second="mesh.shard %1 to <@m, [[0]], partial = max[1]>"
    )
    module = parse_text(text)
    assert "partial = max[1]" in print_text(module) and module.mesh.shape == (2, None)


def test_tensor_pack_imports_like_linalg_pack() -> None:
    text = """func.func @main(%a: tensor<8x6xf32>) -> tensor<2x3x4x2xf32> {{
  %e = tensor.empty() : tensor<2x3x4x2xf32>
  %p = {d}.pack %a inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %e : tensor<8x6xf32> -> tensor<2x3x4x2xf32>
  return %p : tensor<2x3x4x2xf32>
}}"""
    assert reprint(text.format(d="tensor")) == reprint(text.format(d="linalg"))


def test_window_strides_as_vectors_import_like_tensors() -> None:
    text = """func.func @main(%a: tensor<1x2x9x9xf32>, %w: tensor<4x2x3x3xf32>, %o: tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32> {{
  %c = linalg.conv_2d_nchw_fchw {{dilations = dense<2> : {v}<2xi64>, strides = dense<[2, 2]> : {v}<2xi64>}}
    ins(%a, %w : tensor<1x2x9x9xf32>, tensor<4x2x3x3xf32>) outs(%o : tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  return %c : tensor<1x4x3x3xf32>
}}"""
    assert reprint(text.format(v="vector")) == reprint(text.format(v="tensor"))


@pytest.mark.parametrize("start", ["// a note", "// one\n// two ^bb0 %x", "  // stablehlo.add  "])
def test_comment_may_precede_any_token(start: str) -> None:
    """The lexer must not read the end of a comment as part of the alias, quoted name, label or symbol that follows."""
    text = f"""{start}
#id = affine_map<(i) -> (i)>
{start}
"func.func"() <{{{start}
  sym_name = {start}
  "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}}> ({{ {start}
  {start}
  ^bb0(%a: tensor<4xf32>):
    {start}
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {{indexing_maps = [{start}
        #id, #id], iterator_types = ["parallel"]}} ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {{
    {start}
    ^bb0(%x: f32, %o: f32):
      %y = math.exp %x : f32
      linalg.yield %y : f32
    }} -> tensor<4xf32>
    "func.return"(%r) : (tensor<4xf32>) -> ()
}}) : () -> ()"""
    assert [node.op for node in parse_text(text).graph.nodes] == ["exponential"]


OWN = (
    "sharding layout global plan split annotation grouped to_partial permute permute_pairs retile mask_padding fetch_rows process_index "
    "axis_size transfer_send transfer_recv"
).replace(" ", "|")
OWN_COLLECTIVES = """shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x6xf32>) -> tensor<10x6xf32> {
  %p = meshgen.process_index on @g grid_axes = [0] : tensor<i32>
  %m = meshgen.mask_padding %x on @g grid_axes = [0] dim = 0 size = 30 fill = 0.000000e+00 : f64 : tensor<8x6xf32> -> tensor<8x6xf32>
  %s = meshgen.permute_pairs %m on @g grid_axes = [0] pairs = [[0, 3], [3, 0]] : tensor<8x6xf32> -> tensor<8x6xf32>
  %f = meshgen.fetch_rows %s on @g grid_axes = [0] dim = 0 base = -1 step = 8 limit = 30 : tensor<8x6xf32> -> tensor<10x6xf32>
  return %f : tensor<10x6xf32>
}"""
STAGES = [path.read_text() for path in sorted((Path(__file__).parent.parent / "data/golden").glob("rfc_fig2a_0*.mlir"))]


@pytest.mark.parametrize("text", [OWN_COLLECTIVES, *STAGES], ids=["collectives", *map(str, range(len(STAGES)))])
def test_meshgen_ops_import_under_former_shard_names(text: str) -> None:
    old = re.sub(rf"(?<![\w.])meshgen\.({OWN})\b", r"shard.\1", text)
    assert old != text and reprint(old) == reprint(text)
