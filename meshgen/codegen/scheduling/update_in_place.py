"""Updates of a window of what is dead or donated write the window alone.

    before   %y = dynamic_update_slice %x, %u, %i      in the kernel: reads all of %x and writes all of %y
    after    %y = update_in_place %x, %u, %i           writes the elements of %u; the step has %y in the bytes of %x

So does a row of updates, each of the result of the one before: an element that is in several windows is written for the last of them only.

Where the bytes are is known once it is decided what results overwrite (`donation.py`, `aliasing.py`). A kernel of several
launches, not all of which may update in place, has a body for each case.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.emit.map import MAP
from meshgen.codegen.kernel_nodes import recorded_template
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.timeline import Costs
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.ir.graph import Graph, Value
from meshgen.ops.segments import segments
from meshgen.runtime.in_place import UPDATE, chain, update_fault

_OUT_OF_PLACE = "dynamic_update_slice"


def update_in_place(program: Program, costs: Costs) -> Program:
    """The program with in-place updates in the kernels of launches whose results have the bytes of the updated operand."""
    names, kernels, tasks = list(program.names), dict(program.kernels), list(program.tasks)
    made: dict[tuple[str, tuple[int, ...]], str] = {}
    for number, name in enumerate(program.names):
        if not name or not (results := tuple(_updated(program, number))):
            continue
        key = name, results
        if key not in made:
            body = _with_updates(program.kernels[name], results)
            made[key] = name if body is None else _free_name(f"{name}_in_place", kernels, program)
            if body is not None:
                kernels[made[key]] = replace(body, name=made[key])
                recorded_template(kernels[made[key]])
        if made[key] != name:
            names[number] = made[key]
            tasks[number] = tasks[number]._replace(seconds=costs.kernel(kernels[made[key]]))
    if names == list(program.names):
        return program
    inner = {name for flow in program.flows.values() for region in flow.regions for name in region.kernels}
    launched = {name: kernels[name] for name in kernels if name in inner or name in names}
    return replace(program, names=tuple(names), kernels=launched, tasks=tuple(tasks))


def _updated(program: Program, number: int) -> Iterator[int]:
    """The results of a launch that are windows written into an operand which has their bytes, and which it reads for nothing else."""
    body, reads = program.kernels[program.names[number]], program.reads(number)
    makers = body.index.producers
    for place, (value, result) in enumerate(zip(body.outputs, program.nodes[number].results, strict=True)):
        nodes = chain(value, makers, _OUT_OF_PLACE)
        if not nodes or nodes[0].operands[0] not in body.inputs:
            continue
        first = nodes[0].operands[0]
        own = reads[body.inputs.index(first)]
        others = [each for each, formal in zip(reads, body.inputs, strict=True) if formal is not first]
        if _bytes(program, own) == _bytes(program, result) and program.place(own) not in map(program.place, others):
            yield place


def _bytes(program: Program, value: Value) -> tuple[Value, int]:
    return program.place(value), program.first_byte(value)


def _with_updates(body: Graph, results: Sequence[int]) -> Graph | None:
    """The body with these results updated in place, or else one of them; None where no kernel can be generated for that."""
    tried = (_updating(body, each) for each in dict.fromkeys((tuple(results), *((n,) for n in results))))
    return next((found for found in tried if _is_generated(found)), None)


def _updating(body: Graph, results: Sequence[int]) -> Graph:
    makers = body.index.producers
    found = {node for number in results for node in chain(body.outputs[number], makers, _OUT_OF_PLACE)}
    nodes = [replace(node, op=UPDATE) if node in found else node for node in body.nodes]
    return Graph(body.name, body.inputs, nodes, body.outputs)


def _is_generated(body: Graph) -> bool:
    parts = (part for part in segments(body) if any(node.op == UPDATE for node in part.nodes))
    return not update_fault(body) and all(MAP.match(part, device_of(DEFAULT_TARGET)) for part in parts)


def _free_name(name: str, kernels: Mapping[str, Graph], program: Program) -> str:
    names = itertools.chain((name,), (f"{name}_{number}" for number in itertools.count(2)))
    return next(each for each in names if each not in kernels and each not in program.module.kernels)
