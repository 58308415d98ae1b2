"""The arguments, results and constants of a module in its launch table: their place in the file and in the ranks' memory."""

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
from meshgen.runtime.native.words import Pool, Record, Words
from meshgen.runtime.program import LoadedProgram

_CONSTANTS = "constants.safetensors"


@dataclass(frozen=True)
class Part:
    """A module of one mesh in a file: the folder of its members, and the places of its buffers.

    `kept`: addresses of the results that are not read from their buffers, by rank.
    """

    module: LoadedModule
    folder: str
    frame: Frame
    kept: Mapping[int, Addresses]

    def place(self, buffer: int) -> int:
        """Of a buffer in the memory of each rank, in bytes."""
        return self.frame.address(buffer, self.frame.ranks[0]) - BASE

    def place_of_result(self, buffer: int) -> int:
        kept = self.kept.get(buffer)
        return self.place(buffer) if kept is None else kept[self.frame.ranks[0]] - BASE


class Files:
    """The members that a table refers to, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        return list(self._numbers)


def put_constants(table: Words, parts: Sequence[Part], files: Files) -> None:
    """Of each its part, its place in the ranks' memory, its bytes, the member that holds it and its place in that."""
    rows: list[Record] = []
    for number, part in enumerate(parts):
        for name, (start, stop) in places(part.module.members[_CONSTANTS]).items():
            file = files.number(part.folder + _CONSTANTS)
            rows.append((number, part.place(int(name)), stop - start, file, start))
    table.put_lists(rows)


def put_arguments(table: Words, module: LoadedModule, parts: Sequence[Part], files: Files) -> None:
    """Of each its tensor, the member and place of a stored value (0, 0: callers pass it), and the shards."""
    rows = _bindings_in_order(module, parts, 1)
    table.put(len(rows))
    members = [part.module.members for part in parts]
    weights = [places(each[WEIGHTS]) if WEIGHTS in each else {} for each in members]
    for number, binding in rows:
        part = parts[number]
        _put_tensor(table, number, part, binding, part.place(binding.buffer))
        stored = weights[number][binding.name][0] if binding.stored else 0
        table.put(files.number(part.folder + WEIGHTS) + 1 if binding.stored else 0, stored)
        _put_shards(table, argument_shards(part.module.manifest, binding))


def put_results(table: Words, module: LoadedModule, parts: Sequence[Part]) -> None:
    """Of each its tensor and the shards."""
    rows = _bindings_in_order(module, parts, 2)
    table.put(len(rows))
    for number, binding in rows:
        _put_tensor(table, number, parts[number], binding, parts[number].place_of_result(binding.buffer))
        _put_shards(table, result_shards(parts[number].module.manifest, binding))


def _bindings_in_order(module: LoadedModule, parts: Sequence[Part], side: int) -> list[tuple[int, Binding]]:
    """Arguments (side 1) or results (2) in the program's order, each with the number of its part."""
    own = [part.module.manifest.inputs if side == 1 else part.module.manifest.outputs for part in parts]
    if not isinstance(module, LoadedProgram):
        return [(0, binding) for binding in own[0]]
    rows = [
        (place, (number, binding))
        for number, row in enumerate(module.described.parts)
        for place, binding in zip((row[1], row[2])[side - 1], own[number], strict=True)
    ]
    return [found for _, found in sorted(rows, key=lambda row: row[0])]


def _put_tensor(table: Words, number: int, part: Part, binding: Binding, place: int) -> None:
    """Name, element type as `.npy` files call it and its bytes, global sizes, part, place and local sizes."""
    dtype, kind = binding.type.numpy_dtype, part.module.manifest.plan.buffers[binding.buffer].type
    descr = np.lib.format.dtype_to_descr(dtype)
    assert isinstance(descr, str), "element types have no fields"
    table.put_text(binding.name)
    table.put_text(descr)
    table.put(dtype.itemsize)
    table.put_list(binding.type.sizes)
    table.put(number, place)
    table.put_list(kind.sizes)


def _put_shards(table: Words, shards: Iterable[Record]) -> None:
    """The distinct ones, and which of them each rank has."""
    pool = Pool()
    numbers = [pool.number(shard) for shard in shards]
    table.put_lists(pool.records)
    table.put_list(numbers)
