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
    """Return a decorator that registers a function as the decoder of the opcodes `names`."""

    def register(decoder: Decoder) -> Decoder:
        for name in names:
            assert name not in DECODERS, name
            DECODERS[name] = decoder
        return decoder

    return register


def nothing(wave: Wave, mask: Mask) -> None:
    """Do nothing: the action of instructions without an effect in the emulator."""


def reader(operand: Operand, dtype: DType, instruction: Instruction) -> Reader:
    """Return a function that reads an operand as elements of `dtype`. From a wider register, the low bits are read."""
    match operand:
        case Immediate():
            value = constant(operand, dtype)
            return lambda wave: value
        case Register(name, width):
            return _register_reader(name, width, dtype, instruction)
        case Negated(register):
            return lambda wave: ~wave.registers[register.name]
        case Special(name):
            return _special_reader(name, dtype, instruction)
        case Symbol(name, offset):
            return _symbol_reader(name, offset, dtype, instruction)
        case _:
            raise unknown(instruction)


def _register_reader(name: str, width: int, dtype: DType, instruction: Instruction) -> Reader:
    if dtype == np.bool_ or width == 0:
        if (dtype == np.bool_) != (width == 0):
            raise unknown(instruction)
        return lambda wave: wave.registers[name]
    bits = BITS[dtype.itemsize]
    if width == dtype.itemsize:
        return (lambda wave: wave.registers[name]) if bits == dtype else (lambda wave: wave.registers[name].view(dtype))
    if width < dtype.itemsize:
        raise unknown(instruction)
    return lambda wave: wave.registers[name].astype(bits).view(dtype)


def _symbol_reader(name: str, offset: int, dtype: DType, instruction: Instruction) -> Reader:
    if dtype.itemsize not in (4, 8):
        raise unknown(instruction)
    byte_offset = np.uint64(offset % (1 << 64))

    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise DeviceFault("opcode", f"unknown variable '{name}'")
        return (wave.specials[name] + byte_offset).astype(BITS[dtype.itemsize]).view(dtype)

    return read


def _special_reader(name: str, dtype: DType, instruction: Instruction) -> Reader:
    def read(wave: Wave) -> Array:
        if name not in wave.specials:
            raise unknown(instruction)
        return wave.specials[name].astype(dtype, copy=False)

    return read


def writer(operand: Operand, dtype: DType, instruction: Instruction) -> Writer:
    """Return a function that writes values of type `dtype` to a register, widened to the width of the register."""
    if isinstance(operand, Sink):
        return lambda wave, value, mask: None
    if not isinstance(operand, Register):
        raise unknown(instruction)
    if dtype == np.bool_ or operand.width == 0:
        if (dtype == np.bool_) != (operand.width == 0):
            raise unknown(instruction)
        return lambda wave, value, mask: wave.put(operand, value, mask)
    if operand.width < dtype.itemsize:
        raise unknown(instruction)
    bits = BITS[operand.width]
    if operand.width == dtype.itemsize:
        return lambda wave, value, mask: wave.put(operand, value.view(bits), mask)
    if dtype.kind == "i":
        wide = np.dtype(f"i{operand.width}")
        return lambda wave, value, mask: wave.put(operand, value.astype(wide).view(bits), mask)
    raw = BITS[dtype.itemsize]
    return lambda wave, value, mask: wave.put(operand, value.view(raw).astype(bits), mask)


def readers(instruction: Instruction, dtype: DType, first: int = 1) -> list[Reader]:
    """Return readers for the operands from index `first` on."""
    return [reader(operand, dtype, instruction) for operand in instruction.operands[first:]]


def elementwise(
    instruction: Instruction, dtype: DType, function: Callable[..., Array], to: DType | None = None
) -> Action:
    """Return the action that sets the first operand to `function` of the other operands.

    Args:
        dtype: type of the operands.
        to: type of the result; `dtype` if None.
    """
    sources = readers(instruction, dtype)
    put = writer(instruction.operands[0], to or dtype, instruction)
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
