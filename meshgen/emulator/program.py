"""Data structures for PTX: a program, its entry points, instructions and operands. `parse.py` builds them from text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meshgen.errors import Location

PREDICATE = 0  # `Register.width` of predicate registers


@dataclass(frozen=True)
class Register:
    """A register such as `%r1`; `width` is in bytes, or `PREDICATE`.

    Registers of the same name in different scopes get distinct names.
    """

    name: str
    width: int


@dataclass(frozen=True)
class Negated:
    """A negated predicate such as `!%p1`."""

    register: Register


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant. `width` is the size of a float in bytes, or 0 for an integer.

    `bits` holds the value of an integer, which may be negative, or the bit pattern of a float.
    """

    bits: int
    width: int = 0


@dataclass(frozen=True)
class Symbol:
    """A symbol operand: a label, or the address of a variable or parameter plus an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Sink:
    """The operand `_`, which discards a result."""


@dataclass(frozen=True)
class Pair:
    """Two destinations such as `%r1|%p1`."""

    first: Register | Sink
    second: Register | Sink


@dataclass(frozen=True)
class Vector:
    """A vector operand such as `{%r1, %r2}`."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """A memory operand such as `[%rd1+16]`, or with coordinates `[%rd1, {%r1, %r2}]`."""

    base: Operand
    offset: int = 0
    coordinates: Operand | None = None


Operand = Register | Negated | Special | Immediate | Symbol | Sink | Pair | Vector | Address


def registers_of(operand: Operand | None) -> Iterator[Register]:
    """Yield the registers that an operand contains."""
    match operand:
        case Register():
            yield operand
        case Negated(register):
            yield register
        case Pair(first, second):
            yield from (operand_part for operand_part in (first, second) if isinstance(operand_part, Register))
        case Vector(parts):
            for part in parts:
                yield from registers_of(part)
        case Address(base, _, coordinates):
            yield from registers_of(base)
            yield from registers_of(coordinates)
        case _:
            return


@dataclass(frozen=True, eq=False)
class Instruction:
    """An instruction such as `@%p1 add.s32 %r1, %r2, 4;`.

    Attributes:
        opcode: the first word, `add`.
        modifiers: the words after the opcode, `("s32",)`.
        guard: the predicate under which the instruction runs; None if it always runs.
        text: the source text on one line.
        source: location in the Triton source; None without `.loc`.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    text: str
    source: Location | None = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry. `offset` is its position in the parameter block, in bytes."""

    name: str
    type: str
    offset: int
    size: int
    alignment: int


@dataclass(frozen=True)
class Variable:
    """An array in a state space. `size` is in bytes; the contents are undefined if `initial` is empty."""

    name: str
    space: str
    size: int
    alignment: int
    initial: bytes = b""


def layout(variables: Iterable[Variable], space: str) -> tuple[dict[str, int], int]:
    """Return the offset of each variable of state space `space`, and the total size, in bytes.

    Variables of size 0 (dynamic shared memory) come last.
    """
    offsets: dict[str, int] = {}
    offset = 0
    for variable in sorted((v for v in variables if v.space == space), key=lambda v: v.size == 0):
        offset = -(-offset // variable.alignment) * variable.alignment
        offsets[variable.name] = offset
        offset += variable.size
    return offsets, offset


@dataclass(frozen=True, eq=False)
class Entry:
    """A kernel.

    Attributes:
        max_threads: threads per block from `.maxntid` or `.reqntid`; None without either directive.
        exact_threads: whether a block must have exactly `max_threads` threads (`.reqntid`).
        shared_bytes: size of static shared memory; dynamic shared memory follows it.
        parameter_bytes: size of the parameter block.
        labels: label -> index of the instruction that follows it.
        tables: label lists for `brx.idx`, by name.
        variables: shared, local and global arrays that the code uses, by name.
    """

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None
    exact_threads: bool
    shared_bytes: int
    parameter_bytes: int
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    variables: Mapping[str, Variable] = field(default_factory=dict[str, Variable])


@dataclass(frozen=True, eq=False)
class Program:
    """A parsed PTX file. `target` is the architecture, for example `sm_90a`."""

    target: str
    entries: Mapping[str, Entry]
