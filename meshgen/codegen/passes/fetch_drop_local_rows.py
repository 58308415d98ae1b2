"""Fetch only rows that other devices hold, and concatenate them with the device's own tile.

    before   %1 = fetch_rows %0 base = -1          f32[8,4] -> f32[9,4]     copies the device's own eight rows
    after    %1 = fetch_rows %0 base = -1          f32[8,4] -> f32[1,4]
             %2 = concatenate %1, %0 {dim = 0}     f32[1,4], f32[8,4] -> f32[9,4]

A stencil kernel then reads the device's own tile in place and the halo from a separate buffer, because the
concatenation is fused into this kernel. The pass leaves alone a fetch whose result has users other than such kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.ccl.halo import Part, RowFetch, parts_of
from meshgen.codegen.access_neighbors import AccessNeighbors
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.rewriter import rewritten
from meshgen.mesh import Mesh


class _RowRange(NamedTuple):
    """A range of `rows` rows of the fetch's result. They come from other devices if `fetched` is set, or else from the
    device's own operand, starting at row `start`.
    """

    start: int
    rows: int
    fetched: Part | None = None


@module_pass("fetch-drop-local-rows", "partition")
def fetch_drop_local_rows(module: Module, context: Compilation) -> Module:
    """Shrink fetches whose results only kernels read. Results with other users remain the same `Value` objects."""
    return on_graphs(module, lambda graph: _with_edges(graph, module.mesh))


def _with_edges(graph: Graph, mesh: Mesh) -> Graph:
    near = AccessNeighbors(graph)

    def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
        pieces = (
            _row_ranges(node, mesh) if node.op == "fetch_rows" and near.can_be_split_in_buffers(node.result) else []
        )
        return [_fetched(builder, node, pieces)] if any(piece.fetched is None for piece in pieces) else None

    return rewritten(graph, rule)


def _row_ranges(node: Node, mesh: Mesh) -> list[_RowRange]:
    """Return the non-empty row ranges of the result of a fetch, in row order."""
    dim, count = node.attrs.dim, mesh.group_size(node.attrs.axes)
    tile, rows = (value.type.sizes[dim] for value in (node.operands[0], node.result))
    parts = parts_of(node.attrs, tile, rows, count)
    return [piece for part in parts for piece in _split_fetch(part) if piece.rows]


def _split_fetch(part: Part) -> list[_RowRange]:
    """Split one fetch into remote rows before the device's own, its own rows, and remote rows after them.

    Returns a single remote range if the split is not the same on all devices, or the fetch has no local rows.
    """
    fetch = _near_zero(part.fetch)
    first, stop = max(fetch.base, 0), min(fetch.base + fetch.rows, fetch.tile)
    if fetch.divisor != 1 or fetch.step != fetch.tile or first >= stop or (fetch.wrap and not _is_even(fetch)):
        return [_RowRange(0, fetch.rows, part)]
    before, behind = first - fetch.base, fetch.base + fetch.rows - stop
    return [
        _RowRange(0, before, replace(part, fetch=replace(fetch, rows=before).near())),
        _RowRange(part.start + first, stop - first),
        _RowRange(0, behind, replace(part, fetch=replace(fetch, base=stop, rows=behind).near())),
    ]


def _is_even(fetch: RowFetch) -> bool:
    """Whether the rows of a wrap-around fetch begin and end at tile boundaries, and the fetch copies no row twice."""
    return fetch.limit == fetch.count * fetch.tile and fetch.rows <= fetch.tile


def _near_zero(fetch: RowFetch) -> RowFetch:
    """Return the fetch with the base moved as near to zero as possible. For a wrap-around fetch, the last row is row
    -1.
    """
    fetch = fetch.reduced()
    if not fetch.wrap:
        return fetch
    base = fetch.base % fetch.limit
    return replace(fetch, base=base - fetch.limit if 2 * base > fetch.limit else base)


def _fetched(builder: Builder, node: Node, pieces: Sequence[_RowRange]) -> Value:
    """Emit one fetch of all remote rows, and a concatenation of all row ranges in `pieces`."""
    dim, (operand,) = node.attrs.dim, node.operands
    parts = [piece.fetched for piece in pieces if piece.fetched]
    fetched = _fetch(builder, node, parts) if parts else operand
    fetched_rows, rows = 0, list[Value]()
    for piece in pieces:
        value, start = (fetched, fetched_rows) if piece.fetched else (operand, piece.start)
        fetched_rows += piece.rows if piece.fetched else 0
        is_entire_value = piece.rows == value.type.sizes[dim]
        rows.append(value if is_entire_value else builder.rows(value, dim, start, start + piece.rows))
    return builder.concatenate(rows, dim)


def _fetch(builder: Builder, node: Node, parts: Sequence[Part]) -> Value:
    dim, rows = node.attrs.dim, sum(part.fetch.rows for part in parts)
    attrs = {name: value for name, value in node.attrs.given.items() if name not in ("parts", "divisor")}
    if len(parts) == 1 and "parts" not in node.attrs.given:
        attrs |= {name: getattr(parts[0].fetch, name) for name in ("base", "step", "limit")}
    else:
        attrs["parts"] = tuple(number for part in parts for number in part.numbers)
    sizes = node.result.type.sizes
    kind = node.result.type.with_shape((*sizes[:dim], rows, *sizes[dim + 1 :]))
    result = Value(kind, f"{node.result.name}_edges" if node.result.name else "", loc=node.loc)
    builder.add(replace(node, results=[result], attrs=attrs))
    return result
