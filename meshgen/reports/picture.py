"""Draw shardings of any rank as text and as SVG, without data or devices.

The last two dims are the rows and columns of a grid of tiles. A tensor of higher rank has one grid per tile of its
leading dims.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from meshgen.errors import ShardingError
from meshgen.frontend.shardings import SpecLike, sharding_of
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import Sharding

MOST_GRIDS = 16  # chosen: number of grids that are drawn; the text counts the others
MOST_CELLS = 64  # chosen: cells along a side of a grid
_CELL_WIDTH, _CELL_HEIGHT, _GAP, _TEXT = 84, 30, 26, 16  # sizes in the SVG, in pixels
_HUES = 360  # degrees of the CSS color wheel
Range = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """The tiles of the last two dims, for one tile of the leading dims, with the devices that hold each tile."""

    outer: tuple[Range, ...]
    rows: tuple[Range, ...]
    columns: tuple[Range, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class Picture:
    """The devices that hold each tile of a tensor. `str` draws it as text; a notebook shows it as SVG."""

    title: str
    grids: tuple[Grid, ...]
    left_out: int
    rank: int

    def __str__(self) -> str:
        lines = [self.title]
        for grid in self.grids:
            lines += ["", *self._grid_lines(grid)]
        return "\n".join([*lines, *([f"... {self.left_out} more slices"] if self.left_out else [])])

    def _grid_lines(self, grid: Grid) -> Iterator[str]:
        if grid.outer:
            yield f"[{', '.join([*map(_range_text, grid.outer), *[':'] * min(2, self.rank)])}]"
        table = [["", *map(_range_text, grid.columns)]] if self.rank else []
        for row, cells in zip(grid.rows, grid.cells, strict=True):
            head = [_range_text(row)] if self.rank > 1 else [""] if self.rank else []
            table.append([*head, *map(devices_text, cells)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()

    def _repr_svg_(self) -> str:
        parts: list[str] = []
        top, width = _TEXT + _GAP, 0
        for grid in self.grids:
            parts += self._grid_svg(grid, top)
            top += _TEXT + _CELL_HEIGHT * (len(grid.rows) + 1) + _GAP
            width = max(width, _CELL_WIDTH * (len(grid.columns) + 1))
        title = f'<text x="0" y="{_TEXT}">{escape(self.title)}</text>'
        width = max(width, 8 * len(self.title))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
            f'font-family="sans-serif" font-size="12" fill="currentColor">{title}{"".join(parts)}</svg>'
        )

    def _grid_svg(self, grid: Grid, top: int) -> Iterator[str]:
        if grid.outer:
            yield _svg_text(0, top, f"[{', '.join(map(_range_text, grid.outer))}]")
        top += _TEXT
        for column_index, column in enumerate(grid.columns if self.rank else ()):
            yield _svg_text(_CELL_WIDTH * (column_index + 1), top, _range_text(column))
        for row_index, (row, cells) in enumerate(zip(grid.rows, grid.cells, strict=True)):
            y = top + 8 + _CELL_HEIGHT * row_index
            if self.rank > 1:
                yield _svg_text(0, y + 20, _range_text(row))
            for column_index, devices in enumerate(cells):
                yield _cell(_CELL_WIDTH * (column_index + 1), y, devices)


def show(sharding: SpecLike, shape: int | Sequence[int], mesh: Mesh | Mapping[str, int | None]) -> Picture:
    """Draw the tiles of a tensor of `shape` on the devices of `mesh`, as text with `print` and as SVG in a notebook.

    Args:
        sharding: in any form that `compile` accepts, such as `mg.P("dp")` or `"dp,_"`.
        mesh: a mesh from `make_mesh`, or the arguments of `make_mesh`.
    Raises:
        ShardingError: the mesh is invalid, or the sharding does not fit the mesh or the tensor.
    """
    shape = [shape] if isinstance(shape, int) else shape
    mesh = mesh if isinstance(mesh, Mesh) else make_mesh(mesh)
    checked_sharding = sharding_of(sharding, len(shape), mesh)
    if faults := checked_sharding.faults(tuple(shape), mesh):
        raise ShardingError(*faults)
    holders: dict[tuple[Range, ...], list[int]] = {}
    for rank in range(mesh.size):
        holders.setdefault(checked_sharding.ranges(shape, mesh, rank), []).append(rank)
    tiles = [sorted({tile[dim] for tile in holders}) for dim in range(len(shape))]
    outer_rank = max(0, len(shape) - 2)
    outers = [
        outer for outer in itertools.product(*tiles[:outer_rank]) if any(tile[:outer_rank] == outer for tile in holders)
    ]
    grids = [_grid(outer, tiles[outer_rank:], holders) for outer in outers[:MOST_GRIDS]]
    return Picture(_title(checked_sharding, shape, mesh), tuple(grids), max(0, len(outers) - MOST_GRIDS), len(shape))


def _grid(outer: tuple[Range, ...], inner: Sequence[list[Range]], holders: dict[tuple[Range, ...], list[int]]) -> Grid:
    rows = inner[0][:MOST_CELLS] if len(inner) > 1 else [(0, 1)]
    columns = inner[-1][:MOST_CELLS] if inner else [(0, 1)]
    dims = [rows, columns][2 - len(inner) :]
    holders_by_cell = iter([tuple(holders.get((*outer, *tile), ())) for tile in itertools.product(*dims)])
    return Grid(outer, tuple(rows), tuple(columns), tuple(tuple(next(holders_by_cell) for _ in columns) for _ in rows))


def _title(sharding: Sharding, shape: Sequence[int], mesh: Mesh) -> str:
    """Return the title of a picture: sizes with axes as in `[8@dp, 32@tp]`, partial sums, padding, and devices without
    data.
    """
    size_texts = [
        f"{size}{'@' + '+'.join(axes) if axes else ''}" for size, axes in zip(shape, sharding.dims, strict=True)
    ]
    partial = f" {{{', '.join(f'{kind}:{axis}' for axis, kind in sharding.partial)}}}" if sharding.partial else ""
    title = f"[{', '.join(size_texts)}]{partial} on {mesh}: the devices that hold each tile"
    empty = [rank for rank in range(mesh.size) if any(a >= b for a, b in sharding.ranges(shape, mesh, rank))]
    uneven = "" if sharding.is_even(shape, mesh) else "; tiles are padded to the longest"
    summands = ", each its summand" if sharding.partial else ""
    return title + summands + uneven + (f"; nothing on {devices_text(empty)}" if empty else "")


def devices_text(devices: Sequence[int]) -> str:
    """Abbreviate a list of device ranks, with `0-3` for consecutive ranks."""
    runs: list[list[int]] = []
    for device in devices:
        if runs and device == runs[-1][-1] + 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "-"


def _range_text(rows: Range) -> str:
    return f"{rows[0]}:{max(rows)}"


def _svg_text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'


def _cell(x: int, y: int, devices: Sequence[int]) -> str:
    """Return the SVG of a tile at (x, y), colored by the first device that holds it."""
    hue = devices[0] * 137 % _HUES if devices else 0
    fill = f"hsl({hue} 60% 50% / 0.35)" if devices else "none"
    rectangle = f'<rect x="{x}" y="{y}" width="{_CELL_WIDTH - 4}" height="{_CELL_HEIGHT - 4}" fill="{fill}" stroke="currentColor"/>'
    return rectangle + _svg_text(x + 6, y + 18, devices_text(devices))
