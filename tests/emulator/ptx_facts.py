"""Static properties of PTX instructions: registers, state spaces, and whether control flow depends on loaded data."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.emulator.program import Entry, Immediate, Instruction, Operand, Pair, Register, Sink, Vector, registers_of
from meshgen.emulator.wave import CARRY

CONTROL = {"bra", "brx", "ret", "exit", "bar", "barrier"}
# opcodes whose result in a thread may depend on other threads of the warp
WARP_WIDE = {"shfl", "vote", "redux", "match", "elect", "activemask", "mma"}
# opcodes that change more than registers, or take effect later
STRICT = {"atom", "red", "mbarrier", "tensormap", "wgmma", "trap", "brkpt"}
MATRIX_ROW = 16  # bytes that ldmatrix and stmatrix access at each address


def names(operands: Iterable[Operand | None]) -> set[str]:
    return {register.name for operand in operands for register in registers_of(operand)}


def has_result(instruction: Instruction) -> bool:
    """Whether the instruction writes its first operand."""
    first = instruction.operands[:1]
    return bool(first) and isinstance(first[0], Register | Vector | Pair | Sink) and instruction.opcode not in CONTROL


def written(instruction: Instruction) -> set[str]:
    """Return the registers that an instruction writes."""
    carry = {CARRY} if "cc" in instruction.modifiers else set[str]()
    return carry | names(instruction.operands[:1]) if has_result(instruction) else carry


def read(instruction: Instruction) -> set[str]:
    """Return the registers that an instruction reads, without its guard."""
    carry = {CARRY} if instruction.opcode in ("addc", "subc", "madc") else set[str]()
    accumulator = instruction.operands[:1] if instruction.opcode == "wgmma" else ()
    return carry | names((*accumulator, *instruction.operands[1 if has_result(instruction) else 0 :]))


def space_of(instruction: Instruction) -> str:
    """Return the state space `global`, `shared`, `param`, `local` or `const`, or "" for generic addresses."""
    spaces = {word.split("::")[0] for word in instruction.modifiers}
    return next((space for space in ("param", "shared", "global", "local", "const") if space in spaces), "")


def is_copy(instruction: Instruction) -> bool:
    """Whether the instruction is a per-thread `cp.async`."""
    return instruction.opcode == "cp" and instruction.modifiers[1] in ("ca", "cg")


def only_orders(instruction: Instruction) -> bool:
    """Whether the only effect of the instruction is to order other instructions."""
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
    """Return the address registers of an access. For copies and matrix operations, return all operand registers."""
    if instruction.opcode in ("st", "stmatrix"):
        return names(instruction.operands[:1])
    return names(instruction.operands[1:] if has_result(instruction) else instruction.operands)


def data_registers(entry: Entry) -> set[str]:
    """Return the registers that may depend on the contents of memory."""
    dependent: set[str] = set()
    while True:
        before = len(dependent)
        for instruction in entry.code:
            loads = (
                instruction.opcode in ("ld", "ldu", "ldmatrix", "atom", "mma", "wgmma")
                and space_of(instruction) != "param"
            )
            if loads or dependent & (read(instruction) | names([instruction.guard])):
                dependent |= written(instruction)
        if len(dependent) == before:
            return dependent


def is_oblivious(entry: Entry) -> bool:
    """Whether control flow, and the addresses and predicates of accesses, are the same for all inputs."""
    data = data_registers(entry)
    deciding_registers = set[str]()
    for instruction in entry.code:
        if instruction.opcode in CONTROL and names(instruction.operands):
            return False  # jump tables are not tracked, and neither are barriers whose thread count is in a register
        if instruction.opcode in CONTROL or is_access(instruction) or instruction.opcode in WARP_WIDE:
            deciding_registers |= names([instruction.guard])
        if is_access(instruction) and instruction.opcode != "wgmma":
            deciding_registers |= addresses(instruction)
    return not data & deciding_registers


def size_of(instruction: Instruction) -> int:
    """Return the number of bytes that a thread accesses; `cp.async` always writes its full size."""
    if is_copy(instruction):
        size = instruction.operands[2]
        assert isinstance(size, Immediate)
        return size.bits
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        return MATRIX_ROW
    parts = max(len(operand.parts) if isinstance(operand, Vector) else 1 for operand in instruction.operands)
    return parts * int(instruction.modifiers[-1].strip("busf")) // 8


def is_pure(instruction: Instruction) -> bool:
    """Whether the instruction only computes registers of a thread from registers of the same thread."""
    carries = CARRY in read(instruction) | written(instruction)
    return (
        has_result(instruction) and not is_access(instruction) and instruction.opcode not in WARP_WIDE and not carries
    )


def is_bulk(instruction: Instruction) -> bool:
    """Whether the instruction is a bulk copy, such as a TMA copy."""
    return instruction.opcode == "cp" and not is_copy(instruction) and not only_orders(instruction)
