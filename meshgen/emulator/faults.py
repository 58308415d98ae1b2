"""Faults of emulated GPUs: operations that a GPU rejects, that are undefined, or that silently give wrong results."""

from __future__ import annotations

from typing import Literal, get_args

from meshgen.errors import Diagnostic, Location, RuntimeFailure

Kind = Literal[
    "address", "alignment", "race", "barrier", "async copy", "opcode", "shared memory", "time", "deadlock", "collective"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class DeviceFault(RuntimeFailure):
    """A fault of a kernel or of another operation on an emulated device (diagnostic MG0608).

    Attributes:
        kind: one of `KINDS`.
        reason: message about the fault, with the numbers.
        source: file and line in the Triton source, from `.loc`; None if the PTX has no location.
        kernel: name of the kernel; empty outside of a launch.
        instruction: text of the PTX instruction.
        line: text of the source line, if known.
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
        """Return the same fault with a kernel, a source location and a PTX instruction."""
        return DeviceFault(self.kind, self.reason, source, kernel=kernel, instruction=instruction)
