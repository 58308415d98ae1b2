"""Execution of single PTX kernels of a module on the emulated GPU. Each launch has its own device memory."""

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
        """Return `fault` with the line of the Triton source in which it occurred."""
        location = fault.source
        if location is None:
            return fault
        lines = self.text.splitlines()
        line = lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""
        source_location = replace(location, file=self.how.source or location.file, column=0)
        return DeviceFault(fault.kind, fault.reason, source_location, kernel=f"{self.how.entry} ({self.arch})",
                           instruction=fault.instruction, line=line)  # fmt: skip


class EmulatedKernel:
    """A kernel of a module for one architecture, ready to run on the emulated GPU."""

    def __init__(self, how: Kernel, arch: str, ptx: str, source: str = "") -> None:
        """Parse the PTX of a kernel.

        Args:
            source: its Triton source, which error messages quote.
        Raises:
            DeviceFault: MG0608, the PTX is malformed.
        """
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
        """Run the entire grid.

        Args:
            args: the parameters in order.

        An array or NumPy scalar is passed as a pointer to its first element, an int
                as an i32. Writable arrays are modified in place.
            races, issues: see `Checks`.
        Raises:
            DeviceFault: MG0608, with the line of the Triton source.
        """
        if 0 in self._how.grid:
            return
        memory = Memory()
        values, ranges = _placed(memory, args, writable)
        block = (self._binary.threads, 1, 1)
        scratch, scratch_ranges = self._scratch(memory)
        checks = Checks(races=races, operands=[*ranges, *scratch_ranges], issues=issues)
        try:
            parameters = _block(self._entry, [*values, *scratch])
            launch(self._entry, self._how.grid, block, self._binary.shared, parameters, memory, checks=checks)
        except DeviceFault as fault:
            raise self._source.told(fault) from None
        for arg, (address, nbytes, is_written) in zip([a for a in args if not isinstance(a, int)], ranges, strict=True):
            if is_written and isinstance(arg, np.ndarray):
                arg[...] = memory.view(address, nbytes).view(arg.dtype).reshape(arg.shape)

    def _scratch(self, memory: Memory) -> tuple[list[int], list[tuple[int, int, bool]]]:
        """Allocate the global scratch and the profile scratch.

        Triton appends pointers to both to the parameters.

        Returns the two pointers, null for scratch that the kernel does not need, and the allocated ranges.
        """
        blocks = int(np.prod(self._how.grid))
        pointers: list[int] = []
        ranges: list[tuple[int, int, bool]] = []
        for name in SCRATCH:
            nbytes = int(self._binary.metadata.get(name) or 0) * blocks
            pointers.append(memory.allocate(nbytes, name.removesuffix("_size")) if nbytes else 0)
            ranges += [(pointers[-1], nbytes, True)] if nbytes else []
        return pointers, ranges


def _placed(
    memory: Memory, args: Sequence[Array | np.generic | int], writable: Sequence[bool]
) -> tuple[list[int], list[tuple[int, int, bool]]]:
    """Copy arrays to device memory. Returns the parameter values, and the ranges that the kernel may access."""
    values: list[int] = []
    ranges: list[tuple[int, int, bool]] = []
    for index, (arg, is_written) in enumerate(zip(args, writable, strict=True)):
        if isinstance(arg, int):
            values.append(arg)
            continue
        content = np.ascontiguousarray(arg).reshape(-1).view(np.uint8)
        address = memory.allocate(content.nbytes, f"parameter {index}")
        memory.view(address, content.nbytes)[:] = content
        values.append(address)
        ranges.append((address, content.nbytes, is_written))
    return values, ranges


def _block(entry: Entry, values: Sequence[int]) -> bytes:
    """Return the parameter block of a launch. Raises DeviceFault if the kernel has a different number of parameters."""
    if len(values) != len(entry.parameters):
        reason = f"it takes {len(entry.parameters)} parameters, got {len(values)}"
        raise DeviceFault("opcode", reason, kernel=entry.name)
    block = bytearray(entry.parameter_bytes)
    for parameter, value in zip(entry.parameters, values, strict=True):
        end = parameter.offset + parameter.size
        block[parameter.offset : end] = (value % (1 << 8 * parameter.size)).to_bytes(parameter.size, "little")
    return bytes(block)
