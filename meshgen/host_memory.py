"""Free memory of the machine on which meshgen runs."""

from __future__ import annotations

from pathlib import Path

_FREE_FIELDS = ("MemAvailable", "SwapFree")
# Per version of Linux control groups (2, then 1): folder, file with the limit, file with the usage, and key of the
# cached pages in `memory.stat`.
_CONTROL_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process can still allocate, including swap, or None if unknown.

    Args:
        root: the folder that contains `proc` and `sys`.
    """
    machine_free_bytes = _machine_free_bytes(root / "proc/meminfo")
    group_free_bytes = [
        limit - used_bytes + _cached_bytes(root / folder / "memory.stat", copies)
        for folder, *files, copies in _CONTROL_GROUPS
        for limit, used_bytes in [[_number_in_file(root / folder / name) for name in files]]
        if limit is not None and used_bytes is not None
    ]
    limits = [*([] if machine_free_bytes is None else [machine_free_bytes]), *group_free_bytes]
    return max(0, min(limits)) if limits else None


def _machine_free_bytes(path: Path) -> int | None:
    """Return the free bytes of the machine, from a file with lines such as `MemAvailable: 1024 kB`."""
    try:
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    except OSError:
        return None
    if "MemAvailable" not in fields:
        return None
    return sum(1024 * int(fields[name].split()[0]) for name in _FREE_FIELDS if name in fields)


def _cached_bytes(path: Path, name: str) -> int:
    """Return the value of `name` in a file with lines such as `inactive_file 4096`, or 0 if it is missing."""
    try:
        fields = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    except OSError:
        return 0
    text = fields.get(name, "")
    return int(text) if text.isdecimal() else 0


def _number_in_file(path: Path) -> int | None:
    """Return the only number in a file, or None for `max` and unreadable files."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
