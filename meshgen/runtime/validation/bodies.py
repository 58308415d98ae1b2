"""Checks that the body of a kernel is a well-formed program, and that its launch parameters match it."""

from __future__ import annotations

import math

from meshgen.ir.graph import Graph
from meshgen.ir.limits import MAX_BYTES
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.ops.registry import evaluable_ops
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.in_place import update_fault
from meshgen.runtime.module_file.manifest import SCRATCH, Kernel
from meshgen.runtime.simulate import rank_handlers

# Source: CUDA C++ programming guide, "Technical specifications per compute capability".
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_THREADS = 1024  # largest number of threads per block; same source
MAX_SHARED_BYTES = 1 << 20  # bytes per block; above the limit of any GPU (chosen: the driver enforces the actual limit)


def body_fault(body: Graph, mesh: Mesh) -> str:
    """Return the first error in a kernel's body, including its regions, or an empty text if the body is valid."""
    allowed_ops = {*evaluable_ops(), *rank_handlers(mesh, 0)}
    graphs = [body]
    for node in all_nodes(body):
        if node.op not in allowed_ops:
            return f"'{node.op}' is not allowed in a kernel"
        graphs += node.regions
    if any(None in value.type.shape for graph in graphs for value in graph.values()):
        return "its sizes must be static"
    return next((fault.message for node in body.nodes for fault in verify_node(node, mesh)), "") or update_fault(body)


def launch_fault(kernel: Kernel, body: Graph, mesh: Mesh) -> str:
    """Return the first error in the launch parameters of a kernel, or an empty text if they are valid."""
    counts = {"operand": len(body.inputs), "result": len(body.outputs)}
    for param in kernel.params:
        if param.kind == "coordinate":
            mesh.group_size(param.axes)  # `group_size` raises ShardingError for an unknown axis.
        elif not 0 <= param.index < counts[param.kind]:
            return f"it has no {param.kind} {param.index}"
    return _size_fault(kernel)


def _size_fault(kernel: Kernel) -> str:
    """Return an error if a grid or block exceeds CUDA's limits or scratch exceeds the memory of any device."""
    for arch, binary in kernel.binaries.items():
        grid = kernel.on(arch).grid
        if any(count > limit for count, limit in zip(grid, MAX_GRID, strict=True)):
            return f"its grid {list(grid)} is larger than {list(MAX_GRID)}"
        if (0 in grid) != (0 in kernel.grid):
            return f"its grid for {arch} is {list(grid)}, but {list(kernel.grid)} for others"
        if not 1 <= binary.threads <= MAX_THREADS or binary.shared > MAX_SHARED_BYTES:
            return f"its block for {arch} has {binary.threads} threads and {binary.shared} bytes of shared memory"
        scratch = max((binary.metadata.get(name) or 0) for name in SCRATCH) * math.prod(grid)
        if scratch > MAX_BYTES:
            return f"it needs {scratch} bytes of scratch"
    return ""
