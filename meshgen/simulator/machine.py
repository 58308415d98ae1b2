"""Machine profiles: how devices are linked, level by level, from the fast links of a host outwards.

Devices are numbered through: with 8 devices per host, devices 0 to 7 share host 0. A collective whose group spans several
domains of a level (hosts, say) uses the links of the next level too.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import Diagnostic, UsageError
from meshgen.records import dataclass

MOST_FILE_BYTES = 1 << 20  # bytes: a profile has a few lines


@dataclass(frozen=True)
class Link:
    """The links of one level.

    Attributes:
        devices: how many devices these links join into one domain; None: all.
        bytes_per_second: what a device can send, in one direction, when all of its domain send at once.
        latency_seconds: of the innermost level, from launch to finish of the smallest collective; further out, what each
            doubling of the number of domains adds.
    """

    name: str
    devices: int | None
    bytes_per_second: float
    latency_seconds: float


@dataclass(frozen=True)
class Machine:
    """A profile: `links` from the innermost level to the outermost, which joins all devices.

    Attributes:
        overlap_slowdown: by which share a kernel's time grows while a collective runs beside it.
    """

    name: str
    links: tuple[Link, ...]
    overlap_slowdown: float = DEFAULT.links.overlap_slowdown

    def __str__(self) -> str:
        return self.name


def _switched(name: str, devices: int, scale_up: float, scale_out: float) -> Machine:
    """Hosts (or racks) of switched NVLink with one network port per device; data-sheet bytes/s of one direction."""
    inner = Link("nvlink", devices, scale_up * DEFAULT.links.ring_share, DEFAULT.links.nvlink_latency_seconds)
    outer = Link("infiniband", None, scale_out * DEFAULT.links.port_share, DEFAULT.links.network_latency_seconds)
    return Machine(name, (inner, outer))


# Source: NVIDIA's data sheets of DGX A100 (NVLink 3, eight HDR ports), DGX H100 / H200 (NVLink 4, eight NDR ports) and
# GB200 NVL72 (NVLink 5, 72 devices in a domain, one NDR port each).
MACHINES = {
    machine.name: machine
    for machine in (
        _switched("dgx-a100", 8, 300e9, 25e9),
        Machine(
            "dgx-h100",
            (
                Link("nvlink", 8, DEFAULT.links.nvlink_bytes_per_second, DEFAULT.links.nvlink_latency_seconds),
                Link("infiniband", None, DEFAULT.links.network_bytes_per_second, DEFAULT.links.network_latency_seconds),
            ),
        ),
        _switched("gb200-nvl72", 72, 900e9, 50e9),
    )
}
DEFAULT_MACHINE = "dgx-h100"


def machine_of(given: str | Path | Machine) -> Machine:
    """A profile, one of `MACHINES` by name, or the profile in a JSON file.

    Raises UsageError: MG0001 for anything else or a malformed profile, MG0002 where the file cannot be read.
    """
    if isinstance(given, Machine):
        return given
    if not isinstance(cast("Any", given), str | Path):
        hint = f"use one of {', '.join(MACHINES)}, or the path of a profile.json"
        raise UsageError(Diagnostic("MG0001", f"expected a machine profile or its name, got {given!r:.60}", hint=hint))
    if str(given) in MACHINES:
        return MACHINES[str(given)]
    path = Path(given)
    if path.suffix != ".json":
        hint = f"use one of {', '.join(MACHINES)}, or the path of a profile.json"
        raise UsageError(Diagnostic("MG0001", f"unknown machine '{given}'", hint=hint))
    return _from_json(path)


def machine_record(machine: Machine) -> dict[str, Any]:
    """The profile as JSON values, as `machine_of` reads them."""
    return asdict(machine) | {"links": [asdict(link) for link in machine.links]}


def _from_json(path: Path) -> Machine:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise UsageError(
                Diagnostic("MG0001", f"{path} is not a machine profile: it has more than {MOST_FILE_BYTES} bytes")
            )
        value: Any = json.loads(text)
    except OSError as error:
        raise UsageError(Diagnostic("MG0002", f"cannot read {path}: {error.strerror}")) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(Diagnostic("MG0001", f"{path} is not JSON: {error}")) from error
    if fault := _profile_fault(value):
        hint = f"write what `meshgen simulate M.mgx --machine {DEFAULT_MACHINE} --json` shows under 'machine'"
        raise UsageError(Diagnostic("MG0001", f"{path}: {fault}", hint=hint))
    links = tuple(Link(**link) for link in value["links"])
    return Machine(value["name"], links, **{k: value[k] for k in ("overlap_slowdown",) if k in value})


def _profile_fault(value: Any) -> str:
    """The fault of a profile's JSON; empty if there is none."""
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return "a profile must be an object with a name"
    profile = cast("Mapping[str, Any]", value)
    if unknown := sorted(profile.keys() - {field.name for field in fields(Machine)}):
        return f"unknown field '{unknown[0]}'"
    if not _is_number(profile.get("overlap_slowdown", 0.0), least=0):
        return "overlap_slowdown must be a non-negative number"
    links = profile.get("links")
    if not isinstance(links, list) or not links:
        return "links must be a list of at least one level"
    for number, link in enumerate(cast("list[Any]", links)):
        if fault := _link_fault(link):
            return f"links[{number}]: {fault}"
    sizes = [link["devices"] for link in cast("list[Any]", links)]
    if sizes[-1] is not None or None in sizes[:-1]:
        return "the last level, and no other, must join all devices (devices: null)"
    if any(outer % inner for inner, outer in itertools.pairwise(sizes[:-1])):
        return f"the domains of each level must hold whole domains of the one before, not {sizes[:-1]} devices"
    return ""


def _link_fault(link: Any) -> str:
    names = {field.name for field in fields(Link)}
    found = cast("Mapping[str, Any]", link if isinstance(link, Mapping) else {})
    if set(found) != names:
        return f"a level must have the fields {', '.join(sorted(names))}"
    devices = found["devices"]
    if not isinstance(found["name"], str):
        return "name must be a string"
    if devices is not None and (type(devices) is not int or devices < 1):
        return "devices must be a positive integer or null"
    if not _is_number(found["bytes_per_second"], least=1):
        return "bytes_per_second must be a number of at least 1"
    return "" if _is_number(found["latency_seconds"], least=0) else "latency_seconds must be a non-negative number"


def _is_number(value: Any, least: float) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= least
