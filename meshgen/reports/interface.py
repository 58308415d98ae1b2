"""What reports read of a compiled program, be it on one mesh or on several (`meshgen/compiled`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from meshgen.compilation import Decisions, PassRecord
from meshgen.errors import Diagnostic
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.pipeline import Options
from meshgen.reports.comms import Comms
from meshgen.reports.cost import Cost
from meshgen.reports.memory import Memory
from meshgen.runtime.plan import Schedule
from meshgen.sharding.analyze import Analysis, Volume
from meshgen.sharding.arithmetic import Work


class Compiled(Protocol):
    """A program that went all the way to a schedule. One on several meshes has a part for each."""

    @property
    def parts(self) -> Sequence[Compiled]: ...

    @property
    def name(self) -> str: ...

    @property
    def mesh(self) -> Mesh: ...

    @property
    def place(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def options(self) -> Options: ...

    @property
    def specialised(self) -> Mapping[str, Any]: ...

    @property
    def seconds(self) -> Mapping[str, float]: ...

    @property
    def passes(self) -> Mapping[str, PassRecord]: ...

    @property
    def decisions(self) -> Decisions: ...

    @property
    def stages(self) -> Mapping[str, Module]: ...

    @property
    def fused(self) -> Module: ...

    @property
    def plan(self) -> Schedule: ...

    @cached_property
    def comms(self) -> Comms: ...

    @cached_property
    def memory(self) -> Memory: ...

    @cached_property
    def cost(self) -> Cost: ...

    @cached_property
    def work(self) -> Sequence[Work] | None: ...

    @cached_property
    def analysis(self) -> Analysis | None: ...

    @cached_property
    def volume(self) -> Volume | None: ...

    @cached_property
    def overlap(self) -> Sequence[ChunkDecision]: ...

    @property
    def built(self) -> Mapping[tuple[str, str], Any]: ...

    @property
    def forms(self) -> Mapping[tuple[str, str], Any]: ...

    @cached_property
    def sources(self) -> dict[str, Any]: ...

    @property
    def warnings(self) -> Sequence[Diagnostic]: ...

    def started(self, number: int = 0) -> Sequence[float]: ...

    def busy_seconds(self, number: int) -> float: ...

    def as_text(self, stage: str = "fuse") -> str: ...

    def record(self) -> dict[str, Any]: ...
