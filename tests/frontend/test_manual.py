"""Parsing of manual computations and of StableHLO's collectives, and errors in invalid ones."""

from __future__ import annotations

import itertools

import pytest

from meshgen.api import compile
from meshgen.errors import ProgramError, ShardingError
from meshgen.ir.graph import Module, Node
from meshgen.ir.replica_groups import find_axes, find_shift, group_faults, pair_faults
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.spec import P

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
XY = make_mesh({"x": 2, "y": 4})
ROWS = "dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>"
ALONG_X = "dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>"
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
SUM = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32> })"""


def manual(body: str, local: str = "2x6", result: str = "2x6", ins: str = '{"y"}, {}', outs: str = '{"y"}, {}',
           axes: str = '"y"', result_sizes: str = "8x6", argument_sizes: str = "8x6") -> str:  # fmt: skip
    """Return a program with one manual computation. The lines `body` must define its result %r from the tile %t."""
    return f"""{MESH}func.func @main(%x: tensor<{argument_sizes}xf32>) -> tensor<{result_sizes}xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{ins}]>] out_shardings=[<@mesh, [{outs}]>] manual_axes={{{axes}}} (%t: tensor<{local}xf32>) {{
    {body}
    sdy.return %r : tensor<{result}xf32>
  }} : (tensor<{argument_sizes}xf32>) -> tensor<{result_sizes}xf32>
  return %0 : tensor<{result_sizes}xf32>
}}"""


def local(body: str, kind: str = "tensor<4x6xf32>", result: str = "") -> str:
    """Return a per-device program. The lines `body` must define its result %r from the tile %t."""
    return f"{MESH}func.func @main(%t: {kind}) -> {result or kind} {{\n  {body}\n  return %r : {result or kind}\n}}"


def first(module: Module) -> Node:
    return module.graph.nodes[0]


def test_manual_computation_is_one_node() -> None:
    module = parse_text(manual("%r = stablehlo.tanh %t : tensor<2x6xf32>"))
    node = first(module)
    assert (node.op, module.stage) == ("manual", "import")
    assert node.attrs == {"in_shardings": (P("y", None),), "out_shardings": (P("y", None),), "axes": ("y",)}
    (body,) = node.regions
    assert [inner.op for inner in body.nodes] == ["tanh"]
    assert str(body.inputs[0].type) == "f32[2,6]"


def test_generic_form_of_manual_computation_equals_pretty_form() -> None:
    generic = """"builtin.module"() ({
      "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ()
      "func.func"() <{function_type = (tensor<8x6xf32>) -> tensor<8x6xf32>, sym_name = "main"}> ({
      ^bb0(%x: tensor<8x6xf32>):
        %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>,
          manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>}> ({
        ^bb0(%t: tensor<2x6xf32>):
          %r = "stablehlo.tanh"(%t) : (tensor<2x6xf32>) -> tensor<2x6xf32>
          "sdy.return"(%r) : (tensor<2x6xf32>) -> ()
        }) : (tensor<8x6xf32>) -> tensor<8x6xf32>
        "func.return"(%0) : (tensor<8x6xf32>) -> ()
      }) : () -> ()
    }) : () -> ()"""
    pretty = parse_text(manual("%r = stablehlo.tanh %t : tensor<2x6xf32>"))
    assert print_text(parse_text(generic)) == print_text(pretty)


def test_captured_value_becomes_replicated_operand() -> None:
    text = manual("%r = stablehlo.add %t, %c : tensor<2x6xf32>")
    text = text.replace("  %0 = sdy", "  %c = stablehlo.constant dense<1.0> : tensor<2x6xf32>\n  %0 = sdy")
    node = parse_text(text).graph.nodes[1]
    assert (len(node.operands), len(node.regions[0].inputs)) == (2, 2)
    assert node.attrs.in_shardings == (P("y", None), P(None, None))


def test_free_axes_are_separated_from_manual_axes() -> None:
    node = first(
        parse_text(manual("%r = stablehlo.tanh %t : tensor<2x6xf32>", ins='{"y", "x"}, {?}', outs='{"y"}, {"x"}'))
    )
    assert (node.attrs.in_shardings, node.attrs.out_shardings) == ((P("y", None),), (P("y", None),))
    assert node.attrs.in_free == ((P("x", None), (False, True)),)
    assert node.attrs.out_free == ((P(None, "x"), (False, False)),)


def test_nested_manual_computation_is_flattened() -> None:
    """The value outside is replicated along the axes of the inner computation. So this becomes a slice, the inner body,
    and an all_gather.
    """
    inner = """%r = sdy.manual_computation(%t) in_shardings=[<@mesh, [{}, {"x"}]>] out_shardings=[<@mesh, [{}, {"x"}]>] manual_axes={"x"} (%u: tensor<2x3xf32>) {
      %v = stablehlo.tanh %u : tensor<2x3xf32>
      sdy.return %v : tensor<2x3xf32>
    } : (tensor<2x6xf32>) -> tensor<2x6xf32>"""
    node = first(parse_text(manual(inner)))
    assert node.attrs.axes == ("y", "x")
    assert [node_in_body.op for node_in_body in node.regions[0].nodes] == ["all_slice", "tanh", "all_gather"]


REDUCED = f'%r = "stablehlo.all_reduce"(%t) <{{replica_groups = {ROWS}, {CHANNEL}, use_global_device_ids}}> {SUM} : (tensor<4x6xf32>) -> tensor<4x6xf32>'
COLLECTIVES = [
    (REDUCED, "tensor<4x6xf32>", "all_reduce", {"axes": ("y",), "kind": "sum"}),
    (f'%r = "stablehlo.all_gather"(%t) <{{replica_groups = {ROWS}, all_gather_dim = 1 : i64, {CHANNEL}}}> : (tensor<4x6xf32>) -> tensor<4x24xf32>',
     "tensor<4x24xf32>", "all_gather", {"axes": ("y",), "dim": 1}),
    (f'%r = "stablehlo.reduce_scatter"(%t) <{{replica_groups = {ROWS}, scatter_dimension = 0 : i64, {CHANNEL}}}> {SUM.replace("add", "maximum")} : (tensor<4x6xf32>) -> tensor<1x6xf32>',
     "tensor<1x6xf32>", "reduce_scatter", {"axes": ("y",), "dim": 0, "kind": "max"}),
    ('%r = "stablehlo.all_to_all"(%t) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64}> : (tensor<4x6xf32>) -> tensor<8x3xf32>',
     "tensor<8x3xf32>", "all_to_all", {"axes": ("x",), "split_dim": 1, "concat_dim": 0}),
    (f'%r = "stablehlo.collective_broadcast"(%t) <{{replica_groups = {ROWS}}}> : (tensor<4x6xf32>) -> tensor<4x6xf32>',
     "tensor<4x6xf32>", "broadcast", {"axes": ("y",), "root": (0,)}),
    (f'%r = "stablehlo.all_reduce"(%t) <{{replica_groups = dense<0> : tensor<1x1xi64>, {CHANNEL}}}> {SUM} : (tensor<4x6xf32>) -> tensor<4x6xf32>',
     "tensor<4x6xf32>", "all_reduce", {"axes": ("x", "y"), "kind": "sum"}),
    ('%r = "stablehlo.collective_permute"(%t) <{source_target_pairs = dense<[[0, 3], [1, 0], [2, 1], [3, 2], [4, 7], [5, 4], [6, 5], [7, 6]]> : tensor<8x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>',
     "tensor<4x6xf32>", "shift", {"axes": ("y",), "shift_axis": "y", "offset": 3, "rotate": True}),
    ('%r = "stablehlo.collective_permute"(%t) <{source_target_pairs = dense<[[1, 5], [0, 1]]> : tensor<2x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>',
     "tensor<4x6xf32>", "permute_pairs", {"axes": ("x", "y"), "pairs": ((0, 1), (1, 5))}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "result", "op", "attrs"), COLLECTIVES, ids=[f"{c[2]}{i}" for i, c in enumerate(COLLECTIVES)]
)
def test_replica_groups_become_mesh_axes(body: str, result: str, op: str, attrs: dict[str, object]) -> None:
    """A program whose top level has collectives is a per-device program. It is printed and parsed as one."""
    module = parse_text(local(body, result=result))
    node = first(module)
    assert (node.op, node.attrs, module.stage) == (op, attrs, "partition")
    assert print_text(parse_text(print_text(module))) == print_text(module)


def test_partition_id_becomes_process_index() -> None:
    module = parse_text(local("%r = stablehlo.partition_id : tensor<ui32>", result="tensor<ui32>"))
    assert [(node.op, str(node.result.type)) for node in module.graph.nodes] == [
        ("process_index", "i32[]"), ("convert", "ui32[]"), ("reshape", "ui32[1]"),
    ]  # fmt: skip
    assert first(module).attrs.axes == ("x", "y")


def within(end: str, axes: str, tile: str) -> str:
    """Return a manual computation to use inside another one, whose tile of 4 x 6 it reads."""
    return f"""%r = sdy.manual_computation(%t) in_shardings=[<@mesh, [{end}]>] out_shardings=[<@mesh, [{end}]>] manual_axes={{{axes}}} (%u: tensor<{tile}xf32>) {{
      %v = stablehlo.tanh %u : tensor<{tile}xf32>
      sdy.return %v : tensor<{tile}xf32>
    }} : (tensor<4x6xf32>) -> tensor<4x6xf32>"""


FETCHED = "%r = meshgen.fetch_rows %t on @mesh grid_axes = [1] dim = 0 base = 1 step = 2 limit = LIMIT : tensor<2x6xf32> -> tensor<2x6xf32>"
FAULTS = [
    (local(REDUCED.replace("[4, 5, 6, 7]", "[4, 5, 6, -1]")), "MG0104", "different sizes"),
    (manual("%r = stablehlo.tanh %t : tensor<3x6xf32>", "3x6", "3x6"), "MG0204", "has tiles f32[2,6], but the body has f32[3,6]"),
    (manual("%r = stablehlo.tanh %t : tensor<2x6xf32>", argument_sizes="7x6"), "MG0204", "7 % 4 = 3"),
    (manual("%r = stablehlo.tanh %t : tensor<2x6xf32>", axes='"z"'), "MG0202", "manual axis 'z'"),
    (manual("%r = stablehlo.tanh %t : tensor<2x6xf32>", ins='{"x", "y"}, {}'), "MG0204", "must come before the others"),
    (manual("%r = stablehlo.tanh %t : tensor<2x6xf32>").replace('[<@mesh, [{"y"}, {}]>] out', "[] out"), "MG0104", "0 shardings for 1 values"),
    (manual('%r = sdy.sharding_constraint %t <@mesh, [{}, {"y"}]> : tensor<2x6xf32>'), "MG0103", "inside a manual computation over ['y']"),
    (manual(REDUCED.replace("4x6", "2x6").replace(ROWS, ALONG_X)), "MG0104", "'all_reduce' in its body uses the axes ['x'], but the manual axes are ['y']"),
    (manual("%r = stablehlo.tanh %t : tensor<2x6xf32>", axes='"y", "y"'), "MG0203", "manual axis 'y' is named more than once"),
    (manual("%r = stablehlo.tanh %t : tensor<2x?xf32>", "2x?", "2x?", argument_sizes="8x?", result_sizes="8x?"), "MG0204", "has sizes that are unknown"),
    (manual(within('{"y"}, {}', '"y"', "1x6"), "4x6", "4x6", argument_sizes="16x6", result_sizes="16x6"), "MG0203", "names ['y'], but ['y'] are manual already"),
    (manual(within('{}, {"y"}', '"x"', "4x6"), "4x6", "4x6", argument_sizes="16x6", result_sizes="16x6"), "MG0203", "names ['y'], but ['y'] are manual already"),
    (manual(FETCHED.replace("LIMIT", "9")), "MG0104", "limit 9 is not one of 0 to 8"),
    (local(FETCHED.replace("LIMIT", "0 wrap").replace("2x6", "4x6")), "MG0104", "limit 0 leaves zero rows"),
    (local(REDUCED.replace("4, 5, 6, 7", "4, 5, 6, 6")), "MG0104", "each to be named once"),
    (local(COLLECTIVES[3][0].replace("split_count = 2", "split_count = 3"), result="tensor<8x3xf32>"), "MG0104", "split_count is 3"),
    (local(COLLECTIVES[7][0].replace("[0, 1]]", "[1, 2]]")), "MG0104", "the source of more than one pair"),
    (local(COLLECTIVES[7][0].replace("[0, 1]]", "[0, 8]]")), "MG0104", "device 8"),
    (local(REDUCED).replace("xf32>) ->", 'xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) ->', 1), "MG0104", "both annotations and explicit collectives"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message"), FAULTS, ids=range(len(FAULTS)))
def test_invalid_manual_computation_is_rejected(text: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    assert any(
        diagnostic.code == code and message in diagnostic.message and diagnostic.loc
        for diagnostic in caught.value.diagnostics
    ), caught.value


TANH = "%r = stablehlo.tanh %t : tensor<2x6xf32>"
GATHERED = f"""%r = "stablehlo.all_gather"(%t) <{{all_gather_dim = 0 : i64, replica_groups = {ROWS}, {CHANNEL}, use_global_device_ids}}>
      : (tensor<8x6xf32>) -> tensor<32x6xf32>"""
GROWN = manual(GATHERED, "8x6", "32x6", ins="{}, {}", outs="{}, {}", result_sizes="32x6")
OTHER_MESHES = [
    (manual(TANH), {"x": 2, "y": 2}, "MG0204", "argument 0 of the body", "has tiles f32[4,6], but the body has f32[2,6] on Mesh(x=2, y=2)"),
    (manual(TANH), {"y": 8}, "MG0204", "result 0 of the body", "has tiles f32[1,6], but the body has f32[2,6]"),
    (manual(TANH), {"y": 3}, "MG0204", "argument 0 of the body", "8 % 3 = 2"),
    (manual(TANH), {"z": 8}, "MG0202", "mesh axis 'y'", "not in Mesh(z=8)"),
    (GROWN, {"x": 2, "y": 2}, "MG0104", "'all_gather'", "2 tiles of 8 do not make up 32 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sizes", "code", "what", "message"), OTHER_MESHES, ids=range(len(OTHER_MESHES)))
def test_body_for_another_mesh_is_rejected(
    text: str, sizes: dict[str, int], code: str, what: str, message: str
) -> None:
    with pytest.raises((ProgramError, ShardingError)) as caught:
        compile(parse_text(text), sizes, target="cpu")
    diagnostics = caught.value.diagnostics
    assert any(f.code == code and what in f.message and message in f.message and f.loc for f in diagnostics), (
        caught.value
    )


def test_body_is_valid_on_mesh_with_further_axes() -> None:
    assert compile(parse_text(manual(TANH)), {"z": 2, "y": 4, "x": 1}, target="cpu").mesh.size == 8


@pytest.mark.parametrize("sizes", [(2, 4), (4, 1, 2), (2, 2, 2), (6,)], ids=str)
def test_find_axes_recovers_axes_in_any_order(sizes: tuple[int, ...]) -> None:
    mesh = make_mesh(dict(zip("abc", sizes, strict=False)))
    for count in range(len(sizes) + 1):
        for axes in itertools.permutations(mesh.names, count):
            recovered = find_axes(list(reversed(mesh.groups(axes))), mesh)
            assert recovered is not None, axes
            assert sorted(mesh.groups(recovered)) == sorted(mesh.groups(axes))


def test_find_axes_recovers_sub_axes() -> None:
    mesh = make_mesh({"x": 2, "y": 6})
    for axes in (("y:(1)2",), ("y:(2)3",), ("x", "y:(2)3"), ("y:(2)3", "y:(1)2"), ("y:(2)3", "x")):
        assert find_axes(mesh.groups(axes), mesh) == axes
    assert find_axes([(0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11)], mesh) == ("y:(1)2",)
    assert find_axes([(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11)], mesh) is None
    assert "different sizes" in group_faults([(0, 1), (2,)], mesh)


def test_find_shift_recognizes_rotations_along_an_axis() -> None:
    rotation = [(device, (device + 4) % 8) for device in range(8)]
    assert find_shift(rotation, XY) == ("x", 1)
    assert find_shift(rotation[1:], XY) is None
    assert find_shift([(device, device) for device in range(8)], XY) is None
    assert pair_faults(((0, 1), (1, 0)), 2) == ""
    assert "target of more than one" in pair_faults(((0, 1), (2, 1)))
    assert "expected pairs" in pair_faults(((0, 1, 2),))
