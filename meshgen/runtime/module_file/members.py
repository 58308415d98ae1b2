"""Members of a module by name: all or a folder of them, in a file or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from meshgen.errors import Diagnostic, ModuleError

SIGNATURE = "manifest.sig"  # the member with a signature of the manifest; not every module has one


def damaged(path: Path, reason: str) -> ModuleError:
    """The error for a damaged or forged module."""
    return ModuleError(
        Diagnostic("MG0502", f"'{path}' is damaged or was modified: {reason}", hint="copy or compile the module again")
    )


class Members(Protocol):
    """Members of a module, in order of their names."""

    path: Path

    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> memoryview: ...


class Folder:
    """The members of a container in one folder, by their names in it."""

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
    """Members in memory or elsewhere: `path` is the file that they belong to."""

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
