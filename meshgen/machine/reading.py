"""Read machine profiles by name, from a JSON file, or from the JSON text in a program or module."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from meshgen.budget import read_file
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES, MOST_DEVICES, Link, Machine

MOST_FILE_BYTES = 1 << 20  # chosen: bytes of the largest profile file; a profile has a few lines
# chosen: upper limits of a profile: bytes of a device's memory, exact as a float, and bytes per second of a link
MOST_MEMORY, MOST_RATE = 1 << 53, 1e30
DEVICES: Mapping[str, Device] = {device.name: device for device in DEFAULT.kernels.devices}


def machine_of(machine: str | Path | Machine) -> Machine:
    """Return the machine profile that `machine` denotes: a profile itself, a name in `MACHINES`, or the path of a JSON
    file.

    Raises:
        UsageError: MG0001 for a malformed profile or any other argument, MG0002 if the file cannot be read.
    """
    if isinstance(machine, Machine):
        return machine
    if not isinstance(cast("Any", machine), str | Path):
        hint = f"use one of {', '.join(MACHINES)}, or the path of a profile.json"
        raise UsageError(
            Diagnostic("MG0001", f"expected a machine profile or its name, got {machine!r:.60}", hint=hint)
        )
    if str(machine) in MACHINES:
        return MACHINES[str(machine)]
    path = Path(machine)
    if path.suffix != ".json":
        hint = f"use one of {', '.join(MACHINES)}, or the path of a profile.json"
        raise UsageError(Diagnostic("MG0001", f"unknown machine '{machine}'", hint=hint))
    return _from_json(path)


def machine_record(machine: Machine) -> dict[str, Any]:
    """Return the profile as JSON values, which `machine_of` reads."""
    return asdict(machine) | {"links": [asdict(link) for link in machine.links]}


def machine_text(machine: Machine) -> str:
    """Return the profile as text for a program: the name of a built-in profile, or the JSON of any other profile."""
    return machine.name if MACHINES.get(machine.name) == machine else json.dumps(machine_record(machine))


def machine_of_text(text: str) -> Machine:
    """Parse the result of `machine_text`.

    Raises:
        UsageError: MG0001 for any other text.
    """
    if text in MACHINES:
        return MACHINES[text]
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        hint = f"use one of {', '.join(MACHINES)}, or the JSON of a profile"
        raise UsageError(Diagnostic("MG0001", f"unknown machine '{text:.60}'", hint=hint)) from None
    if fault := profile_fault(value):
        raise UsageError(Diagnostic("MG0001", f"malformed machine: {fault}"))
    return machine_from_record(value)


def _from_json(path: Path) -> Machine:
    try:
        text = read_file(path, MOST_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(Diagnostic("MG0002", f"cannot read {path}: {system_reason(error)}")) from error
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(Diagnostic("MG0001", f"{path} is not JSON: {error}")) from error
    if fault := profile_fault(value):
        hint = f"write what `meshgen simulate M.mgx --machine {DEFAULT_MACHINE} --json` shows under 'machine'"
        raise UsageError(Diagnostic("MG0001", f"{path}: {fault}", hint=hint))
    return machine_from_record(value)


def machine_from_record(value: Mapping[str, Any]) -> Machine:
    """Return the profile of a record that `profile_fault` accepts. If it equals a built-in profile, that object is
    returned.
    """
    values: dict[str, Any] = {**value, "links": tuple(Link(**link) for link in value["links"])}
    machine = Machine(**values)
    builtin = MACHINES.get(machine.name, machine)
    return builtin if machine == builtin else machine


def profile_fault(value: Any) -> str:
    """Return what is wrong with the JSON of a profile, or "" if it is valid."""
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return "a profile must be an object with a name"
    if not value["name"].isprintable():
        return "the name must be printable"
    profile = cast("Mapping[str, Any]", value)
    if unknown := sorted(profile.keys() - {field.name for field in fields(Machine)}):
        return f"unknown field '{unknown[0]}'"
    if not _is_number(profile.get("overlap_slowdown", 0.0), least=0):
        return "overlap_slowdown must be a non-negative number"
    if fault := _device_fault(profile):
        return fault
    links = profile.get("links")
    if not isinstance(links, list) or not links:
        return "links must be a list of at least one level"
    for level, link in enumerate(cast("list[Any]", links)):
        if fault := _link_fault(link):
            return f"links[{level}]: {fault}"
    sizes = [link["devices"] for link in cast("list[Any]", links)]
    if sizes[-1] is not None or None in sizes[:-1]:
        return "the last level, and no other, must join all devices (devices: null)"
    if any(outer % inner for inner, outer in itertools.pairwise(sizes[:-1])):
        return f"the domains of each level must hold whole domains of the one before, not {sizes[:-1]} devices"
    return ""


def _device_fault(profile: Mapping[str, Any]) -> str:
    device, memory = profile.get("device"), profile.get("memory_bytes")
    if device is not None and device not in list(DEVICES):
        return f"device must be one of {', '.join(DEVICES)}"
    if memory is not None and (type(memory) is not int or not 1 <= memory <= MOST_MEMORY):
        return f"memory_bytes must be null or an integer from 1 to {MOST_MEMORY}"
    return ""


def _link_fault(link: Any) -> str:
    names = {field.name for field in fields(Link)}
    record = cast("Mapping[str, Any]", link if isinstance(link, Mapping) else {})
    if set(record) != names:
        return f"a level must have the fields {', '.join(sorted(names))}"
    devices = record["devices"]
    if not isinstance(record["name"], str) or not record["name"].isprintable():
        return "name must be a printable string"
    if devices is not None and (type(devices) is not int or not 1 <= devices <= MOST_DEVICES):
        return f"devices must be null or an integer from 1 to {MOST_DEVICES}"
    if not _is_number(record["bytes_per_second"], least=1):
        return "bytes_per_second must be a number of at least 1"
    return "" if _is_number(record["latency_seconds"], least=0) else "latency_seconds must be a non-negative number"


def _is_number(value: Any, least: float) -> bool:
    return type(value) in (int, float) and least <= value <= MOST_RATE
