"""Launches a kernel on the emulated GPU: as many blocks at once as make good use of NumPy, wave after wave."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.emulator.addresses import LOCAL_BASE, PARAMETERS, SHARED_BASE
from meshgen.emulator.asynchronous import nothing_under_way
from meshgen.emulator.execute import Execution, steps_of
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import GlobalMemory, Range, Touch
from meshgen.emulator.memory import POISON, Memory
from meshgen.emulator.program import Entry, Vector, layout
from meshgen.emulator.shared_memory import SharedMemory
from meshgen.emulator.spaces import SPACES
from meshgen.emulator.types import TYPES, Array
from meshgen.emulator.wave import WARP, Wave, initial_registers
from meshgen.errors import Diagnostic, UsageError
from meshgen.names import whole_number

LANES = 1 << 14  # threads that run at once: their registers fit the cache of a core (measured, demo kernels)
MOST_THREADS = 1024  # of a block, on every architecture
MOST_SHARED = (
    227 * 1024
)  # bytes of a block on sm_90, more than on any other (CUDA C++ guide, "Technical Specifications")
MOST_LOCAL = 512 * 1024  # bytes of a thread, on every architecture
ISSUES = 20_000_000  # instructions of a wave before it is taken for endless
INSTRUCTION_LIMIT = "MESHGEN_INSTRUCTION_LIMIT"  # variable with another number


Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Checks:
    """Checks beyond those of a GPU.

    Attributes:
        races: accesses to shared memory that no barrier orders, and to global memory by several blocks.
        operands: (first address, bytes, whether writable) of all that the kernel may touch; None: all that is allocated.
        touch: called with every access to global memory.
        issues: instructions that a wave of blocks may issue before the launch is given up; 0: `instruction_limit`.
    """

    races: bool = False
    operands: Sequence[Range] | None = None
    touch: Touch | None = None
    issues: int = 0


NO_CHECKS = Checks()


def instruction_limit() -> int:
    """Return the variable MESHGEN_INSTRUCTION_LIMIT, else `ISSUES`. Raises UsageError MG0001 for a variable that is not a positive number."""
    text = os.environ.get(INSTRUCTION_LIMIT, "")
    number = whole_number(text) if text else ISSUES
    if not number:
        hint = "give a number of instructions, such as 20000000"
        raise UsageError(Diagnostic("MG0001", f"{INSTRUCTION_LIMIT} is '{text}'", hint=hint))
    return number


def launch(entry: Entry, grid: Shape, block: Shape, shared_bytes: int, parameters: bytes, memory: Memory, *,
           checks: Checks = NO_CHECKS) -> None:  # fmt: skip
    """Run all blocks of the grid; the order of blocks is that of their numbers, as far as there is one.

    Args:
        shared_bytes: dynamic shared memory of a block.
        parameters: the block of parameters, each at its offset.
    Raises:
        DeviceFault: MG0608, the kernel does what a GPU would punish, hide or leave undefined.
    """
    _check_shape(entry, grid, block, parameters)
    _check_memory(entry, shared_bytes)
    steps, limit = steps_of(entry), checks.issues or instruction_limit()
    threads = math.prod(block)
    total = math.prod(grid)
    at_once = max(1, LANES // threads)
    added = [(memory.allocate(v.size, v.name), v) for v in entry.variables.values() if v.space in ("global", "const")]
    try:
        for address, variable in added:
            memory.view(address, variable.size)[:] = np.frombuffer(variable.initial or bytes(variable.size), np.uint8)
        constants = [(address, variable.size, False) for address, variable in added]
        operands = None if checks.operands is None else [*checks.operands, *constants]
        places = {variable.name: address for address, variable in added}
        races_by = _grain(entry, "global") if checks.races else 0
        whole = GlobalMemory(memory, operands, checks.touch, races_by=races_by)
        with np.errstate(all="ignore"):
            for start in range(0, total, at_once):
                numbers = np.arange(start, min(total, start + at_once))
                wave = _wave(entry, grid, block, numbers, shared_bytes, parameters, whole, checks, places)
                Execution(wave, steps, limit).run()
    finally:
        for address, _ in added:
            memory.free(address)


def _check_shape(entry: Entry, grid: Shape, block: Shape, parameters: bytes) -> None:
    """Raises DeviceFault where a driver would refuse the launch."""
    threads = math.prod(block)
    if min(*grid, *block) < 1 or threads > MOST_THREADS:
        raise DeviceFault("opcode", f"a grid of {grid} with blocks of {block} cannot be launched", kernel=entry.name)
    fits = entry.max_threads is None or (
        threads == entry.max_threads if entry.exact_threads else threads <= entry.max_threads
    )
    if not fits or threads % WARP:
        word = "exactly" if entry.exact_threads else "at most"
        raise DeviceFault("opcode", f"a block has {threads} threads, not {word} {entry.max_threads}", kernel=entry.name)
    if len(parameters) < entry.parameter_bytes:
        reason = f"{len(parameters)} bytes of parameters were given, but the kernel takes {entry.parameter_bytes}"
        raise DeviceFault("opcode", reason, kernel=entry.name)


def _check_memory(entry: Entry, shared_bytes: int) -> None:
    """Raises DeviceFault for a block that needs more memory than any GPU has."""
    shared, local = entry.shared_bytes + shared_bytes, _local_bytes(entry)
    if shared > MOST_SHARED:
        reason = f"a block needs {shared} bytes, but has {MOST_SHARED} at most"
        raise DeviceFault("shared memory", reason, kernel=entry.name)
    if local > MOST_LOCAL:
        raise DeviceFault(
            "address", f"a thread needs {local} bytes of local memory, but has {MOST_LOCAL} at most", kernel=entry.name
        )


def _wave(entry: Entry, grid: Shape, block: Shape, numbers: Array, shared_bytes: int, parameters: bytes,
          memory: GlobalMemory, checks: Checks, places: dict[str, int]) -> Wave:  # fmt: skip
    """Blocks before their first instruction."""
    nbytes = entry.shared_bytes + shared_bytes
    warps = math.prod(block) // WARP
    shared = SharedMemory(len(numbers), warps, nbytes, _grain(entry, "shared"), races=checks.races)
    local = np.full((len(numbers) * warps * WARP, _local_bytes(entry)), POISON, np.uint8)
    wave = Wave(
        entry,
        grid,
        block,
        numbers,
        parameters,
        memory,
        shared,
        dict(_registers(entry)),
        local,
        nothing_under_way(len(numbers), warps * WARP),
    )
    wave.specials = _specials(wave) | _symbols(entry, places)
    return wave


@functools.lru_cache(maxsize=256)
def _registers(entry: Entry) -> dict[str, Array]:
    return initial_registers(entry.code)


@functools.lru_cache(maxsize=256)
def _local_bytes(entry: Entry) -> int:
    """Bytes of the arrays that each thread has for itself, padded for the widest access."""
    return -(-layout(entry.variables.values(), "local")[1] // 16) * 16


@functools.lru_cache(maxsize=256)
def _grain(entry: Entry, space: str) -> int:
    """Bytes of the smallest access to a space in the code: what is followed as one; at most 4. Of boxes of tensors, 1."""
    smallest = 4
    for each in entry.code:
        named = {m.split("::")[0] for m in each.modifiers}
        if each.opcode in ("ld", "st", "atom", "red") and (space in named or named.isdisjoint((*SPACES, "param"))):
            many = max(len(operand.parts) if isinstance(operand, Vector) else 1 for operand in each.operands)
            smallest = min(smallest, many * TYPES.get(each.modifiers[-1], np.dtype(np.uint8)).itemsize)
        elif space == "global" and "tensor" in named:
            return 1
    return smallest


def _specials(wave: Wave) -> dict[str, Array]:
    """Special registers, as arrays that broadcast to [blocks, threads]."""
    (gx, gy, gz), (bx, by, bz) = wave.grid, wave.block
    thread, number = np.arange(wave.threads)[None, :], wave.numbers[:, None]

    def u32(value: Array | int) -> Array:
        return np.asarray(value, np.uint32).reshape(np.shape(value) or (1, 1))

    return {
        "%tid.x": u32(thread % bx), "%tid.y": u32(thread // bx % by), "%tid.z": u32(thread // (bx * by)),
        "%ctaid.x": u32(number % gx), "%ctaid.y": u32(number // gx % gy), "%ctaid.z": u32(number // (gx * gy)),
        "%ntid.x": u32(bx), "%ntid.y": u32(by), "%ntid.z": u32(bz),
        "%nctaid.x": u32(gx), "%nctaid.y": u32(gy), "%nctaid.z": u32(gz),
        "%laneid": u32(thread % WARP), "%warpid": u32(thread // WARP), "%nwarpid": u32(wave.warps),
        "%clusterid.x": u32(number % gx), "%cluster_ctaid.x": u32(0), "%cluster_ctarank": u32(0),
        "%cluster_nctaid.x": u32(1), "%cluster_nctarank": u32(1),
        "%lanemask_eq": u32(np.uint32(1) << u32(thread % WARP)), "%dynamic_smem_size": u32(wave.shared.nbytes),
    }  # fmt: skip


def _symbols(entry: Entry, places: dict[str, int]) -> dict[str, Array]:
    """Addresses of variables and parameters, as u64."""
    found = dict(places)
    for space, base in (("shared", SHARED_BASE), ("local", LOCAL_BASE)):
        found |= {name: base + offset for name, offset in layout(entry.variables.values(), space)[0].items()}
    found |= {each.name: PARAMETERS + each.offset for each in entry.parameters}
    return {name: np.full((1, 1), address, np.uint64) for name, address in found.items()}
