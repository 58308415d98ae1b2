"""The interface of loaded modules to the engines that run them and to sessions, and one step as an engine takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.ccl.world import World
from meshgen.records import dataclass
from meshgen.runtime.emulation import Emulation
from meshgen.runtime.module_file.manifest import Binding, Manifest

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Loaded:
    """A module of one mesh: its manifest, its constants by buffer, and its files."""

    manifest: Manifest
    constants: Mapping[int, Array]
    member: Callable[[str], bytes]


class LoadedPart(Protocol):
    """The module of one mesh, as `LoadedModule` is one."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def loaded(self) -> Loaded: ...


class LoadedEntry(Protocol):
    """The interface of a loaded module to sessions."""

    @property
    def parts(self) -> Sequence[LoadedPart]: ...
    @property
    def bindings(self) -> Sequence[Binding]: ...
    @property
    def outputs(self) -> Sequence[Binding]: ...
    @property
    def ranks(self) -> int: ...
    @property
    def call(self) -> Signature | None: ...
    @property
    def state(self) -> State | None: ...
    def weight(self, name: str) -> Array: ...
    def require_sizes(self) -> None: ...
    def require_memory(self) -> None: ...


@dataclass(frozen=True)
class Run:
    """One step of a program.

    Attributes:
        owner: the owner of the program; engines that cache devices keep them for its lifetime.
        parts, args: of each mesh its module, and the arguments of its plan.
        emulation: options of emulated GPUs.
        world: the ranks, one of which is this process's; None: all are.
    """

    owner: object
    parts: Sequence[Loaded]
    args: Sequence[Sequence[Array]]
    emulation: Emulation
    world: World | None = None


Results = list[list[Array]]  # of each mesh
