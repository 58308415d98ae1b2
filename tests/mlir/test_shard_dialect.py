"""Tests of the shard dialect's parser: every op in pretty and in generic form.

`test_printer.py` has the printer's tests.
"""

from io import StringIO

import pytest
from xdsl.dialects import builtin
from xdsl.printer import Printer

from meshgen.mlir.families import core_dialects
from meshgen.mlir.parser import TextParser
from meshgen.mlir.text import parse_text, print_text

OPERATIONS = {
    "sharding": '%r = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding',
    "partial": "%r = shard.sharding @g split_axes = [[0]] partial = sum[1] : !shard.sharding",
    "halo": "%r = shard.sharding @g split_axes = [[0]] halo_sizes = [1, %n] : !shard.sharding",
    "offsets": "%r = shard.sharding @g split_axes = [[], [1]] sharded_dims_offsets = [0, 1, 3, 6] : !shard.sharding",
    "sub_axes": '%r = shard.sharding @g split_axes = [[], [1]] {axes = [[], ["1:(1)3"]]} : !shard.sharding',
    "shard": "%r = shard.shard %x to %s : tensor<4x6xf32>",
    "hint": "%r = shard.shard %x to %s annotate_for_users {required = false} : tensor<4x6xf32>",
    "get_sharding": "%r = shard.get_sharding %x : tensor<4x6xf32> -> !shard.sharding",
    "shard_shape": "%r, %q = shard.shard_shape dims = [4, %i] sharding = %s device = [%i, 2] : index, index",
    "grid_shape": "%r, %q = shard.grid_shape @g : index, index",
    "grid_shape_axes": "%r = shard.grid_shape @g axes = [1] : index",
    "process_multi_index": "%r, %q = shard.process_multi_index on @g : index, index",
    "process_linear_index": "%r = shard.process_linear_index on @g : index",
    "neighbors": "%r, %q = shard.neighbors_linear_indices on @g[%i, %i] split_axes = [1] : index, index",
    "all_gather": "%r = shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x18xf32>",
    "all_reduce": "%r = shard.all_reduce %x on @g grid_axes = [1, 0] reduction = max : tensor<4x6xf32> -> tensor<4x6xf64>",
    "all_slice": "%r = shard.all_slice %x on @g grid_axes = [1] slice_axis = 1 : tensor<4x6xf32> -> tensor<4x2xf32>",
    "all_to_all": "%r = shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<4x6xf32> -> tensor<2x12xf32>",
    "broadcast": "%r = shard.broadcast %x on @g grid_axes = [0] root = [%i] : (tensor<4x6xf32>, index) -> tensor<4x6xf32>",
    "gather": "%r = shard.gather %x on @g grid_axes = [1] gather_axis = 1 root = [1] : (tensor<4x6xf32>) -> tensor<4x18xf32>",
    "recv": "%r = shard.recv %x on @g grid_axes = [0] source = [1] : (tensor<4x6xf32>) -> tensor<4x6xf32>",
    "recv_any": "%r = shard.recv %x on @g grid_axes = [0] : (tensor<4x6xf32>) -> tensor<4x6xf32>",
    "reduce": "%r = shard.reduce %x on @g grid_axes = [1, 0] reduction = max root = [2, 1] : (tensor<4x6xf32>) -> tensor<4x6xf64>",
    "reduce_scatter": "%r = shard.reduce_scatter %x on @g grid_axes = [0] reduction = max scatter_axis = 0 : tensor<4x6xf32> -> tensor<2x6xf32>",
    "scatter": "%r = shard.scatter %x on @g grid_axes = [0] scatter_axis = 0 root = [1] : (tensor<4x6xf32>) -> tensor<2x6xf32>",
    "send": "%r = shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<4x6xf32>) -> tensor<4x6xf32>",
    "shift": "%r = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 2 rotate : tensor<4x6xf32> -> tensor<4x6xf32>",
    "shift_back": "%r = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = -2 : tensor<4x6xf32> -> tensor<4x6xf32>",
    "update_halo": "%r = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, %n] : tensor<4x6xf32>",
    "to_partial": "%r = meshgen.to_partial %x on @g grid_axes = [0] : tensor<4x6xf32> -> tensor<4x6xf32>",
    "permute": '%r = meshgen.permute %x on @g {source = #meshgen.split<@g, [[0], []]>} : tensor<4x6xf32> -> tensor<4x6xf32>',
    "retile": '%r = meshgen.retile %x on @g : tensor<4x6xf32> -> tensor<4x6xf32, #meshgen.split<@g, [["a:(1)2"], [1]] partial = sum[0] max["tp"] halo = [[1, 0], [0, 2]]>>',
    "fetch_rows": "%r = meshgen.fetch_rows %x on @g grid_axes = [0] dim = 0 base = -1 step = 4 limit = 8 wrap : tensor<4x6xf32> -> tensor<6x6xf32>",
    "process_index": "%r = meshgen.process_index on @g grid_axes = [0, 1] : tensor<i32>",
    "mask_padding": "%r = meshgen.mask_padding %x on @g grid_axes = [0] dim = 0 size = 7 fill = 0.000000e+00 : f64 : tensor<4x6xf32> -> tensor<4x6xf32>",
}  # fmt: skip
ATTRIBUTES = [
    '#meshgen.split<@g, [["dp"], []] offsets = [[0, 1, 4], []]>',
    '#meshgen.annotation<@g, [["dp"], []] hint open = [true, false]>',
    "#meshgen.plan<replicated(2, 2 -> 2), loops = 3>",
    '#meshgen.plan<([["dp"], []], [[]] partial = sum["tp"]) -> ([["dp"], []]), loops = [["dp"], []], why = ["line 3"]>',
    "#meshgen.plan<typed, loops = [[0]]>",
    '#sched.item<stream 1 waits = [0, 2] records = 3 seconds = "1e-05" start = "0.1" hidden = "0.0" exposed = "1e-05">',
    '#sched.buffer<3 "h" temporary storage = 2 offset = 1024>',
]


