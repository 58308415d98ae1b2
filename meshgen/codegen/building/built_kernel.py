"""A built kernel: its cubin, PTX and resources, as they are in the replies of compiler processes and in the cache."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, cast

from meshgen.codegen.building.cubin import has_kernel, read_resources

WARP = 32  # threads of a warp (PTX ISA 8.7, "WARP_SZ")
_COUNTS = ("regs", "stack_bytes", "spill_bytes")


@dataclass(frozen=True)
class BuiltKernel:
    """A cubin and its resources.

    Attributes:
        ptx: the PTX that the cubin was assembled from, in the form of `ptx_text.portable_ptx`.
        regs: registers per thread.
        spill_bytes: bytes of spill stores and loads per thread, as reported by ptxas.
        stack_bytes: bytes of stack frame per thread.
        shared: bytes of dynamic shared memory per block.
        threads: threads per block; the compiler may have changed `num_warps`.
        instructions: instruction counts by mnemonic, see `cubin.Resources`.
        metadata: Triton's launch metadata (scratch sizes, cluster, ...).
        seconds: compile time, even if the kernel came from the cache.
    """

    cubin: bytes
    entry: str
    regs: int
    spill_bytes: int
    stack_bytes: int
    shared: int
    threads: int
    num_warps: int
    instructions: dict[str, int]
    metadata: dict[str, Any]
    seconds: float
    cached: bool
    ptx: bytes = b""


def describe(reply: dict[str, Any], arch: str) -> tuple[bytes, dict[str, Any]]:
    """Convert the reply of a compiler process to a cache entry: (cubin and PTX in one byte string, description)."""
    cubin, metadata = base64.b64decode(reply["cubin"]), reply["metadata"]
    resources = read_resources(cubin, metadata["name"])
    spills = reply["spill_bytes"]
    return cubin + reply["ptx"].encode(), {
        "arch": arch,
        "cubin_bytes": len(cubin),
        "regs": resources.registers,
        "stack_bytes": resources.stack_bytes,
        "spill_bytes": resources.stack_bytes if spills is None else spills,
        "instructions": resources.instructions,
        "metadata": metadata,
        "seconds": round(reply["seconds"], 4),
    }


def built_kernel(
    code: bytes, description: dict[str, Any], entry: str, arch: str, *, cached: bool = True
) -> BuiltKernel | None:
    """Return the kernel that `description` describes.

    Returns None if the description is malformed, or describes a kernel other than `entry`.
    """
    fields = {"arch", "cubin_bytes", "instructions", "metadata", "seconds", *_COUNTS}
    if set(description) != fields or description["arch"] != arch or type(description["cubin_bytes"]) is not int:
        return None
    cubin, ptx = code[: description["cubin_bytes"]], code[description["cubin_bytes"] :]
    if not has_kernel(cubin, entry) or f".entry {entry}(".encode() not in ptx:
        return None
    metadata, instructions, seconds = (description[name] for name in ("metadata", "instructions", "seconds"))
    if not isinstance(metadata, dict) or not isinstance(instructions, dict) or type(seconds) not in (int, float):
        return None
    launch, counts = cast("dict[str, Any]", metadata), cast("dict[str, Any]", instructions)
    numbers = [
        *(description[name] for name in _COUNTS),
        launch.get("shared"),
        launch.get("num_warps"),
        *counts.values(),
    ]
    if launch.get("name") != entry or not all(type(number) is int and number >= 0 for number in numbers):
        return None
    return BuiltKernel(
        cubin=cubin, ptx=ptx, entry=entry, shared=launch["shared"], num_warps=launch["num_warps"], cached=cached,
        threads=WARP * launch["num_warps"], metadata=launch, instructions=counts, seconds=seconds,
        **{name: description[name] for name in _COUNTS},
    )  # fmt: skip
