"""Run the PTX of a module on the emulated GPU: single kernels, each launch in memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.launch import Checks, launch
from meshgen.emulator.memory import Memory
from meshgen.emulator.parse import parse
from meshgen.emulator.program import Entry
from meshgen.runtime.module_file.manifest import SCRATCH, Binary, Kernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KernelSource:
    """The Triton source of a kernel that was compiled for an architecture."""

    how: Kernel
    arch: str
    text: str

    def told(self, fault: DeviceFault) -> DeviceFault:
        """The fault at the line of the kernel's source that the module keeps."""
        place = fault.source
        if place is None:
            return fault
        lines = self.text.splitlines()
        line = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
        where = replace(place, file=self.how.source or place.file, column=0)
        return DeviceFault(fault.kind, fault.reason, where, kernel=f"{self.how.entry} ({self.arch})",
                           instruction=fault.instruction, line=line)  # fmt: skip


class EmulatedKernel:
    """One kernel of a module for one architecture."""

    def __init__(self, how: Kernel, arch: str, ptx: str, source: str = "") -> None:
        """`source`: its Triton source, lines of which faults show. Raises DeviceFault MG0608 for malformed PTX."""
        how = how.on(arch)
        self._how, self._source = how, KernelSource(how, arch, source)
        self._binary: Binary = how.binaries[arch]
        self.arch = arch
        entries = parse(ptx).entries
        if how.entry not in entries:
            raise DeviceFault("opcode", f"the PTX for {arch} has no entry '{how.entry}'", kernel=how.entry)
        self._entry: Entry = entries[how.entry]

    def launch(
        self,
        args: Sequence[Array | np.generic | int],
        writable: Sequence[bool],
        *,
        races: bool = False,
        issues: int = 0,
    ) -> None:
        """Run the whole grid.

        Args:
            args: the parameters in order; an array or NumPy scalar stands for a pointer to its first element, an int for
                an i32. Arrays that are writable are written in place.
            issues: as of `Checks`.
        Raises:
            DeviceFault: MG0608, with the line of the Triton source.
        """
        if 0 in self._how.grid:
            return
        memory = Memory()
        passed, ranges = _placed(memory, args, writable)
        block = (self._binary.threads, 1, 1)
        scratch, more = self._scratch(memory)
        checks = Checks(races=races, operands=[*ranges, *more], issues=issues)
        try:
            parameters = _block(self._entry, [*passed, *scratch])
            launch(self._entry, self._how.grid, block, self._binary.shared, parameters, memory, checks=checks)
        except DeviceFault as fault:
            raise self._source.told(fault) from None
        for arg, (address, nbytes, is_written) in zip([a for a in args if not isinstance(a, int)], ranges, strict=True):
            if is_written and isinstance(arg, np.ndarray):
                arg[...] = memory.view(address, nbytes).view(arg.dtype).reshape(arg.shape)

    def _scratch(self, memory: Memory) -> tuple[list[int], list[tuple[int, int, bool]]]:
        """The two pointers that Triton appends to the parameters, global and profile scratch, null where it needs none."""
        blocks = int(np.prod(self._how.grid))
        found: list[int] = []
        ranges: list[tuple[int, int, bool]] = []
        for name in SCRATCH:
            nbytes = int(self._binary.metadata.get(name) or 0) * blocks
            found.append(memory.allocate(nbytes, name.removesuffix("_size")) if nbytes else 0)
            ranges += [(found[-1], nbytes, True)] if nbytes else []
        return found, ranges


def _placed(
    memory: Memory, args: Sequence[Array | np.generic | int], writable: Sequence[bool]
) -> tuple[list[int], list[tuple[int, int, bool]]]:
    """Arrays copied to device memory: the values of the parameters, and the ranges that the kernel may touch."""
    passed: list[int] = []
    ranges: list[tuple[int, int, bool]] = []
    for number, (arg, is_written) in enumerate(zip(args, writable, strict=True)):
        if isinstance(arg, int):
            passed.append(arg)
            continue
        content = np.ascontiguousarray(arg).reshape(-1).view(np.uint8)
        address = memory.allocate(content.nbytes, f"parameter {number}")
        memory.view(address, content.nbytes)[:] = content
        passed.append(address)
        ranges.append((address, content.nbytes, is_written))
    return passed, ranges


def _block(entry: Entry, values: Sequence[int]) -> bytes:
    """The parameter block. Raises DeviceFault where the kernel takes another number of parameters."""
    if len(values) != len(entry.parameters):
        reason = f"it takes {len(entry.parameters)} parameters, got {len(values)}"
        raise DeviceFault("opcode", reason, kernel=entry.name)
    block = bytearray(entry.parameter_bytes)
    for parameter, value in zip(entry.parameters, values, strict=True):
        end = parameter.offset + parameter.size
        block[parameter.offset : end] = (value % (1 << 8 * parameter.size)).to_bytes(parameter.size, "little")
    return bytes(block)
