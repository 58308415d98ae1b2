"""Free memory of the simulating machine."""

from __future__ import annotations

from pathlib import Path

_FREE = ("MemAvailable", "SwapFree")
# Of a container, as Linux tells it from inside, under version 2 of control groups and 1: limit, what is used of it, and
# the copies of files in it, which the system drops where memory is wanted.
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still allocate, swap included; None if unknown.

    Args:
        root: the folder of `proc` and `sys`.
    """
    machine = _of_machine(root / "proc/meminfo")
    group = [
        limit - used + _copies(root / folder / "memory.stat", copies)
        for folder, *files, copies in _GROUPS
        for limit, used in [[_number_in_file(root / folder / name) for name in files]]
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


def _copies(path: Path, name: str) -> int:
    """A number of a file with lines such as `inactive_file 4096`; 0 if it is missing."""
    try:
        fields = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    except OSError:
        return 0
    text = fields.get(name, "")
    return int(text) if text.isdecimal() else 0


def _number_in_file(path: Path) -> int | None:
    """The number that a file holds; None for `max` and unreadable files."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
