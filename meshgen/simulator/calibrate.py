"""A machine profile from measurements: the records that `python -m bench collectives` prints.

With n ranks, a collective of `size` bytes takes `latency + moved / rate`, where a rank moves 2 (n-1)/n (all_reduce) or (n-1)/n of the size.
Both numbers are fitted to all records so that the sum of squared relative errors is least; they replace those of the profile's
innermost level, which the ranks of one machine use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.profiles import Machine
from meshgen.records import dataclass

_SHARES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}  # of (n-1)/n of the size
MOST_FILE_BYTES = 1 << 26  # bench prints some lines


@dataclass(frozen=True)
class Measured:
    """One record: bytes that a rank moves on the ring, and seconds."""

    moved: float
    seconds: float


def read_records(path: str | Path) -> list[Measured]:
    """The collectives among several ranks in a file of bench records, one JSON document per line.

    Raises UsageError: MG0002 where the file cannot be read, MG0001 where it holds none or is malformed.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(Diagnostic("MG0002", f"cannot read {path}: {error.strerror}")) from error
    found: list[Measured] = []
    for number, line in enumerate(text[:MOST_FILE_BYTES].splitlines(), 1):
        try:
            record: Any = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UsageError(Diagnostic("MG0001", f"{path}:{number}: not JSON: {error}")) from error
        if (measured := _measured(record)) is not None:
            found.append(measured)
    if len({measured.moved for measured in found}) < 2:
        hint = "python -m bench collectives > FILE, on a machine with at least two GPUs"
        text_ = f"{path} has no collectives of two sizes between several ranks"
        raise UsageError(Diagnostic("MG0001", text_, hint=hint))
    return found


def _measured(record: Any) -> Measured | None:
    """A record of a collective between several ranks; None for others."""
    if not isinstance(record, dict):
        return None
    row = cast("dict[str, Any]", record)
    share = _SHARES.get(str(row.get("name")))
    size, ranks, micros = (_positive(row.get(name)) for name in ("size", "ranks", "us"))
    if row.get("suite") != "collectives" or share is None or not (size and micros and ranks >= 2):
        return None
    return Measured(share * (ranks - 1) / ranks * size, micros * 1e-6)


def _positive(value: Any) -> float:
    """A positive number; 0 for all else."""
    return float(value) if type(value) in (int, float) and math.isfinite(value) and value > 0 else 0.0


def calibrated(machine: Machine, measured: Sequence[Measured]) -> Machine:
    """The profile with the latency and rate that fit the measurements best."""
    moved, seconds = (np.array([getattr(m, name) for m in measured]) for name in ("moved", "seconds"))
    rows = np.stack([1 / seconds, moved / seconds], axis=1)  # relative errors: (latency + moved / rate) / seconds = 1
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)
    if (
        per_byte <= 0 or latency < 0
    ):  # no line with a positive rate goes through the points: rate from the largest alone
        largest = int(moved.argmax())
        latency, per_byte = float(seconds.min()), float(seconds[largest] / moved[largest])
    inner = replace(machine.links[0], bytes_per_second=float(1 / per_byte), latency_seconds=float(latency))
    return replace(machine, name=f"{machine.name}, calibrated", links=(inner, *machine.links[1:]))
