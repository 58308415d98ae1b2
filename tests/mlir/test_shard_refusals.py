"""Tests that every op of the shard dialect refuses invalid uses at their location."""

from __future__ import annotations

import pytest

from meshgen.errors import MeshgenError
from meshgen.mlir.families import dialects
from meshgen.mlir.shard.sharding_ops import LAYOUT_OPS
from meshgen.mlir.text import parse_text

X, G = "tensor<4x6xf32>", "on @g grid_axes = [1]"
WRONG = {
    "all_gather": (f"%r = shard.all_gather %x {G} gather_axis = 2 : {X} -> tensor<4x18xf32>", "dim 2"),
    "all_reduce": (f"%r = shard.all_reduce %x on @g grid_axes = [2] : {X} -> {X}", "axis"),
    "all_slice": (f"%r = shard.all_slice %x {G} slice_axis = 1 : {X} -> {X}", "6"),
    "all_to_all": (f"%r = shard.all_to_all %x {G} split_axis = 0 concat_axis = 1 : {X} -> tensor<2x18xf32>", "4"),
    "broadcast": (f"%r = shard.broadcast %x {G} root = [3] : ({X}) -> {X}", "root"),
    "gather": (f"%r = shard.gather %x {G} gather_axis = 1 root = [1] : ({X}) -> {X}", "18"),
    "gather root": (f"%r = shard.gather %x {G} gather_axis = 1 root = [1, 0] : ({X}) -> tensor<4x18xf32>", "root"),
    "get_sharding": (f"%s = shard.get_sharding %x : {X} -> !shard.sharding\n  %r = shard.shard %x to %s : {X}", "has no sharding before propagation"),
    "grid": ("shard.grid @h(shape = 0x2)", "size 0"),
    "grid_shape": ("%r = shard.grid_shape @g axes = [2] : index", "axis"),
    "grid_shape results": ("%r, %q, %s = shard.grid_shape @g : index, index, index", "has 2 indices, but 3 results"),
    "neighbors_linear_indices": ("%r, %q = shard.neighbors_linear_indices on @g[%i] split_axes = [1] : index, index", "device"),
    "neighbors_linear_indices axis": ("%r, %q = shard.neighbors_linear_indices on @g[%i, %i] split_axes = [5] : index, index", "axis"),
    "process_linear_index": ("%r = shard.process_linear_index on @h : index", "@h"),
    "process_multi_index": ("%r = shard.process_multi_index on @g axes = [2] : index", "axis"),
    "process_multi_index results": ("%r = shard.process_multi_index on @g : index", "has 2 indices, but 1 results"),
    "recv": (f"%r = shard.recv %x {G} source = [0] : ({X}) -> {X}", "send"),
    "recv source": (f"%t = shard.send %x {G} destination = [1] : ({X}) -> {X}\n  %r = shard.recv %t {G} source = [3] : ({X}) -> {X}", "source"),
    "reduce": (f"%r = shard.reduce %x {G} reduction = <max> root = [0] : ({X}) -> tensor<4x7xf32>", "6"),
    "reduce kind": (f"%r = shard.reduce %x {G} reduction = <generic> root = [0] : ({X}) -> {X}", "generic"),
    "reduce_scatter": (f"%r = shard.reduce_scatter %x {G} scatter_axis = 0 : {X} -> tensor<2x6xf32>", "4"),
    "scatter": (f"%r = shard.scatter %x {G} scatter_axis = 0 root = [0] : ({X}) -> tensor<2x6xf32>", "4"),
    "scatter axis": (f"%r = shard.scatter %x {G} scatter_axis = 3 root = [0] : ({X}) -> {X}", "dim 3"),
    "send": (f"%r = shard.send %x {G} destination = [4] : ({X}) -> {X}", "destination"),
    "shard": (f"%s = shard.sharding @g split_axes = [[0], [], [1]] : !shard.sharding\n  %r = shard.shard %x to %s : {X}", "3 lists"),
    "shard_shape": ("%s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n  %r = shard.shard_shape dims = [4, 6] sharding = %s device = [0, 0] : index", "has 2 indices, but 1 results"),
    "sharding": ("%s = shard.sharding @g split_axes = [[0], [0]] : !shard.sharding", "axis"),
    "shift": (f"%r = shard.shift %x {G} shift_axis = 0 offset = 1 rotate : {X} -> {X}", "shift axis '0'"),
    "update_halo": (f"%r = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [3, 3] : {X}", "halo"),
}  # fmt: skip


@pytest.mark.parametrize("body, words", WRONG.values(), ids=WRONG)
def test_invalid_shard_op_is_refused_with_its_location(body: str, words: str) -> None:
    function = f"func.func @f(%x: {X}, %i: index) -> {X} {{\n  {body}\n  return %x : {X}\n}}"
    text = (
        f"shard.grid @g(shape = 2x3)\n{body}\n{function.replace(body, '')}"
        if body.startswith("shard.grid")
        else f"shard.grid @g(shape = 2x3)\n{function}"
    )
    with pytest.raises(MeshgenError) as caught:
        parse_text(text, "p.mlir")
    diagnostics = caught.value.diagnostics
    assert any(words in fault.message and fault.loc and 2 <= fault.loc.line <= 4 for fault in diagnostics), [
        str(diagnostic) for diagnostic in diagnostics
    ]


def test_every_shard_op_has_a_refusal_test() -> None:
    upstream = {operation.name.partition(".")[2] for operation in LAYOUT_OPS}
    upstream |= {
        "all_gather",
        "all_reduce",
        "all_slice",
        "all_to_all",
        "broadcast",
        "gather",
        "recv",
        "reduce",
        "reduce_scatter",
    }
    upstream |= {"scatter", "send", "shift", "update_halo"}
    assert {name.split()[0] for name in WRONG} == upstream
    assert all(dialects().context.get_optional_op(f"shard.{name}") is not None for name in upstream)
