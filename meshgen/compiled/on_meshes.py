"""A compiled program on several meshes: an executable per mesh, and their joint cost and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.graph import Module
from meshgen.ir.parts import joined
from meshgen.pipeline import Options, Progress, Timing
from meshgen.reports.comms import Comms
from meshgen.reports.cost import Cost
from meshgen.reports.memory import Memory
from meshgen.runtime.validation.checker_parts import Timeline, check_parts

Array = np.ndarray[Any, Any]


class PartsExecutable(Executable):
    """A program on several meshes at stage schedule. Made by `compile`.

    Figures per device are those of the mesh where they are largest; the step is that of all meshes together. `mesh`
    and `plan` are those of the first mesh; `parts` has an executable for each.
    """

    def __init__(self, stages: Mapping[str, Module], parts: Sequence[Executable], timeline: Timeline, options: Options,
                 timing: Timing, signature: Signature | None = None) -> None:  # fmt: skip
        super().__init__(stages, parts[0].plan, options, timing, signature)
        self._parts = tuple(parts)
        self._timeline = timeline

    @property
    def parts(self) -> tuple[Executable, ...]:
        """The program of each mesh."""
        return self._parts

    @cached_property
    def overlap(self) -> tuple[ChunkDecision, ...]:
        return tuple(each for part in self.parts for each in part.overlap)

    @property
    def place(self) -> str:
        return " and ".join(f"@{part.mesh.name} {part.mesh}" for part in self.parts)

    @cached_property
    def sources(self) -> dict[str, Any]:
        """Triton source per kernel, by `MESH/KERNEL`."""
        from meshgen.codegen.missing_kernels import refuse_lacking

        if self.options.architectures:
            refuse_lacking(part.plan for part in self.parts)
        return {f"{part.mesh.name}/{name}": source for part in self.parts for name, source in part.sources.items()}

    @property
    def without_code(self) -> list[str]:
        """As for one mesh, by `MESH/KERNEL`."""
        return [f"{part.mesh.name}/{name}" for part in self.parts for name in part.without_code]

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all meshes; equal ones are built once. Raises CodegenError with what those of any mesh lack."""
        if not self.sources:
            return
        for part in self.parts:
            part.build(progress)
            self.built |= {(f"{part.mesh.name}/{name}", arch): kernel for (name, arch), kernel in part.built.items()}
            self.forms |= {(f"{part.mesh.name}/{name}", arch): source for (name, arch), source in part.forms.items()}

    @cached_property
    def comms(self) -> Comms:
        """The collectives of all meshes, one mesh after the other; a transfer is listed twice, sent and received."""
        return Comms(tuple(row._replace(mesh=part.mesh.name) for part in self.parts for row in part.comms))

    @cached_property
    def memory(self) -> Memory:
        """That of the mesh whose devices need most."""
        return max((part.memory for part in self.parts), key=lambda memory: memory.peak_bytes)

    @cached_property
    def cost(self) -> Cost:
        """Per figure the maximum over the devices of all meshes; the step is that of all together."""
        costs = [part.cost for part in self.parts]
        figures = {field.name: [getattr(cost, field.name) for cost in costs] for field in fields(Cost)}
        most: dict[str, Any] = {
            name: max((each for each in found if each is not None), default=None) for name, found in figures.items()
        }
        together: dict[str, Any] = {
            "distinct_kernels": sum(cost.distinct_kernels for cost in costs),
            "step_seconds": self._timeline.step_seconds,
            "serial_seconds": self._serial_timeline.step_seconds,
            "shorter": None,
        }
        most.update(together)
        return Cost(**most)

    @cached_property
    def _serial_timeline(self) -> Timeline:
        """The step where each mesh launches one thing after the other."""
        plans = [
            replace(part.plan, items=tuple(replace(item, stream=0, waits=()) for item in part.plan.items))
            for part in self.parts
        ]
        return check_parts(plans, [part.mesh for part in self.parts])

    def started(self, number: int = 0) -> list[float]:
        """When each launch of a part starts in the step of all meshes, in seconds."""
        return [self._timeline.start[number, item] for item in range(len(self.parts[number].plan.items))]

    @cached_property
    def work(self) -> None:
        """None: `parts` have some each."""
        return None

    @cached_property
    def analysis(self) -> None:
        """None: `parts` have one each."""
        return None

    @cached_property
    def volume(self) -> None:
        """None: `parts` have one each."""
        return None

    def record(self) -> dict[str, Any]:
        """The document of `explain --json`: as for one mesh, and the record of every part."""
        meshes = {part.mesh.name: part.mesh.by_name for part in self.parts}
        parts = [
            {k: v for k, v in part.record().items() if k != "seconds"} | {"busy_seconds": self.busy_seconds(number)}
            for number, part in enumerate(self.parts)
        ]
        return super().record() | {"mesh": meshes, "parts": parts}

    def scheduled(self) -> Module:
        return joined(self.fused, [part.scheduled() for part in self.parts])

    def members(self, weights: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """A weight goes to the part that takes it. Raises ArgumentError for one of an unknown input."""
        from meshgen.codegen.packaging.package import module_members, part_names, parts_members
        from meshgen.reports.places import packaged_record

        weights, names = weights or {}, part_names(self.fused)
        taken = {name for ins, _ in names for name in ins}
        if unknown := [name for name in weights if name not in taken]:
            texts = [f"weight for an unknown input '{name}'" for name in unknown]
            raise ArgumentError(*(Diagnostic("MG0601", text) for text in texts))
        members: list[Mapping[str, bytes]] = []
        for part, (ins, outs) in zip(self.parts, names, strict=True):
            own = {name: weights[name] for name in ins if name in weights}
            content: dict[str, Any] = part.contents() | {"stages": {}, "resources": {}, "decisions": {}}
            members.append(module_members(part.fused, part.plan, **content, weights=own, names=(ins, outs))[0])
        return parts_members(self.fused, members, **self.texts(), report=packaged_record(self), call=self._signature)
