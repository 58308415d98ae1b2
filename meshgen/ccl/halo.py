"""Row fetches: a device fetches rows from other devices because its result tile needs rows outside of its operand tile.

Device i of a group holds rows [i tile, (i + 1) tile) of a dim. It needs `rows` rows from ceil((i step + base) /
divisor) on. Rows below 0 or from `limit` on do not exist and are padding; with `wrap`, indices are taken modulo
`limit`. The halo exchange of a convolution, shifted slices, padding and concatenation along a split dim all have this
form. Several fetches may share one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.ccl.exchange import Numbers, below_bounds
from meshgen.ir.graph import FETCH_NUMBERS
from meshgen.ops.collective_checks import farthest_start

_FAR = 2.0**62  # in rows: beyond the end of any tensor, and small enough for int64 arithmetic


@dataclass(frozen=True)
class RowFetch:
    """A fetch of rows along one dim in a group of `count` devices.

    The formula in the module's docstring defines the fields, which are numbers of rows.
    """

    count: int
    tile: int
    base: int
    step: int
    rows: int
    limit: int
    wrap: bool = False
    divisor: int = 1

    def start(self, index: int) -> int:
        """Return the first row that device `index` needs. The row may be outside of the tensor."""
        return -(-(index * self.step + self.base) // self.divisor)

    def reduced(self) -> RowFetch:
        """Return an equivalent fetch without a divisor if the first row of every device is divisible, else this fetch."""
        if self.step % self.divisor:
            return self
        return replace(self, base=self.start(0), step=self.step // self.divisor, divisor=1)

    def near(self) -> RowFetch:
        """Return a fetch of the same existing rows whose step is at most about `limit + rows`.

        With a longer step, at most one device fetches existing rows. Windows have such steps if their stride exceeds
        the operand.
        """
        far = farthest_start(self.rows, self.limit, self.divisor)
        if self.wrap or abs(self.step) <= far:
            return self
        has_rows = (index for index in range(self.count) if -self.rows < self.start(index) < self.limit)
        index = next(has_rows, None)
        base = self.limit * self.divisor if index is None else self.base + index * (self.step - far)
        return replace(self, base=base, step=far)

    def needed_ranges(self, index: int) -> list[tuple[int, int]]:
        """Return the rows that device `index` needs, as ranges [start, stop) without padding rows."""
        start = self.start(index)
        if not self.wrap:
            return [(max(0, start), min(self.limit, start + self.rows))]
        first = (index * self.step + self.base) % self.limit
        rows = min(self.rows, max(0, self.limit - index * self.step))  # the last tile may be short
        head = min(rows, self.limit - first)
        return [(first, first + head), (0, rows - head)]

    def ranges(self) -> tuple[Numbers, Numbers]:
        """Return `needed_ranges` of all devices, as arrays of starts and of stops, of shape [device, range]."""
        index = np.arange(self.count, dtype=np.int64)
        if not self.wrap:
            is_far = np.abs(index * float(self.step) + self.base) > _FAR
            start = np.where(is_far, self.limit, -(-(index * self.step + self.base) // self.divisor))
            return np.maximum(start, 0)[:, None], np.minimum(start + self.rows, self.limit)[:, None]
        first = (index * self.step + self.base % self.limit) % self.limit
        rows = np.clip(self.limit - index * self.step, 0, self.rows)
        head = np.minimum(rows, self.limit - first)
        return np.stack([first, np.zeros_like(first)], 1), np.stack([first + head, rows - head], 1)

    def placed(self, index: int) -> list[tuple[int, int, int]]:
        """Return (start, stop, first row of the result) of each range of rows that device `index` needs."""
        ranges = self.needed_ranges(index)
        if not self.wrap:
            return [(*ranges[0], max(0, -self.start(index)))]
        head, tail = ranges
        return [(*head, 0), (*tail, head[1] - head[0])]

    def held(self, index: int) -> tuple[int, int]:
        return index * self.tile, (index + 1) * self.tile

    def is_identity(self) -> bool:
        """Whether every device needs exactly the rows that it holds."""
        return (
            self.rows == self.tile
            and not self.wrap
            and all(self.start(i) == i * self.tile for i in (0, self.count - 1))
        )

    def has_padding(self) -> bool:
        """Whether some device needs rows outside of the tensor."""
        return any(sum(stop - start for start, stop in self.needed_ranges(i)) < self.rows for i in range(self.count))

    def kept(self) -> Numbers:
        """Return, for each device, the number of needed rows that are in the device's own tile."""
        starts, stops = self.ranges()
        tiles = np.arange(self.count + 1, dtype=np.int64) * self.tile
        overlaps = np.minimum(stops, tiles[1:, None]) - np.maximum(starts, tiles[:-1, None])
        return np.maximum(overlaps, 0).sum(axis=1)

    def traffic(self) -> tuple[Numbers, Numbers]:
        """Return, for each device, the number of rows that it receives and the number that it sends."""
        if not self.tile:
            return np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        starts, stops = self.ranges()
        stops = np.maximum(starts, np.minimum(stops, self.count * self.tile))
        tiles = np.arange(self.count + 1, dtype=np.int64) * self.tile
        kept_rows = self.kept()
        below = below_bounds(tiles, starts.ravel()) - below_bounds(tiles, stops.ravel())
        return (stops - starts).sum(axis=1) - kept_rows, np.diff(below) - kept_rows

    def most_sent(self) -> int:
        """Return an upper bound on the rows that one device sends.

        Only devices whose first row is less than `rows` rows before a row need that row. The bound is the largest
        number of such devices, times the rows of a tile.
        """
        receivers = self.count if not self.step else min(self.count, self.rows * self.divisor // abs(self.step) + 3)
        return self.tile * receivers

    def moved(self) -> int:
        """Return the number of rows that the busiest device receives or sends."""
        return rows_moved([self])


def rows_moved(fetches: Sequence[RowFetch]) -> int:
    """Return the number of rows that the busiest device receives or sends, if one message carries all `fetches`."""
    return max(most_rows(fetches))


def most_rows(fetches: Sequence[RowFetch]) -> tuple[int, int]:
    """Return the most rows that one device receives, and that one device sends, for all `fetches` together."""
    if not fetches:
        return 0, 0
    received, sent = zip(*(fetch.traffic() for fetch in fetches), strict=True)
    return int(np.max(sum(received))), int(np.max(sum(sent)))


def most_kept(fetches: Sequence[RowFetch]) -> int:
    """Return the most rows that a device needs from its own tile, summed over all `fetches`."""
    return int(np.max(sum(fetch.kept() for fetch in fetches))) if fetches else 0


@dataclass(frozen=True)
class Part:
    """A part of a `fetch_rows`, for which rows [start, start + tile) of each device's operand are the tile.

    It fills `fetch.rows` rows of the result.
    """

    start: int
    fetch: RowFetch

    @property
    def numbers(self) -> tuple[int, ...]:
        fetch = self.fetch
        return self.start, fetch.tile, fetch.base, fetch.step, fetch.rows, fetch.limit


def parts_of(attrs: Mapping[str, Any], tile: int, rows: int, count: int) -> list[Part]:
    """Return the parts of a `fetch_rows` with attributes `attrs`, in the order in which they fill the result.

    Args:
        tile, rows: size of the op's dim in the operand and in the result.
        count: devices of a group.
    """
    if numbers := attrs.get("parts"):
        rows_of = [numbers[i : i + FETCH_NUMBERS] for i in range(0, len(numbers), FETCH_NUMBERS)]
        return [Part(start, RowFetch(count, *rest)) for start, *rest in rows_of]
    wrap, divisor = bool(attrs.get("wrap")), attrs.get("divisor", 1)
    return [Part(0, RowFetch(count, tile, attrs["base"], attrs["step"], rows, attrs["limit"], wrap, divisor))]
