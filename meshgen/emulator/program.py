"""PTX as values: a program, its entry points, instructions and operands. `parse.py` makes them of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meshgen.errors import Location

PREDICATE = 0  # as the width of a register


@dataclass(frozen=True)
class Register:
    """`%r1`; `width` in bytes, or `PREDICATE`. Of two with one name in different scopes, each has a name of its own."""

    name: str
    width: int


@dataclass(frozen=True)
class Negated:
    """`!%p1`"""

    register: Register


@dataclass(frozen=True)
class Special:
    """`%tid.x`"""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A number: `bits` of an integer (negative ones as they are) or of a float of `width` bytes (0: an integer)."""

    bits: int
    width: int = 0


@dataclass(frozen=True)
class Symbol:
    """A variable, parameter or label, plus an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Sink:
    """`_`: what is not wanted."""


@dataclass(frozen=True)
class Pair:
    """`%r1|%p1`"""

    first: Register | Sink
    second: Register | Sink


@dataclass(frozen=True)
class Vector:
    """`{%r1, %r2}`"""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """`[%rd1+16]`, and with coordinates `[%rd1, {%r1, %r2}]`."""

    base: Operand
    offset: int = 0
    coordinates: Operand | None = None


Operand = Register | Negated | Special | Immediate | Symbol | Sink | Pair | Vector | Address


def registers_of(operand: Operand | None) -> Iterator[Register]:
    """The registers of an operand."""
    match operand:
        case Register():
            yield operand
        case Negated(register):
            yield register
        case Pair(first, second):
            yield from (each for each in (first, second) if isinstance(each, Register))
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
    """`@%p1 add.s32 %r1, %r2, 4;`

    Attributes:
        opcode: the first word, `add`.
        modifiers: the words after it, `("s32",)`.
        guard: the predicate under which it runs; None for always.
        text: as in the program, on one line.
        source: the location in its Triton source; None without `.loc`.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    text: str
    source: Location | None = None


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry: its place in the parameter block, in bytes."""

    name: str
    type: str
    offset: int
    size: int
    alignment: int


@dataclass(frozen=True)
class Variable:
    """An array in a state space: its size in bytes and what it holds at first (nothing: undefined)."""

    name: str
    space: str
    size: int
    alignment: int
    initial: bytes = b""


def layout(variables: Iterable[Variable], space: str) -> tuple[dict[str, int], int]:
    """The offset of each variable of a space, and bytes of them all; what has no size (dynamic memory) comes last."""
    found: dict[str, int] = {}
    place = 0
    for each in sorted((v for v in variables if v.space == space), key=lambda v: v.size == 0):
        place = -(-place // each.alignment) * each.alignment
        found[each.name] = place
        place += each.size
    return found, place


@dataclass(frozen=True, eq=False)
class Entry:
    """A kernel.

    Attributes:
        max_threads: per block, of `.maxntid` or `.reqntid`; None where neither is given.
        exact_threads: whether a block must have exactly so many (`.reqntid`).
        shared_bytes: static shared memory; dynamic shared memory follows it.
        parameter_bytes: size of the parameter block.
        labels: the number of the instruction that follows a label.
        tables: lists of labels that `brx.idx` names.
        variables: shared, local and global arrays that the code names.
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
    """A PTX file. `target` is its architecture, `sm_90a`."""

    target: str
    entries: Mapping[str, Entry]
