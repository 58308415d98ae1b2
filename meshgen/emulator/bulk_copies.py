"""Copies of boxes of tensors between global and shared memory, and the tensor maps that describe them.

A copy to shared memory is done when its mbarrier is waited for; until then no thread may touch its destination. A copy to global
memory is done at once; until its thread has waited for it, no thread may write to its source.
Source: PTX ISA 8.7, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "tensormap.replace", "tensormap.cp_fenceproxy".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from meshgen.emulator import tensor_map
from meshgen.emulator.addresses import PARAMETERS, WIDEST
from meshgen.emulator.asynchronous import BulkCopy, BulkStore
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.loads import OPERATIONS
from meshgen.emulator.mbarriers import mbarrier_at
from meshgen.emulator.program import Address, Immediate, Instruction
from meshgen.emulator.swizzles import swizzled
from meshgen.emulator.table import Reader, address_reader, opcode, reader, vector_of
from meshgen.emulator.tensor_map import NBYTES, SPANS, TensorMap
from meshgen.emulator.types import TYPES, Array, DType, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_S32, _U32, _U64 = np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.uint64)
_TO_SHARED = {"async", "bulk", "tensor", "tile", "shared::cta", "shared::cluster", "global", "mbarrier::complete_tx::bytes",
              "L2::cache_hint"}  # fmt: skip
_TO_GLOBAL = {"async", "bulk", "tensor", "tile", "shared::cta", "global", "bulk_group", "L2::cache_hint"}
_KINDS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "f32", "f32")  # by element type
Box = tuple[Array, Array, Array, Array, TensorMap]  # threads, places of segments, addresses, inside, map
Boxes = Callable[[Wave, Mask], Iterator[Box]]


def bulk(instruction: Instruction) -> Action:
    """`cp.async.bulk...` and `cp.reduce.async.bulk...`"""
    words = list(instruction.modifiers)
    operation = ""
    if words[0] == "reduce":
        operation = next((word for word in words if word in OPERATIONS), "")
        words = [word for word in words[1:] if word != operation]
    match words[2:]:
        case ["commit_group"]:
            return _commit
        case ["wait_group", *more] if more in ([], ["read"]):
            left = instruction.operands[0]
            if not isinstance(left, Immediate):
                raise unknown(instruction)
            return lambda wave, mask: _wait(wave, mask, left.bits)
        case _:
            pass
    ranks = [word for word in words if re.fullmatch(r"[1-5]d", word)]
    rest = set(words) - set(ranks)
    if "tensor" not in rest or len(ranks) != 1 or (instruction.modifiers[0] == "reduce") != bool(operation):
        raise unknown(instruction)
    if rest <= _TO_SHARED and "mbarrier::complete_tx::bytes" in rest and not operation:
        return _to_shared(instruction)
    if rest <= _TO_GLOBAL and "bulk_group" in rest:
        return _to_global(instruction, operation)
    raise unknown(instruction)


def _to_shared(instruction: Instruction) -> Action:
    target, box, barrier = instruction.operands[:3]
    place, told = address_reader(target, instruction), address_reader(barrier, instruction)
    boxes = _boxes(instruction, box, place)

    def run(wave: Wave, mask: Mask) -> None:
        mbarriers = wave.full(told(wave)).ravel()
        for threads, places, addresses, inside, described in boxes(wave, mask):
            wave.memory.places(addresses[inside], described.item_bytes, described.item_bytes, write=False)
            warps = threads % wave.threads // WARP
            for each in np.unique(mbarriers[threads]):
                mine = mbarriers[threads] == each
                lanes = np.zeros(wave.shape, np.bool_)
                lanes.ravel()[threads[mine]] = True
                state = mbarrier_at(wave, int(each), lanes)
                wave.shared.begin_copy(places[mine], WIDEST, warps[mine][:, None])
                nbytes = places.shape[1] * WIDEST
                state.copies.append(BulkCopy(threads[mine] // wave.threads, warps[mine], places[mine], addresses[mine],
                                             inside[mine], described.item_bytes, _fill(described), nbytes))  # fmt: skip

    return run


def _fill(described: TensorMap) -> int:
    """The bits of an element that is outside."""
    return (1 << 8 * described.item_bytes) - 1 if described.fills_nan else 0


def _to_global(instruction: Instruction, operation: str) -> Action:
    box, source = instruction.operands[:2]
    boxes = _boxes(instruction, box, address_reader(source, instruction))

    def run(wave: Wave, mask: Mask) -> None:
        state = wave.under_way
        for threads, places, addresses, inside, described in boxes(wave, mask):
            state.operations += 1
            wave.shared.begin_operation(state.operations)
            warps = (threads % wave.threads // WARP)[:, None]
            segments = wave.shared.unit_reads(places, WIDEST, warps, state.operations)
            values = segments.view(WORDS[described.item_bytes])[inside]
            state.bulk_stores.append(BulkStore(state.operations, threads, state.bulk_groups[threads]))
            blocks = np.broadcast_to(wave.numbers[threads // wave.threads][:, None], inside.shape)[inside]
            if operation:
                _reduce(wave, addresses[inside], values, operation, TYPES[_KINDS[described.element]], blocks)
            else:
                wave.memory.store(addresses[inside], values, blocks)

    return run


def _reduce(wave: Wave, addresses: Array, values: Array, operation: str, kind: DType, blocks: Array) -> None:
    """Combine values with what memory has. Raises DeviceFault where two boxes at once change one element."""
    if len(np.unique(addresses)) != len(addresses):
        raise DeviceFault("opcode", "the emulated GPU does not reduce boxes that overlap in one step")
    memory, places = wave.memory.elements(kind), wave.memory.update(addresses, kind.itemsize, blocks)
    memory[places] = OPERATIONS[operation](memory[places], values.view(kind)).astype(kind)


def _commit(wave: Wave, mask: Mask) -> None:
    wave.under_way.bulk_groups[wave.lanes(mask).ravel()] += 1


def _wait(wave: Wave, mask: Mask, left: int) -> None:
    """Until the sources of all but `left` groups of the threads' copies have been read."""
    state = wave.under_way
    here = wave.lanes(mask).ravel()
    rest: list[BulkStore] = []
    for store in state.bulk_stores:
        over = here[store.threads] & (store.group < state.bulk_groups[store.threads] - left)
        if over.all():
            wave.shared.end_operation(store.number)
        else:
            rest.append(BulkStore(store.number, store.threads[~over], store.group[~over]))
    state.bulk_stores = rest


