"""The input of scheduling: the launches of a fused module, their dependences, and the storage of every value."""

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
    """A control flow op: the captured values and the schedule of each of its regions.

    `trips` is the trip count of a loop (1 if unknown), or None for branches.
    """

    outside: tuple[Value, ...]
    regions: tuple[Schedule, ...]
    trips: int | None

    @property
    def communicates(self) -> bool:
        """Whether a region contains a collective."""
        return any(item.communicates for region in self.regions for item in region.items)

    @property
    def scratch_bytes(self) -> int:
        """Return the scratch bytes (per device) of the regions, only one of which runs at a time."""
        return max(region.arena_bytes for region in self.regions)


class Usage(NamedTuple):
    """The storages of a program, and the launches that access them. Storages are identified by their index.

    Attributes:
        places: the value that owns each storage.
        nbytes: bytes of each storage in the arena; 0 for storages that the caller of a region provides.
        stays: whether each storage must outlive the step.
        made: for each launch, the storages that it writes, without storages that exist before the step.
        touched: for each launch, all storages that it reads or writes.
    """

    places: tuple[Value, ...]
    nbytes: tuple[int, ...]
    stays: tuple[bool, ...]
    made: tuple[tuple[int, ...], ...]
    touched: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Program:
    """The launches of a module with their tasks, and the storage of every value.

    Attributes:
        replaced: result -> the value that it overwrites, because nothing reads that value later.
        inside: value -> (join, byte offset) for values that overwrite, or become, an operand of a join.
        donated: index of each donated input -> index of the output that is its next value.
        input_kind: buffer kind of the inputs: `input`, or `given` if the module is a region.
    """

    module: Module
    nodes: tuple[Node, ...]
    kernels: dict[str, Graph]
    names: tuple[str, ...]  # kernel name of each node, or "" for collectives and control flow
    tasks: tuple[Task, ...]
    storages: Storages
    replaced: Mapping[Value, Value]
    inside: Mapping[Value, tuple[Value, int]]
    flows: dict[int, Flow]  # control flow ops by node index
    scratch_bytes: dict[int, int]  # scratch bytes per device by node index, for launches that need scratch
    input_kind: str
    donated: Mapping[int, int]

    def place(self, value: Value) -> Value:
        """Return the value that owns the bytes of `value`: the first of the values that overwrite each other, or a
        join.

        All values with the same place use its bytes, one after the other.
        """
        return self._places[self.storages.root[value]][0]

    def first_byte(self, value: Value) -> int:
        """Return the byte offset of `value` within its place."""
        return self._places[self.storages.root[value]][1] + self.storages.first_byte.get(value, 0)

    @cached_property
    def kinds(self) -> Mapping[Value, str]:
        """Return the buffer kind of each storage. An input or constant that is also an output keeps its kind."""
        graph = self.module.graph
        kinds = dict.fromkeys(self.storages.root.values(), "temporary")
        kinds |= {self.storages.root[value]: "output" for value in graph.outputs}
        kinds |= {node.result: "constant" for node in graph.nodes if is_constant(node)}
        return kinds | dict.fromkeys(graph.inputs, self.input_kind)

    @cached_property
    def usage(self) -> Usage:
        """Return the storages that each launch accesses. The result does not depend on the issue order."""
        shared: dict[Value, list[Value]] = {}
        for root in dict.fromkeys(self.storages.root.values()):
            shared.setdefault(self.place(root), []).append(root)
        index_of = {storage: index for index, storage in enumerate(shared)}
        # storages that are live before the step starts
        preexisting = {n for storage, n in index_of.items() if storage not in self.storages.made}
        written_by = [[index_of[self.place(v)] for v in node.results] for node in self.nodes]
        read = [[index_of[self.place(v)] for v in self.reads(n)] for n in range(len(self.nodes))]
        return Usage(
            tuple(shared),
            tuple(storage.type.nbytes if self.kinds[storage] != "given" else 0 for storage in shared),
            tuple(any(self.kinds[root] != "temporary" for root in roots) for roots in shared.values()),
            tuple(tuple(n for n in dict.fromkeys(written) if n not in preexisting) for written in written_by),
            tuple(tuple(dict.fromkeys((*written, *other))) for written, other in zip(read, written_by, strict=True)),
        )

    @cached_property
    def _places(self) -> Mapping[Value, tuple[Value, int]]:
        """Return for each root value its place and its byte offset in the place."""
        roots = dict.fromkeys(self.storages.root.values())
        return {root: place_of(root, self.replaced, self.inside) for root in roots}

    def reads(self, index: int) -> Sequence[Value]:
        """Return the values that a launch reads. A kernel with a single op lists a repeated operand once."""
        node = self.nodes[index]
        if index in self.flows:
            return [*node.operands, *self.flows[index].outside]
        return node.operands if is_kernel(node) or not self.names[index] else list(dict.fromkeys(node.operands))


def place_of(
    root: Value, replaced: Mapping[Value, Value], inside: Mapping[Value, tuple[Value, int]]
) -> tuple[Value, int]:
    """Return the storage whose bytes `root` finally uses, and the byte offset of `root` in this storage."""
    start = 0
    while root in replaced or root in inside:
        root, offset = (replaced[root], 0) if root in replaced else inside[root]
        start += offset
    return root, start
