"""Arguments, results and constants in a module's launch table: their positions in the file and in each rank's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.runtime.cuda.frames import Addresses, Frame
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.container import WEIGHTS
from meshgen.runtime.module_file.manifest import Binding
from meshgen.runtime.module_file.tensors import places
from meshgen.runtime.native.recording import BASE
from meshgen.runtime.native.shards import argument_shards, result_shards
from meshgen.runtime.native.table_format import Pool, Record, Words
from meshgen.runtime.program import LoadedProgram

_CONSTANTS = "constants.safetensors"


@dataclass(frozen=True)
class Part:
    """A single-mesh module in a file, with the buffer addresses of its recorded step.

    Attributes:
        folder: folder of the module's members in the file.
        kept: result buffer that the step copies elsewhere -> address of the copy on each rank.
    """

    module: LoadedModule
    folder: str
    frame: Frame
    kept: Mapping[int, Addresses]

    def place(self, buffer: int) -> int:
        """Return the byte offset of a buffer in the memory of each rank."""
        return self.frame.address(buffer, self.frame.ranks[0]) - BASE

    def offset_of_result(self, buffer: int) -> int:
        kept = self.kept.get(buffer)
        return self.place(buffer) if kept is None else kept[self.frame.ranks[0]] - BASE


class Files:
    """The names of the members to which a table refers, numbered in order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        return list(self._numbers)


def put_constants(table: Words, parts: Sequence[Part], files: Files) -> None:
    """Write a record per constant: part, offset and size in the ranks' memory, member index, and offset in the member.

    Offsets and sizes are in bytes.
    """
    records: list[Record] = []
    for part_index, part in enumerate(parts):
        for name, (start, stop) in places(part.module.members[_CONSTANTS]).items():
            file = files.number(part.folder + _CONSTANTS)
            records.append((part_index, part.place(int(name)), stop - start, file, start))
    table.put_lists(records)


def put_arguments(table: Words, module: LoadedModule, parts: Sequence[Part], files: Files) -> None:
    """Write for each argument its tensor description, the position of its stored value, and its shards.

    The position is a member index plus 1 and a byte offset, or 0, 0 if callers pass the argument.
    """
    indexed_bindings = _bindings_in_order(module, parts, 1)
    table.put(len(indexed_bindings))
    members = [part.module.members for part in parts]
    weights = [places(member_names[WEIGHTS]) if WEIGHTS in member_names else {} for member_names in members]
    for part_index, binding in indexed_bindings:
        part = parts[part_index]
        _put_tensor(table, part_index, part, binding, part.place(binding.buffer))
        stored = weights[part_index][binding.name][0] if binding.stored else 0
        table.put(files.number(part.folder + WEIGHTS) + 1 if binding.stored else 0, stored)
        _put_shards(table, argument_shards(part.module.manifest, binding))


def put_results(table: Words, module: LoadedModule, parts: Sequence[Part]) -> None:
    """Write for each result its tensor description and its shards."""
    indexed_bindings = _bindings_in_order(module, parts, 2)
    table.put(len(indexed_bindings))
    for part_index, binding in indexed_bindings:
        _put_tensor(table, part_index, parts[part_index], binding, parts[part_index].offset_of_result(binding.buffer))
        _put_shards(table, result_shards(parts[part_index].module.manifest, binding))


def _bindings_in_order(module: LoadedModule, parts: Sequence[Part], side: int) -> list[tuple[int, Binding]]:
    """Return (index of the part, binding) of each argument (`side` 1) or result (`side` 2), in the program's order."""
    part_bindings = [part.module.manifest.inputs if side == 1 else part.module.manifest.outputs for part in parts]
    if not isinstance(module, LoadedProgram):
        return [(0, binding) for binding in part_bindings[0]]
    indexed_bindings = [
        (position, (part_index, binding))
        for part_index, row in enumerate(module.described.parts)
        for position, binding in zip((row[1], row[2])[side - 1], part_bindings[part_index], strict=True)
    ]
    return [binding for _, binding in sorted(indexed_bindings, key=lambda row: row[0])]


def _put_tensor(table: Words, part_index: int, part: Part, binding: Binding, offset: int) -> None:
    """Write the description of a tensor.

    It has the name, NumPy's dtype descriptor, the element size in bytes, the global sizes, the part, the byte offset in
    the ranks' memory, and the local sizes.
    """
    dtype, local_type = binding.type.numpy_dtype, part.module.manifest.plan.buffers[binding.buffer].type
    descr = np.lib.format.dtype_to_descr(dtype)
    assert isinstance(descr, str), "element types have no fields"
    table.put_text(binding.name)
    table.put_text(descr)
    table.put(dtype.itemsize)
    table.put_list(binding.type.sizes)
    table.put(part_index, offset)
    table.put_list(local_type.sizes)


def _put_shards(table: Words, shards: Iterable[Record]) -> None:
    """Write the distinct records of shards, then for each rank the index of its record."""
    pool = Pool()
    numbers = [pool.number(shard) for shard in shards]
    table.put_lists(pool.records)
    table.put_list(numbers)
