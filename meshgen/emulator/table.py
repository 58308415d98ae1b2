"""The table of instructions: each opcode has a decoder that reads the modifiers once and returns an executable action."""

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

Decoder = Callable[[Instruction], Action]
Reader = Callable[[Wave], Array]
Writer = Callable[[Wave, Array, Mask], None]
DECODERS: dict[str, Decoder] = {}


def opcode(*names: str) -> Callable[[Decoder], Decoder]:
    """Register the decorated function as the decoder of the opcodes `names`."""

    def register(decoder: Decoder) -> Decoder:
        for name in names:
            assert name not in DECODERS, name
            DECODERS[name] = decoder
        return decoder

    return register


def nothing(wave: Wave, mask: Mask) -> None:
    """Do nothing: the action of instructions without an effect in the emulator."""


def reader(operand: Operand, kind: DType, instruction: Instruction) -> Reader:
    """Return a function that reads an operand as elements of `kind`. A wider register yields its low bits."""
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
    byte_offset = np.uint64(offset % (1 << 64))

    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise DeviceFault("opcode", f"unknown variable '{name}'")
        return (wave.specials[name] + byte_offset).astype(BITS[kind.itemsize]).view(kind)

    return read


def _special_reader(name: str, kind: DType, instruction: Instruction) -> Reader:
    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise unknown(instruction)
        return wave.specials[name].astype(kind, copy=False)

    return read


def writer(operand: Operand, kind: DType, instruction: Instruction) -> Writer:
    """Return a function that writes values of type `kind` to a register, widened if needed."""
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
    """Return readers for the operands from index `first` on."""
    return [reader(operand, kind, instruction) for operand in instruction.operands[first:]]


def elementwise(
    instruction: Instruction, kind: DType, function: Callable[..., Array], to: DType | None = None
) -> Action:
    """Return the action that sets the first operand to `function` of the other operands.

    Args:
        kind: type of the operands.
        to: type of the result; `kind` if None.
    """
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
    """Return a function that reads the addresses of an operand such as `[%rd1+16]`, as u64."""
    if not isinstance(operand, Address):
        raise unknown(instruction)
    base = operand.base
    wide = np.dtype(np.uint64 if not isinstance(base, Register) or base.width == 8 else np.uint32)
    read, offset = reader(base, wide, instruction), np.uint64(operand.offset % (1 << 64))
    if not operand.offset:
        return lambda wave: read(wave).astype(np.uint64, copy=False)
    return lambda wave: read(wave).astype(np.uint64) + offset


def vector_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector operand, or a 1-tuple for any other operand."""
    return operand.parts if isinstance(operand, Vector) else (operand,)
