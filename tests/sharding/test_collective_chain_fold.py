"""The pass `collective-chain-fold`: pairs of collectives that are merged into one, and pairs that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.mlir.text import parse_text
from meshgen.sharding.optimizations.collective_chain_fold import collective_chain_fold

GATHERS = (
    "all_gather %x on @g grid_axes = [1] gather_axis = 0",
    "4x4",
    "all_gather %a on @g grid_axes = [0] gather_axis = 0",
    "8x4",
)
MERGED_PAIRS = [
    (*GATHERS, "all_gather", ("0", "1")),
    ("all_slice %x on @g grid_axes = [0] slice_axis = 1", "2x2", "all_slice %a on @g grid_axes = [1] slice_axis = 1", "2x1", "all_slice", ("0", "1")),
    ("reduce_scatter %x on @g grid_axes = [1] scatter_axis = 1", "2x2", "reduce_scatter %a on @g grid_axes = [0] scatter_axis = 1", "2x1", "reduce_scatter", ("1", "0")),
    ("shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate", "2x4", "shift %a on @g grid_axes = [0] shift_axis = 0 offset = 2 rotate", "2x4", "shift", ("0",)),
    ("all_gather %x on @g grid_axes = [0, 1] gather_axis = 0", "8x4", "all_slice %a on @g grid_axes = [1, 0] slice_axis = 0", "2x4", "permute_pairs", ("0", "1")),
]  # fmt: skip
# pairs of chained collectives that are not merged, with the reason: (first, its size, second, its size, reason)
SEPARATE_PAIRS = [
    ("all_gather %x on @g grid_axes = [1] gather_axis = 0", "4x4", "all_gather %a on @g grid_axes = [0] gather_axis = 1", "4x8", "other dims"),
    ("reduce_scatter %x on @g grid_axes = [1] scatter_axis = 1", "2x2", "reduce_scatter %a on @g grid_axes = [0] reduction = max scatter_axis = 1", "2x1", "kinds do not commute"),
    ("shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1", "2x4", "shift %a on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate", "2x4", "an end has no source"),
    ("shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate", "2x4", "shift %a on @g grid_axes = [1] shift_axis = 1 offset = 1 rotate", "2x4", "other axes"),
]  # fmt: skip


def program(first: str, middle: str, second: str, end: str, *, returns_first: bool = False) -> str:
    m, e = f"tensor<{middle}xf32>", f"tensor<{end}xf32>"
    results, values = (f"({e}, {m})", f"%r, %a : {e}, {m}") if returns_first else (e, f"%r : {e}")
    return f"""shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x4xf32>) -> {results} {{
  %a = shard.{first} : tensor<2x4xf32> -> {m}
  %r = shard.{second} : {m} -> {e}
  return {values}
}}"""


@pytest.mark.parametrize(("first", "middle", "second", "end", "op", "axes"), MERGED_PAIRS)
def test_chained_collectives_are_merged(
    first: str, middle: str, second: str, end: str, op: str, axes: tuple[str, ...]
) -> None:
    (node,) = collective_chain_fold(parse_text(program(first, middle, second, end))).graph.nodes
    assert (node.op, node.attrs.axes) == (op, axes)


@pytest.mark.parametrize(("first", "middle", "second", "end", "why"), SEPARATE_PAIRS)
def test_incompatible_chained_collectives_are_not_merged(
    first: str, middle: str, second: str, end: str, why: str
) -> None:
    assert len(collective_chain_fold(parse_text(program(first, middle, second, end))).graph.nodes) == 2, why


def test_chained_collectives_with_other_user_are_not_merged() -> None:
    assert len(collective_chain_fold(parse_text(program(*GATHERS, returns_first=True))).graph.nodes) == 2


def test_gather_and_slice_in_other_order_become_permute(tmp_path: Path) -> None:
    """On six devices, eight rows fill the tiles of four devices; the tiles of the last two are padding."""
    (tmp_path / "p.mlir").write_text(program(*MERGED_PAIRS[-1][:4]).replace("shape = 2x2", "shape = 2x?"))
    assert main(["check", str(tmp_path / "p.mlir")]) == 0


@pytest.mark.parametrize(("size", "tiles", "remaining"), [(10, (5, 3), 2), (12, (6, 3), 1)])
def test_chained_slices_are_merged_if_tiles_nest(size: int, tiles: tuple[int, int], remaining: int) -> None:
    """Two slices cut ten rows into tiles of 5, then of 3 and 2 rows. One slice over four devices would give 3, 3, 3 and
    1.
    """
    boundary_types = [
        f'tensor<{rows}xf32> {{meshgen.layout = #meshgen.split<@g, [["0", "1"]]>, meshgen.global = tensor<{4 * rows}xf32>}}'
        for rows in (size, tiles[1])
    ]
    first, second, third = (f"tensor<{rows}xf32>" for rows in (size, *tiles))
    text = f"""builtin.module attributes {{meshgen.stage = "partition"}} {{
  shard.grid @g(shape = 2x2)
  func.func public @f(%x: {boundary_types[0]}) -> ({boundary_types[1]}) {{
    %a = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : {first} -> {second}
    %r = shard.all_slice %a on @g grid_axes = [1] slice_axis = 0 : {second} -> {third}
    func.return %r : {third}
  }}
}}"""  # fmt: skip
    assert len(collective_chain_fold(parse_text(text)).graph.nodes) == remaining


def test_chained_shifts_around_ring_are_removed() -> None:
    shifts = ("shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate", "2x4", "shift %a on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate", "2x4")  # fmt: skip
    assert collective_chain_fold(parse_text(program(*shifts))).graph.nodes == []
