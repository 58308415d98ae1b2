"""The kernels of a program or module: a record of each, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meshgen.reports.tables import Table, counted, table_of

_FIGURES = ("regs", "spill_bytes", "stack_bytes", "shared", "threads", "instructions")


def kernel_record(name: str, launches: int, made: Any, measured: str, binaries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a distinct kernel: its launches, template, tile and grid, and the resources of its binary per architecture.

    `made` has the template, grid and constants (None: it has no code); `measured` is the device on which its tile was measured.
    """
    return {
        "name": name,
        "launches": launches,
        "template": made.template if made else "",
        "grid": list(made.grid) if made else [],
        "constants": dict(made.constants) if made else {},
        "measured": measured,
        "binaries": {arch: {each: getattr(built, each) for each in _FIGURES} for arch, built in binaries.items()},
    }


def kernel_table(kernels: Sequence[Mapping[str, Any]], refused: Sequence[str] = ()) -> Table:
    """Registers per thread, spilled bytes and shared memory of each kernel on each architecture; `refused` have no code."""
    archs = list(dict.fromkeys(arch for kernel in kernels for arch in kernel["binaries"]))
    columns = [f"{arch} {figure}" for arch in archs for figure in ("registers", "spills", "shared")]
    measured = any(kernel["measured"] for kernel in kernels)
    rows = [
        (
            kernel["name"],
            kernel["template"],
            kernel["launches"],
            "x".join(map(str, kernel["grid"])),
            *([kernel["measured"]] if measured else []),
            *(
                kernel["binaries"].get(arch, {}).get(key, "")
                for arch in archs
                for key in ("regs", "spill_bytes", "shared")
            ),
        )
        for kernel in kernels
    ]
    launches = sum(kernel["launches"] for kernel in kernels)
    return table_of(
        f"Kernels: {counted(launches, 'launch')}, {len(kernels)} distinct, {len(refused)} refused",
        ("kernel", "template", "launches", "grid", *(["tile measured on"] if measured else []), *columns),
        rows,
    )


def binary_table(kernel: Mapping[str, Any]) -> Table:
    """Resources of a kernel on each architecture, and how many of its machine instructions are of characteristic kinds."""
    figures = ("regs", "spill_bytes", "stack_bytes", "shared", "threads")
    rows = [
        (
            arch,
            *(binary[key] for key in figures),
            ", ".join(f"{n} {count}" for n, count in binary["instructions"].items()),
        )
        for arch, binary in kernel["binaries"].items()
    ]
    columns = ("architecture", "registers", "spills", "stack", "shared", "threads", "instructions")
    return table_of(f"Binaries of {kernel['name']}", columns, rows, left=("instructions",))
