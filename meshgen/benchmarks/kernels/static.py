"""Properties of a program's kernels that can be determined without a GPU: template and tile, resources, instructions,
fraction of used memory sectors, predicted time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import meshgen as mg
from meshgen.benchmarks.records import Record
from meshgen.codegen.memory_efficiency import efficiency, kernel_traffic
from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.triton_source import KernelSource
from meshgen.compiled.executable import Executable
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Graph
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.open_module import OpenModule

UNITS = ("HGMMA", "QGMMA", "IGMMA", "UTCHMMA", "HMMA", "IMMA", "DMMA")  # SASS instructions of tensor cores
COPIES = ("UTMALDG", "LDGSTS")  # SASS instructions that copy asynchronously to shared memory


def compile_and_describe(name: str, target: str, module_path: str) -> list[Record]:
    """Compile a program for one architecture, save its module at `module_path`, and return a record for each of its kernels.

    Args:
        name: a key of `PROGRAMS`, compiled for one device, or the path of a `.mlir` file with a mesh of its own.
    Raises:
        UsageError: MG0001, the program has open sizes or several meshes.
        MeshgenError: the program is invalid.
    """
    if name.endswith(".mlir"):
        executable = mg.compile(name, target=target)
    else:
        from meshgen.benchmarks.kernels.programs import PROGRAMS  # this import needs JAX

        executable = mg.compile(PROGRAMS[name].lowered(), {"d": 1}, target=target)
    executable.save(module_path)
    module = mg.load(module_path)
    if isinstance(module, OpenModule) or len(module.parts) > 1:
        text = f"{name} has open sizes or several meshes; its kernels cannot be measured by themselves"
        raise UsageError(Diagnostic("MG0001", text))
    return kernel_records(Path(name).name, executable, module, target)


def kernel_records(program: str, executable: Executable, module: LoadedModule, target: str) -> list[Record]:
    """Return one flat record per kernel of a module. All values have JSON types."""
    counts = module.schedule.launch_counts()
    return [
        {
            "suite": "kernels", "program": program, "kernel": name, "target": target, "launches": counts[name],
            **_kernel(kernel, executable.sources[name], module.schedule.kernels[name], target),
        }
        for name, kernel in module.manifest.kernels.items()
    ]  # fmt: skip


def _kernel(kernel: Kernel, source: KernelSource, body: Graph, target: str) -> dict[str, Any]:
    (binary, *_) = kernel.binaries.values()
    counts = binary.instructions
    blocks = (str(value) for key, value in kernel.constants.items() if key.startswith("BLOCK"))
    return {
        "template": kernel.template,
        "tile": f"{'x'.join(blocks)} w{kernel.num_warps} s{kernel.num_stages}".strip(),
        "registers": binary.regs,
        "spill_bytes": binary.spill_bytes,
        "shared_bytes": binary.shared,
        "units": {unit: counts[unit] for unit in UNITS if counts.get(unit)},
        "copies": {unit: counts[unit] for unit in COPIES if counts.get(unit)},
        "sectors": efficiency(kernel_traffic(source, body)),
        "flops": kernel.flops,
        "bytes": kernel.nbytes,
        "predicted_seconds": kernel_seconds(body, target),
    }
