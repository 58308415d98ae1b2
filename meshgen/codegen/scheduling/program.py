"""The input of scheduling: the launches of a fused module, their dependencies, and the storage of every value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from meshgen.codegen.scheduling.storages import Storages
from meshgen.codegen.scheduling.timeline import Task
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant, is_kernel
from meshgen.runtime.plan import Schedule


class Flow(NamedTuple):
    """Control flow: the values from outside that its regions use, and the step of each region.

    `trips` is how often a loop runs, 1 where that is not known; None for branches.
    """

    outside: tuple[Value, ...]
    regions: tuple[Schedule, ...]
    trips: int | None

    @property
    def communicates(self) -> bool:
        """Whether other ranks take part."""
        return any(item.communicates for region in self.regions for item in region.items)

    @property
    def scratch_bytes(self) -> int:
        """Scratch bytes of the regions, of which one runs at a time."""
        return max(region.arena_bytes for region in self.regions)


class Usage(NamedTuple):
    """The places of values by number, and which of them launches write and touch.

    Attributes:
        nbytes: bytes of each place in the arena; 0 of what is given to a region.
        stays: whether each must outlive the step.
        made, touched: by launch, the places that it writes, without those that are in place before the step, and all that it reads or writes.
    """

    places: tuple[Value, ...]
    nbytes: tuple[int, ...]
    stays: tuple[bool, ...]
    made: tuple[tuple[int, ...], ...]
    touched: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Program:
    """Launches with their tasks, and the storage of every value.

    `replaced[v]` is the value that a result v is written over, as nothing reads it later; both have bytes of their own. What a part of
    a join overwrites is in the join: `inside[v]` is the join, and the byte offset of v in it. `donated` are inputs of the
    module, by number, with the output that is the next value of each. `inputs_are` is the kind of buffer that inputs have:
    `input`, or `given` where the module is a region.
    """

    module: Module
    nodes: tuple[Node, ...]
    kernels: dict[str, Graph]
    names: tuple[str, ...]  # kernel of each node; empty for a collective and for control flow
    tasks: tuple[Task, ...]
    storages: Storages
    replaced: Mapping[Value, Value]
    inside: Mapping[Value, tuple[Value, int]]
    flows: dict[int, Flow]  # of control flow, by the number of the node
    scratch_bytes: dict[int, int]  # of the launches that need some for themselves, by the number of the node
    inputs_are: str
    donated: Mapping[int, int]

    def place(self, value: Value) -> Value:
        """The value that was the first to have the bytes of a value, or the join that has them in the end: all that have the same
        place share its bytes, one after the other.
        """
        return self._places[self.storages.root[value]][0]

    def first_byte(self, value: Value) -> int:
        """The byte offset of a value in its place."""
        return self._places[self.storages.root[value]][1] + self.storages.first_byte.get(value, 0)

    @cached_property
    def kinds(self) -> Mapping[Value, str]:
        """Kind of each storage; an input or constant that is an output as well stays what it is."""
        graph = self.module.graph
        found = dict.fromkeys(self.storages.root.values(), "temporary")
        found |= {self.storages.root[value]: "output" for value in graph.outputs}
        found |= {node.result: "constant" for node in graph.nodes if is_constant(node)}
        return found | dict.fromkeys(graph.inputs, self.inputs_are)

    @cached_property
    def usage(self) -> Usage:
        """What launches touch, whatever their order."""
        shared: dict[Value, list[Value]] = {}
        for root in dict.fromkeys(self.storages.root.values()):
            shared.setdefault(self.place(root), []).append(root)
        number_of = {place: number for number, place in enumerate(shared)}
        given = {n for place, n in number_of.items() if place not in self.storages.made}  # live from the start
        made = [[number_of[self.place(v)] for v in node.results] for node in self.nodes]
        read = [[number_of[self.place(v)] for v in self.reads(n)] for n in range(len(self.nodes))]
        return Usage(
            tuple(shared),
            tuple(place.type.nbytes if self.kinds[place] != "given" else 0 for place in shared),
            tuple(any(self.kinds[root] != "temporary" for root in roots) for roots in shared.values()),
            tuple(tuple(n for n in dict.fromkeys(own) if n not in given) for own in made),
            tuple(tuple(dict.fromkeys((*own, *other))) for own, other in zip(read, made, strict=True)),
        )

    @cached_property
    def _places(self) -> Mapping[Value, tuple[Value, int]]:
        """The place of each root, and its byte offset there."""
        roots = dict.fromkeys(self.storages.root.values())
        return {root: place_of(root, self.replaced, self.inside) for root in roots}

    def reads(self, number: int) -> Sequence[Value]:
        """The values that a launch reads; a kernel of a single op takes a repeated operand once."""
        node = self.nodes[number]
        if number in self.flows:
            return [*node.operands, *self.flows[number].outside]
        return node.operands if is_kernel(node) or not self.names[number] else list(dict.fromkeys(node.operands))


def place_of(
    root: Value, replaced: Mapping[Value, Value], inside: Mapping[Value, tuple[Value, int]]
) -> tuple[Value, int]:
    """The storage whose bytes a storage has, of all that have them one after the other, and from which of them on."""
    start = 0
    while root in replaced or root in inside:
        root, first = (replaced[root], 0) if root in replaced else inside[root]
        start += first
    return root, start
