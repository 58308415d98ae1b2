"""An estimate of the host memory that the reference device needs for a step, computed before the step allocates any.

Operating systems overcommit memory and kill processes that use it, so a step that cannot fit is rejected in advance. A
kernel needs memory for NumPy arrays: its live values and the temporaries of each operation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.host_memory import free_bytes
from meshgen.ops.evaluate.memory import body_bytes
from meshgen.printable import bytes_text, distinguishable_sizes
from meshgen.runtime.module_file.manifest import Manifest

_RANK_BYTES = 1 << 15  # bytes of Python objects per simulated rank (chosen: a generous bound)


def require_memory(manifests: Iterable[Manifest], *, alone: bool = False) -> None:
    """Raise RuntimeFailure MG0604 if a step of all these modules together exceeds the free memory.

    Args:
        alone: whether this process runs only one rank, which may belong to any of the modules.
    """
    free, parts = free_bytes(), list(manifests)
    if alone:
        required_bytes = max(step_bytes(part, 1) for part in parts)
        if free is not None and required_bytes > free:
            required, available = distinguishable_sizes(required_bytes, free)
            text = f"a rank needs about {required}, which do not fit into this machine's memory: {available} are free"
            raise RuntimeFailure(Diagnostic("MG0604", text))
        return
    required_bytes = sum(step_bytes(part, part.mesh.size) for part in parts)
    if free is None or required_bytes <= free:
        return
    ranks, arena = sum(part.mesh.size for part in parts), sum(part.plan.arena_bytes * part.mesh.size for part in parts)
    required, available = distinguishable_sizes(required_bytes, free)
    text = f"{ranks} ranks with {bytes_text(arena)} of buffers need about {required} to be simulated"
    hint = "the reference device runs all ranks in one process"
    fault = f"{text}, which do not fit into this machine's memory: {available} are free"
    raise RuntimeFailure(Diagnostic("MG0604", fault, hint=hint))


@contextmanager
def out_of_memory() -> Generator[None]:
    """Convert MemoryError to RuntimeFailure MG0604."""
    try:
        yield
    except MemoryError as error:
        text = f"not enough memory on this machine: {error}".rstrip(": ")
        raise RuntimeFailure(Diagnostic("MG0604", text)) from error


def step_bytes(manifest: Manifest, ranks: int) -> int:
    """Return an estimate of the host memory of a step in bytes.

    It includes the arenas of `ranks` ranks, global arguments and results, and the NumPy arrays of the largest kernel.
    """
    interface_bytes = sum(binding.type.nbytes for binding in (*manifest.inputs, *manifest.outputs))
    kernel_bytes = max((body_bytes(body) for body in manifest.plan.kernels.values()), default=0)
    return ranks * (manifest.plan.arena_bytes + _RANK_BYTES) + interface_bytes + kernel_bytes
