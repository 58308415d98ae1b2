"""Each distinct kernel of the example's module on one GPU: time, achieved FLOP/s and bytes/s."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from bench.device import architecture
from bench.timing import timed
from meshgen.ir.graph import Graph, TensorType
from meshgen.runtime.cuda.code import scratch_bytes
from meshgen.runtime.module_file.manifest import Kernel

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "transformer_block.mlir"
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PLAIN_SHARED = 48 * 1024  # bytes of dynamic shared memory that need no opt-in


def measure_kernels(cupy: Any) -> list[dict[str, Any]]:
    """A record per kernel, launched as the module says, on zeros of the right types."""
    arch = architecture(cupy)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "block.mgx"
        mg.compile(EXAMPLE, target=f"cuda:{arch}").save(path)
        module = mg.load(path)
        return [
            _measured(cupy, name, kernel, module.cubin(name, arch), module.schedule.kernels[name], arch)
            for name, kernel in module.manifest.kernels.items()
        ]


def _measured(cupy: Any, name: str, kernel: Kernel, cubin: bytes, body: Graph, arch: str) -> dict[str, Any]:
    binary = kernel.binaries[arch]
    library = cupy.cuda.Module()
    library.load(cubin)
    function = library.get_function(kernel.entry)
    if binary.shared > PLAIN_SHARED:
        from cupy_backends.cuda.api import driver

        driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, binary.shared)
    values = {"operand": body.inputs, "result": body.outputs}
    memory = {(kind, i): _buffer(cupy, v.type) for kind in values for i, v in enumerate(values[kind])}
    args = [np.int32(0) if p.kind == "coordinate" else memory[p.kind, p.index].data.ptr for p in kernel.params]
    sizes = scratch_bytes(kernel, binary)
    held = [cupy.zeros(max(1, size), cupy.uint8) for size in sizes]
    scratch = [array.data.ptr if size else 0 for array, size in zip(held, sizes, strict=True)]
    time = timed(
        cupy, lambda: function(kernel.grid, (binary.threads, 1, 1), (*args, *scratch), shared_mem=binary.shared)
    )
    seconds = time["us"] * 1e-6
    rates = {"tflops": round(kernel.flops / seconds / 1e12, 2), "gbytes_per_s": round(kernel.nbytes / seconds / 1e9, 1)}
    return {"suite": "kernels", "name": name, "arch": arch, **time, **rates}


def _buffer(cupy: Any, kind: TensorType) -> Any:
    return cupy.zeros(max(1, kind.nbytes), cupy.uint8)
