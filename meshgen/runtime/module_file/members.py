"""Access to the members of a module by name: all members or those of one folder, in a file or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from meshgen.errors import Diagnostic, ModuleError

SIGNATURE = "manifest.sig"  # the optional member with the cryptographic signature of the manifest


def damaged(path: Path, reason: str) -> ModuleError:
    """Return the error for a damaged or forged module."""
    return ModuleError(
        Diagnostic("MG0502", f"'{path}' is damaged or was modified: {reason}", hint="copy or compile the module again")
    )


class Members(Protocol):
    """The members of a module, sorted by name."""

    path: Path

    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> memoryview: ...


class Folder:
    """The members in one folder of a container. Their names are relative to the folder."""

    def __init__(self, container: Members, name: str) -> None:
        self.path = container.path
        self._container, self._prefix = container, f"{name}/"

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._container if name.startswith(self._prefix))

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._container

    def __getitem__(self, name: str) -> memoryview:
        return self._container[self._prefix + name]


class Held:
    """The members of a module, held in memory. `path` is the module file to which they belong."""

    def __init__(self, path: Path, members: Mapping[str, bytes | memoryview]) -> None:
        self.path = path
        self._members = {name: memoryview(members[name]) for name in sorted(members)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> memoryview:
        if name not in self._members:
            raise damaged(self.path, f"it has no member '{name}'")
        return self._members[name]
