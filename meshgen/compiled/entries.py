"""Executables of programs with several entry functions: one executable per function, and one module file for all of
them.
"""

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
    """A compiled program with several entry functions; `compile` returns it.

    `executable["decode"]` is the executable of one function. Only this executable has the properties that depend on a
    function, such as `plan` and `comms`.
    """

    def __init__(self, entries: Mapping[str, Executable], name: str) -> None:
        self.entries = dict(entries)
        self._name, self._signature = name, None

    def __getitem__(self, name: str) -> Executable:
        """Return the executable of entry function `name`. Raises UsageError MG0001 for an unknown function."""
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
        """Raise UsageError MG0001: each function has its own schedule, so the caller must choose a function first."""
        raise self._unchosen()

    @property
    def fused(self) -> Module:
        """Raise UsageError MG0001, as `plan` does."""
        raise self._unchosen()

    @property
    def parts(self) -> tuple[Executable, ...]:
        """Raise UsageError MG0001, as `plan` does."""
        raise self._unchosen()

    @property
    def name(self) -> str:
        return self._name

    @property
    def mesh(self) -> Mesh:
        """Return the mesh of the first function."""
        return next(iter(self.entries.values())).mesh

    def _unchosen(self) -> UsageError:
        first = next(iter(self.entries))
        text = f"the program has {len(self.entries)} entry functions: {listed([*self.entries])}"
        return UsageError(Diagnostic("MG0001", text, hint=f"choose one: executable['{first}']"))

    @property
    def warnings(self) -> list[Diagnostic]:
        """Return the distinct warnings of all functions."""
        return list(dict.fromkeys(warning for executable in self.entries.values() for warning in executable.warnings))

    @property
    def build_warnings(self) -> list[Diagnostic]:
        """Return the distinct build warnings of all functions."""
        return list(
            dict.fromkeys(warning for executable in self.entries.values() for warning in executable.build_warnings)
        )

    @property
    def without_code(self) -> list[str]:
        """Return the names of the kernels for which no code can be generated, over all functions."""
        return list(dict.fromkeys(name for executable in self.entries.values() for name in executable.without_code))

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all functions. Equal kernels are compiled once."""
        for executable in self.entries.values():
            executable.build(progress)

    def record(self) -> dict[str, Any]:
        """Return the JSON document of `compile --json`: the record of each function."""
        return {"name": self.name, "entries": {name: executable.record() for name, executable in self.entries.items()}}

    @at_callers_line
    def save(self, path: str | Path, weights: Weights = None) -> None:
        """Write one module file with all functions. File members that the functions share are stored once.

        Args:
            weights: as for `Executable.save`. Each weight is stored for every function with an input of its name.
        Raises:
            UsageError: MG0003, the file cannot be written.
            ArgumentError: MG0601, weights do not match the inputs, or no function has such an input.
        """
        from meshgen.codegen.packaging.entries import entries_members
        from meshgen.runtime.module_file import container

        weights_by_entry: dict[str, Mapping[str, Any]] = {
            name: executable.signature.weights for name, executable in self.entries.items()
        }
        if weights is not None:
            weights = weights_by_name(weights)
            weights_by_entry = {
                name: self._weights_of(executable, weights) for name, executable in self.entries.items()
            }
        used_names = {key for entry_weights in weights_by_entry.values() for key in entry_weights}
        if unknown := [key for key in weights or () if key not in used_names]:
            messages = [f"weight for an unknown input '{name}'" for name in unknown]
            raise ArgumentError(*(Diagnostic("MG0601", text) for text in messages))
        members = {
            name: executable.members(weight_arrays(executable.signature, weights_by_entry[name]))
            for name, executable in self.entries.items()
        }
        container.write(container.path_of(path), entries_members(self.name, members))

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with a section for each function."""
        from meshgen.reports.report import write_reports
        from meshgen.runtime.module_file.container import path_of

        write_reports(self.name, list(self.entries.values()), path_of(path))

    @staticmethod
    def _weights_of(executable: Executable, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of `weights` that are inputs of a function's executable."""
        return {key: value for key, value in weights.items() if executable.signature.weight(str(key)) is not None}

    def _repr_html_(self) -> str:
        return render(repr(self), html=True)

    def __repr__(self) -> str:
        return f"EntriesExecutable({', '.join(map(repr, self.entries.values()))})"
