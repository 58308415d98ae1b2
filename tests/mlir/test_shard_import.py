"""Tests of the import of shard text, also in the RFC's syntax: nodes, annotations of the signature, and stages."""

from pathlib import Path

import pytest

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.spec import P, Sharding

DATA = Path(__file__).parent.parent / "data"


def annotated(body: str, result: str = "%y", grid: str = "(shape = 2x4)") -> Module:
    return parse_text(f"""shard.grid @g{grid}
func.func @f(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {{
  {body}
  return {result} : tensor<8x6xf32>
}}""")


def test_argument_annotation_becomes_signature_annotation() -> None:
    module = annotated(
        "%s = shard.sharding @g split_axes = [[], [1]] : !shard.sharding\n%y = shard.shard %x to %s : tensor<8x6xf32>",
        grid='(shape = 2x4) {axis_names = ["dp", "tp"]}',
    )
    (node,) = module.graph.nodes
    assert (node.op, node.attrs.sharding) == ("annotate", P(None, "tp"))
    assert node.attrs.required and node.attrs.as_result
    assert [annotation and annotation.sharding for annotation in module.in_annotations] == [P(None, "tp")]
    assert [annotation and annotation.sharding for annotation in module.out_annotations] == [P(None, "tp")]
    assert module.mesh.names == ("dp", "tp")


def test_annotation_for_users_does_not_annotate_the_argument() -> None:
    module = annotated(
        "%s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
        "%y = shard.shard %x to %s annotate_for_users {required = false} : tensor<8x6xf32>"
    )
    assert module.in_annotations == [None]
    annotation = module.out_annotations[0]
    assert annotation is not None and not annotation.required
    assert not module.graph.nodes[0].attrs.as_result


def test_omitted_axis_lists_mean_replicated() -> None:
    module = annotated(
        "%s = shard.sharding @g split_axes = [[]] : !shard.sharding\n%y = shard.shard %x to %s : tensor<8x6xf32>"
    )
    assert module.graph.nodes[0].attrs.sharding == Sharding.replicated(2)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("[[0, 1]]", Sharding((("0", "1"), ()))),
        ("[[0]] partial = max[1]", Sharding((("0",), ()), (("1", "max"),))),
        ("[[], [1]] halo_sizes = [1, 2]", Sharding(((), ("1",)), (), ((0, 0), (1, 2)))),
        ("[[0], [1]] sharded_dims_offsets = [0, 3, 8, 0, 1, 3, 5, 6]",
         Sharding((("0",), ("1",)), (), (), ((0, 3, 8), (0, 1, 3, 5, 6)))),
        ('[[1]] {axes = [["1:(2)2"]]}', Sharding((("1:(2)2",), ()))),
    ],
)  # fmt: skip
def test_sharding_definition_is_imported(definition: str, expected: Sharding) -> None:
    module = annotated(
        f"%s = shard.sharding @g split_axes = {definition} : !shard.sharding\n%y = shard.shard %x to %s : tensor<8x6xf32>"
    )
    assert module.graph.nodes[0].attrs.sharding == expected
    reparsed = parse_text(print_text(module))
    assert reparsed.graph.nodes[0].attrs.sharding == expected


def test_constant_halo_sizes_are_folded() -> None:
    module = annotated(
        "%c = arith.constant 2 : i64\n%s = shard.sharding @g split_axes = [[0]] halo_sizes = [%c, 1] : !shard.sharding\n"
        "%y = shard.shard %x to %s : tensor<8x6xf32>"
    )
    assert [node.attrs.sharding.halo for node in module.graph.nodes] == [((2, 1), (0, 0))]


def test_sharding_option_of_an_op_is_imported() -> None:
    module = annotated('%y = stablehlo.abs %x {sharding = [[0], ["1:(1)2"]]} : tensor<8x6xf32>')
    assert module.graph.nodes[0].option == (("0",), ("1:(1)2",))
    assert parse_text(print_text(module)).graph.nodes[0].option == (("0",), ("1:(1)2",))


