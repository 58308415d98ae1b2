"""Launch of a kernel on the emulated GPU. Blocks run in waves (groups of blocks that run at once), whose size NumPy
handles efficiently.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.emulator.addresses import LOCAL_BASE, PARAMETERS, SHARED_BASE
from meshgen.emulator.asynchronous import no_pending_operations
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

# Number of threads in a wave. Chosen so that the registers of a wave fit into the cache of a core (measured on the demo
# kernels).
LANES = 1 << 14
MOST_THREADS = 1024  # maximum threads per block, on every architecture (CUDA C++ guide, "Technical Specifications")
MOST_SHARED = (
    227 * 1024
)  # maximum bytes of shared memory per block: the limit of sm_90, the largest of all architectures (CUDA C++ guide, "Technical Specifications")
# maximum bytes of local memory per thread, on every architecture (CUDA C++ guide, "Technical Specifications")
MOST_LOCAL = 512 * 1024
# Default limit on the number of instructions that a wave issues. Chosen: beyond it, the kernel is assumed to be in an
# endless loop.
ISSUES = 20_000_000
INSTRUCTION_LIMIT = "MESHGEN_INSTRUCTION_LIMIT"  # environment variable that overrides the limit `ISSUES`


Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Checks:
    """Options for checks that go beyond the faults of a real GPU.

    Attributes:
        races: whether to report accesses to shared memory that no barrier orders, and conflicts between blocks in
            global memory.
        operands: (first address, bytes, whether writable) of each range that the kernel may access. None allows all
            allocations.
        touch: callback for every access to global memory.
        issues: limit on the instructions of a wave of blocks. 0 selects `instruction_limit()`.
    """

    races: bool = False
    operands: Sequence[Range] | None = None
    touch: Touch | None = None
    issues: int = 0


NO_CHECKS = Checks()


def instruction_limit() -> int:
    """Return the value of the variable MESHGEN_INSTRUCTION_LIMIT, or `ISSUES` if the variable is not set.

    Raises:
        UsageError: MG0001, the variable is not a positive integer.
    """
    text = os.environ.get(INSTRUCTION_LIMIT, "")
    limit = whole_number(text) if text else ISSUES
    if not limit:
        hint = "give a number of instructions, such as 20000000"
        raise UsageError(Diagnostic("MG0001", f"{INSTRUCTION_LIMIT} is '{text}'", hint=hint))
    return limit


def launch(entry: Entry, grid: Shape, block: Shape, shared_bytes: int, parameters: bytes, memory: Memory, *,
           checks: Checks = NO_CHECKS) -> None:  # fmt: skip
    """Run all blocks of the grid, in waves of blocks with consecutive indices.

    Args:
        shared_bytes: dynamic shared memory of a block.
        parameters: the parameter block; each parameter is at its offset.
    Raises:
        DeviceFault: MG0608, the kernel performs an operation that a GPU rejects, that is undefined, or that silently
            gives wrong results.
    """
    _check_shape(entry, grid, block, parameters)
    _check_memory(entry, shared_bytes)
    steps, limit = steps_of(entry), checks.issues or instruction_limit()
    threads = math.prod(block)
    total = math.prod(grid)
    wave_blocks = max(1, LANES // threads)
    allocated = [
        (memory.allocate(v.size, v.name), v) for v in entry.variables.values() if v.space in ("global", "const")
    ]
    try:
        for address, variable in allocated:
            memory.view(address, variable.size)[:] = np.frombuffer(variable.initial or bytes(variable.size), np.uint8)
        constants = [(address, variable.size, False) for address, variable in allocated]
        operands = None if checks.operands is None else [*checks.operands, *constants]
        variable_addresses = {variable.name: address for address, variable in allocated}
        race_grain = _grain(entry, "global") if checks.races else 0
        global_memory = GlobalMemory(memory, operands, checks.touch, races_by=race_grain)
        with np.errstate(all="ignore"):
            for start in range(0, total, wave_blocks):
                block_indices = np.arange(start, min(total, start + wave_blocks))
                wave = _wave(
                    entry,
                    grid,
                    block,
                    block_indices,
                    shared_bytes,
                    parameters,
                    global_memory,
                    checks,
                    variable_addresses,
                )
                Execution(wave, steps, limit).run()
    finally:
        for address, _ in allocated:
            memory.free(address)


def _check_shape(entry: Entry, grid: Shape, block: Shape, parameters: bytes) -> None:
    """Raise DeviceFault if a driver would refuse the grid, the block or the size of the parameters."""
    threads = math.prod(block)
    if min(*grid, *block) < 1 or threads > MOST_THREADS:
        raise DeviceFault("opcode", f"a grid of {grid} with blocks of {block} cannot be launched", kernel=entry.name)
    fits = entry.max_threads is None or (
        threads == entry.max_threads if entry.exact_threads else threads <= entry.max_threads
    )
    if not fits or threads % WARP:
        bound = "exactly" if entry.exact_threads else "at most"
        raise DeviceFault(
            "opcode", f"a block has {threads} threads, not {bound} {entry.max_threads}", kernel=entry.name
        )
    if len(parameters) < entry.parameter_bytes:
        reason = f"{len(parameters)} bytes of parameters were given, but the kernel takes {entry.parameter_bytes}"
        raise DeviceFault("opcode", reason, kernel=entry.name)


def _check_memory(entry: Entry, shared_bytes: int) -> None:
    """Raise DeviceFault if a block or a thread needs more shared or local memory than any GPU has."""
    shared, local = entry.shared_bytes + shared_bytes, _local_bytes(entry)
    if shared > MOST_SHARED:
        reason = f"a block needs {shared} bytes, but has {MOST_SHARED} at most"
        raise DeviceFault("shared memory", reason, kernel=entry.name)
    if local > MOST_LOCAL:
        raise DeviceFault(
            "address", f"a thread needs {local} bytes of local memory, but has {MOST_LOCAL} at most", kernel=entry.name
        )


def _wave(entry: Entry, grid: Shape, block: Shape, numbers: Array, shared_bytes: int, parameters: bytes,
          memory: GlobalMemory, checks: Checks, variable_addresses: dict[str, int]) -> Wave:  # fmt: skip
    """Return a wave with the blocks `numbers`, in the state before the first instruction."""
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
        no_pending_operations(len(numbers), warps * WARP),
    )
    wave.specials = _specials(wave) | _symbols(entry, variable_addresses)
    return wave


@functools.lru_cache(maxsize=256)
def _registers(entry: Entry) -> dict[str, Array]:
    return initial_registers(entry.code)


@functools.lru_cache(maxsize=256)
def _local_bytes(entry: Entry) -> int:
    """Return the size of the local arrays of one thread, padded to the widest access."""
    return -(-layout(entry.variables.values(), "local")[1] // 16) * 16


@functools.lru_cache(maxsize=256)
def _grain(entry: Entry, space: str) -> int:
    """Return the granularity of the race checks in bytes: the smallest access to `space` in the code, at most 4.

    Tensor copies access global memory byte by byte, so their granularity there is 1.
    """
    smallest = 4
    for instruction in entry.code:
        spaces = {m.split("::")[0] for m in instruction.modifiers}
        if instruction.opcode in ("ld", "st", "atom", "red") and (
            space in spaces or spaces.isdisjoint((*SPACES, "param"))
        ):
            vector_size = max(
                len(operand.parts) if isinstance(operand, Vector) else 1 for operand in instruction.operands
            )
            smallest = min(smallest, vector_size * TYPES.get(instruction.modifiers[-1], np.dtype(np.uint8)).itemsize)
        elif space == "global" and "tensor" in spaces:
            return 1
    return smallest


def _specials(wave: Wave) -> dict[str, Array]:
    """Return the values of the special registers, as arrays that broadcast to [blocks, threads]."""
    (gx, gy, gz), (bx, by, bz) = wave.grid, wave.block
    thread, block_index = np.arange(wave.threads)[None, :], wave.numbers[:, None]

    def u32(value: Array | int) -> Array:
        return np.asarray(value, np.uint32).reshape(np.shape(value) or (1, 1))

    return {
        "%tid.x": u32(thread % bx), "%tid.y": u32(thread // bx % by), "%tid.z": u32(thread // (bx * by)),
        "%ctaid.x": u32(block_index % gx), "%ctaid.y": u32(block_index // gx % gy),
        "%ctaid.z": u32(block_index // (gx * gy)),
        "%ntid.x": u32(bx), "%ntid.y": u32(by), "%ntid.z": u32(bz),
        "%nctaid.x": u32(gx), "%nctaid.y": u32(gy), "%nctaid.z": u32(gz),
        "%laneid": u32(thread % WARP), "%warpid": u32(thread // WARP), "%nwarpid": u32(wave.warps),
        "%clusterid.x": u32(block_index % gx), "%cluster_ctaid.x": u32(0), "%cluster_ctarank": u32(0),
        "%cluster_nctaid.x": u32(1), "%cluster_nctarank": u32(1),
        "%lanemask_eq": u32(np.uint32(1) << u32(thread % WARP)), "%dynamic_smem_size": u32(wave.shared.nbytes),
    }  # fmt: skip


def _symbols(entry: Entry, variable_addresses: dict[str, int]) -> dict[str, Array]:
    """Map the names of variables and parameters to addresses, which are u64 arrays of shape [1, 1]."""
    addresses = dict(variable_addresses)
    for space, base in (("shared", SHARED_BASE), ("local", LOCAL_BASE)):
        addresses |= {name: base + offset for name, offset in layout(entry.variables.values(), space)[0].items()}
    addresses |= {parameter.name: PARAMETERS + parameter.offset for parameter in entry.parameters}
    return {name: np.full((1, 1), address, np.uint64) for name, address in addresses.items()}
