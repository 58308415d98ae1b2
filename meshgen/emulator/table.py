"""The table of instructions: each opcode has a maker that reads the modifiers once and gives what runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from meshgen.emulator.types import BITS, Array, DType, constant, unknown
from meshgen.emulator.wave import Action, Mask, Wave

Maker = Callable[[Instruction], Action]
Reader = Callable[[Wave], Array]
Writer = Callable[[Wave, Array, Mask], None]
MAKERS: dict[str, Maker] = {}


def opcode(*names: str) -> Callable[[Maker], Maker]:
    """Register the maker of instructions."""

    def register(maker: Maker) -> Maker:
        for name in names:
            assert name not in MAKERS, name
            MAKERS[name] = maker
        return maker

    return register


def nothing(wave: Wave, mask: Mask) -> None:
    """An instruction that changes nothing that is emulated."""


def reader(operand: Operand, kind: DType, instruction: Instruction) -> Reader:
    """The value of an operand as elements of a type; a wider register gives its low bits."""
    match operand:
        case Immediate():
            value = constant(operand, kind)
            return lambda wave: value
        case Register(name, width):
            return _register_reader(name, width, kind, instruction)
        case Negated(register):
            return lambda wave: ~wave.registers[register.name]
        case Special(name):
            return _special_reader(name, kind, instruction)
        case Symbol(name, offset):
            return _symbol_reader(name, offset, kind, instruction)
        case _:
            raise unknown(instruction)


def _register_reader(name: str, width: int, kind: DType, instruction: Instruction) -> Reader:
    if kind == np.bool_ or width == 0:
        if (kind == np.bool_) != (width == 0):
            raise unknown(instruction)
        return lambda wave: wave.registers[name]
    bits = BITS[kind.itemsize]
    if width == kind.itemsize:
        return (lambda wave: wave.registers[name]) if bits == kind else (lambda wave: wave.registers[name].view(kind))
    if width < kind.itemsize:
        raise unknown(instruction)
    return lambda wave: wave.registers[name].astype(bits).view(kind)


def _symbol_reader(name: str, offset: int, kind: DType, instruction: Instruction) -> Reader:
    if kind.itemsize not in (4, 8):
        raise unknown(instruction)
    behind = np.uint64(offset % (1 << 64))

    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise DeviceFault("opcode", f"unknown variable '{name}'")
        return (wave.specials[name] + behind).astype(BITS[kind.itemsize]).view(kind)

    return read


def _special_reader(name: str, kind: DType, instruction: Instruction) -> Reader:
    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise unknown(instruction)
        return wave.specials[name].astype(kind, copy=False)

    return read


def writer(operand: Operand, kind: DType, instruction: Instruction) -> Writer:
    """A function that writes values of a type to a register, widened if needed."""
    if isinstance(operand, Sink):
        return lambda wave, value, mask: None
    if not isinstance(operand, Register):
        raise unknown(instruction)
    if kind == np.bool_ or operand.width == 0:
        if (kind == np.bool_) != (operand.width == 0):
            raise unknown(instruction)
        return lambda wave, value, mask: wave.put(operand, value, mask)
    if operand.width < kind.itemsize:
        raise unknown(instruction)
    bits = BITS[operand.width]
    if operand.width == kind.itemsize:
        return lambda wave, value, mask: wave.put(operand, value.view(bits), mask)
    if kind.kind == "i":
        wide = np.dtype(f"i{operand.width}")
        return lambda wave, value, mask: wave.put(operand, value.astype(wide).view(bits), mask)
    raw = BITS[kind.itemsize]
    return lambda wave, value, mask: wave.put(operand, value.view(raw).astype(bits), mask)


def readers(instruction: Instruction, kind: DType, first: int = 1) -> list[Reader]:
    """Readers of all operands from a place on."""
    return [reader(operand, kind, instruction) for operand in instruction.operands[first:]]


def elementwise(
    instruction: Instruction, kind: DType, function: Callable[..., Array], to: DType | None = None
) -> Action:
    """The first operand becomes a function of the others, all of one type; it gives values of type `to`."""
    sources = readers(instruction, kind)
    put = writer(instruction.operands[0], to or kind, instruction)
    if len(sources) == 1:
        (only,) = sources
        return lambda wave, mask: put(wave, function(only(wave)), mask)
    if len(sources) == 2:
        left, right = sources
        return lambda wave, mask: put(wave, function(left(wave), right(wave)), mask)
    return lambda wave, mask: put(wave, function(*(source(wave) for source in sources)), mask)


def address_reader(operand: Operand, instruction: Instruction) -> Reader:
    """The addresses that `[%rd1+16]` means, as u64."""
    if not isinstance(operand, Address):
        raise unknown(instruction)
    base = operand.base
    wide = np.dtype(np.uint64 if not isinstance(base, Register) or base.width == 8 else np.uint32)
    read, offset = reader(base, wide, instruction), np.uint64(operand.offset % (1 << 64))
    if not operand.offset:
        return lambda wave: read(wave).astype(np.uint64, copy=False)
    return lambda wave: read(wave).astype(np.uint64) + offset


def vector_of(operand: Operand) -> tuple[Operand, ...]:
    """The parts of a vector; any other operand by itself."""
    return operand.parts if isinstance(operand, Vector) else (operand,)
