"""Tables of measured tiles: JSON files that compilations read, and that can be merged.

{"format": 1, "rows": [{"kernel": ..., "shapes": ..., "device": ..., "tile": {...}, ...}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from meshgen.budget import read_file
from meshgen.codegen.tuning.keys import kernel_digest, shape_class
from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.ir.graph import Graph
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.module_file.files import write_text
from meshgen.runtime.module_file.json_values import (
    get,
    read_amount,
    read_count,
    read_json,
    read_list,
    read_plain,
    read_text,
    table_of,
)

FORMAT = 1  # version of the file format; files of other versions are rejected
MOST_BYTES = 1 << 28  # most bytes of a file. Chosen: about a million rows
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """The best tile of a kernel on a device.

    Attributes:
        kernel, shapes: digest and shape class of the kernel (see `keys`).
        device: the name of the device, as reported by the driver.
        arch: the architecture of the device, such as `sm_90`.
        template, tile: template and tile of the candidate.
        warm, cold: median seconds of a launch, with its operands in the L2 cache and with other data in the L2 cache.
        before: mean of the warm and the cold time of the kernel that the module had before tuning.
        rounds: how often each candidate was measured.
    """

    kernel: str
    shapes: str
    device: str
    arch: str
    template: str
    tile: Mapping[str, Any]
    warm: float
    cold: float
    before: float
    rounds: int

    @property
    def key(self) -> Key:
        return self.kernel, self.shapes, self.device

    @property
    def seconds(self) -> float:
        """Return the mean of the warm and the cold time, by which candidates are compared."""
        return (self.warm + self.cold) / 2

    @property
    def provenance(self) -> dict[str, Any]:
        """Return the entry for a kernel with this tile in the report of a module."""
        names = ("device", "arch", "template", "tile", "warm", "cold", "before", "rounds")
        return {name: getattr(self, name) for name in names}

    def beats(self, other: Row) -> bool:
        """Whether a table keeps this row instead of `other`, which has the same key.

        The row with more rounds wins, then the row with less time, so the order of merging does not matter.
        """
        return self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, float, str]:
        return self.rounds, -self.seconds, json.dumps(asdict(self), sort_keys=True)


class TuningTable:
    """An immutable table of rows with unique keys. `with_rows` and `merged` return new tables."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[Key, Row] = {}
        for row in rows:
            if row.key not in self._rows or row.beats(self._rows[row.key]):
                self._rows[row.key] = row

    @property
    def rows(self) -> list[Row]:
        """Return the rows in the order of their keys."""
        return [self._rows[key] for key in sorted(self._rows)]

    def merged(self, other: TuningTable) -> TuningTable:
        """Return a table with the rows of both tables. Of two rows with one key, it keeps the winner (`Row.beats`)."""
        return TuningTable([*self._rows.values(), *other._rows.values()])

    def with_rows(self, rows: Iterable[Row]) -> TuningTable:
        """Return a table in which `rows` replace existing rows with the same keys."""
        table = TuningTable()
        table._rows = self._rows | {row.key: row for row in rows}
        return table

    @cached_property
    def _by_kernel(self) -> dict[Key, list[Row]]:
        by_kernel: dict[Key, list[Row]] = {}
        for row in self.rows:
            by_kernel.setdefault((row.kernel, row.shapes, row.arch), []).append(row)
        return by_kernel

    def find(self, body: Graph, arch: str) -> Row | None:
        """Return the row for a kernel on an architecture, or None if the table has none.

        If several devices of the architecture have a row, return the fastest.
        """
        if not self._rows:
            return None
        rows = self._by_kernel.get((kernel_digest(body), shape_class(body), arch), [])
        return min(rows, key=lambda row: row.seconds, default=None)

    def write(self, path: Path) -> None:
        """Write the file atomically. Raises UsageError MG0003."""
        document = {"format": FORMAT, "rows": [asdict(row) for row in self.rows]}
        write_text(path, json.dumps(document, indent=1, sort_keys=True) + "\n")


Tuning = TuningTable | str | Path | None  # a table, or the path of its file


def loaded_table(given: Tuning) -> TuningTable | None:
    """Return the table that a caller passed, either directly or as the path of a file.

    Raises UsageError MG0001 if `given` is neither, and the errors of `read_table`.
    """
    return given if given is None or isinstance(given, TuningTable) else read_table(path_of(given))


def read_table(path: Path) -> TuningTable:
    """Read the table in a file. Raises UsageError MG0002 if the file cannot be read, or MG0007 if its format is wrong."""
    try:
        content = read_file(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(Diagnostic("MG0002", f"'{path}' cannot be read: {system_reason(error)}")) from error
    try:
        value = read_json(content)
        if get(value, "format", read_count) != FORMAT:
            raise ValueError(f"it has format {value['format']}, but this meshgen reads format {FORMAT}")
        return TuningTable(get(value, "rows", lambda rows: read_list(rows, _read_row)))
    except (ValueError, RecursionError) as error:
        text = f"'{path}' is not a table of measured tiles: {str(error)[:200]}"
        raise UsageError(Diagnostic("MG0007", text, hint="meshgen tune OUT.mgx --table FILE writes them")) from error


def merge(paths: Iterable[Path]) -> TuningTable:
    """Return a table with the rows of all files. Raises the same errors as `read_table`."""
    return reduce(TuningTable.merged, map(read_table, paths), TuningTable())


def _read_row(value: Any) -> Row:
    kernel, shapes, device, arch, template = (
        get(value, name, read_text) for name in ("kernel", "shapes", "device", "arch", "template")
    )
    tile = get(value, "tile", lambda table: table_of(table, read_plain))
    warm, cold, before = (get(value, name, read_amount) for name in ("warm", "cold", "before"))
    return Row(kernel, shapes, device, arch, template, tile, warm, cold, before, get(value, "rounds", read_count))
