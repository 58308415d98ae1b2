"""The buffers of a step: of every value, and scratch of collectives and control flow; their places in the arena."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.program import Program
from meshgen.errors import place_text
from meshgen.ir.graph import Module, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.runtime.plan import STREAMS, Buffer, Schedule, aligned

FIXED = ("input", "constant")  # kinds of buffers that are in place before the step


class Places(NamedTuple):
    """Offsets in the arena, of `arena_bytes`: of each place of values (`Program.place`), and of the scratch of launches by number."""

    of_values: Mapping[Value, int]
    of_scratch: Mapping[int, int]
    arena_bytes: int


class Buffers(NamedTuple):
    """`number_of` values and `scratch_of` launches (by number) in `all`."""

    all: tuple[Buffer, ...]
    number_of: dict[Value, int]
    scratch_of: dict[int, int]


class Lives(NamedTuple):
    """When each place of values is in use, in program order, and when the scratch of each launch is, by number."""

    of_values: Mapping[Value, memory.Lifetime]
    of_scratch: Mapping[int, memory.Lifetime]

    @property
    def all(self) -> list[memory.Lifetime]:
        """Of values, then of scratch."""
        return [*self.of_values.values(), *self.of_scratch.values()]


def placed(lives: Lives, least: int | None = None) -> Places:
    """The places of values and scratch; `least` is the bound that `memory.least_bytes` finds, where it is known."""
    offsets, arena_bytes = memory.place(lives.all, least)
    scratch = dict(zip(lives.of_scratch, offsets[len(lives.of_values) :], strict=True))
    return Places(dict(zip(lives.of_values, offsets, strict=False)), scratch, arena_bytes)


def plan_buffers(program: Program, places: Places) -> Buffers:
    """Buffers of all values in program order, then the scratch of collectives and control flow."""
    values = list(program.module.graph.values())
    number_of = {value: n for n, value in enumerate(values)}
    scratch_of = {number: len(values) + n for n, number in enumerate(program.scratch_bytes)}
    kinds = program.kinds
    found: list[Buffer] = []
    for n, v in enumerate(values):
        root, place = program.storages.root[v], program.place(v)
        if kinds[place] == "given":  # also of what is written over it
            root = place
        offset = places.of_values[place] + program.first_byte(v)
        found.append(Buffer(v.name or f"b{n}", v.type, kinds[root], number_of[root], offset, place_text(v.loc)))
    for number, own in scratch_of.items():
        node, kind = program.nodes[number], TensorType((program.scratch_bytes[number],), "ui8")
        name = f"{node.op}_scratch{own}"
        found.append(Buffer(name, kind, "temporary", own, places.of_scratch[number], place_text(node.loc)))
    return Buffers(tuple(found), number_of, scratch_of)


def fixed_bytes(program: Program) -> int:
    """Bytes that are in place before the step."""
    return sum(aligned(root.type.nbytes) for root, kind in program.kinds.items() if kind in FIXED)


def lives_of(program: Program, order: Sequence[int], waits: Sequence[Sequence[int]]) -> Lives:
    """The lives for an order of the launches.

    Args:
        waits: per place in `order`, the places it waits for.
    """
    usage = program.usage
    streams = [program.tasks[n].stream for n in order]
    starts, ends = memory.clocks(streams, waits)
    place = {n: p for p, n in enumerate(order)}
    born: list[memory.Clock | None] = [None] * len(usage.places)
    last = [[0] * STREAMS for _ in usage.places]
    for p, n in enumerate(order):
        start, stream = starts[p], streams[p]
        for number in usage.made[n]:  # the parts of a join may be written in any order
            earlier = born[number]
            born[number] = start if earlier is None else tuple(map(min, earlier, start))
        end = ends[p][stream]
        for number in usage.touched[n]:
            last[number][stream] = end
    each = zip(usage.nbytes, born, map(tuple, last), usage.stays, strict=True)
    lives = dict(zip(usage.places, itertools.starmap(memory.Lifetime, each), strict=True))
    scratch: dict[int, memory.Lifetime] = {}
    for n, nbytes in program.scratch_bytes.items():
        p = place[n]
        end = tuple(ends[p][s] if s == streams[p] else 0 for s in range(STREAMS))
        scratch[n] = memory.Lifetime(nbytes, starts[p], end, False)
    return Lives(lives, scratch)


def constants_of(module: Module, plan: Schedule) -> dict[int, Node]:
    """The `constant` nodes of the module by the number of their buffer."""
    numbers = {value: n for n, value in enumerate(module.graph.values())}
    found = {numbers[node.result]: node for node in module.graph.nodes if is_constant(node)}
    assert all(plan.buffers[n].kind == "constant" for n in found)
    return found
