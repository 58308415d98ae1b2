"""Loads, stores and atomic operations, in global, shared and local memory and of parameters.

Cache hints are ignored. All threads act in one step, and of several stores to one place the last thread's stays; atomic
operations act one thread after the other, in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.addresses import PARAMETERS
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.program import Address, Instruction
from meshgen.emulator.spaces import SPACES, Space, space_named
from meshgen.emulator.table import address_reader, opcode, reader, vector_of, writer
from meshgen.emulator.types import BITS, Array, DType, type_of, unknown
from meshgen.emulator.wave import Action, Mask, Wave

# Words that say how long a line stays in which cache, and who sees a store when.
_HINTS = frozenset(
    ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "sys", "gpu",
     "cta", "cluster", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
     "L2::cache_hint", "L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::64B", "L2::128B", "L2::256B", "noftz")
)  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def _space(instruction: Instruction, *allowed: str) -> str:
    """The state space of an access; `generic` where none is named. Raises DeviceFault for a word that is not understood."""
    found = [word for word in instruction.modifiers[:-1] if word not in _HINTS and word not in allowed]
    spaces = [word for word in found if word.split("::")[0] in (*SPACES, "param")]
    if len(spaces) > 1 or spaces != found or (found and found[0].endswith("::cluster")):
        raise unknown(instruction)
    return spaces[0].split("::")[0] if spaces else "generic"


def _access_bytes(instruction: Instruction, parts: int, kind: DType) -> int:
    """Bytes of an access: as many elements as its vector has."""
    named = next((count for word, count in _VECTORS.items() if word in instruction.modifiers), 1)
    if named != parts or named * kind.itemsize not in WORDS:
        raise unknown(instruction)
    return named * kind.itemsize


@opcode("ld", "ldu")
def _ld(instruction: Instruction) -> Action:
    name = _space(instruction, *_VECTORS)
    kind = type_of(instruction)
    targets = vector_of(instruction.operands[0])
    size = _access_bytes(instruction, len(targets), kind)
    puts = [writer(each, kind, instruction) for each in targets]
    if name == "param":
        return _load_parameter(instruction, kind, puts)
    address = address_reader(instruction.operands[1], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        addresses = address(wave)
        if wave.is_all(mask) and wave.alive is None:
            values = _vector_parts(space_named(name, addresses).load(wave, addresses, None, size), kind)
        else:
            lanes = wave.lanes(mask)
            values = np.zeros((*wave.shape, len(puts)), kind)
            if lanes.any():
                places = wave.full(addresses)[lanes]
                values[lanes] = _vector_parts(space_named(name, places).load(wave, places, lanes, size), kind)
        for number, put in enumerate(puts):
            put(wave, values[..., number], mask)

    return run


def _vector_parts(raw: Array, kind: DType) -> Array:
    """Loaded words as [.., parts] elements of a type."""
    return np.ascontiguousarray(raw)[..., None].view(kind)


def _load_parameter(instruction: Instruction, kind: DType, puts: list[Callable[[Wave, Array, Mask], None]]) -> Action:
    """An address in 64 bits is generic, one in 32 bits (`mov.b32 %r1, x_param_0`) counts from the block of parameters."""
    address = address_reader(instruction.operands[1], instruction)
    size = kind.itemsize * len(puts)

    def run(wave: Wave, mask: Mask) -> None:
        places = address(wave)
        if places.size > 1:
            lanes = wave.lanes(mask)
            if not lanes.any():
                return
            places = np.where(lanes, places, wave.full(places)[lanes][0])  # what the other lanes hold is not read
        places = np.where(places >= PARAMETERS, places - np.uint64(PARAMETERS), places)
        end = int(places.max()) + size
        if end > len(wave.parameters):
            raise DeviceFault("address", f"byte {end} of {len(wave.parameters)} bytes of parameters is read")
        found, which = np.unique(places, return_inverse=True) if places.size > 1 else (places.reshape(1), np.array(0))
        read = np.stack([np.frombuffer(wave.parameters, kind, len(puts), int(each)) for each in found])
        for number, put in enumerate(puts):
            put(wave, read[which.reshape(places.shape), number], mask)

    return run


@opcode("st")
def _st(instruction: Instruction) -> Action:
    name = _space(instruction, *_VECTORS)
    kind = BITS[type_of(instruction).itemsize]
    sources = [reader(each, kind, instruction) for each in vector_of(instruction.operands[1])]
    size = _access_bytes(instruction, len(sources), kind)
    address = address_reader(instruction.operands[0], instruction)

    def run(wave: Wave, mask: Mask) -> None:
        addresses = address(wave)
        values = [source(wave) for source in sources]
        if wave.is_all(mask) and wave.alive is None:
            space_named(name, addresses).store(wave, addresses, None, _joined_vector(values, size))
            return
        lanes = wave.lanes(mask)
        if lanes.any():
            chosen = [wave.full(value)[lanes] for value in values]
            places = wave.full(addresses)[lanes]
            space_named(name, places).store(wave, places, lanes, _joined_vector(chosen, size))

    return run


def _joined_vector(values: list[Array], size: int) -> Array:
    """Parts of a vector as one number of `size` bytes each."""
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
    kind, half = type_of(instruction), instruction.modifiers[-1].endswith("x2")
    if (
        half
        or (kind.kind == "u" and instruction.modifiers[-1][0] not in "ub")
        or any(v in instruction.modifiers for v in _VECTORS)
    ):
        raise unknown(instruction)
    target, place, *given = instruction.operands if instruction.opcode == "atom" else (None, *instruction.operands)
    address = address_reader(place, instruction)
    values = [reader(each, kind, instruction) for each in given]
    put = writer(target, kind, instruction) if target else None

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes(mask)
        addresses = wave.full(address(wave))[lanes]
        if not addresses.size:
            return
        old = _in_turn(wave, space_named(name, addresses), addresses, lanes, operation,
                       [wave.full(value(wave))[lanes] for value in values])  # fmt: skip
        if put:
            result = np.zeros(wave.shape, kind)
            result[lanes] = old
            put(wave, result, mask)

    return run


def _in_turn(wave: Wave, space: Space, addresses: Array, lanes: Array, operation: str, values: list[Array]) -> Array:
    """An atomic operation of threads one after the other: all that are the first at their address, then the second, ..."""
    kind = values[0].dtype
    bits = BITS[kind.itemsize]
    keys = space.keys(wave, addresses, lanes, kind.itemsize)
    order = np.argsort(keys, kind="stable")
    begins = np.r_[True, keys[order][1:] != keys[order][:-1]]
    run_start = np.maximum.accumulate(np.where(begins, np.arange(len(keys)), 0))
    turn = np.empty(len(keys), np.int64)
    turn[order] = np.arange(len(keys)) - run_start
    old = np.empty(len(keys), kind)
    memory = space.elements(wave, bits)
    for each in range(int(turn.max()) + 1):
        now = turn == each
        found = memory[keys[now]].view(kind)
        if operation == "cas":
            new = np.where(found == values[0][now], values[1][now], found)
        else:
            new = OPERATIONS[operation](found, values[0][now]).astype(kind)
        old[now] = found
        memory[keys[now]] = new.view(bits)
    return old


@opcode("prefetch", "prefetchu", "discard", "applypriority")
def _prefetch(instruction: Instruction) -> Action:
    """Says what will be needed: nothing changes."""
    if not isinstance(instruction.operands[0], Address):
        raise unknown(instruction)
    return lambda wave, mask: None
