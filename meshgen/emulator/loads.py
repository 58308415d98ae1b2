"""Loads, stores and atomic operations in global, shared and local memory, and loads of parameters.

Cache hints are ignored. All threads access memory in one step. If several threads store to one address, the value of
the last thread remains. Atomic operations take effect in the order of the thread indices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.addresses import PARAMETERS
from meshgen.emulator.decoder_table import address_reader, opcode, reader, vector_of, writer
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Address, Instruction
from meshgen.emulator.spaces import SPACES, Space, space_named
from meshgen.emulator.types import BITS, Array, DType, type_of, unknown
from meshgen.emulator.wave import Action, Mask, Wave

# Modifiers that select caching or memory ordering.
_HINTS = frozenset(
    ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "sys", "gpu",
     "cta", "cluster", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
     "L2::cache_hint", "L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::64B", "L2::128B", "L2::256B", "noftz")
)  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def _space(instruction: Instruction, *allowed: str) -> str:
    """Return the state space of an access, or `generic` if the instruction specifies none.

    Raises DeviceFault for an unsupported modifier.
    """
    modifiers = [word for word in instruction.modifiers[:-1] if word not in _HINTS and word not in allowed]
    spaces = [word for word in modifiers if word.split("::")[0] in (*SPACES, "param")]
    if len(spaces) > 1 or spaces != modifiers or (modifiers and modifiers[0].endswith("::cluster")):
        raise unknown(instruction)
    return spaces[0].split("::")[0] if spaces else "generic"


def _access_bytes(instruction: Instruction, parts: int, dtype: DType) -> int:
    """Return the bytes of an access by one thread: `parts` vector elements of type `dtype`."""
    vector_size = next((count for word, count in _VECTORS.items() if word in instruction.modifiers), 1)
    if vector_size != parts or vector_size * dtype.itemsize not in WORDS:
        raise unknown(instruction)
    return vector_size * dtype.itemsize


@opcode("ld", "ldu")
def _ld(instruction: Instruction) -> Action:
    name = _space(instruction, *_VECTORS)
    dtype = type_of(instruction)
    targets = vector_of(instruction.operands[0])
    size = _access_bytes(instruction, len(targets), dtype)
    puts = [writer(target, dtype, instruction) for target in targets]
    if name == "param":
        return _load_parameter(instruction, dtype, puts)
    address = address_reader(instruction.operands[1], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        addresses = address(wave)
        if wave.is_all(mask) and wave.alive is None:
            values = _vector_parts(space_named(name, addresses).load(wave, addresses, None, size), dtype)
        else:
            lanes = wave.lanes(mask)
            values = np.zeros((*wave.shape, len(puts)), dtype)
            if lanes.any():
                positions = wave.full(addresses)[lanes]
                values[lanes] = _vector_parts(space_named(name, positions).load(wave, positions, lanes, size), dtype)
        for index, put in enumerate(puts):
            put(wave, values[..., index], mask)

    return run


def _vector_parts(raw: Array, dtype: DType) -> Array:
    """Return loaded words as elements [.., parts] of type `dtype`."""
    return np.ascontiguousarray(raw)[..., None].view(dtype)


def _load_parameter(instruction: Instruction, dtype: DType, puts: list[Callable[[Wave, Array, Mask], None]]) -> Action:
    """Decode `ld.param`.

    A 64-bit address is generic. A 32-bit address (`mov.b32 %r1, x_param_0`) is an offset from the start of the
    parameter block.
    """
    address = address_reader(instruction.operands[1], instruction)
    size = dtype.itemsize * len(puts)

    def run(wave: Wave, mask: Mask) -> None:
        positions = address(wave)
        if positions.size > 1:
            lanes = wave.lanes(mask)
            if not lanes.any():
                return
            # the addresses of inactive lanes are undefined
            positions = np.where(lanes, positions, wave.full(positions)[lanes][0])
        positions = np.where(positions >= PARAMETERS, positions - np.uint64(PARAMETERS), positions)
        end = int(positions.max()) + size
        if end > len(wave.parameters):
            raise DeviceFault("address", f"byte {end} of {len(wave.parameters)} bytes of parameters is read")
        unique_positions, unique_index = (
            np.unique(positions, return_inverse=True) if positions.size > 1 else (positions.reshape(1), np.array(0))
        )
        unique_values = np.stack(
            [np.frombuffer(wave.parameters, dtype, len(puts), int(position)) for position in unique_positions]
        )
        for index, put in enumerate(puts):
            put(wave, unique_values[unique_index.reshape(positions.shape), index], mask)

    return run


@opcode("st")
def _st(instruction: Instruction) -> Action:
    name = _space(instruction, *_VECTORS)
    dtype = BITS[type_of(instruction).itemsize]
    sources = [reader(operand, dtype, instruction) for operand in vector_of(instruction.operands[1])]
    size = _access_bytes(instruction, len(sources), dtype)
    address = address_reader(instruction.operands[0], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        addresses = address(wave)
        values = [source(wave) for source in sources]
        if wave.is_all(mask) and wave.alive is None:
            space_named(name, addresses).store(wave, addresses, None, _joined_vector(values, size))
            return
        lanes = wave.lanes(mask)
        if lanes.any():
            active_values = [wave.full(value)[lanes] for value in values]
            positions = wave.full(addresses)[lanes]
            space_named(name, positions).store(wave, positions, lanes, _joined_vector(active_values, size))

    return run


def _joined_vector(values: list[Array], size: int) -> Array:
    """Join the elements of a vector into one word of `size` bytes per thread."""
    if len(values) == 1:
        return values[0]
    parts = np.stack(np.broadcast_arrays(*values), -1)
    return np.ascontiguousarray(parts).view(WORDS[size])[..., 0]


Operation = Callable[[Array, Array], Array]
_WRAPPING: dict[str, Operation] = {
    "inc": lambda old, top: np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}
OPERATIONS: dict[str, Operation] = {
    "add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "exch": lambda old, new: np.broadcast_to(new, old.shape), **_WRAPPING,
}  # fmt: skip


@opcode("atom", "red")
def _atom(instruction: Instruction) -> Action:
    operations = [word for word in instruction.modifiers if word in OPERATIONS or word == "cas"]
    if len(operations) != 1:
        raise unknown(instruction)
    (operation,) = operations
    name = _space(instruction, operation, *_VECTORS)
    dtype, half = type_of(instruction), instruction.modifiers[-1].endswith("x2")
    if (
        half
        or (dtype.kind == "u" and instruction.modifiers[-1][0] not in "ub")
        or any(v in instruction.modifiers for v in _VECTORS)
    ):
        raise unknown(instruction)
    target, memory_operand, *inputs = (
        instruction.operands if instruction.opcode == "atom" else (None, *instruction.operands)
    )
    address = address_reader(memory_operand, instruction)
    values = [reader(operand, dtype, instruction) for operand in inputs]
    put = writer(target, dtype, instruction) if target else None

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes(mask)
        addresses = wave.full(address(wave))[lanes]
        if not addresses.size:
            return
        old = _serialize_atomics(wave, space_named(name, addresses), addresses, lanes, operation,
                       [wave.full(value(wave))[lanes] for value in values])  # fmt: skip
        if put:
            result = np.zeros(wave.shape, dtype)
            result[lanes] = old
            put(wave, result, mask)

    return run


def _serialize_atomics(
    wave: Wave, space: Space, addresses: Array, lanes: Array, operation: str, values: list[Array]
) -> Array:
    """Apply an atomic operation of several threads, and return the value that each thread found in memory.

    Each round handles one thread per address, in the order of the threads.
    """
    dtype = values[0].dtype
    bits = BITS[dtype.itemsize]
    keys = space.keys(wave, addresses, lanes, dtype.itemsize)
    order = np.argsort(keys, kind="stable")
    begins = np.r_[True, keys[order][1:] != keys[order][:-1]]
    run_start = np.maximum.accumulate(np.where(begins, np.arange(len(keys)), 0))
    round_of = np.empty(len(keys), np.int64)
    round_of[order] = np.arange(len(keys)) - run_start
    old = np.empty(len(keys), dtype)
    memory = space.elements(wave, bits)
    for round_index in range(int(round_of.max()) + 1):
        in_round = round_of == round_index
        current = memory[keys[in_round]].view(dtype)
        if operation == "cas":
            new = np.where(current == values[0][in_round], values[1][in_round], current)
        else:
            new = OPERATIONS[operation](current, values[0][in_round]).astype(dtype)
        old[in_round] = current
        memory[keys[in_round]] = new.view(bits)
    return old


@opcode("prefetch", "prefetchu", "discard", "applypriority")
def _prefetch(instruction: Instruction) -> Action:
    """Decode a cache hint instruction, which has no effect."""
    if not isinstance(instruction.operands[0], Address):
        raise unknown(instruction)
    return lambda wave, mask: None
