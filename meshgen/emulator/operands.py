"""Parser of the operands of PTX instructions."""

from __future__ import annotations

import re
from collections.abc import Callable

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Address, Immediate, Negated, Operand, Pair, Register, Sink, Special, Symbol, Vector

_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?")
_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_OFFSET = re.compile(r"^(.*?)\s*\+\s*(-?(?:0[xX][0-9a-fA-F]+|\d+))$")
_PART = re.compile(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]])+")  # matches one operand; `[%rd1, {%r1, %r2}]` is one operand

# resolves a name in the current scope: a register, a renamed label, or None
Names = Callable[[str], Register | str | None]


def split_operands(text: str) -> list[str]:
    """Split operands at the commas outside of brackets.

    Text with unbalanced brackets or an extra comma is returned as one operand, which `operand_of` rejects.
    """
    if not text or text.isspace():
        return []
    parts = _PART.findall(text)
    is_complete = sum(map(len, parts)) + len(parts) - 1 == len(text)
    return [part.strip() for part in parts] if is_complete else [text]


def operand_of(text: str, names: Names, instruction: str) -> Operand:
    """Parse one operand. Raises DeviceFault "opcode" if `text` is not an operand."""
    register = names(text)  # fast path: most operands are registers
    if isinstance(register, Register):
        return register
    if text.startswith("{"):
        return Vector(tuple(operand_of(part, names, instruction) for part in split_operands(text[1:-1])))
    if text.startswith("["):
        return _address(text[1:-1].strip(), names, instruction)
    if text.startswith("!"):
        return Negated(_register(text[1:].strip(), names, instruction))
    if "|" in text:
        first, second = (part.strip() for part in text.split("|"))
        return Pair(_destination(first, names, instruction), _destination(second, names, instruction))
    return _scalar_operand(text, names, instruction)


def _scalar_operand(text: str, names: Names, instruction: str) -> Operand:
    if text == "_":
        return Sink()
    resolved = names(text)
    if isinstance(resolved, Register):
        return resolved
    if _INTEGER.fullmatch(text):
        return Immediate(int(text.rstrip("U"), 0))
    if real := _FLOAT.fullmatch(text):
        return Immediate(int(real[1], 16), 4) if real[1] else Immediate(int(real[2], 16), 8)
    if re.fullmatch(r"%[\w.]+", text):
        return Special(text)
    if re.fullmatch(r"[\w$]+", text):
        return Symbol(resolved or text)
    if offset := _OFFSET.match(text):
        return Symbol(offset[1], int(offset[2], 0))
    raise DeviceFault("opcode", f"cannot read the operand '{text}' of {instruction!r}")


def _address(text: str, names: Names, instruction: str) -> Address:
    base, *more = split_operands(text)
    coordinates = operand_of(more[0], names, instruction) if more else None
    if offset := _OFFSET.match(base):
        return Address(_scalar_operand(offset[1].strip(), names, instruction), int(offset[2], 0), coordinates)
    return Address(_scalar_operand(base, names, instruction), 0, coordinates)


def _register(text: str, names: Names, instruction: str) -> Register:
    register = names(text)
    if not isinstance(register, Register):
        raise DeviceFault("opcode", f"'{text}' is not a register in {instruction!r}")
    return register


def _destination(text: str, names: Names, instruction: str) -> Register | Sink:
    return Sink() if text == "_" else _register(text, names, instruction)
