"""Write only the updated window if a dynamic_update_slice can overwrite its operand, which is dead or donated.

    before   %y = dynamic_update_slice %x, %u, %i      the kernel reads all of %x and writes all of %y
    after    %y = update_in_place %x, %u, %i           the kernel writes the elements of %u; %y shares the bytes of %x

This includes chains of updates: an element that is in several windows is written only by the last update.

The pass runs after it is decided which results overwrite an operand (`donation.py`, `aliasing.py`). If only some
launches of a kernel can update in place, the kernel is duplicated.
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
    """Return the program with in-place updates in all kernels whose results share the bytes of the updated operand."""
    names, kernels, tasks = list(program.names), dict(program.kernels), list(program.tasks)
    name_of_variant: dict[tuple[str, tuple[int, ...]], str] = {}
    for index, name in enumerate(program.names):
        if not name or not (results := tuple(_updated(program, index))):
            continue
        key = name, results
        if key not in name_of_variant:
            body = _with_updates(program.kernels[name], results)
            name_of_variant[key] = name if body is None else _free_name(f"{name}_in_place", kernels, program)
            if body is not None:
                kernels[name_of_variant[key]] = replace(body, name=name_of_variant[key])
                recorded_template(kernels[name_of_variant[key]])
        if name_of_variant[key] != name:
            names[index] = name_of_variant[key]
            tasks[index] = tasks[index]._replace(seconds=costs.kernel(kernels[name_of_variant[key]]))
    if names == list(program.names):
        return program
    inner = {name for flow in program.flows.values() for region in flow.regions for name in region.kernels}
    launched = {name: kernels[name] for name in kernels if name in inner or name in names}
    return replace(program, names=tuple(names), kernels=launched, tasks=tuple(tasks))


def _updated(program: Program, launch: int) -> Iterator[int]:
    """Yield the indices of those results of a launch that can be updated in place.

    Such a result is a window written into an operand that shares its bytes, and the launch reads these bytes through no
    other operand.
    """
    body, reads = program.kernels[program.names[launch]], program.reads(launch)
    producers = body.index.producers
    for index, (value, result) in enumerate(zip(body.outputs, program.nodes[launch].results, strict=True)):
        nodes = chain(value, producers, _OUT_OF_PLACE)
        if not nodes or nodes[0].operands[0] not in body.inputs:
            continue
        first = nodes[0].operands[0]
        updated = reads[body.inputs.index(first)]
        other_reads = [value_read for value_read, formal in zip(reads, body.inputs, strict=True) if formal is not first]
        if _bytes(program, updated) == _bytes(program, result) and program.place(updated) not in map(
            program.place, other_reads
        ):
            yield index


def _bytes(program: Program, value: Value) -> tuple[Value, int]:
    return program.place(value), program.first_byte(value)


def _with_updates(body: Graph, results: Sequence[int]) -> Graph | None:
    """Return the body with all outputs `results` updated in place.

    If no kernel can be generated for that, only the first output for which a kernel can be generated is updated in
    place. Returns None if no output can be.
    """
    variants = (_updating(body, subset) for subset in dict.fromkeys((tuple(results), *((n,) for n in results))))
    return next((variant for variant in variants if _is_generated(variant)), None)


def _updating(body: Graph, results: Sequence[int]) -> Graph:
    producers = body.index.producers
    updates = {node for index in results for node in chain(body.outputs[index], producers, _OUT_OF_PLACE)}
    nodes = [replace(node, op=UPDATE) if node in updates else node for node in body.nodes]
    return Graph(body.name, body.inputs, nodes, body.outputs)


def _is_generated(body: Graph) -> bool:
    parts = (part for part in segments(body) if any(node.op == UPDATE for node in part.nodes))
    return not update_fault(body) and all(MAP.match(part, device_of(DEFAULT_TARGET)) for part in parts)


def _free_name(name: str, kernels: Mapping[str, Graph], program: Program) -> str:
    names = itertools.chain((name,), (f"{name}_{number}" for number in itertools.count(2)))
    return next(
        candidate for candidate in names if candidate not in kernels and candidate not in program.module.kernels
    )
