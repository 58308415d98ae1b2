"""The buffers of a step, with their offsets in the arena: values, and scratch of collectives and control flow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.program import Program
from meshgen.errors import location_text
from meshgen.ir.graph import Module, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.runtime.plan import STREAMS, Buffer, Schedule, aligned

FIXED = ("input", "constant")  # Kinds of buffers that are initialized before the step.


class Places(NamedTuple):
    """Byte offsets in an arena of `arena_bytes` on each device.

    Attributes:
        of_values: offset of each storage (`Program.place`).
        of_scratch: offset of the scratch of each launch, by launch index.
    """

    of_values: Mapping[Value, int]
    of_scratch: Mapping[int, int]
    arena_bytes: int


class Buffers(NamedTuple):
    """The buffers of a step, in the list `all`.

    Attributes:
        number_of: for each value, the index of its buffer in `all`.
        scratch_of: for each launch index, the index of the launch's scratch buffer in `all`.
    """

    all: tuple[Buffer, ...]
    number_of: dict[Value, int]
    scratch_of: dict[int, int]


class Lives(NamedTuple):
    """Lifetimes of memory: of storages, in program order, and of the scratch of launches, by launch index."""

    of_values: Mapping[Value, memory.Lifetime]
    of_scratch: Mapping[int, memory.Lifetime]

    @property
    def all(self) -> list[memory.Lifetime]:
        """Return the lifetimes of storages, followed by the lifetimes of scratch."""
        return [*self.of_values.values(), *self.of_scratch.values()]


def placed(lives: Lives, least: int | None = None) -> Places:
    """Assign arena offsets to storages and scratch.

    `least` is the result of `memory.least_bytes`, or None if the caller has not computed it.
    """
    offsets, arena_bytes = memory.place(lives.all, least)
    scratch = dict(zip(lives.of_scratch, offsets[len(lives.of_values) :], strict=True))
    return Places(dict(zip(lives.of_values, offsets, strict=False)), scratch, arena_bytes)


def plan_buffers(program: Program, places: Places) -> Buffers:
    """Return the buffers of all values in program order, followed by the scratch buffers of collectives and control
    flow.
    """
    values = list(program.module.graph.values())
    number_of = {value: n for n, value in enumerate(values)}
    scratch_of = {launch: len(values) + n for n, launch in enumerate(program.scratch_bytes)}
    kinds = program.kinds
    buffers: list[Buffer] = []
    for n, v in enumerate(values):
        root, storage = program.storages.root[v], program.place(v)
        if kinds[storage] == "given":  # A result that overwrites an argument of a region uses the argument's buffer.
            root = storage
        offset = places.of_values[storage] + program.first_byte(v)
        buffers.append(Buffer(v.name or f"b{n}", v.type, kinds[root], number_of[root], offset, location_text(v.loc)))
    for launch, index in scratch_of.items():
        node, scratch_type = program.nodes[launch], TensorType((program.scratch_bytes[launch],), "ui8")
        name = f"{node.op}_scratch{index}"
        buffers.append(
            Buffer(name, scratch_type, "temporary", index, places.of_scratch[launch], location_text(node.loc))
        )
    return Buffers(tuple(buffers), number_of, scratch_of)


def fixed_bytes(program: Program) -> int:
    """Return the bytes (per device) of the inputs and constants, which occupy the arena before the step."""
    return sum(aligned(root.type.nbytes) for root, kind in program.kinds.items() if kind in FIXED)


def lifetimes_of(program: Program, order: Sequence[int], waits: Sequence[Sequence[int]]) -> Lives:
    """Return the lifetimes of storages and scratch for an order of the launches.

    Args:
        waits: for each position in `order`, the earlier positions that it waits for by event.
    """
    usage = program.usage
    streams = [program.tasks[n].stream for n in order]
    starts, ends = memory.clocks(streams, waits)
    position_of = {n: p for p, n in enumerate(order)}
    born: list[memory.Clock | None] = [None] * len(usage.places)
    last = [[0] * STREAMS for _ in usage.places]
    for p, n in enumerate(order):
        start, stream = starts[p], streams[p]
        # Several launches write the operands of a join, in any order, so take the earliest start.
        for storage in usage.made[n]:
            earlier = born[storage]
            born[storage] = start if earlier is None else tuple(map(min, earlier, start))
        end = ends[p][stream]
        for storage in usage.touched[n]:
            last[storage][stream] = end
    fields = zip(usage.nbytes, born, map(tuple, last), usage.stays, strict=True)
    lives = dict(zip(usage.places, itertools.starmap(memory.Lifetime, fields), strict=True))
    scratch: dict[int, memory.Lifetime] = {}
    for n, nbytes in program.scratch_bytes.items():
        p = position_of[n]
        end = tuple(ends[p][s] if s == streams[p] else 0 for s in range(STREAMS))
        scratch[n] = memory.Lifetime(nbytes, starts[p], end, False)
    return Lives(lives, scratch)


def constants_of(module: Module, plan: Schedule) -> dict[int, Node]:
    """Return the `constant` nodes of the module by buffer index."""
    buffer_of = {value: n for n, value in enumerate(module.graph.values())}
    constants = {buffer_of[node.result]: node for node in module.graph.nodes if is_constant(node)}
    assert all(plan.buffers[n].kind == "constant" for n in constants)
    return constants
