"""Merge independent kernels into one launch, in which each is a segment: for example, all parameter updates.

    before   %p0n = kernel @update(%p0, %g0)    %p1n = kernel @update_2(%p1, %g1)
    after    %p0n, %p1n = kernel @update_update_2(%p0, %g0, %p1, %g1)           a range of thread blocks each

A kernel is delayed to the position of a later kernel if no launch in between reads its results. Otherwise it is moved
up to the position of an earlier kernel if its operands are ready there. In neither case may the step need more memory.
To delay no collective, both kernels must depend on the same collectives and precede the same ones. Kernels after all
collectives, such as parameter updates, may depend on different collectives: they are merged unless the predicted step
becomes longer. GEMMs are merged only with GEMMs, if one tile size suits all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from meshgen.codegen.emit.matmul_tiles import rank_segmented_tiles
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
    """Return a fused module with independent kernels merged into one launch.

    Returns the module itself if there are none.
    """
    kernels = Kernels.of(module.kernels)
    graph = _with_kernels_joined(module, kernels)
    return module if graph is module.graph else with_kernels(module, graph, kernels)


def _with_kernels_joined(module: Module, kernels: Kernels, input_kind: str = "input") -> Graph:
    """Return the graph of `module` with independent kernels merged. A region is passed as a module that wraps it."""
    nodes = [_with_regions(node, module, kernels) for node in module.graph.nodes]
    if any(after is not before for after, before in zip(nodes, module.graph.nodes, strict=True)):
        graph = module.graph
        module = with_kernels(module, Graph(graph.name, graph.inputs, nodes, graph.outputs), kernels)
    if sum(map(is_kernel, nodes)) < 2:
        return module.graph
    order = _LaunchOrder(launches_of(module, default_costs(DEFAULT_TARGET), input_kind), module)
    return order.written(kernels) if order.join() else module.graph


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
    """A launch that may become a segment of a merged launch. The attributes are those of `_LaunchSet`, for one launch."""

    form: KernelForm
    is_small: bool
    pointers: int
    products: tuple[Node, ...]


@dataclass(eq=False)
class _LaunchSet:
    """Launches that are merged into one launch.

    Attributes:
        members: indices of the launches in the program.
        at: the position of the merged launch in program order.
        form: the form of the members' kernels.
        is_small: whether each kernel takes less time than a launch, so that maps and reductions may be merged.
        around: two bit sets of collectives: collectives that the launch depends on, and collectives that depend on it.
        pointers: the number of pointer parameters of the merged kernel.
        products: the dots of the members.
    """

    members: list[int]
    at: int
    form: KernelForm
    is_small: bool
    around: tuple[int, int]
    pointers: int
    products: list[Node]

    def add(self, other: _LaunchSet) -> None:
        self.members += other.members
        if self.is_small:
            self.form, self.is_small = other.form, other.is_small
        self.pointers += other.pointers
        self.products += other.products


class _LaunchOrder:
    """The position of each launch in the new program order, and the sets of launches that share a position."""

    def __init__(self, program: Program, module: Module) -> None:
        self.program, self.module, self.tasks = program, module, program.tasks
        self.at = list(range(len(self.tasks)))
        self.users: list[list[int]] = [[] for _ in self.tasks]
        for index, task in enumerate(self.tasks):
            for need in task.needs:
                self.users[need].append(index)
        self._live = LiveBytes(program)
        # For each kernel name, its launch as a segment, or None if the kernel cannot be merged.
        self._launch_of_kernel: dict[str, _Launch | None] = {}
        self.sets = [single for index in range(len(self.tasks)) if (single := self._single(index))]

    def _single(self, index: int) -> _LaunchSet | None:
        name = self.program.names[index]
        if not is_kernel(self.program.nodes[index]):
            return None
        if name not in self._launch_of_kernel:
            self._launch_of_kernel[name] = _launch_of(self.program.kernels[name])
        if (launch := self._launch_of_kernel[name]) is None:
            return None
        around = self._collectives[0][index], self._collectives[1][index]
        return _LaunchSet([index], index, launch.form, launch.is_small, around, launch.pointers, [*launch.products])

    @cached_property
    def _collectives(self) -> tuple[list[int], list[int]]:
        """Return for each launch two bit sets: the collectives that it transitively depends on, and those that depend
        on it.
        """
        before, after = [0] * len(self.tasks), [0] * len(self.tasks)
        bits = [1 << n if task.stream != COMPUTE else 0 for n, task in enumerate(self.tasks)]
        for index, task in enumerate(self.tasks):
            for need in task.needs:
                before[index] |= before[need] | bits[need]
        for index in reversed(range(len(self.tasks))):
            for user in self.users[index]:
                after[index] |= after[user] | bits[user]
        return before, after

    # ---- merging

    def join(self) -> bool:
        """Merge launches where that saves time. Returns whether any were merged."""
        longest = self._seconds()
        before = [[*launch_set.members] for launch_set in self.sets]
        self._delay()
        self._advance()
        if self._seconds() > longest:
            return False
        self._join_last(longest)
        return [launch_set.members for launch_set in self.sets] != before

    def _delay(self) -> None:
        """Delay launches to the position of later ones."""
        later: list[_LaunchSet] = []
        for candidate in sorted(self.sets, key=lambda launch_set: -launch_set.at):
            end = self._end(candidate)
            target = next((s for s in later if s.at < end and self._fits(s, candidate)), None)
            if target:
                self._move(candidate, target)
            else:
                later.append(candidate)
        self.sets = later

    def _advance(self) -> None:
        """Move launches up to the position of earlier ones."""
        earlier: list[_LaunchSet] = []
        for candidate in sorted(self.sets, key=lambda launch_set: launch_set.at):
            start = max((self.at[need] for n in candidate.members for need in self.tasks[n].needs), default=-1)
            target = next((s for s in earlier if start < s.at and self._fits(s, candidate)), None)
            if target:
                self._move(candidate, target)
            else:
                earlier.append(candidate)
        self.sets = earlier

    def _end(self, launches: _LaunchSet) -> int:
        """Return the first position of a launch that reads the results of `launches`."""
        return min((self.at[user] for n in launches.members for user in self.users[n]), default=len(self.tasks))

    def _fits(self, into: _LaunchSet, candidate: _LaunchSet) -> bool:
        if into.around != candidate.around or (candidate.products and self._message_between(candidate.at, into.at)):
            return False
        return self._has_room(into, candidate) and self._live.fits(candidate.members, candidate.at, into.at)

    def _message_between(self, start: int, to: int) -> bool:
        """Whether a collective is launched between positions `start` and `to`. Separate GEMM launches overlap better
        with it.
        """
        return any(task.stream != COMPUTE for task in self.tasks[min(start, to) : max(start, to)])

    def _has_room(self, into: _LaunchSet, candidate: _LaunchSet) -> bool:
        forms = {into.form, candidate.form}
        is_compatible = len(forms) == 1 or ((into.is_small or candidate.is_small) and KernelForm.GEMM not in forms)
        if not is_compatible or into.pointers + candidate.pointers > DEFAULT.fusion.segment_pointers:
            return False
        return not into.products or is_faster_together(into.products, candidate.products, device_of(DEFAULT_TARGET))

    def _move(self, candidate: _LaunchSet, into: _LaunchSet) -> None:
        self._live.move(candidate.members, candidate.at, into.at)
        for index in candidate.members:
            self.at[index] = into.at
        into.add(candidate)

    def _join_last(self, longest: float) -> None:
        """Merge launches that come after all collectives, unless the predicted step becomes longer."""
        last = sorted(
            (launch_set for launch_set in self.sets if not launch_set.around[1] and not launch_set.products),
            key=lambda launch_set: launch_set.at,
        )
        for _ in range(_TRIALS):
            if len(last) < 2:
                return
            into = last[-1]
            joined = self._joinable(last[:-1], into)
            moved = dict.fromkeys((n for launch_set in joined for n in launch_set.members), into.at)
            if joined and self._seconds(moved) <= longest:
                for launch_set in joined:
                    self._move(launch_set, into)
                self.sets = [launch_set for launch_set in self.sets if launch_set not in joined]
                last = [launch_set for launch_set in last if launch_set not in joined]
            last = last[:-1]

    def _joinable(self, candidates: Sequence[_LaunchSet], into: _LaunchSet) -> list[_LaunchSet]:
        """Return the candidates that can be merged, all together, into the launch `into`."""
        joinable, merged, live = (
            list[_LaunchSet](),
            replace(into, members=[*into.members], products=[]),
            copy(self._live),
        )
        for candidate in candidates:
            if (
                self._end(candidate) > into.at
                and self._has_room(merged, candidate)
                and live.fits(candidate.members, candidate.at, into.at)
            ):
                joinable.append(candidate)
                merged.add(candidate)
                live.move(candidate.members, candidate.at, into.at)
        return joinable

    def _seconds(self, moved: Mapping[int, int] = {}) -> float:
        """Return the predicted seconds of the step, with the launches in `moved` at other positions."""
        return step_seconds(self.tasks, [moved.get(n, at) for n, at in enumerate(self.at)])

    # ---- the result

    def written(self, kernels: Kernels) -> Graph:
        """Return the graph with each set merged into one launch, in dependence order."""
        graph, nodes = self.module.graph, self.program.nodes
        merged: dict[Node, Node] = {}
        for launch_set in self.sets:
            if len(launch_set.members) > 1:
                members = [nodes[n] for n in sorted(launch_set.members)]
                if (launch := _joined(members, kernels)) is not None:
                    merged.update(dict.fromkeys(members, launch))
        first = {nodes[launch_set.at] for launch_set in self.sets}
        remaining = [merged.get(node, node) for node in graph.nodes if node not in merged or node in first]
        producers = {value: node for node in remaining for value in node.results}
        before = {n: [producers[v] for v in (*n.operands, *captured(n)) if v in producers] for n in remaining}
        # The program contains a modified copy of each `recv` node, so find the node of the graph by its result.
        launched = [merged.get(node) or producers[node.results[0]] for node in nodes]
        for launch_set, task in zip(launched, self.tasks, strict=True):
            before[launch_set] += [need for n in task.needs if (need := launched[n]) is not launch_set]
        return Graph(graph.name, graph.inputs, stable_order(remaining, before), graph.outputs)


# Most merges of launches after all collectives that are tried (chosen: each trial schedules the entire step once).
_TRIALS = 6


def step_seconds(tasks: Sequence[Task], at: Sequence[int]) -> float:
    """Return the predicted seconds of the step if all tasks with the same position in `at` are one launch."""
    positions = sorted({*at})
    index_of = {position: index for index, position in enumerate(positions)}
    launch = device_of(DEFAULT_TARGET).launch_seconds
    seconds, needs = [0.0] * len(positions), [set[int]() for _ in positions]
    streams = [0] * len(positions)
    for n, task in enumerate(tasks):
        merged = index_of[at[n]]
        seconds[merged] += task.seconds - (launch if seconds[merged] else 0.0)
        needs[merged].update(index_of[at[need]] for need in task.needs)
        streams[merged] = task.stream
    merged_tasks = [Task(*fields) for fields in zip(streams, seconds, map(tuple, map(sorted, needs)), strict=True)]
    path = longest_paths(merged_tasks)
    return start_times(merged_tasks, list_order(merged_tasks, lambda n: (-round(path[n], 12), n)).numbers)[1]


def is_faster_together(first: Sequence[Node], second: Sequence[Node], device: Device) -> bool:
    """Whether one launch of the matmuls of both launches is predicted to take no longer than two launches."""
    if len({(common_type(dot), multiplied_as(dot)) for dot in (*first, *second)}) > 1:
        return False
    together, *alone = (rank_segmented_tiles(dots, device)[0][0] for dots in ([*first, *second], first, second))
    return together <= sum(alone) + device.launch_seconds


def _launch_of(body: Graph) -> _Launch | None:
    """Return the launch of a body, or None if it cannot be a segment of another launch."""
    template = recorded_template(body)
    if template is None or not template.joins:
        return None
    products, is_gemm = side_by_side_products(body), template.form is KernelForm.GEMM
    if is_gemm and not products:
        return None
    is_small = not is_gemm and kernel_bytes(body) <= DEFAULT.fusion.sibling_bytes
    return _Launch(template.form, is_small, len(body.inputs) + len(body.outputs), tuple(products))


def _joined(members: Sequence[Node], kernels: Kernels) -> Node | None:
    """Return one launch that computes the results of all `members`, or None if no template supports the merged body."""
    reads: dict[Value, Value] = {}
    body, outputs = Graph(""), list[Value]()
    for member in members:
        member_body = kernels.bodies[member.attrs.kernel]
        copies: dict[Value, Value] = {}
        for value, formal in zip(member.operands, member_body.inputs, strict=True):
            copies[formal] = reads.setdefault(value, Value(formal.type, formal.name, loc=formal.loc))
        for node in member_body.nodes:
            copy_node(node, body, copies)
        body.outputs += [copies[value] for value in member_body.outputs]
        outputs += member.results
    body.inputs = list(reads.values())
    if recorded_template(body) is None:
        return None
    return kernel_node(kernels, body, list(reads), outputs, members[-1].loc)