def parse(text: str) -> builtin.ModuleOp:
    module = TextParser(core_dialects().context, text, "-").parse_module()
    module.verify()
    return module


def program(operation: str) -> str:
    return f"""builtin.module {{
  shard.grid @g(shape = 2x3)
  func.func @f(%x: tensor<4x6xf32>, %s: !shard.sharding, %i: index, %n: i64) {{
    {operation}
    func.return
  }}
}}"""


@pytest.mark.parametrize("name", OPERATIONS)
def test_generic_form_parses_like_pretty_form(name: str) -> None:
    module = parse(program(OPERATIONS[name]))
    generic = StringIO()
    Printer(generic, print_generic_format=True).print_op(module)
    assert str(parse(generic.getvalue())) == str(module)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_attribute_round_trips_exactly(attribute: str) -> None:
    text = f"builtin.module attributes {{a = {attribute}}} {{\n}}"
    assert str(parse(text)) == text


def test_reduction_kind_in_angle_brackets_is_read() -> None:
    """The RFC's examples write `<max>`, LLVM 22 prints `max`."""
    written = OPERATIONS["all_reduce"].replace("= max", "= <max>")
    assert str(parse(program(written))) == str(parse(program(OPERATIONS["all_reduce"])))


def test_grid_with_unknown_size_and_named_axes_round_trips() -> None:
    text = 'builtin.module {\n  shard.grid @g(shape = 2x?x4) {axis_names = ["dp", "tp", "pp"]}\n}'
    assert str(parse(text)) == text


def test_former_name_of_annotation_attribute_is_read() -> None:
    text = """
shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%a: tensor<8xf32> {meshgen.sharding = #shard.NAME<@g, [["x"]] hint open = [true]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
    former, current = (parse_text(text.replace("NAME", name)) for name in ("wish", "annotation"))
    assert former.in_annotations == current.in_annotations and not former.in_annotations[0].required
    assert print_text(former) == print_text(current)
