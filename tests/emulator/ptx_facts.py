"""What the text of PTX instructions says of them: registers, spaces, and whether a kernel's ways depend on loaded data."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.emulator.program import Entry, Immediate, Instruction, Operand, Pair, Register, Sink, Vector, registers_of
from meshgen.emulator.wave import CARRY

CONTROL = {"bra", "brx", "ret", "exit", "bar", "barrier"}
WARP_WIDE = {"shfl", "vote", "redux", "match", "elect", "activemask", "mma"}  # what a thread gets may be of its warp
STRICT = {"atom", "red", "mbarrier", "tensormap", "wgmma", "trap", "brkpt"}  # change more than registers, or later
MATRIX_ROW = 16  # bytes at each address of ldmatrix and stmatrix


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


def size_of(instruction: Instruction) -> int:
    """Bytes that a thread accesses; `cp.async` always writes all that it names."""
    if is_copy(instruction):
        size = instruction.operands[2]
        assert isinstance(size, Immediate)
        return size.bits
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        return MATRIX_ROW
    parts = max(len(each.parts) if isinstance(each, Vector) else 1 for each in instruction.operands)
    return parts * int(instruction.modifiers[-1].strip("busf")) // 8


def is_pure(instruction: Instruction) -> bool:
    """Whether all it does is to compute registers of a thread from registers of this thread."""
    carries = CARRY in read(instruction) | written(instruction)
    return (
        has_result(instruction) and not is_access(instruction) and instruction.opcode not in WARP_WIDE and not carries
    )


def is_bulk(instruction: Instruction) -> bool:
    """Whether it copies boxes of tensors."""
    return instruction.opcode == "cp" and not is_copy(instruction) and not only_orders(instruction)
