"""Whether a change of one instruction of a kernel can change nothing: a proof for all inputs of this launch.

    same(original, changed, run)    `run` executes a launch; its code is watched meanwhile

1. Which way threads go, and which addresses and predicates their accesses have, must not depend on loaded data
   (`is_oblivious`): else no run speaks for other inputs.
2. The changed kernel is run once. Followed is every register, thread by thread, and every byte of shared memory that may
   hold something else than in the original kernel at the same point, whatever the input: at the change what it writes, behind
   it what is computed of that. What depends on numbers of threads, parameters and constants only is compared, not assumed.
3. If none of it is stored to global memory, or decides a way, an address or a predicate, results are the same for all inputs.

An instruction that only orders others (a barrier, a wait, a commit, a fence) writes nothing: without it, the checks of races
and of copies under way have found all accesses of the run ordered, and by 1. there are no others. What one thread writes to
global memory must then not be read in the same launch, since these checks do not follow threads of one block there.

Source of the method: Newsome and Song, Dynamic taint analysis, NDSS 2005.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from meshgen.emulator.execute import Step, steps_of
from meshgen.emulator.memory import ALIGNMENT
from meshgen.emulator.program import Entry, Instruction, Operand, Pair, Register, Sink, Vector, registers_of
from meshgen.emulator.spaces import SPACES
from meshgen.emulator.table import address_reader, reader
from meshgen.emulator.wave import CARRY, Mask, Wave

Array = np.ndarray[Any, Any]
CONTROL = {"bra", "brx", "ret", "exit", "bar", "barrier"}
WARP_WIDE = {"shfl", "vote", "redux", "match", "elect", "activemask", "mma"}
STRICT = {"atom", "red", "mbarrier", "tensormap", "wgmma", "trap", "brkpt"}  # may take nothing that may differ
MATRIX_ROW = 16  # bytes at each address of ldmatrix and stmatrix
BOOL = np.dtype(np.bool_)


class Influence(Exception):
    """What may differ reaches something that others see."""


def names(operands: Iterable[Operand | None]) -> set[str]:
    return {register.name for operand in operands for register in registers_of(operand)}


def has_result(instruction: Instruction) -> bool:
    """Whether the first operand is what it writes."""
    first = instruction.operands[:1]
    return bool(first) and isinstance(first[0], Register | Vector | Pair | Sink) and instruction.opcode not in CONTROL


def written(instruction: Instruction) -> set[str]:
    """Registers that an instruction writes."""
    carry = {CARRY} if "cc" in instruction.modifiers else set[str]()
    return carry | names(instruction.operands[:1]) if has_result(instruction) else carry


def read(instruction: Instruction) -> set[str]:
    """Registers that it reads, but for its predicate."""
    carry = {CARRY} if instruction.opcode in ("addc", "subc", "madc") else set[str]()
    own = instruction.operands[:1] if instruction.opcode == "wgmma" else ()
    return carry | names((*own, *instruction.operands[1 if has_result(instruction) else 0 :]))


def space_of(instruction: Instruction) -> str:
    """`global`, `shared`, `param`, ...; empty for generic addresses."""
    found = {word.split("::")[0] for word in instruction.modifiers}
    return next((space for space in ("param", "shared", "global", "local", "const") if space in found), "")


def is_copy(instruction: Instruction) -> bool:
    """Whether it is a `cp.async` of threads."""
    return instruction.opcode == "cp" and instruction.modifiers[1] in ("ca", "cg")


def only_orders(instruction: Instruction) -> bool:
    """Whether it does nothing but to order others."""
    words = (instruction.opcode, *instruction.modifiers)
    return (
        words[0] in ("bar", "barrier", "fence")
        or "commit_group" in words
        or "wait_group" in words
        or "wait_all" in words
    )


def is_access(instruction: Instruction) -> bool:
    opcode, is_bulk = instruction.opcode, instruction.opcode == "cp" and not only_orders(instruction)
    return opcode in ("ld", "ldu", "st", "ldmatrix", "stmatrix") or is_bulk or opcode in STRICT


def addresses(instruction: Instruction) -> set[str]:
    """Registers that say where an access is; of copies and of what is looked at as a whole, all."""
    if instruction.opcode in ("st", "stmatrix"):
        return names(instruction.operands[:1])
    return names(instruction.operands[1:] if has_result(instruction) else instruction.operands)


def data_registers(entry: Entry) -> set[str]:
    """Registers that may depend on what memory holds."""
    found: set[str] = set()
    while True:
        before = len(found)
        for each in entry.code:
            loads = each.opcode in ("ld", "ldu", "ldmatrix", "atom", "mma", "wgmma") and space_of(each) != "param"
            if loads or found & (read(each) | names([each.guard])):
                found |= written(each)
        if len(found) == before:
            return found


def is_oblivious(entry: Entry) -> bool:
    """Whether ways, addresses and predicates of accesses are the same for all inputs."""
    data = data_registers(entry)
    decides = set[str]()
    for each in entry.code:
        if each.opcode in CONTROL and names(each.operands):
            return False  # a table of jumps, or a barrier with a number of threads in a register: not followed
        if each.opcode in CONTROL or is_access(each) or each.opcode in WARP_WIDE:
            decides |= names([each.guard])
        if is_access(each) and each.opcode != "wgmma":
            decides |= addresses(each)
    return not data & decides


class Watch:
    """Runs the changed kernel and follows what may differ from the original."""

    def __init__(self, original: Entry, changed: Entry) -> None:
        both = zip(original.code, (*changed.code, None), strict=False)
        self._place = next((n for n, (a, b) in enumerate(both) if b is None or a.text != b.text), 0)
        is_dropped = len(changed.code) < len(original.code)
        self._data = data_registers(original) | data_registers(changed)
        self._wave: Wave | None = None
        self._registers: dict[str, Array] = {}  # where, [blocks, threads], a register may differ
        self._original: dict[str, Array] = {}  # of those, what it holds in the original kernel, where that is known
        self._results: dict[str, Array] = {}  # of the instruction that was changed, in the original kernel
        self._shared = np.zeros(0, np.bool_)  # which bytes may
        self._is_shared = False  # whether any of them may
        self._stored, self._loaded = set[int](), set[int]()  # by pages, of which no two allocations have a common one
        code = list(steps_of(original))
        own = code[self._place]
        code = [self._watched(step) for step in code]
        code[self._place] = self._exchanged(own, None if is_dropped else steps_of(changed)[self._place])
        self.steps = tuple(code)
        self._orders = is_dropped and only_orders(own.instruction)

    def check_global(self) -> None:
        """Raises Influence where the order of threads in global memory would matter."""
        if self._orders and self._stored & self._loaded:
            raise Influence

    def _watched(self, step: Step) -> Step:
        instruction, action, guard = step.instruction, step.action, step.guard

        def watched_guard(wave: Wave) -> Array:
            assert guard is not None
            self._enter(wave)
            if (tainted := self._of([instruction.guard])) is not None:
                if not has_result(instruction) or is_copy(instruction) or instruction.opcode in STRICT | WARP_WIDE:
                    raise Influence
                self._add(written(instruction), tainted)
            return guard(wave)

        def watched(wave: Wave, mask: Mask) -> None:
            assert action is not None
            self._enter(wave)
            if self._is_known(instruction):
                self._compute_both(wave, step, mask)
                return
            self._propagate(wave, instruction, wave.lanes(mask))
            action(wave, mask)

        return replace(step, guard=watched_guard if guard else None, action=watched if action else None)

    def _exchanged(self, own: Step, other: Step | None) -> Step:
        """The changed instruction; None: it is left out."""
        if own.action is None and other is not None:
            return replace(other, guard=lambda wave: self._same_way(wave, own, other))
        if own.action is None:
            if not only_orders(own.instruction):
                raise Influence
            return Step(own.instruction, lambda wave, mask: None, None, frozenset())

        def action(wave: Wave, mask: Mask) -> None:
            self._enter(wave)
            here = [self._active(wave, own, mask), np.zeros(wave.shape, np.bool_)]
            if other is not None:
                here[1] = self._active(wave, other, mask)
            differing = self._differing(wave, own, other, *here)
            places = self._bytes_of(wave, own.instruction, differing & here[0])
            if other is not None and other.action is not None and here[1].any():
                self._propagate(wave, other.instruction, here[1])
                places += self._bytes_of(wave, other.instruction, differing & here[1])
                other.action(wave, here[1])
            self._mark(places, True)
            self._add(written(own.instruction) | (written(other.instruction) if other else set()), differing)
            if np.array_equal(*here):
                self._original |= {name: value for name, value in self._results.items() if name in self._registers}

        step = other or own
        return replace(step, guard=None, action=action, waits="", reads=step.reads if other else frozenset())

    def _same_way(self, wave: Wave, own: Step, other: Step) -> Array:
        """The predicate of a jump that was changed, which must be the same."""
        self._enter(wave)
        if own.guard is None or other.guard is None or own.targets != other.targets:
            raise Influence
        found = other.guard(wave)
        if self._of([own.instruction.guard, other.instruction.guard]) is not None or not np.array_equal(
            found, own.guard(wave)
        ):
            raise Influence
        return found

    def _differing(self, wave: Wave, own: Step, other: Step | None, was: Array, now: Array) -> Array:
        """The threads for which the changed instruction may do something else."""
        instruction, self._results = own.instruction, {}
        if only_orders(instruction) and other is None:
            return np.zeros(wave.shape, np.bool_)
        known = [instruction.guard, *instruction.operands]
        is_same = other is not None and (instruction.opcode, instruction.modifiers, instruction.operands) == (
            other.instruction.opcode, other.instruction.modifiers, other.instruction.operands)  # fmt: skip
        differing = was ^ now if is_same else was | now
        if differing.any() and (not has_result(instruction) or instruction.opcode in STRICT):
            writes_shared = (
                space_of(instruction) == "shared" or is_copy(instruction) or instruction.opcode == "stmatrix"
            )
            if not writes_shared or instruction.opcode in STRICT or self._of(known) is not None:
                raise Influence
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            return np.repeat(differing.reshape(*wave.shape[:1], -1, 32).any(2), 32, 1)
        if self._is_index(instruction) and other and self._is_index(other.instruction) and not is_same and now.any():
            return (was ^ now) | (was & now & self._other_values(wave, own, other, now))
        return differing

    def _is_index(self, instruction: Instruction) -> bool:
        """Whether it only computes, of nothing that depends on data, and does so where nothing may differ."""
        known = [instruction.guard, *instruction.operands[1:]]
        pure = has_result(instruction) and not is_access(instruction) and instruction.opcode not in WARP_WIDE
        return pure and not (
            {CARRY} & (read(instruction) | written(instruction))
            or names(known) & self._data
            or self._of(known) is not None
        )

    def _is_known(self, instruction: Instruction) -> bool:
        """Whether what it computes in the original kernel can be computed too, though operands differ."""
        taken = (read(instruction) | written(instruction)) & self._registers.keys()
        if not taken or not taken <= self._original.keys() or self._of([instruction.guard]) is not None:
            return False
        aside, self._registers = self._registers, {}
        found = self._is_index(instruction)
        self._registers = aside
        return found

    def _compute_both(self, wave: Wave, step: Step, mask: Mask) -> None:
        """Run an instruction as in the original kernel, then as it is; both are compared."""
        assert step.action is not None
        mine, results = wave.registers, written(step.instruction)
        wave.registers = mine | {n: v for n, v in self._original.items() if n in read(step.instruction) | results}
        step.action(wave, mask)
        own = {name: wave.full(wave.registers[name]) for name in results}
        wave.registers = mine
        step.action(wave, mask)
        for name in results:
            self._forget([name])
            if (where := own[name] != wave.full(wave.registers[name])).any():
                self._registers[name], self._original[name] = where, own[name]

    def _other_values(self, wave: Wave, own: Step, other: Step, now: Array) -> Array:
        """Where the changed instruction gives another value."""
        before, results = dict(wave.registers), written(own.instruction) | written(other.instruction)
        found: list[dict[str, Array]] = []
        for step in (own, other):
            assert step.action is not None
            step.action(wave, now)
            found.append({name: wave.full(wave.registers[name]) for name in results})
            wave.registers = dict(before)
        self._results = found[0]
        return np.any([found[0][name] != found[1][name] for name in results], axis=0)

    def _active(self, wave: Wave, step: Step, mask: Mask) -> Array:
        lanes = wave.lanes(mask)
        if step.guard is None:
            return np.array(lanes)
        if self._of([step.instruction.guard]) is not None:
            raise Influence
        return lanes & wave.full(step.guard(wave))

    def _enter(self, wave: Wave) -> None:
        if wave is not self._wave:
            self._wave, self._registers, self._original = wave, {}, {}
            self._shared = np.zeros(wave.shared.elements(np.dtype(np.uint8)).shape, np.bool_)
            self._is_shared = False

    def _of(self, operands: Iterable[Operand | None]) -> Array | None:
        """Where operands may differ; None: nowhere."""
        return self._any(names(operands))

    def _any(self, registers: Iterable[str]) -> Array | None:
        found = [self._registers[name] for name in registers if name in self._registers]
        return np.any(found, axis=0) if found else None

    def _add(self, registers: Iterable[str], where: Array) -> None:
        if where.any():
            for name in registers:
                self._original.pop(name, None)
                self._registers[name] = self._registers[name] | where if name in self._registers else where

    def _forget(self, registers: Iterable[str]) -> None:
        for name in registers:
            self._registers.pop(name, None)
            self._original.pop(name, None)

    def _put(self, registers: Iterable[str], where: Array, lanes: Array) -> None:
        """What `lanes` write may differ where `where` says."""
        for name in registers:
            old = self._registers.get(name)
            self._original.pop(name, None)
            new = where & lanes if old is None else np.where(lanes, where, old)
            if new.any():
                self._registers[name] = new
            else:
                self._forget([name])

    def _propagate(self, wave: Wave, instruction: Instruction, lanes: Array) -> None:
        """What may differ behind an instruction, before it runs."""
        if self._orders and is_access(instruction) and "global" in instruction.modifiers:
            self._note_global(wave, instruction, lanes)
        if not self._registers and not self._is_shared:
            return
        where = self._any(read(instruction))
        where = np.zeros(wave.shape, np.bool_) if where is None else where
        self._refuse(instruction, where & lanes)
        if instruction.opcode in ("st", "stmatrix") or is_copy(instruction):
            self._to_shared(wave, instruction, lanes, where)
        elif instruction.opcode in ("ld", "ldmatrix") and space_of(instruction) == "shared":
            where = where | self._from_shared(wave, instruction, lanes)
        elif instruction.opcode == "selp":
            where = self._selected(wave, instruction)
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            where = np.repeat((where & lanes).reshape(wave.blocks, -1, 32).any(2), 32, 1)
        guard = self._of([instruction.guard])
        where = where if guard is None else where | guard
        if names([instruction.guard]) & self._data:
            self._add(written(instruction), where)
        else:
            self._put(written(instruction), where, lanes)

    def _refuse(self, instruction: Instruction, where: Array) -> None:
        """Raises Influence where what may differ would be seen by others, or is not followed further."""
        opcode, space = instruction.opcode, space_of(instruction)
        is_bulk = opcode == "cp" and not is_copy(instruction) and not only_orders(instruction)
        is_generic = opcode in ("ld", "ldu", "st") and not space
        if (opcode in STRICT or is_bulk or is_generic) and self._is_shared:
            raise Influence
        if not where.any():
            return
        follows = (
            has_result(instruction) or is_copy(instruction) or (opcode in ("st", "stmatrix") and space != "global")
        )
        if not follows or is_generic or opcode in STRICT or (opcode == "st" and space != "shared"):
            raise Influence

    def _selected(self, wave: Wave, instruction: Instruction) -> Array:
        """Of a selection by something that does not depend on data, only what is selected."""
        _, left, right, by = instruction.operands
        sides = [self._of([side]) for side in (left, right)]
        ways = [np.zeros(wave.shape, np.bool_) if side is None else side for side in sides]
        chosen = self._of([by])
        if names([by]) & self._data or chosen is not None:
            return ways[0] | ways[1] | (False if chosen is None else chosen)
        return np.where(wave.full(reader(by, BOOL, instruction)(wave)), *ways)

    def _to_shared(self, wave: Wave, instruction: Instruction, lanes: Array, where: Array) -> None:
        if space_of(instruction) not in ("shared", "global") or (
            space_of(instruction) == "global" and not is_copy(instruction)
        ):
            return
        target = self._of(instruction.operands[:1])
        if target is not None and (target & lanes).any():
            raise Influence
        if instruction.opcode == "stmatrix":
            where = np.repeat((where & lanes).reshape(wave.blocks, -1, 32).any(2), 32, 1)
        for chosen, value in ((lanes & ~where, False), (lanes & where, True)):
            self._mark(self._bytes_of(wave, instruction, chosen), value)

    def _mark(self, places: Iterable[Array], value: bool) -> None:
        for each in places:
            if value or self._is_shared:
                self._shared[each] = value
                self._is_shared = value or bool(self._shared.any())

    def _from_shared(self, wave: Wave, instruction: Instruction, lanes: Array) -> Array:
        found = np.zeros(wave.shape, np.bool_)
        for each in self._bytes_of(wave, instruction, lanes, place=1):
            found[lanes] |= self._shared[each].any(1)
        return found

    def _bytes_of(self, wave: Wave, instruction: Instruction, lanes: Array, place: int = 0) -> list[Array]:
        """Bytes of shared memory [threads, bytes] that `lanes` access at an operand."""
        if "shared" not in {word.split("::")[0] for word in instruction.modifiers} or not lanes.any():
            return []
        if has_result(instruction) and not place:
            return []
        at = wave.full(address_reader(instruction.operands[place], instruction)(wave))[lanes]
        return [SPACES["shared"].keys(wave, at, lanes, 1)[:, None] + np.arange(self._size(instruction))]

    def _size(self, instruction: Instruction) -> int:
        """Bytes that a thread accesses; `cp.async` always writes all that it names."""
        if is_copy(instruction):
            return int(getattr(instruction.operands[2], "bits"))  # noqa: B009
        if instruction.opcode in ("ldmatrix", "stmatrix"):
            return MATRIX_ROW
        parts = max(len(each.parts) if isinstance(each, Vector) else 1 for each in instruction.operands)
        return parts * int(instruction.modifiers[-1].strip("busf")) // 8

    def _note_global(self, wave: Wave, instruction: Instruction, lanes: Array) -> None:
        is_load = instruction.opcode == "ld" or is_copy(instruction)
        if not is_load and instruction.opcode != "st":
            raise Influence
        at = wave.full(address_reader(instruction.operands[is_load], instruction)(wave))[lanes]
        (self._loaded if is_load else self._stored).update(np.unique(at // np.uint64(ALIGNMENT)).tolist())


def same(original: Entry, changed: Entry, run: Callable[[], object]) -> bool:
    """Whether the changed kernel gives the same results for all inputs; False where that is not proven.

    `changed`: with one instruction that is another, or is not there. `run`: launches it; what it gives is not looked at.
    """
    if not (is_oblivious(original) and is_oblivious(changed)):
        return False
    try:
        watch = Watch(original, changed)
        with patch("meshgen.emulator.launch.steps_of", lambda entry: watch.steps):
            run()
        watch.check_global()
    except Influence:
        return False
    return True
