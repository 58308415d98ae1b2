"""The interface of loaded modules to the engines that run them and to sessions, and one step as an engine takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import finalize

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.ccl.world import World
from meshgen.runtime.emulation import Emulation
from meshgen.runtime.module_file.manifest import Binding, Manifest

Array = np.ndarray[Any, Any]
Results = list[list[Array]]  # of each mesh


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


class Executor(Protocol):
    """The interface of an executor whose devices stay ready between steps."""

    def run(self, args: Sequence[Sequence[Array]]) -> Results: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


@dataclass(eq=False)
class Prepared:
    """What a loaded module keeps between its steps.

    Attributes:
        compared: the devices on which all ranks are known to run this module.
        executor: prepared for steps on GPUs.
        release: retires the executor with the module.
    """

    compared: set[str] = field(default_factory=set[str])
    executor: Executor | None = None
    release: finalize[..., Any] | None = None


@dataclass(frozen=True)
class Run:
    """One step of a program.

    Attributes:
        prepared: belongs to the loaded module; an engine that keeps devices between steps keeps them there.
        parts, args: of each mesh its module, and the arguments of its plan.
        emulation: options of emulated GPUs.
        world: the ranks, one of which is this process's; None: all are.
    """

    prepared: Prepared
    parts: Sequence[Loaded]
    args: Sequence[Sequence[Array]]
    emulation: Emulation
    world: World | None = None
