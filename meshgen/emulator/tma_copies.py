"""TMA copies of tensor tiles between global and shared memory, and updates of tensor maps.

A copy to shared memory is performed when a thread waits for its mbarrier; until then no thread may access its
destination. A copy to global memory is performed at once, but no thread may write to its source before the copying
thread has waited.
Source: PTX ISA 8.7, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "tensormap.replace",
"tensormap.cp_fenceproxy".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from meshgen.emulator import tensor_map
from meshgen.emulator.addresses import PARAMETERS, WIDEST
from meshgen.emulator.asynchronous import BulkCopy, BulkStore
from meshgen.emulator.decoder_table import Reader, address_reader, opcode, reader, vector_of
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.loads import OPERATIONS
from meshgen.emulator.mbarriers import mbarrier_at
from meshgen.emulator.program import Address, Immediate, Instruction
from meshgen.emulator.swizzles import swizzled
from meshgen.emulator.tensor_map import NBYTES, SPANS, TensorMap
from meshgen.emulator.types import TYPES, Array, DType, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_S32, _U32, _U64 = np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.uint64)
_TO_SHARED = {"async", "bulk", "tensor", "tile", "shared::cta", "shared::cluster", "global", "mbarrier::complete_tx::bytes",
              "L2::cache_hint"}  # fmt: skip
_TO_GLOBAL = {"async", "bulk", "tensor", "tile", "shared::cta", "global", "bulk_group", "L2::cache_hint"}
# PTX type of each element type of a tensor map, by index
_KINDS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "f32", "f32")
# threads; positions of the segments; addresses of the elements; mask of the elements inside the tensor; the tensor map
Box = tuple[Array, Array, Array, Array, TensorMap]
Boxes = Callable[[Wave, Mask], Iterator[Box]]


def bulk(instruction: Instruction) -> Action:
    """Decode a bulk copy: `cp.async.bulk...` or `cp.reduce.async.bulk...`."""
    words = list(instruction.modifiers)
    operation = ""
    if words[0] == "reduce":
        operation = next((word for word in words if word in OPERATIONS), "")
        words = [word for word in words[1:] if word != operation]
    match words[2:]:
        case ["commit_group"]:
            return _commit
        case ["wait_group", *more] if more in ([], ["read"]):
            max_pending = instruction.operands[0]
            if not isinstance(max_pending, Immediate):
                raise unknown(instruction)
            return lambda wave, mask: _wait(wave, mask, max_pending.bits)
        case _:
            pass
    ranks = [word for word in words if re.fullmatch(r"[1-5]d", word)]
    modifiers = set(words) - set(ranks)
    if "tensor" not in modifiers or len(ranks) != 1 or (instruction.modifiers[0] == "reduce") != bool(operation):
        raise unknown(instruction)
    if modifiers <= _TO_SHARED and "mbarrier::complete_tx::bytes" in modifiers and not operation:
        return _to_shared(instruction)
    if modifiers <= _TO_GLOBAL and "bulk_group" in modifiers:
        return _to_global(instruction, operation)
    raise unknown(instruction)


def _to_shared(instruction: Instruction) -> Action:
    target, box, barrier = instruction.operands[:3]
    destination, mbarrier_address = address_reader(target, instruction), address_reader(barrier, instruction)
    boxes = _boxes(instruction, box, destination)

    def run(wave: Wave, mask: Mask) -> None:
        mbarriers = wave.full(mbarrier_address(wave)).ravel()
        for threads, positions, addresses, inside, descriptor in boxes(wave, mask):
            wave.memory.positions(addresses[inside], descriptor.item_bytes, descriptor.item_bytes, write=False)
            warps = threads % wave.threads // WARP
            for mbarrier in np.unique(mbarriers[threads]):
                is_selected = mbarriers[threads] == mbarrier
                lanes = np.zeros(wave.shape, np.bool_)
                lanes.ravel()[threads[is_selected]] = True
                state = mbarrier_at(wave, int(mbarrier), lanes)
                wave.shared.begin_copy(positions[is_selected], WIDEST, warps[is_selected][:, None])
                nbytes = positions.shape[1] * WIDEST
                copy = BulkCopy(
                    threads[is_selected] // wave.threads, warps[is_selected], positions[is_selected], addresses[is_selected],
                    inside[is_selected], descriptor.item_bytes, _fill(descriptor), nbytes,
                )  # fmt: skip
                state.copies.append(copy)

    return run


def _fill(described: TensorMap) -> int:
    """Return the bits with which a copy fills elements outside the tensor."""
    return (1 << 8 * described.item_bytes) - 1 if described.fills_nan else 0


def _to_global(instruction: Instruction, operation: str) -> Action:
    box, source = instruction.operands[:2]
    boxes = _boxes(instruction, box, address_reader(source, instruction))

    def run(wave: Wave, mask: Mask) -> None:
        state = wave.pending_operations
        for threads, positions, addresses, inside, described in boxes(wave, mask):
            state.operations += 1
            wave.shared.begin_operation(state.operations)
            warps = (threads % wave.threads // WARP)[:, None]
            segments = wave.shared.unit_reads(positions, WIDEST, warps, state.operations)
            values = segments.view(WORDS[described.item_bytes])[inside]
            state.bulk_stores.append(BulkStore(state.operations, threads, state.bulk_groups[threads]))
            blocks = np.broadcast_to(wave.numbers[threads // wave.threads][:, None], inside.shape)[inside]
            if operation:
                _reduce(wave, addresses[inside], values, operation, TYPES[_KINDS[described.element]], blocks)
            else:
                wave.memory.store(addresses[inside], values, blocks)

    return run


def _reduce(wave: Wave, addresses: Array, values: Array, operation: str, dtype: DType, blocks: Array) -> None:
    """Combine `values` with the elements at `addresses` by `operation`. Raises DeviceFault if two tiles update one
    element in one step.
    """
    if len(np.unique(addresses)) != len(addresses):
        raise DeviceFault("opcode", "the emulated GPU does not reduce boxes that overlap in one step")
    memory, positions = wave.memory.elements(dtype), wave.memory.update(addresses, dtype.itemsize, blocks)
    memory[positions] = OPERATIONS[operation](memory[positions], values.view(dtype)).astype(dtype)


def _commit(wave: Wave, mask: Mask) -> None:
    wave.pending_operations.bulk_groups[wave.lanes(mask).ravel()] += 1


def _wait(wave: Wave, mask: Mask, left: int) -> None:
    """Complete the oldest bulk stores, until each thread of `mask` has at most `left` commit groups whose source is
    still being read.
    """
    state = wave.pending_operations
    is_waiting = wave.lanes(mask).ravel()
    pending: list[BulkStore] = []
    for store in state.bulk_stores:
        completed = is_waiting[store.threads] & (store.group < state.bulk_groups[store.threads] - left)
        if completed.all():
            wave.shared.end_operation(store.number)
        else:
            pending.append(BulkStore(store.number, store.threads[~completed], store.group[~completed]))
    state.bulk_stores = pending


def _boxes(instruction: Instruction, operand: object, destination: Reader) -> Boxes:
    """Return a function that yields the tiles of the copying threads, grouped by tensor map."""
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise unknown(instruction)
    address = address_reader(Address(operand.base, operand.offset), instruction)
    coordinates = [reader(map_address, _S32, instruction) for map_address in vector_of(operand.coordinates)]

    def boxes(wave: Wave, mask: Mask) -> Iterator[Box]:
        lanes = wave.lanes(mask)
        threads = np.flatnonzero(lanes)
        if not threads.size:
            return
        maps = [_map_at(wave, int(map_address)) for map_address in wave.full(address(wave)).ravel()[threads]]
        starts = np.stack([wave.full(read(wave)).ravel()[threads] for read in coordinates], -1).astype(np.int64)
        destinations = wave.full(destination(wave)).ravel()[threads].astype(np.int64)
        for described in dict.fromkeys(maps):
            if len(described.box) != len(coordinates):
                raise DeviceFault(
                    "opcode", f"a box of {len(described.box)} dims is copied at {len(coordinates)} coordinates"
                )
            is_selected = np.array([descriptor == described for descriptor in maps])
            offsets, addresses, inside = _box_elements(described, starts[is_selected])
            offsets = swizzled(destinations[is_selected][:, None] + offsets, SPANS[described.swizzle])
            if (destinations[is_selected] % 128).any():
                raise DeviceFault(
                    "alignment", "a box begins at an address of shared memory that is not a multiple of 128 bytes"
                )
            positions = wave.shared.positions(offsets, (threads[is_selected] // wave.threads)[:, None], WIDEST)
            yield threads[is_selected], positions, addresses, inside, described

    return boxes


def _map_at(wave: Wave, address: int) -> TensorMap:
    """Return the tensor map at `address`, which is in the parameter block or in global memory."""
    if PARAMETERS <= address < PARAMETERS + len(wave.parameters):
        offset = address - PARAMETERS
        content = wave.parameters[offset : offset + NBYTES]
    else:
        content = bytes(wave.memory.bytes_at(address, NBYTES))
    if address % tensor_map.ALIGNMENT or len(content) < NBYTES:
        raise DeviceFault("alignment", f"{address:#x} is not the address of a tensor map")
    return tensor_map.decode(content)


def _box_elements(described: TensorMap, starts: Array) -> tuple[Array, Array, Array]:
    """Compute the elements of the tile that begins at `starts`, for each thread.

    Returns:
        The byte offset of each segment in shared memory. For each element its address, and whether it is inside the
        tensor, both [threads, elements].
    """
    indices = np.arange(int(np.prod(described.box)))
    inside = np.ones((len(starts), len(indices)), np.bool_)
    addresses = np.full(inside.shape, described.address, np.int64)
    remaining = indices
    for dim, (box, size) in enumerate(zip(described.box, described.sizes, strict=True)):
        index = starts[:, dim, None] + remaining % box
        remaining = remaining // box
        inside &= (index >= 0) & (index < size)
        addresses += index * (described.strides[dim - 1] if dim else described.item_bytes)
    return np.arange(0, len(indices) * described.item_bytes, WIDEST), addresses.astype(np.uint64), inside


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
    """Decode `tensormap.replace`: write a field of a tensor map in shared memory."""
    if "shared::cta" not in instruction.modifiers:
        raise unknown(instruction)
    address = address_reader(instruction.operands[0], instruction)
    offset, size = tensor_map.FIELDS[field]
    *index, value = instruction.operands[1:]
    if index:
        list_index = index[0]
        if not isinstance(list_index, Immediate) or not 0 <= list_index.bits < tensor_map.LISTS.get(field, 0):
            raise unknown(instruction)
        offset += list_index.bits * size
    read = reader(value, _U64 if instruction.modifiers[-1] == "b64" else _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes(mask)
        blocks, threads = np.nonzero(lanes)
        positions = wave.shared.positions(wave.full(address(wave))[lanes] + np.uint64(offset), blocks, size)
        wave.shared.store(positions, wave.full(read(wave))[lanes].astype(WORDS[size]), threads // WARP)

    return run


def _publish(instruction: Instruction) -> Action:
    """Decode `tensormap.cp_fenceproxy`: a warp copies a tensor map from shared to global memory."""
    target, source = (address_reader(operand, instruction) for operand in instruction.operands[:2])

    def run(wave: Wave, mask: Mask) -> None:
        lanes = wave.lanes_by_warp(mask)
        for block, warp in zip(*np.nonzero(lanes.any(2)), strict=True):
            thread = int(warp) * WARP + int(np.argmax(lanes[block, warp]))
            start = wave.full(source(wave))[block, thread] + np.arange(0, NBYTES, 16, dtype=np.uint64)
            positions = wave.shared.positions(start, np.full(len(start), block), 16)
            content = wave.shared.load(positions, 16, np.full(len(start), warp))
            destination = int(wave.full(target(wave))[block, thread])
            wave.memory.bytes_at(destination, NBYTES, write=True)[:] = content.view(np.uint8)

    return run
