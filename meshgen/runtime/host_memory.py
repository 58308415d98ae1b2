"""Memory of the machine that simulates: what is free, and a word in time where something cannot fit."""

from __future__ import annotations

from pathlib import Path

_FREE = ("MemAvailable", "SwapFree")
# Of a container, as Linux tells it from inside: limit and what is used of it, under version 2 of control groups and 1.
_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take, swap included; None where the system does not tell.

    Args:
        root: where `proc` and `sys` are.
    """
    machine = _of_machine(root / "proc/meminfo")
    group = [
        limit - used
        for files in _GROUPS
        for limit, used in [[_number(root / name.lstrip("/")) for name in files]]
        if limit is not None and used is not None
    ]
    known = [*([] if machine is None else [machine]), *group]
    return max(0, min(known)) if known else None


def _of_machine(path: Path) -> int | None:
    """From lines such as `MemAvailable:   1024 kB`."""
    try:
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    except OSError:
        return None
    if "MemAvailable" not in fields:
        return None
    return sum(1024 * int(fields[name].split()[0]) for name in _FREE if name in fields)


def _number(path: Path) -> int | None:
    """The number that a file holds; `max` and what cannot be read are none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
