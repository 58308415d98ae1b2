"""What is known of a program's kernels without a GPU: template and tile, resources, instructions, used sectors, predicted time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import meshgen as mg
from bench.kernels.programs import PROGRAMS
from meshgen.codegen.bounds.sectors import efficiency, kernel_traffic
from meshgen.codegen.roofline import kernel_seconds
from meshgen.codegen.triton_source import KernelSource
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Graph
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel

UNITS = ("HGMMA", "QGMMA", "IGMMA", "UTCHMMA", "HMMA", "IMMA", "DMMA")  # of tensor cores, in SASS
COPIES = ("UTMALDG", "LDGSTS")  # asynchronous copies to shared memory, in SASS


def compiled(name: str, target: str, path: Path) -> tuple[Executable, LoadedModule]:
    """A program for one device, and its module as it is loaded from a file."""
    executable = mg.compile(PROGRAMS[name].lowered(), {"d": 1}, target=target)
    executable.save(path)
    loaded = mg.load(path)
    assert isinstance(executable, Executable) and isinstance(loaded, LoadedModule), "neither has open sizes"
    return executable, loaded


def described(name: str, target: str = "cuda:sm_90") -> dict[str, Any]:
    """The record of a program, JSON's types only: seconds and bytes of a step, and a list of its kernels."""
    with tempfile.TemporaryDirectory() as place:
        executable, module = compiled(name, target, Path(place) / "program.mgx")
        counts = module.schedule.launch_counts()
        kernels: list[dict[str, Any]] = [
            {
                "launches": counts[each],
                "name": each,
                **_kernel(kernel, executable.sources[each], module.schedule.kernels[each], target),
            }
            for each, kernel in module.manifest.kernels.items()
        ]
    total = {key: sum(one[key] * one["launches"] for one in kernels) for key in ("flops", "bytes", "seconds")}
    return {"program": name, "target": target, **total, "kernels": kernels}


def _kernel(kernel: Kernel, source: KernelSource, body: Graph, target: str) -> dict[str, Any]:
    (binary, *_) = kernel.binaries.values()
    counts = binary.instructions
    return {
        "template": kernel.template,
        "constants": dict(kernel.constants),
        "warps": kernel.num_warps,
        "stages": kernel.num_stages,
        "registers": binary.regs,
        "spill_bytes": binary.spill_bytes,
        "shared_bytes": binary.shared,
        "units": {unit: counts[unit] for unit in UNITS if counts.get(unit)},
        "copies": {unit: counts[unit] for unit in COPIES if counts.get(unit)},
        "sectors": efficiency(kernel_traffic(source, body)),
        "flops": kernel.flops,
        "bytes": kernel.nbytes,
        "seconds": kernel_seconds(body, target),
    }
