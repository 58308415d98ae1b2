"""The number of rows or elements that the busiest device moves, as an integer for given sizes and as a closed form.

A formula of `volume.py` contains the closed form only if it equals the exact number on the plan's mesh and on several
small meshes that split the sizes evenly. Otherwise the formula contains a text that describes the number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from meshgen.ccl.exchange import exchange
from meshgen.ccl.halo import RowFetch, parts_of, rows_moved
from meshgen.ir.symbols import Expr, names_in
from meshgen.mesh import Axis, Mesh, split_ref
from meshgen.spec import Sharding

Names = Mapping[str, int]  # values of axis sizes, symbolic tensor sizes and trip counts, by name
ONE = Expr.of(1)
# axis sizes for which a closed form is compared with the exact number (chosen: the smallest ones, powers of two and 3)
_TESTED_SIZES = (2, 3, 4, 8)
# number of axes; with more axes, only the plan's mesh is tested (chosen: 4 sizes per axis would give over 64 meshes)
_MAX_TESTED_AXES = 3


def devices(refs: Sequence[str], suffix: str = "") -> Expr:
    """Return the number of devices along `refs` as an expression: `n_x` for axis `x`, a constant for a sub-axis."""
    product = ONE
    for ref in refs:
        name, _, size = split_ref(ref)
        product *= Expr.symbol(f"n_{name}{suffix}") if size is None else Expr.of(size)
    return product


def axis_size_symbols(mesh: Mesh, suffix: str = "") -> dict[str, int]:
    """Return the axis sizes of `mesh`, by the symbols that stand for them in formulas: `n_x` for axis `x`."""
    return {f"n_{axis.name}{suffix}": int(axis.size) for axis in mesh.axes if axis.size is not None}


def meshes_to_try(names: Names, axes: Sequence[str]) -> Iterator[Names]:
    """Yield copies of `names` in which each of `axes` has a small size, to test closed forms on small meshes."""
    if len(axes) <= _MAX_TESTED_AXES:
        for counts in itertools.product(_TESTED_SIZES, repeat=len(axes)):
            yield {**names, **dict(zip(axes, counts, strict=True))}


class Fetched(NamedTuple):
    """The number of rows that the busiest device of a group sends or receives in a `fetch_rows`.

    Device i needs rows from (i * step + base) / divisor on. Each entry of `parts` describes one fetch of the message by
    the expressions tile, base, step, rows and limit (see `RowFetch`). An expression is constant if the plan fixes its
    value.
    """

    group: Expr
    parts: tuple[tuple[Expr, ...], ...]
    wrap: bool = False
    divisor: int = 1

    @staticmethod
    def of(attrs: Mapping[str, Any], tile: int, rows: int, count: int) -> Fetched:
        """Return the number of moved rows for a `fetch_rows` with attributes `attrs`.

        Args:
            tile, rows: size of the op's dim in the operand and in the result.
            count: devices of a group.
        """
        fetches = [part.fetch for part in parts_of(attrs, tile, rows, count)]
        numbers = tuple(tuple(map(Expr.of, (f.tile, f.base, f.step, f.rows, f.limit))) for f in fetches)
        return Fetched(devices(attrs["axes"]), numbers, fetches[0].wrap, fetches[0].divisor)

    def at(self, names: Names) -> int:
        count = self.group.at(names)
        if count < 2:
            return 0
        fetches: list[RowFetch] = []
        for part in self.parts:
            tile, base, step, rows, limit = (number.at(names) for number in part)
            fetches.append(RowFetch(count, tile, base, step, rows, min(limit, tile * count), self.wrap, self.divisor))
        return rows_moved(fetches)

    def form(self, names: Names) -> str:
        """Return a closed form as text if it is exact on all tested meshes, else a text that describes the number."""
        closed_form = self._closed_form(names)
        if closed_form is not None and all(
            closed_form.at(self.group.at(tested_names)) == self.at(tested_names)
            for tested_names in self._tested_names(names)
        ):
            return closed_form.text(str(self.group))
        return f"fetched({self.group}: {'; '.join(map(self._part_text, self.parts))})"

    def _part_text(self, part: tuple[Expr, ...]) -> str:
        tile, base, step, rows, _ = part
        start = step * Expr.symbol("i") + base
        first = f"ceil(({start})/{self.divisor})" if self.divisor != 1 else str(start)
        return f"{rows} rows from {first} on, of tiles of {tile}"

    def _tested_names(self, names: Names) -> Iterator[Names]:
        """Yield the plan's sizes, then sizes of small meshes on which needed rows advance by one tile per device."""
        yield names
        tile, _, step, _, limit = self.parts[0]
        for tested_names in meshes_to_try(names, [name for name in names_in(self.group) if name in names]):
            if tile.at(tested_names) == step.at(tested_names) and self.group.at(tested_names) * tile.at(
                tested_names
            ) >= limit.at(tested_names):
                yield tested_names

    def _closed_form(self, names: Names) -> _Ends | None:
        """Return the closed form if the fetch is a halo exchange or a rotation, else None."""
        tile, base, step, rows, limit = (number.at(names) for number in self.parts[0])
        if len(self.parts) != 1 or self.divisor != 1 or step != tile:
            return None
        if self.wrap:
            return _Ends(min(base % limit, -base % limit), 0) if rows == tile else None
        after = rows - tile + base
        return None if base > 0 or after < 0 else _Ends(-base, after)


