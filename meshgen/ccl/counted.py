"""Rows and elements of messages that depend on the ownership of rows: counted for given sizes, and in closed form.

A closed form is used as text only where it equals the count on the mesh of the plan, and on the small meshes (of two
devices and more along each axis) over which the sizes split evenly. Elsewhere the text names the counted quantity.
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

Names = Mapping[str, int]  # numbers of devices, open sizes and trips, by name
ONE = Expr.of(1)
_TRIED = (2, 3, 4, 8)  # numbers of devices on which a closed form is compared with the count
_TRIED_AXES = 3  # of more, only the mesh of the plan is: four numbers for each would be too many meshes


def devices(refs: Sequence[str], suffix: str = "") -> Expr:
    """The number of devices of a group over axes: `n_x` of an axis, a number of a part of one."""
    found = ONE
    for ref in refs:
        name, _, size = split_ref(ref)
        found *= Expr.symbol(f"n_{name}{suffix}") if size is None else Expr.of(size)
    return found


def numbers_of_devices(mesh: Mesh, suffix: str = "") -> dict[str, int]:
    """The numbers of devices along the axes of a mesh, by name."""
    return {f"n_{axis.name}{suffix}": int(axis.size) for axis in mesh.axes if axis.size is not None}


def meshes_to_try(names: Names, axes: Sequence[str]) -> Iterator[Names]:
    """The names with other numbers of devices for those of the axes."""
    if len(axes) <= _TRIED_AXES:
        for counts in itertools.product(_TRIED, repeat=len(axes)):
            yield {**names, **dict(zip(axes, counts, strict=True))}


class Fetched(NamedTuple):
    """Rows that the busiest device of a group sends or receives, where device i needs rows from i step + base on."""

    group: Expr
    # Of each fetch in the message: tile, base, step, rows and limit. Tiles that were written for one mesh are numbers.
    parts: tuple[tuple[Expr, ...], ...]
    wrap: bool = False
    divisor: int = 1

    @staticmethod
    def of(attrs: Mapping[str, Any], tile: int, rows: int, count: int) -> Fetched:
        """The count of a `fetch_rows`. Args: rows of the dim in operand and result, devices of a group."""
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
        """A closed form if it equals the count, else the name of the count."""
        closed = self._closed(names)
        if closed is not None and all(
            closed.at(self.group.at(tried)) == self.at(tried) for tried in self._tried(names)
        ):
            return closed.text(str(self.group))
        return f"fetched({self.group}: {'; '.join(map(self._part_text, self.parts))})"

    def _part_text(self, part: tuple[Expr, ...]) -> str:
        tile, base, step, rows, _ = part
        start = step * Expr.symbol("i") + base
        first = f"ceil(({start})/{self.divisor})" if self.divisor != 1 else str(start)
        return f"{rows} rows from {first} on, of tiles of {tile}"

    def _tried(self, names: Names) -> Iterator[Names]:
        """The plan's mesh, and others on which the rows that devices want begin where their tiles do."""
        yield names
        tile, _, step, _, limit = self.parts[0]
        for other in meshes_to_try(names, [name for name in names_in(self.group) if name in names]):
            if tile.at(other) == step.at(other) and self.group.at(other) * tile.at(other) >= limit.at(other):
                yield other

    def _closed(self, names: Names) -> _Ends | None:
        """Halos of tiles and rotations: rows at both ends of a tile."""
        tile, base, step, rows, limit = (number.at(names) for number in self.parts[0])
        if len(self.parts) != 1 or self.divisor != 1 or step != tile:
            return None
        if self.wrap:
            return _Ends(min(base % limit, -base % limit), 0) if rows == tile else None
        after = rows - tile + base
        return None if base > 0 or after < 0 else _Ends(-base, after)


class _Ends(NamedTuple):
    """Rows from the tile before and from the one after: of two devices each has one neighbour."""

    before: int
    after: int

    def at(self, count: int) -> int:
        return sum(rows * min(count - 1, neighbours) for rows, neighbours in self._terms())

    def text(self, group: str) -> str:
        words = [
            f"min({group}-1, {neighbours})" + (f"*{rows}" if rows != 1 else "") for rows, neighbours in self._terms()
        ]
        return words[0] if len(words) == 1 else f"({' + '.join(words)})"

    def _terms(self) -> list[tuple[int, int]]:
        less, more = sorted((self.before, self.after))
        return [(rows, neighbours) for rows, neighbours in ((less, 2), (more - less, 1)) if rows]


class Moved(NamedTuple):
    """Elements that the busiest device sends or receives to go from one sharding to another."""

    source: Sharding
    target: Sharding
    shape: tuple[Expr, ...]
    axes: tuple[str, ...]  # of the mesh, in its order

    @staticmethod
    def of(source: Sharding, target: Sharding, shape: Sequence[int], mesh: Mesh) -> Moved:
        if source.partial == target.partial:  # each summand by itself
            source, target = source.without_partial(), target.without_partial()
        used = {split_ref(ref)[0] for ref in (*source.used_axes, *target.used_axes)}
        return Moved(source, target, tuple(map(Expr.of, shape)), tuple(name for name in mesh.names if name in used))

    def at(self, names: Names) -> int:
        mesh = Mesh(tuple(Axis(name, names[f"n_{name}"]) for name in self.axes))
        return exchange(self.source, self.target, tuple(size.at(names) for size in self.shape), mesh).elements

    def form(self, names: Names) -> Expr | str:
        """A closed form if one equals the count, else the name of the count."""
        for form in self._forms():
            if all(form.at(tried) == self.at(tried) for tried in self._tried(names)):
                return form
        return f"moved({' x '.join(map(str, self.shape))}: {self.source} -> {self.target})"

    def _tried(self, names: Names) -> Iterator[Names]:
        """The plan's mesh, and others that split the sizes evenly."""
        yield names
        splits = [
            (s, devices(axes))
            for end in (self.source, self.target)
            for s, axes in zip(self.shape, end.dims, strict=True)
        ]
        for other in meshes_to_try(names, [f"n_{axis}" for axis in self.axes]):
            if not any(size.at(other) % parts.at(other) for size, parts in splits):
                yield other

    def _forms(self) -> Iterator[Expr]:
        """Candidate closed forms: a tile of either side, without the overlap of both."""
        ends = (self.source, self.target)
        if any(end.halo or any(end.offsets) for end in ends) or any(":" in a for e in ends for a in e.split_axes):
            return
        before, after = (self._tile(end) for end in ends)
        both = zip(self.source.dims, self.target.dims, strict=True)
        common = self._tile(replace(self.source, dims=tuple(tuple(dict.fromkeys(a + b)) for a, b in both)))
        yield from (after, before, after + -common, before + -common)

    def _tile(self, sharding: Sharding) -> Expr:
        """Elements of a tile."""
        sizes = [s.divided_up(devices(axes)) for s, axes in zip(self.shape, sharding.dims, strict=True)]
        return math.prod(sizes, start=ONE)


Counted = Fetched | Moved
