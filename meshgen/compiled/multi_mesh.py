"""Compiled programs on several meshes: an executable per mesh, with joint costs and reports."""

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
from meshgen.ir.multi_mesh import joined
from meshgen.pipeline import Options, Progress, Timing
from meshgen.reports.comms import Comms
from meshgen.reports.cost import Cost
from meshgen.reports.memory import Memory
from meshgen.runtime.validation.multi_mesh_checker import Timeline, check_parts

Array = np.ndarray[Any, Any]


class PartsExecutable(Executable):
    """A compiled program on several meshes; `compile` returns it.

    `parts` has an executable for each mesh. Figures per device are the maximum over all meshes, and step times are for
    all meshes together. `mesh` and `plan` are those of the first mesh.
    """

    def __init__(self, stages: Mapping[str, Module], parts: Sequence[Executable], timeline: Timeline, options: Options,
                 timing: Timing, signature: Signature | None = None) -> None:  # fmt: skip
        super().__init__(stages, parts[0].plan, options, timing, signature)
        self._parts = tuple(parts)
        self._timeline = timeline

    @property
    def parts(self) -> tuple[Executable, ...]:
        """Return one executable per mesh."""
        return self._parts

    @cached_property
    def overlap(self) -> tuple[ChunkDecision, ...]:
        return tuple(decision for part in self.parts for decision in part.overlap)

    @property
    def place(self) -> str:
        return " and ".join(f"@{part.mesh.name} {part.mesh}" for part in self.parts)

    @cached_property
    def sources(self) -> dict[str, Any]:
        """Return the Triton source of each kernel. The keys have the form `MESH/KERNEL`."""
        from meshgen.codegen.missing_kernels import require_kernels

        if self.options.architectures:
            require_kernels(part.plan for part in self.parts)
        return {f"{part.mesh.name}/{name}": source for part in self.parts for name, source in part.sources.items()}

    @property
    def without_code(self) -> list[str]:
        """Return the kernels without generated code, of all meshes, in the form `MESH/KERNEL`."""
        return [f"{part.mesh.name}/{name}" for part in self.parts for name in part.without_code]

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all meshes. Equal kernels are compiled once.

        Raises CodegenError with all bodies, on any mesh, that no kernel can be generated for.
        """
        if not self.sources:
            return
        for part in self.parts:
            part.build(progress)
            self.built |= {(f"{part.mesh.name}/{name}", arch): kernel for (name, arch), kernel in part.built.items()}
            self.forms |= {(f"{part.mesh.name}/{name}", arch): source for (name, arch), source in part.forms.items()}

    @cached_property
    def comms(self) -> Comms:
        """Return the collectives of all meshes, mesh by mesh. A transfer appears twice: as a send and as a receive."""
        return Comms(tuple(row._replace(mesh=part.mesh.name) for part in self.parts for row in part.comms))

    @cached_property
    def memory(self) -> Memory:
        """Return the memory report of the mesh whose devices need the most memory."""
        return max((part.memory for part in self.parts), key=lambda memory: memory.peak_bytes)

    @cached_property
    def cost(self) -> Cost:
        """Return the maximum of each figure over all meshes, and the time of the step of all meshes together."""
        costs = [part.cost for part in self.parts]
        figures = {field.name: [getattr(cost, field.name) for cost in costs] for field in fields(Cost)}
        maxima: dict[str, Any] = {
            name: max((value for value in values if value is not None), default=None)
            for name, values in figures.items()
        }
        joint_figures: dict[str, Any] = {
            "distinct_kernels": sum(cost.distinct_kernels for cost in costs),
            "step_seconds": self._timeline.step_seconds,
            "serial_seconds": self._serial_timeline.step_seconds,
            "shorter": None,
        }
        maxima.update(joint_figures)
        return Cost(**maxima)

    @cached_property
    def _serial_timeline(self) -> Timeline:
        """Return the timeline of the step under the assumption that each mesh executes one schedule item at a time."""
        plans = [
            replace(part.plan, items=tuple(replace(item, stream=0, waits=()) for item in part.plan.items))
            for part in self.parts
        ]
        return check_parts(plans, [part.mesh for part in self.parts])

    def started(self, number: int = 0) -> list[float]:
        """Return the start time of each schedule item of part `number` in the step of all meshes together, in seconds."""
        return [self._timeline.start[number, item] for item in range(len(self.parts[number].plan.items))]

    @cached_property
    def work(self) -> None:
        """Return None: the executable of each part has this report."""
        return None

    @cached_property
    def analysis(self) -> None:
        """Return None: the executable of each part has this report."""
        return None

    @cached_property
    def volume(self) -> None:
        """Return None: the executable of each part has this report."""
        return None

    def record(self) -> dict[str, Any]:
        """Return the JSON document of `explain --json`: the record of the program, plus the records of all parts."""
        meshes = {part.mesh.name: part.mesh.by_name for part in self.parts}
        parts = [
            {k: v for k, v in part.record().items() if k != "seconds"} | {"busy_seconds": self.busy_seconds(number)}
            for number, part in enumerate(self.parts)
        ]
        return super().record() | {"mesh": meshes, "parts": parts}

    def scheduled(self) -> Module:
        return joined(self.fused, [part.scheduled() for part in self.parts])

    def members(self, weights: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """Return the members of the module file by name. Each weight is stored in the part that has the input.

        Raises ArgumentError for a weight that is not an input of any part.
        """
        from meshgen.codegen.packaging.package import module_members, part_names, parts_members
        from meshgen.reports.plan_record import packaged_record

        weights, names = weights or {}, part_names(self.fused)
        known_inputs = {name for ins, _ in names for name in ins}
        if unknown := [name for name in weights if name not in known_inputs]:
            messages = [f"weight for an unknown input '{name}'" for name in unknown]
            raise ArgumentError(*(Diagnostic("MG0601", text) for text in messages))
        members: list[Mapping[str, bytes]] = []
        for part, (ins, outs) in zip(self.parts, names, strict=True):
            part_weights = {name: weights[name] for name in ins if name in weights}
            content: dict[str, Any] = part.contents() | {"stages": {}, "resources": {}, "decisions": {}}
            members.append(module_members(part.fused, part.plan, **content, weights=part_weights, names=(ins, outs))[0])
        return parts_members(self.fused, members, **self.texts(), report=packaged_record(self), call=self._signature)
