"""The code of a module's kernels by kernel and architecture: source, PTX and binaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshgen.errors import Diagnostic, MissingError, UsageError
from meshgen.runtime.module_file.manifest import Binary, Kernel
from meshgen.runtime.module_file.members import Members


@dataclass(frozen=True)
class KernelCode:
    """Access to the code of a module's kernels, which is stored in members of its file."""

    members: Members
    kernels: Mapping[str, Kernel]

    def source(self, name: str, arch: str = "") -> str:
        """Return the Triton source of a kernel, or an empty text if it has none.

        If `arch` is not empty, return the source that was compiled for this architecture.

        Raises:
            UsageError: MG0001, unknown kernel.
        """
        file = self._kernel(name).on(arch).source
        return bytes(self.members[file]).decode() if file else ""

    def cubin(self, name: str, arch: str) -> bytes:
        """Return the binary of a kernel.

        Raises:
            UsageError: MG0001, unknown kernel.
            MissingError: MG0602, the kernel was not compiled for `arch`.
        """
        return bytes(self.members[self._binary(name, arch).file])

    def ptx(self, name: str, arch: str) -> str:
        """Return the PTX from which the binary was assembled. Raises the same errors as `cubin`."""
        if not (file := self._binary(name, arch).ptx):
            text = f"the module has no PTX of kernel '{name}'"
            raise MissingError(Diagnostic("MG0602", text, hint="compile it again: older modules have cubins only"))
        return bytes(self.members[file]).decode()

    def _binary(self, name: str, arch: str) -> Binary:
        binaries = self._kernel(name).binaries
        if arch not in binaries:
            text = f"kernel '{name}' was not compiled for {arch}, but for {', '.join(binaries) or 'no GPU'}"
            raise MissingError(Diagnostic("MG0602", text, hint=f"compile again with --target cuda:{arch}"))
        return binaries[arch]

    def _kernel(self, name: str) -> Kernel:
        if name not in self.kernels:
            raise no_kernel(name, [*self.kernels])
        return self.kernels[name]


def no_kernel(name: str, names: Sequence[str]) -> UsageError:
    """Return the error for an unknown kernel."""
    hint = f"known kernels are {', '.join(names) or 'none'}"
    return UsageError(Diagnostic("MG0001", f"unknown kernel '{name}'", hint=hint))
