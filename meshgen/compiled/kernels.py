"""Records of an executable's kernels."""

from __future__ import annotations

from typing import Any

from meshgen.compiled.executable import Executable
from meshgen.reports.kernels import kernel_record


def kernel_records(executable: Executable) -> list[dict[str, Any]]:
    """Return a record per distinct kernel. For several meshes, the name of a kernel is `MESH/KERNEL`."""
    if len(executable.parts) > 1:
        return [
            record | {"name": f"{part.mesh.name}/{record['name']}"}
            for part in executable.parts
            for record in kernel_records(part)
        ]
    records: list[dict[str, Any]] = []
    for name, launches in executable.plan.launch_counts().items():
        binaries = {arch: built for (kernel, arch), built in executable.built.items() if kernel == name}
        measured = executable.measured.get(name, {}).get("device", "")
        records.append(kernel_record(name, launches, executable.sources.get(name), measured, binaries))
    return records
