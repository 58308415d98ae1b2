"""A program with several entry functions: an executable for each, and one module for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from meshgen.calls.arguments import weight_arrays
from meshgen.calls.callers import at_callers_line
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError, Diagnostic, UsageError, listed
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.pipeline import Progress
from meshgen.reports.tables import render
from meshgen.runtime.plan import Schedule
from meshgen.runtime.sessions.weights import Weights, weights_by_name


class EntriesExecutable(Executable):
    """A program with several entry functions. Made by `compile`; `executable["decode"]` is one of them.

    Attributes that depend on a function (`plan`, `comms`, ...) are those of one of them.
    """

    def __init__(self, entries: Mapping[str, Executable], name: str) -> None:
        self.entries = dict(entries)
        self._name, self._signature = name, None

    def __getitem__(self, name: str) -> Executable:
        """Raises UsageError MG0001 for an unknown function."""
        if name not in self.entries:
            raise UsageError(
                Diagnostic(
                    "MG0001",
                    f"unknown entry function '{name}'",
                    hint=f"known entry functions are {listed([*self.entries])}",
                )
            )
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    @property
    def plan(self) -> Schedule:
        """Raises UsageError MG0001: the function must be chosen first."""
        raise self._unchosen()

    @property
    def fused(self) -> Module:
        """As `plan`."""
        raise self._unchosen()

    @property
    def parts(self) -> tuple[Executable, ...]:
        """As `plan`."""
        raise self._unchosen()

    @property
    def name(self) -> str:
        return self._name

    @property
    def mesh(self) -> Mesh:
        """That of the first function."""
        return next(iter(self.entries.values())).mesh

    def _unchosen(self) -> UsageError:
        first = next(iter(self.entries))
        text = f"the program has {len(self.entries)} entry functions: {listed([*self.entries])}"
        return UsageError(Diagnostic("MG0001", text, hint=f"choose one: executable['{first}']"))

    @property
    def warnings(self) -> list[Diagnostic]:
        """Those of all functions, each once."""
        return list(dict.fromkeys(warning for each in self.entries.values() for warning in each.warnings))

    @property
    def build_warnings(self) -> list[Diagnostic]:
        """As `warnings`."""
        return list(dict.fromkeys(warning for each in self.entries.values() for warning in each.build_warnings))

    @property
    def without_code(self) -> list[str]:
        """Kernels that no code can be generated for, of all functions."""
        return list(dict.fromkeys(name for each in self.entries.values() for name in each.without_code))

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all functions; equal ones are built once."""
        for executable in self.entries.values():
            executable.build(progress)

    def record(self) -> dict[str, Any]:
        """The document of `compile --json`: the record of each function."""
        return {"name": self.name, "entries": {name: each.record() for name, each in self.entries.items()}}

    @at_callers_line
    def save(self, path: str | Path, weights: Weights = None) -> None:
        """Write one module with all functions; members that they share are stored once.

        Args:
            weights: as of `Executable.save`; each goes to all functions that have an input of its name.
        Raises:
            UsageError: MG0003, the file cannot be written.
            ArgumentError: MG0601, weights that do not fit the inputs, or that no function takes.
        """
        from meshgen.codegen.packaging.entries import entries_members
        from meshgen.runtime.module_file import container

        taken: dict[str, Mapping[str, Any]] = {name: each.signature.weights for name, each in self.entries.items()}
        if weights is not None:
            weights = weights_by_name(weights)
            taken = {name: self._weights_of(each, weights) for name, each in self.entries.items()}
        used = {key for own in taken.values() for key in own}
        if unknown := [key for key in weights or () if key not in used]:
            texts = [f"weight for an unknown input '{name}'" for name in unknown]
            raise ArgumentError(*(Diagnostic("MG0601", text) for text in texts))
        held = {name: each.members(weight_arrays(each.signature, taken[name])) for name, each in self.entries.items()}
        container.write(container.path_of(path), entries_members(self.name, held))

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with a part for each function."""
        from meshgen.reports.report import write_reports
        from meshgen.runtime.module_file.container import path_of

        write_reports(self.name, list(self.entries.values()), path_of(path))

    @staticmethod
    def _weights_of(executable: Executable, weights: Mapping[str, Any]) -> dict[str, Any]:
        """The weights of a function's inputs."""
        return {key: value for key, value in weights.items() if executable.signature.weight(str(key)) is not None}

    def _repr_html_(self) -> str:
        return render(repr(self), html=True)

    def __repr__(self) -> str:
        return f"EntriesExecutable({', '.join(map(repr, self.entries.values()))})"
