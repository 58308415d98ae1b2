"""Records and tables of the kernels of a program or module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meshgen.reports.tables import Table, counted, table_of

_FIGURES = ("regs", "spill_bytes", "stack_bytes", "shared", "threads", "instructions")


def kernel_record(
    name: str, launches: int, generated: Any, measured: str, binaries: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON record of a distinct kernel, with the resources of its binary for each architecture.

    Args:
        generated: the generated kernel (template, grid, constants); None if no code was generated.
        measured: the device on which the tile of the kernel was measured.
    """
    return {
        "name": name,
        "launches": launches,
        "template": generated.template if generated else "",
        "grid": list(generated.grid) if generated else [],
        "constants": dict(generated.constants) if generated else {},
        "measured": measured,
        "binaries": {arch: {figure: getattr(built, figure) for figure in _FIGURES} for arch, built in binaries.items()},
    }


def kernel_table(kernels: Sequence[Mapping[str, Any]], refused: Sequence[str] = ()) -> Table:
    """Return the registers per thread, spilled bytes and shared memory of each kernel on each architecture.

    Args:
        refused: the kernels for which no code was generated; they are only counted.
    """
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
    """Return the resources of a kernel on each architecture, with the counts of characteristic machine instructions."""
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
