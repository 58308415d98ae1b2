"""What is to be scheduled: the launches of a fused module, what each needs, and the storage behind every value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from meshgen.ccl.between import BETWEEN
from meshgen.ccl.collective import Collective
from meshgen.ccl.packing import packing
from meshgen.codegen.donated import donated
from meshgen.codegen.messages import with_senders
from meshgen.codegen.storages import UNLAUNCHED, Storages, storages_of
from meshgen.codegen.timeline import Costs, Task
from meshgen.codegen.unroll import is_message
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import all_nodes, captured
from meshgen.mesh import Mesh
from meshgen.runtime.in_place import overwrites
from meshgen.runtime.plan import COLLECTIVES, COMMUNICATION, COMPUTE, CONTROL, IN_PLACE, Schedule

Planned = Callable[[Module], Schedule]
_MOST_SEEN = 256  # tasks that are looked at to find out whether one comes after others: keeps the work linear


@dataclass(frozen=True)
class Flow:
    """Control flow: the values from outside that its regions use, and the step of each region.

    `trips` is how often a loop runs; None where that is not known, and for branches.
    """

    outside: tuple[Value, ...]
    regions: tuple[Schedule, ...]
    trips: int | None

    @property
    def communicates(self) -> bool:
        """Whether other ranks take part."""
        return any(item.communicates for region in self.regions for item in region.items)

    @property
    def seconds(self) -> float:
        """Of a loop with its trips (one where they are not known), of branches the longest."""
        steps = [region.step_seconds for region in self.regions]
        return max(steps) if self.trips is None else sum(steps) * self.trips

    @property
    def scratch_bytes(self) -> int:
        """What the regions need for themselves; one of them runs at a time."""
        return max(region.arena_bytes for region in self.regions)


@dataclass(frozen=True)
class Program:
    """Launches with their tasks, and the storage behind every value.

    `replaced[v]` is the value that a result v is written over, as nothing reads it later; both have bytes of their own. `donated` are
    inputs of the module, by number, with the output that is the next value of each. `inputs_are` is the kind of buffer that inputs
    have: `input`, or `given` where the module is a region.
    """

    module: Module
    nodes: tuple[Node, ...]
    kernels: dict[str, Graph]
    names: tuple[str, ...]  # kernel of each node; empty for a collective and for control flow
    tasks: tuple[Task, ...]
    storages: Storages
    replaced: dict[Value, Value]
    flows: dict[int, Flow]  # of control flow, by the number of the node
    scratch_bytes: dict[int, int]  # of the launches that need some for themselves, by the number of the node
    inputs_are: str
    donated: Mapping[int, int]

    def place(self, value: Value) -> Value:
        """The value that was the first to have the bytes of a value: all that have the same place share them, one after the other."""
        found = self.storages.root[value]
        while found in self.replaced:
            found = self.replaced[found]
        return found

    def reads(self, number: int) -> Sequence[Value]:
        """What a launch reads; a kernel made from a single op takes a repeated operand once."""
        node = self.nodes[number]
        if number in self.flows:
            return [*node.operands, *self.flows[number].outside]
        return node.operands if node.op == "kernel" or not self.names[number] else list(dict.fromkeys(node.operands))


def collect(module: Module, costs: Costs, inputs_are: str, planned: Planned) -> Program:
    """Launches of the module in program order; views and constants are no launches.

    Args:
        inputs_are: the kind of buffer that inputs have.
        planned: makes the schedule of a region, which is handed over as a module.
    Raises:
        CodegenError: MG0301 for control flow around transfers to another mesh.
    """
    nodes = tuple(with_senders([n for n in module.graph.nodes if n.op not in UNLAUNCHED]))
    kernels = dict(module.kernels)
    flows = {n: _flow(node, module, planned) for n, node in enumerate(nodes) if node.op in CONTROL}
    names = [_name(node, kernels) if n not in flows else "" for n, node in enumerate(nodes)]
    inner = [name for flow in flows.values() for region in flow.regions for name in region.kernels]
    kernels |= {
        name: body for flow in flows.values() for region in flow.regions for name, body in region.kernels.items()
    }
    kernels = {name: kernels[name] for name in dict.fromkeys(filter(None, [*names, *inner]))}  # only what is launched
    storages = storages_of(module.graph, nodes)
    scratch = _scratch_bytes(nodes, flows, module.mesh)
    given = donated(module)
    found = Program(
        module, nodes, kernels, tuple(names), (), storages, dict(given.over), flows, scratch, inputs_are, given.pairs
    )  # fmt: skip
    found = replace(found, tasks=_tasks(found, costs))
    return replace(found, replaced=found.replaced | _replaced(found))


def _replaced(program: Program) -> dict[Value, Value]:
    """The results that are written over an operand which is made here, and which nothing reads later."""
    readers: dict[Value, list[int]] = {}
    root = program.storages.root
    for number in range(len(program.nodes)):
        for value in dict.fromkeys(map(root.__getitem__, program.reads(number))):
            readers.setdefault(value, []).append(number)
    made = program.storages.made.keys() - {root[value] for value in program.module.graph.outputs}
    found: dict[Value, Value] = {}
    taken: set[Value] = set()
    for number, node in enumerate(program.nodes):
        operands = [root[value] for value in program.reads(number)]
        pairs = _pairs(program, number)
        for place, numbers in pairs.items():
            for n in numbers:
                operand, result = operands[place], node.results[n]
                if operand not in made or result in program.replaced or result in found or operand in taken:
                    continue
                if operand.type.nbytes != result.type.nbytes or program.storages.is_part(result):
                    continue
                if any(n not in pairs.get(each, ()) for each, used in enumerate(operands) if used is operand):
                    continue
                if _is_last(program.tasks, number, readers[operand]):
                    found[result] = operand
                    taken.add(operand)
    return found


def _pairs(program: Program, number: int) -> Mapping[int, tuple[int, ...]]:
    """Numbers of operands of a launch with those of the results that may be written over each."""
    node, name = program.nodes[number], program.names[number]
    if name:
        return overwrites(program.kernels[name])
    if node.op not in IN_PLACE or program.module.mesh.group_size(node.attrs["axes"]) == 1:
        return {}
    pairs = enumerate(zip(node.operands, node.results, strict=True))
    return {number: (number,) for number, (operand, result) in pairs if operand.type.dtype == result.type.dtype}


def _is_last(tasks: Sequence[Task], number: int, readers: Sequence[int]) -> bool:
    """Whether all other readers of a value are surely done when this one starts, in whatever order tasks are issued."""
    missing = {reader for reader in readers if reader != number}
    seen, stack = {number}, [number]
    while missing and stack and len(seen) < _MOST_SEEN:
        for need in tasks[stack.pop()].needs:
            if need not in seen and need >= min(missing):
                seen.add(need)
                stack.append(need)
        missing -= seen
    return not missing


def _scratch_bytes(nodes: Sequence[Node], flows: Mapping[int, Flow], mesh: Mesh) -> dict[int, int]:
    """What the regions of control flow need, and what the steps do to which collectives are lowered."""
    found = {number: flow.scratch_bytes for number, flow in flows.items()}
    for number, node in enumerate(nodes):
        if node.op in COLLECTIVES:
            found[number] = packing(Collective.of(node, mesh)).scratch_bytes
    return {number: nbytes for number, nbytes in sorted(found.items()) if nbytes}


def _flow(node: Node, module: Module, planned: Planned) -> Flow:
    if any(inner.op in BETWEEN for region in node.regions for inner in all_nodes(region)):
        raise CodegenError(
            Diagnostic(
                "MG0301",
                f"'{node.op}' has transfers to or from another mesh in its body, and does not count to a constant",
                node.loc,
                hint="count to a constant, or move the transfer out of it",
            )
        )
    outside = tuple(captured(node))
    steps = tuple(planned(replace(module, graph=closed(region, outside), donations={})) for region in node.regions)
    return Flow(outside, steps, node.attrs.get("trips", 1) if node.op == "while" else None)


def closed(region: Graph, outside: Sequence[Value]) -> Graph:
    """The region as a function that takes what it uses from outside after its own arguments."""
    return Graph(region.name, [*region.inputs, *outside], region.nodes, region.outputs)


def _name(node: Node, kernels: dict[str, Graph]) -> str:
    """The kernel of a node; one op that was not fused becomes a kernel. Empty for a collective."""
    if node.op in COLLECTIVES:
        return ""
    if node.op == "kernel":
        return node.attrs["kernel"]
    name = next(name for n in itertools.count() if (name := f"{node.op}_{n}") not in kernels)
    inputs = {value: Value(value.type, f"a{i}") for i, value in enumerate(dict.fromkeys(node.operands))}
    results = [Value(value.type) for value in node.results]
    body = Node(node.op, [inputs[v] for v in node.operands], results, dict(node.attrs), node.loc, None, node.regions)
    kernels[name] = Graph(name, list(inputs.values()), [body], results)
    return name


def _tasks(program: Program, costs: Costs) -> tuple[Task, ...]:
    """The launches as tasks. Control flow that communicates keeps its place among collectives: nothing else does while it runs."""
    module, makers = program.module, program.storages.makers
    readers = _readers_of_overwritten(program)
    seconds = {name: costs.kernel(body) for name, body in program.kernels.items()}
    found: list[Task] = []
    fence: set[int] = set()  # what the next control flow comes after
    flow: set[int] = set()  # the last control flow
    message: set[int] = set()  # the last send or receive
    for number, node in enumerate(program.nodes):
        needs = {maker for v in program.reads(number) for maker in makers(v)}
        needs |= {reader for v in node.results for reader in readers.get(v, ()) if reader != number}
        if is_message(node):
            needs |= message
            message = {number}
        if number in program.flows:
            if program.flows[number].communicates:
                needs |= fence
                fence = flow = {number}
            task = Task(COMPUTE, program.flows[number].seconds, tuple(sorted(needs)))
        elif node.op in COLLECTIVES:
            fence = fence | {number}
            task = Task(COMMUNICATION, costs.collective(node, module.mesh), tuple(sorted(needs | flow)))
        else:
            task = Task(COMPUTE, seconds[program.names[number]], tuple(sorted(needs)))
        found.append(task)
    return tuple(found)


def _readers_of_overwritten(program: Program) -> dict[Value, list[int]]:
    """By result that is written over an input, the launches that read that: they come first."""
    result_of = {own: result for result, own in program.replaced.items()}
    found: dict[Value, list[int]] = {}
    for number in range(len(program.nodes)):
        for own in {program.storages.root[value] for value in program.reads(number)} & result_of.keys():
            found.setdefault(result_of[own], []).append(number)
    return found
