"""Faults of emulated GPUs: operations that a GPU would punish, hide or leave undefined."""

from __future__ import annotations

from typing import Literal, get_args

from meshgen.errors import Diagnostic, Location, RuntimeFailure

Kind = Literal[
    "address", "alignment", "race", "barrier", "async copy", "opcode", "shared memory", "time", "deadlock", "collective"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class DeviceFault(RuntimeFailure):
    """A fault of a kernel or of other work of a device, MG0608.

    Attributes:
        kind: one of `KINDS`.
        reason: what happened, with the numbers.
        kernel: its name; empty outside of a launch.
        source: the file and line of its Triton source, from `.loc`; None where the PTX has none.
        instruction: the PTX instruction.
        line: the text of the line of its source, where it is known.
    """

    def __init__(
        self, kind: Kind, reason: str, source: Location | None = None, *, kernel: str = "", instruction: str = "",
        line: str = "",
    ) -> None:  # fmt: skip
        self.kind: Kind = kind
        self.reason = reason
        self.source = source
        self.kernel = kernel
        self.instruction = instruction
        where = f"kernel '{kernel}': " if kernel else ""
        at = f" (in {instruction!r})" if instruction else ""
        self.line = line
        notes = ((line, None),) if line else ()
        super().__init__(Diagnostic("MG0608", f"{where}{kind}: {reason}{at}", source, notes))

    def located(self, kernel: str, source: Location | None, instruction: str) -> DeviceFault:
        """The same fault of a kernel, at a place in its source and PTX."""
        return DeviceFault(self.kind, self.reason, source, kernel=kernel, instruction=instruction)
