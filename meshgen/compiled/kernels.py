"""Records of the kernels of an executable."""

from __future__ import annotations

from typing import Any

from meshgen.compiled.executable import Executable

_FIGURES = ("regs", "spill_bytes", "stack_bytes", "shared", "threads", "instructions")


def kernel_records(executable: Executable) -> list[dict[str, Any]]:
    """Per distinct kernel: launches, the template and tile it is made of, grid and, per architecture, what its binary needs."""
    if len(executable.parts) > 1:
        return [
            record | {"name": f"{part.mesh.name}/{record['name']}"}
            for part in executable.parts
            for record in kernel_records(part)
        ]
    launches = executable.plan.launch_counts()
    records: list[dict[str, Any]] = []
    for name in launches:
        source = executable.sources.get(name)
        binaries = {
            arch: {name: getattr(built, name) for name in _FIGURES}
            for (kernel, arch), built in executable.built.items()
            if kernel == name
        }
        records.append(
            {
                "name": name,
                "launches": launches[name],
                "template": source.template if source else "",
                "grid": list(source.grid) if source else [],
                "constants": dict(source.constants) if source else {},
                "measured": executable.measured.get(name, {}).get("device", ""),
                "binaries": binaries,
            }
        )
    return records
