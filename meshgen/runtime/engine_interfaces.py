"""Interfaces between loaded modules, the engines that run them, and the sessions that keep their state on devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import finalize

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.ccl.world import World
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module_file.manifest import Binding, Manifest

Array = np.ndarray[Any, Any]
Results = list[list[Array]]  # for each mesh, the list of its results


@dataclass(frozen=True)
class Loaded:
    """The interface of a single-mesh module to the engines.

    Attributes:
        constants: buffer index -> array.
        member: returns the contents of a member of the module's file.
    """

    manifest: Manifest
    constants: Mapping[int, Array]
    member: Callable[[str], bytes]


class LoadedPart(Protocol):
    """The interface of a single-mesh module to sessions. `LoadedModule` implements it."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def loaded(self) -> Loaded: ...


class LoadedEntry(Protocol):
    """The interface of an entry function's module to sessions. `LoadedModule` implements it."""

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
    """An executor that keeps devices prepared between steps."""

    def run(self, args: Sequence[Sequence[Array]]) -> Results: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


@dataclass(eq=False)
class Prepared:
    """State that a loaded module keeps between its steps.

    Attributes:
        compared: device names for which `require_same` has checked that all ranks run the same module.
        executor: the executor for steps on GPUs, or None before the first such step.
        release: a finalizer that closes the executor when the module is deleted.
    """

    compared: set[str] = field(default_factory=set[str])
    executor: Executor | None = None
    release: finalize[..., Any] | None = None


@dataclass(frozen=True)
class Run:
    """A single step of a program.

    Attributes:
        prepared: state of the loaded module, where an engine keeps devices between steps.
        parts, args: for each mesh, the module and the arguments of its plan.
        emulation: options of emulated GPUs.
        world: all ranks if a launcher started several processes, or None if this process runs all ranks.
    """

    prepared: Prepared
    parts: Sequence[Loaded]
    args: Sequence[Sequence[Array]]
    emulation: Emulation
    world: World | None = None