def _boxes(instruction: Instruction, operand: object, place: Reader) -> Boxes:
    """What reads the box of every thread that copies: for each tensor map, that of the threads that use it."""
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise unknown(instruction)
    address = address_reader(Address(operand.base, operand.offset), instruction)
    coordinates = [reader(each, _S32, instruction) for each in vector_of(operand.coordinates)]

    def boxes(wave: Wave, mask: Mask) -> Iterator[Box]:
        lanes = wave.lanes(mask)
        threads = np.flatnonzero(lanes)
        if not threads.size:
            return
        maps = [_map_at(wave, int(each)) for each in wave.full(address(wave)).ravel()[threads]]
        starts = np.stack([wave.full(read(wave)).ravel()[threads] for read in coordinates], -1).astype(np.int64)
        first = wave.full(place(wave)).ravel()[threads].astype(np.int64)
        for described in dict.fromkeys(maps):
            if len(described.box) != len(coordinates):
                raise DeviceFault(
                    "opcode", f"a box of {len(described.box)} dims is copied at {len(coordinates)} coordinates"
                )
            mine = np.array([each == described for each in maps])
            offsets, addresses, inside = _box_elements(described, starts[mine])
            offsets = swizzled(first[mine][:, None] + offsets, SPANS[described.swizzle])
            if (first[mine] % 128).any():
                raise DeviceFault(
                    "alignment", "a box begins at an address of shared memory that is not a multiple of 128 bytes"
                )
            places = wave.shared.places(offsets, (threads[mine] // wave.threads)[:, None], WIDEST)
            yield threads[mine], places, addresses, inside, described

    return boxes


def _map_at(wave: Wave, address: int) -> TensorMap:
    """The tensor map at an address, of the parameters or in global memory."""
    if PARAMETERS <= address < PARAMETERS + len(wave.parameters):
        place = address - PARAMETERS
        content = wave.parameters[place : place + NBYTES]
    else:
        content = bytes(wave.memory.bytes_at(address, NBYTES))
    if address % tensor_map.ALIGNMENT or len(content) < NBYTES:
        raise DeviceFault("alignment", f"{address:#x} is not the address of a tensor map")
    return tensor_map.decode(content)


def _box_elements(described: TensorMap, starts: Array) -> tuple[Array, Array, Array]:
    """Bytes from a box's place to each of its segments; of each element the address, and whether it is inside [threads, elements]."""
    number = np.arange(int(np.prod(described.box)))
    inside = np.ones((len(starts), len(number)), np.bool_)
    addresses = np.full(inside.shape, described.address, np.int64)
    left = number
    for dim, (box, size) in enumerate(zip(described.box, described.sizes, strict=True)):
        index = starts[:, dim, None] + left % box
        left = left // box
        inside &= (index >= 0) & (index < size)
        addresses += index * (described.strides[dim - 1] if dim else described.item_bytes)
    return np.arange(0, len(number) * described.item_bytes, WIDEST), addresses.astype(np.uint64), inside


@opcode("tensormap")
def _tensormap(instruction: Instruction) -> Action:
    match instruction.modifiers:
        case ("replace", "tile", field, "shared::cta" | "global", "b1024", "b32" | "b64") if field in tensor_map.FIELDS:
            return _replace(instruction, field)
        case ("cp_fenceproxy", "global", "shared::cta", *_):
            return _publish(instruction)
        case _:
            raise unknown(instruction)


def _replace(instruction: Instruction, field: str) -> Action:
    """Write a field of a map in shared memory."""
    if "shared::cta" not in instruction.modifiers:
        raise unknown(instruction)
    address = address_reader(instruction.operands[0], instruction)
    place, size = tensor_map.FIELDS[field]
    *index, value = instruction.operands[1:]
    if index:
        number = index[0]
        if not isinstance(number, Immediate) or not 0 <= number.bits < tensor_map.LISTS.get(field, 0):
            raise unknown(instruction)
        place += number.bits * size
    read = reader(value, _U64 if instruction.modifiers[-1] == "b64" else _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes(mask)
        blocks, threads = np.nonzero(lanes)
        places = wave.shared.places(wave.full(address(wave))[lanes] + np.uint64(place), blocks, size)
        wave.shared.store(places, wave.full(read(wave))[lanes].astype(WORDS[size]), threads // WARP)

    return run


def _publish(instruction: Instruction) -> Action:
    """A warp copies a map from shared to global memory."""
    target, source = (address_reader(each, instruction) for each in instruction.operands[:2])

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes_by_warp(mask)
        for block, warp in zip(*np.nonzero(lanes.any(2)), strict=True):
            thread = int(warp) * WARP + int(np.argmax(lanes[block, warp]))
            start = wave.full(source(wave))[block, thread] + np.arange(0, NBYTES, 16, dtype=np.uint64)
            places = wave.shared.places(start, np.full(len(start), block), 16)
            content = wave.shared.load(places, 16, np.full(len(start), warp))
            to = int(wave.full(target(wave))[block, thread])
            wave.memory.bytes_at(to, NBYTES, write=True)[:] = content.view(np.uint8)

    return run
