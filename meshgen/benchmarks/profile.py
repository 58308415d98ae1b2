"""A machine profile from a run: latency and rate per class of links, in the form that `--machine FILE` reads.

On the links of one level a collective takes `latency + factor * size / rate` (`cases.bus_factor`). Both numbers are fitted so that the sum of
squared relative errors is least. Inside a host all kinds count that are one pass over these links; between hosts sends and receives
alone, because rings and trees between hosts have latencies of several steps.
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
from meshgen.runtime.module_file.container import refuse_place
from meshgen.runtime.module_file.files import write_text

INSIDE, BETWEEN = "inside", "between"
_ONE_PASS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv")


@dataclass(frozen=True)
class Measured:
    """A collective: bytes that a rank's link carries, and seconds."""

    moved: float
    seconds: float


def profile_of(records: Sequence[Record], name: str, base: Machine | None = None) -> Machine:
    """The machine that records of `collectives` measured.

    Args:
        name: of the profile.
        base: what was not measured is that of this machine: its device, and the links between hosts where there is one host.
    Raises:
        UsageError: MG0001, there are not two sizes of a class of links.
    """
    records = [each for each in records if each["suite"] == "collectives" and each["ranks"] > 1]
    per_host = max((each.get("per_host") or 0 for each in records), default=0)
    has_hosts = any(each["group"] == "across" for each in records)
    inside = _measured(records, ("host",) if has_hosts else ("all",), _ONE_PASS)
    links = [_link(INSIDE, per_host if has_hosts else base.links[0].devices if base else None, inside)]
    if has_hosts:
        links.append(_link(BETWEEN, None, _measured(records, ("across",), ("sendrecv",))))
    else:
        links += base.links[1:] if base else ()
    return replace(base or Machine(name, ()), name=name, links=tuple(links))


def _measured(records: Iterable[Record], groups: Sequence[str], kinds: Sequence[str]) -> list[Measured]:
    return [
        Measured(bus_factor(each["what"], each["ranks"]) * each["size"], each["us"] * 1e-6)
        for each in records
        if each["group"] in groups and each["what"] in kinds and each.get("us")
    ]


def _link(name: str, devices: int | None, measured: Sequence[Measured]) -> Link:
    if len({each.moved for each in measured}) < 2:
        hint = "give several sizes (-b 1K -e 32M -f 4), and all_reduce and sendrecv among the kinds"
        raise UsageError(
            Diagnostic("MG0001", f"a profile needs times of two sizes of the links {name} hosts", hint=hint)
        )
    latency, rate = fitted(measured)
    return Link(name, devices, rate, latency)


def fitted(measured: Sequence[Measured]) -> tuple[float, float]:
    """Seconds of latency and bytes per second that fit measurements of at least two sizes best."""
    moved, seconds = (np.array([getattr(m, name) for m in measured]) for name in ("moved", "seconds"))
    rows = np.stack([1 / seconds, moved / seconds], axis=1)  # relative errors: (latency + moved / rate) / seconds = 1
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)
    if per_byte <= 0 or latency < 0:  # no such line has a positive rate: the rate from the largest alone
        largest = int(moved.argmax())
        latency, per_byte = float(seconds.min()), float(seconds[largest] / moved[largest])
    return float(latency), float(1 / per_byte)


def profile_place(text: str) -> Path:
    """A file that `--machine` reads. Raises UsageError MG0001 where it would not, MG0003 where it cannot be written."""
    if not text.endswith(".json"):
        raise UsageError(Diagnostic("MG0001", f"a profile is a .json file, not {text}", hint="--save-profile own.json"))
    refuse_place(Path(text))
    return Path(text)


def write_profile(machine: Machine, path: Path) -> None:
    """Raises UsageError MG0003."""
    write_text(path, json.dumps(machine_record(machine), indent=1) + "\n")
