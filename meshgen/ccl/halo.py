"""Which rows devices fetch from each other when a tile of a result needs other rows than the tile of its operand has.

Device i of a group holds rows [i tile, (i + 1) tile) of a dim and wants `rows` of them from i step + base on;
rows below 0 or from `limit` on do not exist and are padding, or with `wrap` are counted modulo `limit`. Halo exchange of a convolution, shifted and cut
slices, padding and joining along a split dim are all of this form.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowFetch:
    """One dim of a group of `count` devices, all numbers in rows."""

    count: int
    tile: int
    base: int
    step: int
    rows: int
    limit: int
    wrap: bool = False

    def wanted(self, index: int) -> list[tuple[int, int]]:
        """The existing rows that a device wants, as ranges [start, stop)."""
        start = index * self.step + self.base
        if not self.wrap:
            return [(max(0, start), min(self.limit, start + self.rows))]
        first = start % self.limit
        rows = min(self.rows, max(0, self.limit - index * self.step))  # the last tile may be short
        head = min(rows, self.limit - first)
        return [(first, first + head), (0, rows - head)]

    def held(self, index: int) -> tuple[int, int]:
        return index * self.tile, (index + 1) * self.tile

    def has_padding(self) -> bool:
        """Whether some device wants rows that do not exist."""
        return any(sum(stop - start for start, stop in self.wanted(i)) < self.rows for i in range(self.count))

    def moved(self) -> int:
        """The larger of the most rows that a device receives and the most that one sends."""
        if not self.tile:
            return 0
        sent = [0] * self.count
        received = 0
        for index in range(self.count):
            missing = 0
            for start, stop in self.wanted(index):
                for holder in range(start // self.tile, -(-max(start, stop) // self.tile)):
                    first, last = self.held(holder)
                    common = min(stop, last) - max(start, first)
                    if holder != index and common > 0:
                        missing += common
                        sent[holder] += common
            received = max(received, missing)
        return max(received, *sent)
