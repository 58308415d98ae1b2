"""Kernels that do not need each other become segments of one: a launch updates all parameters.

    before   %p0n = kernel @update(%p0, %g0)    %p1n = kernel @update_2(%p1, %g1)
    after    %p0n, %p1n = kernel @update_update_2(%p0, %g0, %p1, %g1)           a range of programs each

A kernel is delayed to the place of a later one, if nothing in between reads its results, or made with an earlier one, if its
operands are there; in neither case may the step need more memory. Both have to wait for the same collectives and come before the
same ones, so that nothing is held back. What comes after all collectives, such as updates that wait for gradients of
different ones, is joined unless that makes the predicted step longer. Products are joined with products, where one tile suits all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from meshgen.codegen.emit.matmul_tiles import rank_side_by_side_tiles
from meshgen.codegen.fusion.accumulators import side_by_side_products
from meshgen.codegen.fusion.bodies import Kernels, copy_node, with_kernels
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.kernel_nodes import kernel_node, recorded_template
from meshgen.codegen.roofline.kernel_time import device_of, kernel_bytes
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.donation import stable_order
from meshgen.codegen.scheduling.live_bytes import LiveBytes
from meshgen.codegen.scheduling.orders import list_order
from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.region_modules import region_module
from meshgen.codegen.scheduling.schedule import launches_of
from meshgen.codegen.scheduling.timeline import Task, longest_paths, start_times
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_kernel
from meshgen.ir.regions import captured, flow_regions
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.runtime.plan import COMPUTE


@module_pass("horizontal-fusion", "fuse")
def horizontal_fusion(module: Module, context: Compilation) -> Module:
    """A fused module with kernels side by side in one launch; itself where there are none."""
    kernels = Kernels.of(module.kernels)
    graph = _with_kernels_joined(module, kernels)
    return module if graph is module.graph else with_kernels(module, graph, kernels)


def _with_kernels_joined(module: Module, kernels: Kernels, inputs_are: str = "input") -> Graph:
    """The graph of a module, or of a region that is given as one."""
    nodes = [_with_regions(node, module, kernels) for node in module.graph.nodes]
    if any(after is not before for after, before in zip(nodes, module.graph.nodes, strict=True)):
        graph = module.graph
        module = with_kernels(module, Graph(graph.name, graph.inputs, nodes, graph.outputs), kernels)
    if sum(map(is_kernel, nodes)) < 2:
        return module.graph
    places = _Places(launches_of(module, default_costs(DEFAULT_TARGET), inputs_are), module)
    return places.written(kernels) if places.join() else module.graph


def _with_regions(node: Node, module: Module, kernels: Kernels) -> Node:
    outside, regions = captured(node), list[Graph]()
    for region in flow_regions(node):
        inside = region_module(module, node, region, outside)
        after = _with_kernels_joined(inside, kernels, "given")
        same = after is inside.graph
        regions.append(region if same else Graph(region.name, region.inputs, after.nodes, region.outputs))
    is_same = all(after is before for after, before in zip(regions, node.regions, strict=False))
    return node if is_same else replace(node, regions=tuple(regions))


@dataclass(frozen=True)
class _Launch:
    """A launch that may become a segment of another one: attributes as those of `_Set`."""

    form: KernelForm
    is_small: bool
    pointers: int
    products: tuple[Node, ...]


@dataclass(eq=False)
class _Set:
    """Launches that become one: their numbers, and the place of the launch among those of the program.

    Attributes:
        form: the form of its members' kernels.
        is_small: whether its kernel takes less time than a launch, and so shares one with maps and reductions alike.
        around: the collectives that it waits for, and those that need it, as bits.
        pointers: how many its kernel is given.
        products: of its members.
    """

    members: list[int]
    at: int
    form: KernelForm
    is_small: bool
    around: tuple[int, int]
    pointers: int
    products: list[Node]

    def add(self, other: _Set) -> None:
        self.members += other.members
        if self.is_small:
            self.form, self.is_small = other.form, other.is_small
        self.pointers += other.pointers
        self.products += other.products


class _Places:
    """Where launches are in the program's order, and which share a place."""

    def __init__(self, program: Program, module: Module) -> None:
        self.program, self.module, self.tasks = program, module, program.tasks
        self.at = list(range(len(self.tasks)))
        self.users: list[list[int]] = [[] for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            for need in task.needs:
                self.users[need].append(number)
        self._live = LiveBytes(program)
        self._known: dict[str, _Launch | None] = {}  # by kernel; None: it joins no other
        self.sets = [each for number in range(len(self.tasks)) if (each := self._single(number))]

    def _single(self, number: int) -> _Set | None:
        name = self.program.names[number]
        if not is_kernel(self.program.nodes[number]):
            return None
        if name not in self._known:
            self._known[name] = _launch_of(self.program.kernels[name])
        if (found := self._known[name]) is None:
            return None
        around = self._collectives[0][number], self._collectives[1][number]
        return _Set([number], number, found.form, found.is_small, around, found.pointers, [*found.products])

    @cached_property
    def _collectives(self) -> tuple[list[int], list[int]]:
        """For each launch the communicating ones that it needs, and that need it, over others."""
        before, after = [0] * len(self.tasks), [0] * len(self.tasks)
        own = [1 << n if task.stream != COMPUTE else 0 for n, task in enumerate(self.tasks)]
        for number, task in enumerate(self.tasks):
            for need in task.needs:
                before[number] |= before[need] | own[need]
        for number in reversed(range(len(self.tasks))):
            for user in self.users[number]:
                after[number] |= after[user] | own[user]
        return before, after

    # ---- joining

    def join(self) -> bool:
        """Join what gains; whether anything did."""
        longest = self._seconds()
        first = [[*each.members] for each in self.sets]
        self._delay()
        self._advance()
        if self._seconds() > longest:
            return False
        self._join_last(longest)
        return [each.members for each in self.sets] != first

    def _delay(self) -> None:
        """Delay launches to the place of later ones."""
        later: list[_Set] = []
        for own in sorted(self.sets, key=lambda each: -each.at):
            end = self._end(own)
            found = next((s for s in later if s.at < end and self._fits(s, own)), None)
            if found:
                self._move(own, found)
            else:
                later.append(own)
        self.sets = later

    def _advance(self) -> None:
        """Make launches at the place of earlier ones."""
        earlier: list[_Set] = []
        for own in sorted(self.sets, key=lambda each: each.at):
            start = max((self.at[need] for n in own.members for need in self.tasks[n].needs), default=-1)
            found = next((s for s in earlier if start < s.at and self._fits(s, own)), None)
            if found:
                self._move(own, found)
            else:
                earlier.append(own)
        self.sets = earlier

    def _end(self, own: _Set) -> int:
        """The first place of what reads its results."""
        return min((self.at[user] for n in own.members for user in self.users[n]), default=len(self.tasks))

    def _fits(self, into: _Set, own: _Set) -> bool:
        if into.around != own.around or (own.products and self._message_between(own.at, into.at)):
            return False
        return self._has_room(into, own) and self._live.fits(own.members, own.at, into.at)

    def _message_between(self, start: int, to: int) -> bool:
        """Whether a message is sent between two places: products hide it best in launches of their own."""
        return any(task.stream != COMPUTE for task in self.tasks[min(start, to) : max(start, to)])

    def _has_room(self, into: _Set, own: _Set) -> bool:
        forms = {into.form, own.form}
        is_alike = len(forms) == 1 or ((into.is_small or own.is_small) and KernelForm.GEMM not in forms)
        if not is_alike or into.pointers + own.pointers > DEFAULT.fusion.segment_pointers:
            return False
        return not into.products or is_faster_together(into.products, own.products, device_of(DEFAULT_TARGET))

    def _move(self, own: _Set, into: _Set) -> None:
        self._live.move(own.members, own.at, into.at)
        for number in own.members:
            self.at[number] = into.at
        into.add(own)

    def _join_last(self, longest: float) -> None:
        """Join launches that come after all collectives, unless the step would take longer."""
        last = sorted(
            (each for each in self.sets if not each.around[1] and not each.products), key=lambda each: each.at
        )
        for _ in range(_TRIALS):
            if len(last) < 2:
                return
            into = last[-1]
            joined = self._joinable(last[:-1], into)
            moved = dict.fromkeys((n for each in joined for n in each.members), into.at)
            if joined and self._seconds(moved) <= longest:
                for each in joined:
                    self._move(each, into)
                self.sets = [each for each in self.sets if each not in joined]
                last = [each for each in last if each not in joined]
            last = last[:-1]

    def _joinable(self, candidates: Sequence[_Set], into: _Set) -> list[_Set]:
        """The launches of which `into` can take all at once."""
        found, room, live = list[_Set](), replace(into, members=[*into.members], products=[]), copy(self._live)
        for own in candidates:
            if self._end(own) > into.at and self._has_room(room, own) and live.fits(own.members, own.at, into.at):
                found.append(own)
                room.add(own)
                live.move(own.members, own.at, into.at)
        return found

    def _seconds(self, moved: Mapping[int, int] = {}) -> float:
        """The predicted step, with some launches moved to other places."""
        return step_seconds(self.tasks, [moved.get(n, at) for n, at in enumerate(self.at)])

    # ---- the result

    def written(self, kernels: Kernels) -> Graph:
        """The graph with the sets as launches, in an order in which all that they need comes first."""
        graph, nodes = self.module.graph, self.program.nodes
        instead: dict[Node, Node] = {}
        for own in self.sets:
            if len(own.members) > 1:
                members = [nodes[n] for n in sorted(own.members)]
                if (launch := _joined(members, kernels)) is not None:
                    instead.update(dict.fromkeys(members, launch))
        first = {nodes[own.at] for own in self.sets}
        found = [instead.get(node, node) for node in graph.nodes if node not in instead or node in first]
        makers = {value: node for node in found for value in node.results}
        before = {n: [makers[v] for v in (*n.operands, *captured(n)) if v in makers] for n in found}
        launched = [instead.get(node) or makers[node.results[0]] for node in nodes]  # a received message is a copy here
        for own, task in zip(launched, self.tasks, strict=True):
            before[own] += [need for n in task.needs if (need := launched[n]) is not own]
        return Graph(graph.name, graph.inputs, stable_order(found, before), graph.outputs)


_TRIALS = 6  # unions of the last launches that are tried (chosen: each is one schedule of the whole step)


def step_seconds(tasks: Sequence[Task], at: Sequence[int]) -> float:
    """The predicted step where tasks with one place are one."""
    places = sorted({*at})
    number_of = {place: number for number, place in enumerate(places)}
    launch = device_of(DEFAULT_TARGET).launch_seconds
    seconds, needs = [0.0] * len(places), [set[int]() for _ in places]
    streams = [0] * len(places)
    for n, task in enumerate(tasks):
        own = number_of[at[n]]
        seconds[own] += task.seconds - (launch if seconds[own] else 0.0)
        needs[own].update(number_of[at[need]] for need in task.needs)
        streams[own] = task.stream
    found = [Task(*each) for each in zip(streams, seconds, map(tuple, map(sorted, needs)), strict=True)]
    path = longest_paths(found)
    return start_times(found, list_order(found, lambda n: (-round(path[n], 12), n)).numbers)[1]


def is_faster_together(first: Sequence[Node], second: Sequence[Node], device: Device) -> bool:
    """Whether one launch of the matmuls of two is predicted to take no longer than both."""
    if len({(common_type(dot), multiplied_as(dot)) for dot in (*first, *second)}) > 1:
        return False
    together, *alone = (rank_side_by_side_tiles(dots, device)[0][0] for dots in ([*first, *second], first, second))
    return together <= sum(alone) + device.launch_seconds


def _launch_of(body: Graph) -> _Launch | None:
    """The launch of a body; None if it cannot be a segment of another one."""
    template = recorded_template(body)
    if template is None or not template.joins:
        return None
    products, is_gemm = side_by_side_products(body), template.form is KernelForm.GEMM
    if is_gemm and not products:
        return None
    is_small = not is_gemm and kernel_bytes(body) <= DEFAULT.fusion.sibling_bytes
    return _Launch(template.form, is_small, len(body.inputs) + len(body.outputs), tuple(products))


def _joined(members: Sequence[Node], kernels: Kernels) -> Node | None:
    """One launch of what several compute; None where some read the same in ways that no template has."""
    reads: dict[Value, Value] = {}
    body, outputs = Graph(""), list[Value]()
    for member in members:
        given = kernels.bodies[member.attrs.kernel]
        now: dict[Value, Value] = {}
        for value, formal in zip(member.operands, given.inputs, strict=True):
            now[formal] = reads.setdefault(value, Value(formal.type, formal.name, loc=formal.loc))
        for node in given.nodes:
            copy_node(node, body, now)
        body.outputs += [now[value] for value in given.outputs]
        outputs += member.results
    body.inputs = list(reads.values())
    if recorded_template(body) is None:
        return None
    return kernel_node(kernels, body, list(reads), outputs, members[-1].loc)
