"""In-place results: a launch writes its result over an operand that nothing reads later.

%1 = all_reduce %0           %1 overwrites %0
%3 = join %1, %2             %1 is computed inside the bytes of %3, so %0 is allocated there as well
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

# Most tasks to search for a proof that the other readers are done (chosen: bounds the time per candidate).
_MAX_SEARCHED_TASKS = 256


@dataclass(frozen=True)
class Overwritten:
    """Results that overwrite operands, in terms of storages (values that own bytes).

    Attributes:
        replaced: result storage -> the operand storage that it overwrites.
        inside: storage -> the join that it is allocated in, and its byte offset there.
    """

    replaced: dict[Value, Value] = field(default_factory=dict[Value, Value])
    inside: dict[Value, tuple[Value, int]] = field(default_factory=dict[Value, tuple[Value, int]])


def overwritten(program: Program) -> Overwritten:
    """Choose the results of a program that overwrite an operand.

    Results that overwrite donated inputs were chosen earlier (`donation.py`).
    """
    root, readers = program.storages.root, _readers(program)
    temporaries = program.storages.made.keys() - {root[value] for value in program.module.graph.outputs}
    aliases, reused_operands, placed_results = Overwritten(), set[Value](), {*program.replaced}
    for launch, operand, result in _candidates(program):
        is_paired = (
            operand in reused_operands or result in placed_results
        )  # one result may overwrite an operand, and a result may overwrite one operand
        if operand not in temporaries or is_paired or operand.type.nbytes != result.type.nbytes:
            continue
        if not _is_last_reader(program.tasks, launch, readers[operand]):
            continue
        if not program.storages.is_part(result):
            aliases.replaced[result] = operand
        elif not _allocate_inside_join(program, aliases, operand, result):
            continue
        reused_operands.add(operand)
        placed_results.add(result)
    return aliases


def _readers(program: Program) -> dict[Value, list[int]]:
    """Return a map from each storage to the launches that read it."""
    readers: dict[Value, list[int]] = {}
    for launch in range(len(program.nodes)):
        for value in dict.fromkeys(map(program.storages.root.__getitem__, program.reads(launch))):
            readers.setdefault(value, []).append(launch)
    return readers


def _candidates(program: Program) -> Iterator[tuple[int, Value, Value]]:
    """Yield (launch, operand storage, result) where the launch may compute the result in place of the operand."""
    for launch, node in enumerate(program.nodes):
        operands = [program.storages.root[value] for value in program.reads(launch)]
        pairs = _pairs(program, launch)
        uses = Counter(operands)
        shared_uses = Counter(
            (operands[index], n) for index, result_indices in pairs.items() for n in {*result_indices}
        )
        for index, result_indices in pairs.items():
            for n in result_indices:
                if (
                    shared_uses[operands[index], n] == uses[operands[index]]
                ):  # Each use of the operand in this launch must allow the result to overwrite the operand.
                    yield launch, operands[index], node.results[n]


def _allocate_inside_join(program: Program, aliases: Overwritten, operand: Value, part: Value) -> bool:
    """Allocate `operand` inside the join that has `part` as an operand, because `part` overwrites `operand`.

    Returns False if `operand` already shares other bytes, or is an argument.
    """
    join, start = program.storages.root[part], program.storages.first_byte.get(part, 0)
    storage, offset = place_of(operand, aliases.replaced, aliases.inside)
    if offset or storage in aliases.inside or storage not in program.storages.made or join in program.replaced:
        return False
    aliases.inside[storage] = join, start
    return True


def _pairs(program: Program, launch: int) -> Pairs:
    """Return for each operand index of a launch the indices of the results that may overwrite this operand."""
    node, name = program.nodes[launch], program.names[launch]
    if name:
        return overwrites(program.kernels[name])
    if node.op in REPEATED:  # The first results of a loop are updated versions of its first operands.
        return {n: (n,) for n in range(len(node.results))}
    if node.op not in OVERWRITING or program.module.mesh.group_size(node.attrs.axes) == 1:
        return {}
    pairs = enumerate(zip(node.operands, node.results, strict=True))
    return {index: (index,) for index, (operand, result) in pairs if operand.type.dtype == result.type.dtype}


def _is_last_reader(tasks: Sequence[Task], launch: int, readers: Sequence[int]) -> bool:
    """Whether all other readers of a value finish before `launch` starts, in any legal issue order."""
    pending_readers = {reader for reader in readers if reader != launch}
    seen, stack = {launch}, [launch]
    while pending_readers and stack and len(seen) < _MAX_SEARCHED_TASKS:
        for need in tasks[stack.pop()].needs:
            if need not in seen and need >= min(pending_readers):
                seen.add(need)
                stack.append(need)
        pending_readers -= seen
    return not pending_readers
