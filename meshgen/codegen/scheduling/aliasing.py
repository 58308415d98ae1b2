"""Results that overwrite an operand of their launch: a value of the step without later reads.

%1 = all_reduce %0           %1 has the bytes of %0
%3 = join %1, %2             %1 is made in the bytes of %3, so %0 is made there already
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from meshgen.codegen.scheduling.program import Program, place_of
from meshgen.codegen.scheduling.timeline import Task
from meshgen.ir.graph import Value
from meshgen.ir.op_names import REPEATED
from meshgen.ops.classes import OVERWRITING
from meshgen.runtime.in_place import Pairs, overwrites

# Tasks that are examined to find out whether a buffer may be overwritten.
_TASKS_BEFORE = 256


@dataclass(frozen=True)
class Overwritten:
    """Storages by their roots: the one that each overwrites, and the join and byte offset of each that is inside one."""

    replaced: dict[Value, Value] = field(default_factory=dict[Value, Value])
    inside: dict[Value, tuple[Value, int]] = field(default_factory=dict[Value, tuple[Value, int]])


def overwritten(program: Program) -> Overwritten:
    """The results of a program that are written over an operand; what is written over donated inputs is known before."""
    root, readers = program.storages.root, _readers(program)
    made = program.storages.made.keys() - {root[value] for value in program.module.graph.outputs}
    found, taken, over = Overwritten(), set[Value](), {*program.replaced}
    for number, operand, result in _candidates(program):
        is_matched = operand in taken or result in over  # one operand for a result, wherever their bytes are
        if operand not in made or is_matched or operand.type.nbytes != result.type.nbytes:
            continue
        if not _is_last(program.tasks, number, readers[operand]):
            continue
        if not program.storages.is_part(result):
            found.replaced[result] = operand
        elif not _lies_inside(program, found, operand, result):
            continue
        taken.add(operand)
        over.add(result)
    return found


def _readers(program: Program) -> dict[Value, list[int]]:
    """The launches that read each storage."""
    found: dict[Value, list[int]] = {}
    for number in range(len(program.nodes)):
        for value in dict.fromkeys(map(program.storages.root.__getitem__, program.reads(number))):
            found.setdefault(value, []).append(number)
    return found


def _candidates(program: Program) -> Iterator[tuple[int, Value, Value]]:
    """Launches with a storage that each reads and a result of it that may be written over that."""
    for number, node in enumerate(program.nodes):
        operands = [program.storages.root[value] for value in program.reads(number)]
        pairs = _pairs(program, number)
        uses = Counter(operands)
        shared = Counter((operands[place], n) for place, numbers in pairs.items() for n in {*numbers})
        for place, numbers in pairs.items():
            for n in numbers:
                if (
                    shared[operands[place], n] == uses[operands[place]]
                ):  # it may be written over all of the operand's uses
                    yield number, operands[place], node.results[n]


def _lies_inside(program: Program, found: Overwritten, operand: Value, part: Value) -> bool:
    """Place the storage that a part of a join overwrites into the join, unless it has other bytes already, or is an argument."""
    join, start = program.storages.root[part], program.storages.first_byte.get(part, 0)
    first, at = place_of(operand, found.replaced, found.inside)
    if at or first in found.inside or first not in program.storages.made or join in program.replaced:
        return False
    found.inside[first] = join, start
    return True


def _pairs(program: Program, number: int) -> Pairs:
    """Numbers of operands of a launch with those of the results that may be written over each."""
    node, name = program.nodes[number], program.names[number]
    if name:
        return overwrites(program.kernels[name])
    if node.op in REPEATED:  # its results begin as its first operands
        return {n: (n,) for n in range(len(node.results))}
    if node.op not in OVERWRITING or program.module.mesh.group_size(node.attrs.axes) == 1:
        return {}
    pairs = enumerate(zip(node.operands, node.results, strict=True))
    return {place: (place,) for place, (operand, result) in pairs if operand.type.dtype == result.type.dtype}


def _is_last(tasks: Sequence[Task], number: int, readers: Sequence[int]) -> bool:
    """Whether all other readers of a value are surely done when this one starts, in whatever order tasks are issued."""
    missing = {reader for reader in readers if reader != number}
    seen, stack = {number}, [number]
    while missing and stack and len(seen) < _TASKS_BEFORE:
        for need in tasks[stack.pop()].needs:
            if need not in seen and need >= min(missing):
                seen.add(need)
                stack.append(need)
        missing -= seen
    return not missing