class _Ends(NamedTuple):
    """The closed form of a halo exchange or rotation: rows needed from the tile before, and from the tile after.

    In a group of two devices, a device has only one neighbor, so only the larger of the two numbers counts.
    """

    before: int
    after: int

    def at(self, count: int) -> int:
        return sum(rows * min(count - 1, neighbors) for rows, neighbors in self._terms())

    def text(self, group: str) -> str:
        terms = [
            f"min({group}-1, {neighbors})" + (f"*{rows}" if rows != 1 else "") for rows, neighbors in self._terms()
        ]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def _terms(self) -> list[tuple[int, int]]:
        less, more = sorted((self.before, self.after))
        return [(rows, neighbors) for rows, neighbors in ((less, 2), (more - less, 1)) if rows]


class Moved(NamedTuple):
    """The number of elements that the busiest device sends or receives when a tensor changes its sharding."""

    source: Sharding
    target: Sharding
    shape: tuple[Expr, ...]
    axes: tuple[str, ...]  # used mesh axes, in the order of the mesh

    @staticmethod
    def of(source: Sharding, target: Sharding, shape: Sequence[int], mesh: Mesh) -> Moved:
        if source.partial == target.partial:  # Each partial summand is moved separately, so partial axes do not matter.
            source, target = source.without_partial(), target.without_partial()
        used = {split_ref(ref)[0] for ref in (*source.used_axes, *target.used_axes)}
        return Moved(source, target, tuple(map(Expr.of, shape)), tuple(name for name in mesh.names if name in used))

    def at(self, names: Names) -> int:
        mesh = Mesh(tuple(Axis(name, names[f"n_{name}"]) for name in self.axes))
        return exchange(self.source, self.target, tuple(size.at(names) for size in self.shape), mesh).elements

    def form(self, names: Names) -> Expr | str:
        """Return a closed form that equals the exact number on all tested meshes, or a text that describes the number."""
        for candidate in self._forms():
            if all(candidate.at(tested_names) == self.at(tested_names) for tested_names in self._tested_names(names)):
                return candidate
        return f"moved({' x '.join(map(str, self.shape))}: {self.source} -> {self.target})"

    def _tested_names(self, names: Names) -> Iterator[Names]:
        """Yield the plan's sizes, then sizes of small meshes that split the tensor evenly."""
        yield names
        splits = [
            (s, devices(axes))
            for end in (self.source, self.target)
            for s, axes in zip(self.shape, end.dims, strict=True)
        ]
        for tested_names in meshes_to_try(names, [f"n_{axis}" for axis in self.axes]):
            if not any(size.at(tested_names) % parts.at(tested_names) for size, parts in splits):
                yield tested_names

    def _forms(self) -> Iterator[Expr]:
        """Yield candidates for the closed form: the tile of either side, entire or without the overlap of both."""
        ends = (self.source, self.target)
        if any(end.halo or any(end.offsets) for end in ends) or any(":" in a for e in ends for a in e.split_axes):
            return
        before, after = (self._tile(end) for end in ends)
        both = zip(self.source.dims, self.target.dims, strict=True)
        common = self._tile(replace(self.source, dims=tuple(tuple(dict.fromkeys(a + b)) for a, b in both)))
        yield from (after, before, after + -common, before + -common)

    def _tile(self, sharding: Sharding) -> Expr:
        """Return the number of elements of a tile under `sharding`, as an expression."""
        sizes = [s.divided_up(devices(axes)) for s, axes in zip(self.shape, sharding.dims, strict=True)]
        return math.prod(sizes, start=ONE)


Counted = Fetched | Moved