COLLECTIVES = [
    ("shard.all_gather %x on @g grid_axes = [1] gather_axis = 0 : tensor<8x6xf32> -> tensor<32x6xf32>", "all_gather", {"axes": ("1",), "dim": 0}),
    ("shard.all_slice %x on @g grid_axes = [0] slice_axis = 1 : tensor<8x6xf32> -> tensor<8x3xf32>", "all_slice", {"axes": ("0",), "dim": 1}),
    ("shard.all_reduce %x on @g grid_axes = [1, 0] reduction = product : tensor<8x6xf32> -> tensor<8x6xf32>", "all_reduce", {"axes": ("1", "0"), "kind": "product"}),
    ("shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = 0 : tensor<8x6xf32> -> tensor<4x6xf32>", "reduce_scatter", {"axes": ("0",), "dim": 0, "kind": "sum"}),
    ("shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<8x6xf32> -> tensor<4x12xf32>", "all_to_all", {"axes": ("0",), "split_dim": 0, "concat_dim": 1}),
    ("shard.broadcast %x on @g grid_axes = [0, 1] root = [1, 2] : (tensor<8x6xf32>) -> tensor<8x6xf32>", "broadcast", {"axes": ("0", "1"), "root": (1, 2)}),
    ("shard.gather %x on @g grid_axes = [1] gather_axis = 0 root = [3] : (tensor<8x6xf32>) -> tensor<32x6xf32>", "gather_to", {"axes": ("1",), "dim": 0, "root": (3,)}),
    ("shard.reduce %x on @g grid_axes = [1] root = [0] : (tensor<8x6xf32>) -> tensor<8x6xf32>", "reduce_to", {"axes": ("1",), "kind": "sum", "root": (0,)}),
    ("shard.scatter %x on @g grid_axes = [0] scatter_axis = 0 root = [1] : (tensor<8x6xf32>) -> tensor<4x6xf32>", "scatter_from", {"axes": ("0",), "dim": 0, "root": (1,)}),
    ("shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<8x6xf32>) -> tensor<8x6xf32>", "send", {"axes": ("0",), "destination": (1,)}),
    ("shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = -1 rotate : tensor<8x6xf32> -> tensor<8x6xf32>", "shift", {"axes": ("0",), "shift_axis": "0", "offset": -1, "rotate": True}),
    (
        "meshgen.fetch_rows %x on @g grid_axes = [0] dim = 0 base = -1 step = 8 limit = 15 : tensor<8x6xf32> -> tensor<10x6xf32>",
        "fetch_rows",
        {"axes": ("0",), "dim": 0, "base": -1, "step": 8, "limit": 15},
    ),
    ("meshgen.to_partial %x on @g grid_axes = [0] reduction = min : tensor<8x6xf32> -> tensor<8x6xf32>", "to_partial", {"axes": ("0",), "kind": "min"}),
    ("shard.all_reduce %x on @g : tensor<8x6xf32> -> tensor<8x6xf32>", "all_reduce", {"axes": (), "kind": "sum"}),
    ('shard.all_reduce %x on @g grid_axes = [1] {axes = ["1:(2)2"]} : tensor<8x6xf32> -> tensor<8x6xf32>', "all_reduce", {"axes": ("1:(2)2",), "kind": "sum"}),
    ("meshgen.mask_padding %x on @g grid_axes = [0] dim = 1 size = 11 fill = -1.5 : f64 : tensor<8x6xf32> -> tensor<8x6xf32>", "mask_padding", {"dim": 1, "axes": ("0",), "size": 11, "fill": -1.5}),
    ("shard.update_halo %x on @g split_axes = [[1]] halo_sizes = [1, 2] : tensor<8x6xf32>", "update_halo", {"sharding": Sharding((("1",), ()), (), ((1, 2), (0, 0))), "shape": (20, 6)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "op", "attrs"), COLLECTIVES)
def test_collective_is_imported_with_its_attributes(text: str, op: str, attrs: dict[str, object]) -> None:
    result = text.rpartition("-> ")[2] if "->" in text else "tensor<8x6xf32>"
    module = parse_text(
        f"shard.grid @g(shape = 2x4)\nfunc.func @f(%x: tensor<8x6xf32>) -> {result} {{ %y = {text} return %y : {result} }}"
    )
    assert module.stage == "partition"
    assert [(node.op, node.attrs) for node in module.graph.nodes] == [(op, attrs)]
    reparsed = parse_text(print_text(module))
    assert [(node.op, node.attrs) for node in reparsed.graph.nodes] == [(op, attrs)]


def test_recv_is_matched_with_its_send() -> None:
    send = "%s = shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<8x6xf32>) -> tensor<8x6xf32>"
    recv = "%y = shard.recv %x on @g grid_axes = [0] : (tensor<8x6xf32>) -> tensor<8x6xf32>"
    module = parse_text(
        f"shard.grid @g(shape = 2x4)\nfunc.func @f(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {{ {send} {recv} return %y : tensor<8x6xf32> }}"
    )
    for candidate in (module, parse_text(print_text(module))):
        assert [node.op for node in candidate.graph.nodes] == ["send", "recv"]
        assert candidate.graph.nodes[1].attrs == {"axes": ("0",)}


def test_spmd_text_without_signature_stacks_tensors_of_all_devices() -> None:
    text, *_ = COLLECTIVES[0]
    module = parse_text(
        f"shard.grid @g(shape = 2x4)\nfunc.func @f(%x: tensor<8x6xf32>) -> tensor<32x6xf32> {{ %y = {text} return %y : tensor<32x6xf32> }}"
    )
    assert [str(kind) for kind in (*module.in_types, *module.out_types)] == ["f32[64,6]", "f32[256,6]"]
    assert module.in_shardings == [Sharding((("0", "1"), ()))]


def test_average_reduction_divides_the_sum_by_group_size() -> None:
    text = "shard.all_reduce %x on @g grid_axes = [1] reduction = average : tensor<8x6xf32> -> tensor<8x6xf32>"
    module = parse_text(
        f"shard.grid @g(shape = 2x4)\nfunc.func @f(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {{ %y = {text} return %y : tensor<8x6xf32> }}"
    )
    assert [node.op for node in module.graph.nodes] == ["all_reduce", "constant", "divide"]
    assert module.graph.nodes[1].attrs.value.flat[0] == 4


def test_reduction_to_wider_dtype_converts_first() -> None:
    text = "shard.all_reduce %x on @g grid_axes = [1] : tensor<8x6xf32> -> tensor<8x6xf64>"
    module = parse_text(
        f"shard.grid @g(shape = 2x4)\nfunc.func @f(%x: tensor<8x6xf32>) -> tensor<8x6xf64> {{ %y = {text} return %y : tensor<8x6xf64> }}"
    )
    assert [(node.op, node.result.type.dtype) for node in module.graph.nodes] == [
        ("convert", "f64"),
        ("all_reduce", "f64"),
    ]


def test_encodings_on_signature_only_are_annotations() -> None:
    module = parse_text("""shard.grid @g(shape = 2)
func.func @f(%x: tensor<8xf32, #meshgen.split<@g, [[0]]>>) -> tensor<8xf32, #meshgen.split<@g, [[0]]>> {
  return %x : tensor<8xf32, #meshgen.split<@g, [[0]]>>
}""")
    assert module.stage == "import" and module.graph.inputs[0].sharding is None
    assert module.in_annotations[0] is not None and module.in_annotations[0].sharding == P("0")


def test_rfc_figure_2a_is_imported() -> None:
    module = parse_text((DATA / "rfc_fig2a.mlir").read_text())
    assert module.mesh.shape == (2,)
    annotations = [node.attrs for node in module.graph.nodes if node.op == "annotate"]
    assert [(w["sharding"], w["as_result"]) for w in annotations] == [
        (P(None, None, "0"), True),
        (P(None, None, None, partial="0"), True),
        (P(None, None, "0"), False),
    ]
    assert module.in_annotations[0] is not None and module.out_annotations[0] is not None


def test_rfc_figure_2b_is_imported_in_the_slides_syntax() -> None:
    module = parse_text((DATA / "rfc_fig2b_annotated.mlir").read_text())
    annotations = [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]
    assert annotations[1] == P(None, None, ("1", "2"), partial="0")
    assert [node.op for node in module.graph.nodes if node.op != "annotate"] == [
        "dot_general",
        "constant",
        "maximum",
        "dot_general",
    ]


def test_sharding_options_are_imported_in_the_rfc_syntax() -> None:
    module = parse_text((DATA / "rfc_fig2a_option.mlir").read_text())
    assert [node.option for node in module.graph.nodes if node.op == "dot_general"] == [
        None,
        ((), (), (), ("0",)),
    ]


def test_materialized_program_is_imported_in_the_slides_syntax() -> None:
    module = parse_text((DATA / "rfc_fig2b_materialized.mlir").read_text())
    assert module.stage == "materialize"
    moves = [(node.op, node.attrs.axes) for node in module.graph.nodes if "axes" in node.attrs.given]
    assert moves == [
        ("all_gather", ("1", "2")), ("reduce_scatter", ("0",)), ("all_slice", ("0",)), ("all_slice", ("1", "2")),
        ("all_gather", ("0",)), ("reduce_scatter", ("1", "2")),
    ]  # fmt: skip
    assert module.graph.outputs[0].sharding == P(None, None, ("0", "1", "2"))


def test_cluster_with_unknown_sizes_is_imported() -> None:
    module = parse_text(
        "mesh.cluster @m(rank = 3, dim_sizes = [0, 4])\nfunc.func @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    )
    assert module.mesh.shape == (None, 4, None)


def test_rfc_mesh_idx_and_size_are_imported() -> None:
    module = parse_text("""mesh.cluster @m(rank = 1, dim_sizes = [2])
func.func @f(%x: tensor<8xf32>) -> (i64, i32) attributes {mesh_cluster = @m} {
  %i = mesh.idx(0)
  %n = mesh.size {axis = 0 : index} : i32
  return %i, %n : i64, i32
}""")
    assert [node.op for node in module.graph.nodes] == ["process_index", "convert", "constant", "reshape"]
    # one row per device for the index; a scalar for the size, which is equal on all devices
    assert [value.type.shape for value in module.graph.outputs] == [(1,), ()]
