"""Check the memory that `meshgen check` needs before it starts, because an out-of-memory kill leaves no message."""

from __future__ import annotations

from meshgen.commands.options import bytes_of
from meshgen.compiled.executable import Executable
from meshgen.errors import Diagnostic, Location, RuntimeFailure
from meshgen.host_memory import free_bytes
from meshgen.ir.graph import Module
from meshgen.ops.tolerance.memory import most_bytes
from meshgen.reports.tables import bytes_text
from meshgen.testing.lockstep import on_one_device
from meshgen.testing.oracle import whole

# Bytes that the simulator needs per device in addition to the device's buffers. Measured: 5.5 kB with 2^14 to 2^16
# devices, for any program.
_DEVICE_BYTES = 5000


def memory_limit(text: str | None) -> int | None:
    """Return the bytes that `--memory` allows, by default the free memory of the machine. None means unlimited.

    Raises:
        UsageError: MG0001 for a malformed size.
    """
    return free_bytes() if text is None else bytes_of(text, "--memory")


def refuse_too_big(module: Module, executable: Executable, limit: int | None) -> None:
    """Check that the reference and the simulated ranks of a program fit into memory.

    Raises:
        RuntimeFailure: MG0606 if they need more than `limit` bytes.
    """
    needed, what, location = max(_on_one_device(module), _on_all_ranks(executable), key=lambda need: need[0])
    if limit is not None and needed > limit:
        raise RuntimeFailure(
            Diagnostic(
                "MG0606",
                f"{what} need at least {bytes_text(needed)}, more than the {bytes_text(limit)} that are free or allowed",
                location,
                hint=f"check it with smaller sizes, or allow more: --memory {bytes_text(1.5 * needed).replace(' ', '')}",
            )
        )


def _on_one_device(module: Module) -> tuple[int, str, Location | None]:
    """Return the peak bytes of the unpartitioned reference with error bounds, a description, and the source location of
    the peak.
    """
    if module.stage == "partition":  # a program that was written per device has no reference on one device
        return 0, "", None
    peak = most_bytes(on_one_device(whole(module), module.mesh, *module.meshes))
    op_text = f" at '{peak.at.op}'" if peak.at else ""
    return (
        peak.bytes,
        f"the program on one device and the bounds of its errors{op_text}",
        peak.at.loc if peak.at else None,
    )


def _on_all_ranks(executable: Executable) -> tuple[int, str, Location | None]:
    """Return the bytes of all simulated devices together, a description, and the source location of the largest
    input.
    """
    ranks = sum(part.mesh.size for part in executable.parts)
    needed = sum(part.mesh.size * (part.plan.arena_bytes + _DEVICE_BYTES) for part in executable.parts)
    largest = max(executable.fused.graph.inputs, key=lambda value: value.type.nbytes, default=None)
    return needed, f"{ranks} simulated devices", largest.loc if largest else None
