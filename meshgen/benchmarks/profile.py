"""A machine profile that is fitted to a run: latency and rate per class of links, in the format that `--machine FILE`
reads.

On the links of one level a collective takes `latency + factor * size / rate` (`cases.bus_factor`). Both parameters are
fitted by least squares of the relative errors. Inside a host, the fit uses all collectives that traverse the links
once. Between hosts it uses sends and receives only, because rings and trees between hosts have latencies of several
steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from meshgen.benchmarks.collectives.cases import bus_factor
from meshgen.benchmarks.records import Record
from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.profiles import Link, Machine
from meshgen.machine.reading import machine_record
from meshgen.runtime.module_file.container import require_writable
from meshgen.runtime.module_file.files import write_text

INSIDE, BETWEEN = "inside", "between"
_ONE_PASS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv")


@dataclass(frozen=True)
class Measurement:
    """A measured collective: the bytes that each link of a rank carries, and the seconds."""

    moved: float
    seconds: float


def profile_of(records: Sequence[Record], name: str, base: Machine | None = None) -> Machine:
    """Fit a machine profile to records of `collectives`.

    Args:
        name: name of the profile.
        base: the machine from which the profile copies the device, and the links that were not measured.
    Raises:
        UsageError: MG0001, a class of links has fewer than two sizes.
    """
    records = [record for record in records if record["suite"] == "collectives" and record["ranks"] > 1]
    per_host = max((record.get("per_host") or 0 for record in records), default=0)
    has_hosts = any(record["group"] == "across" for record in records)
    inside = _measured(records, ("host",) if has_hosts else ("all",), _ONE_PASS)
    links = [_link(INSIDE, per_host if has_hosts else base.links[0].devices if base else None, inside)]
    if has_hosts:
        links.append(_link(BETWEEN, None, _measured(records, ("across",), ("sendrecv",))))
    else:
        links += base.links[1:] if base else ()
    return replace(base or Machine(name, ()), name=name, links=tuple(links))


def _measured(records: Iterable[Record], groups: Sequence[str], kinds: Sequence[str]) -> list[Measurement]:
    return [
        Measurement(bus_factor(record["what"], record["ranks"]) * record["size"], record["us"] * 1e-6)
        for record in records
        if record["group"] in groups and record["what"] in kinds and record.get("us")
    ]


def _link(name: str, devices: int | None, measured: Sequence[Measurement]) -> Link:
    if len({measurement.moved for measurement in measured}) < 2:
        hint = "give several sizes (-b 1K -e 32M -f 4), and all_reduce and sendrecv among the kinds"
        raise UsageError(
            Diagnostic("MG0001", f"a profile needs times of two sizes of the links {name} hosts", hint=hint)
        )
    latency, rate = fit_link(measured)
    return Link(name, devices, rate, latency)


def fit_link(measured: Sequence[Measurement]) -> tuple[float, float]:
    """Fit the latency (seconds) and the rate (bytes per second) to measurements of at least two sizes."""
    moved, seconds = (np.array([getattr(m, name) for m in measured]) for name in ("moved", "seconds"))
    # The fit minimizes relative errors: (latency + moved / rate) / seconds should be 1.
    rows = np.stack([1 / seconds, moved / seconds], axis=1)
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)
    # The fitted rate or latency is not positive: use the rate of the largest size alone.
    if per_byte <= 0 or latency < 0:
        largest = int(moved.argmax())
        latency, per_byte = float(seconds.min()), float(seconds[largest] / moved[largest])
    return float(latency), float(1 / per_byte)


def profile_place(text: str) -> Path:
    """Check the path of a new profile. Raises UsageError: MG0001 if it does not end in .json, MG0003 if it cannot be
    written.
    """
    if not text.endswith(".json"):
        raise UsageError(Diagnostic("MG0001", f"a profile is a .json file, not {text}", hint="--save-profile own.json"))
    require_writable(Path(text))
    return Path(text)


def write_profile(machine: Machine, path: Path) -> None:
    """Write a machine profile as JSON. Raises UsageError MG0003 if the file cannot be written."""
    write_text(path, json.dumps(machine_record(machine), indent=1) + "\n")
