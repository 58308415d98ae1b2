"""Machine profiles, built in and from files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from meshgen.errors import UsageError
from meshgen.machine.profiles import MACHINES
from meshgen.machine.reading import machine_of, machine_record

H100 = MACHINES["dgx-h100"]


@pytest.mark.parametrize("name", MACHINES)
def test_machine_profile_round_trips_through_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "own.json").write_text(json.dumps(machine_record(MACHINES[name])))
    assert machine_of(tmp_path / "own.json") == MACHINES[name] == machine_of(name)


def changed(**changes: Any) -> Any:
    return machine_record(H100) | changes


def link(**changes: Any) -> dict[str, Any]:
    return machine_record(H100)["links"][0] | changes


LAST = machine_record(H100)["links"][1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "a profile must be an object with a name"),
        ({"links": [LAST]}, "a profile must be an object with a name"),
        (changed(speed=1), "unknown field 'speed'"),
        (changed(name="a\nb"), "the name must be printable"),
        (changed(device="sm_91"), "device must be one of sm_80, sm_90, sm_100, h100"),
        (changed(device=["sm_90"]), "device must be one of"),
        (changed(memory_bytes=0), "memory_bytes must be null or an integer from 1"),
        (changed(memory_bytes=8e10), "memory_bytes"),
        (changed(overlap_slowdown=-1), "overlap_slowdown"),
        (changed(overlap_slowdown=10**400), "overlap_slowdown"),
        (changed(overlap_slowdown=True), "overlap_slowdown"),
        (changed(links=[]), "links must be a list"),
        (changed(links=3), "links must be a list"),
        (changed(links=[3]), r"links\[0\]: a level must have the fields"),
        (changed(links=[link(devices=0), LAST]), r"links\[0\]: devices"),
        (changed(links=[link(devices="8"), LAST]), r"links\[0\]: devices"),
        (changed(links=[link(devices=1 << 70), LAST]), r"links\[0\]: devices"),
        (changed(links=[link(name=8), LAST]), r"links\[0\]: name"),
        (changed(links=[link(bytes_per_second=0), LAST]), r"links\[0\]: bytes_per_second"),
        (changed(links=[LAST | {"latency_seconds": None}]), r"links\[0\]: latency_seconds"),
        (changed(links=[link()]), "the last level, and no other, must join all devices"),
        (changed(links=[LAST, LAST]), "the last level, and no other, must join all devices"),
        (changed(links=[link(devices=8), link(devices=12), LAST]), "whole domains"),
    ],
)
def test_malformed_profile_is_rejected(tmp_path: Path, value: Any, message: str) -> None:
    (tmp_path / "own.json").write_text(json.dumps(value))
    with pytest.raises(UsageError, match=rf"MG0001(.|\n)*{message}"):
        machine_of(tmp_path / "own.json")


def test_unknown_or_unreadable_profile_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"MG0001.*unknown machine 'dgx'"):
        machine_of("dgx")
    with pytest.raises(UsageError, match=r"MG0001: expected a machine profile or its name, got 3"):
        machine_of(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="MG0002"):
        machine_of(tmp_path / "none.json")
    (tmp_path / "own.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match=r"MG0001.*not JSON"):
        machine_of(tmp_path / "own.json")
    os.truncate(tmp_path / "own.json", 1 << 24)
    with pytest.raises(UsageError, match=r"MG0002.*more than 1,048,576 bytes"):
        machine_of(tmp_path / "own.json")
