"""Collection of a fused module's launches in program order, with dependences and in-place updates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from meshgen.ccl.collective import Collective
from meshgen.ccl.cost import link_axes
from meshgen.ccl.links import slowest_link
from meshgen.ccl.packing import packing
from meshgen.ccl.steps import Messages
from meshgen.codegen.collective_predicates import is_message
from meshgen.codegen.scheduling.aliasing import overwritten
from meshgen.codegen.scheduling.donation import donated
from meshgen.codegen.scheduling.messages import match_transfers
from meshgen.codegen.scheduling.program import Flow, Program
from meshgen.codegen.scheduling.region_modules import region_module
from meshgen.codegen.scheduling.storages import storages_of
from meshgen.codegen.scheduling.timeline import Costs, Task, control_seconds
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_control, is_kernel, is_loop, is_scan, is_transfer
from meshgen.ir.regions import all_nodes, captured
from meshgen.mesh import Mesh
from meshgen.ops.classes import COMMUNICATING, UNLAUNCHED
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, NETWORK, Schedule

# Collectives that NCCL implements by group calls.
GROUPED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce_to", "all_to_all")
Planned = Callable[[Module], Schedule]


def collect(module: Module, costs: Costs, input_kind: str, planned: Planned) -> Program:
    """Return the launches of the module in program order. Views and constants are not launched.

    Args:
        input_kind: the buffer kind of the inputs.
        planned: returns the schedule of a region that is wrapped in a module.
    Raises:
        CodegenError: MG0301, control flow around transfers to another mesh.
    """
    nodes = tuple(match_transfers([n for n in module.graph.nodes if n.op not in UNLAUNCHED]))
    kernels = dict(module.kernels)
    flows = {n: _flow(node, module, planned) for n, node in enumerate(nodes) if is_control(node)}
    names = [_name(node, kernels) if n not in flows else "" for n, node in enumerate(nodes)]
    inner = [name for flow in flows.values() for region in flow.regions for name in region.kernels]
    kernels |= {
        name: body for flow in flows.values() for region in flow.regions for name, body in region.kernels.items()
    }
    # Drop kernels that no launch uses.
    kernels = {name: kernels[name] for name in dict.fromkeys(filter(None, [*names, *inner]))}
    storages = storages_of(module.graph, nodes)
    scratch = _scratch_bytes(nodes, flows, module.mesh)
    donation = donated(module)
    program = Program(
        module, nodes, kernels, tuple(names), (), storages, donation.over, {}, flows, scratch, input_kind, donation.pairs
    )  # fmt: skip
    program = replace(program, tasks=_tasks(program, costs))
    aliases = overwritten(program)
    return replace(program, replaced={**program.replaced, **aliases.replaced}, inside=aliases.inside)


def _scratch_bytes(nodes: Sequence[Node], flows: Mapping[int, Flow], mesh: Mesh) -> dict[int, int]:
    """Return the scratch bytes (per device) of control flow and of lowered collectives, by launch index."""
    nbytes_of = {index: flow.scratch_bytes for index, flow in flows.items()}
    for index, node in enumerate(nodes):
        if node.op in COMMUNICATING:
            nbytes_of[index] = packing(Collective.of(node, mesh)).scratch_bytes
    return {index: nbytes for index, nbytes in sorted(nbytes_of.items()) if nbytes}


def _flow(node: Node, module: Module, planned: Planned) -> Flow:
    if any(is_transfer(inner) for region in node.regions for inner in all_nodes(region)):
        raise CodegenError(
            Diagnostic(
                "MG0301",
                f"'{node.op}' has transfers to or from another mesh in its body, and its trip count is not constant",
                node.loc,
                hint="make the trip count a constant, or move the transfer out of the body",
            )
        )
    outside = tuple(captured(node))
    steps = tuple(planned(region_module(module, node, region, outside)) for region in node.regions)
    if is_scan(node):
        return Flow(outside, steps, node.attrs.trips)
    return Flow(outside, steps, (node.notes.trips or 1) if is_loop(node) else None)


def _name(node: Node, kernels: dict[str, Graph]) -> str:
    """Return the name of the kernel that a node launches, or "" for a collective. An unfused op gets a kernel with one
    op.
    """
    if node.op in COMMUNICATING:
        return ""
    if is_kernel(node):
        return node.attrs.kernel
    name = next(name for n in itertools.count() if (name := f"{node.op}_{n}") not in kernels)
    inputs = {value: Value(value.type, f"a{i}") for i, value in enumerate(dict.fromkeys(node.operands))}
    results = [Value(value.type) for value in node.results]
    body = Node(node.op, [inputs[v] for v in node.operands], results, dict(node.attrs), node.loc, None, node.regions)
    kernels[name] = Graph(name, list(inputs.values()), [body], results)
    return name


def _tasks(program: Program, costs: Costs) -> tuple[Task, ...]:
    """Return one task per launch.

    Control flow that communicates keeps its position among collectives: no other launch communicates while it runs.
    """
    module = program.module
    readers, streams = _readers_of_overwritten(program), _streams(program)
    seconds = {name: costs.kernel(body) for name, body in program.kernels.items()}
    tasks: list[Task] = []
    fence: set[int] = set()  # launches that must precede the next control flow that communicates
    flow: set[int] = set()  # the last control flow that communicates
    message: set[int] = set()  # the last send or receive
    for index, node in enumerate(program.nodes):
        needs = {producer for v in program.reads(index) for producer in program.storages.needs(v)}
        needs |= {reader for v in node.results for reader in readers.get(v, ()) if reader != index}
        if is_message(node):
            needs |= message
            message = {index}
        if index in program.flows:
            if program.flows[index].communicates:
                needs |= fence
                fence = flow = {index}
            control_time = control_seconds(
                node.op, program.flows[index].regions, program.flows[index].trips or 1, costs.copy
            )
            task = Task(COMPUTE, control_time, tuple(sorted(needs)))
        elif node.op in COMMUNICATING:
            fence = fence | {index}
            task = Task(streams[index], costs.collective(Collective.of(node, module.mesh)), tuple(sorted(needs | flow)))
        else:
            task = Task(COMPUTE, seconds[program.names[index]], tuple(sorted(needs)))
        tasks.append(task)
    return tuple(tasks)


def _streams(program: Program) -> dict[int, int]:
    """Return the stream of each collective.

    NCCL calls over slow links (a network) have a separate stream, beside the stream of calls over fast links (inside a
    host). Messages (send and receive) over both share one stream, because they share one communicator.
    """
    mesh = program.module.mesh
    nodes = {index: node for index, node in enumerate(program.nodes) if node.op in COMMUNICATING}
    if mesh.machine is None and all(axis.bandwidth is None for axis in mesh.axes):
        return dict.fromkeys(nodes, COMMUNICATION)
    axes = {index: link_axes(node.op, node.attrs, mesh) for index, node in nodes.items()}
    links = {index: slowest_link(mesh, node_axes) for index, node_axes in axes.items() if node_axes}
    slow = {index for index, link in links.items() if link < max(links.values())}
    return {
        n: NETWORK if n in slow and _is_call(Collective.of(node, mesh)) else COMMUNICATION for n, node in nodes.items()
    }


def _is_call(collective: Collective) -> bool:
    """Whether the collective is lowered to NCCL collective calls only, without messages (send and receive)."""
    if collective.op not in GROUPED:
        return False
    # Imported here, because programs whose links have one speed can be scheduled without this module.
    from meshgen.ccl.lower import lower

    return not any(isinstance(step, Messages) for step in lower(collective, 0).steps)


def _readers_of_overwritten(program: Program) -> dict[Value, list[int]]:
    """Map each result that overwrites an input to the launches that read that input, which must come first."""
    result_of = {overwritten_input: result for result, overwritten_input in program.replaced.items()}
    readers: dict[Value, list[int]] = {}
    for index in range(len(program.nodes)):
        for overwritten_input in {program.storages.root[value] for value in program.reads(index)} & result_of.keys():
            readers.setdefault(result_of[overwritten_input], []).append(index)
    return readers
