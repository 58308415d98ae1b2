"""The compiled form of a program on one mesh: its stages, schedule and kernels, and the compile time of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast

from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature
from meshgen.compilation import Decisions, PassRecord
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.pipeline import Options, Progress, Timing
from meshgen.runtime.module_file.resources import Resources
from meshgen.runtime.plan import Schedule


class CompiledProgram:
    """The result of compilation for one mesh: the module at each stage, the schedule, and the kernels of the schedule."""

    def __init__(self, stages: Mapping[str, Module], plan: Schedule, options: Options, timing: Timing,
                 signature: Signature | None = None, decisions: Decisions | None = None) -> None:  # fmt: skip
        self.stages = dict(stages)
        self.decisions = Decisions() if decisions is None else decisions
        self._plan = plan
        self.options = options
        self._timing = timing
        self._signature = signature
        self.built: dict[tuple[str, str], Any] = {}
        self.forms: dict[tuple[str, str], Any] = {}
        self._build_warnings: list[Diagnostic] = []
        # Only for a specialization of a program with open sizes: its sizes, and when it was compiled.
        self.specialized: dict[str, Any] = {}

    @property
    def plan(self) -> Schedule:
        """Return the schedule of every rank."""
        return self._plan

    @property
    def name(self) -> str:
        return self.fused.name

    @property
    def mesh(self) -> Mesh:
        return self.fused.mesh

    @property
    def target(self) -> str:
        return self.options.target

    @property
    def fused(self) -> Module:
        """Return the module at stage `fuse`, the last one before the schedule."""
        return self.stages["fuse"]

    @property
    def seconds(self) -> dict[str, float]:
        """Return the compile time of each stage, in seconds."""
        return dict(self._timing.seconds)

    @property
    def passes(self) -> dict[str, PassRecord]:
        """Return a record of each pass, by pass name, in the order in which the passes first ran."""
        return dict(self._timing.passes)

    @cached_property
    def sources(self) -> dict[str, Any]:
        """Return the Triton source of each kernel (`triton_source.KernelSource`), by kernel name.

        Without a GPU target, kernels for which no source can be generated are omitted. With a GPU target, the method
        checks all kernels before it generates any source, and raises CodegenError with all unsupported ones.
        """
        from meshgen.codegen.missing_kernels import require_kernels
        from meshgen.compiled.sources import default_sources

        if self.options.architectures:
            require_kernels([self.plan])
        with self._timing.of("source"):
            return default_sources(self.plan, self.mesh, self.options, self._measured)

    @cached_property
    def _measured(self) -> dict[str, Any]:
        from meshgen.compiled.sources import measured_rows

        return measured_rows(self.plan, self.options)

    @property
    def without_code(self) -> list[str]:
        """Return the names of the kernels without generated code. Their bodies are evaluated with NumPy."""
        return [name for name in self.plan.kernels if name not in self.sources]

    @property
    def measured(self) -> dict[str, dict[str, Any]]:
        """Return the tuning table's record of the measurement, for each kernel whose tile sizes were measured."""
        from meshgen.compiled.sources import provenance

        return provenance(self.sources, self._measured)

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels for the target's architectures, with the best candidate source of each kernel.

        Sets `sources` to the chosen candidates. Raises CodegenError, or MissingError if a tool is missing.
        """
        if not self.options.architectures:
            return
        from meshgen.codegen.building.candidates import build_best_of_each
        from meshgen.compiled.sources import candidate_sources_for, differing

        bodies = {name: self.plan.kernels[name] for name in self.sources}

        def candidates(name: str, arch: str) -> Iterator[Any]:
            return candidate_sources_for(name, arch, self.sources[name], self.plan, self.mesh, self.options)

        report_progress = (lambda done, total, name: progress(f"build {name}", done, total)) if progress else None
        with self._timing.of("build"):
            self._build_warnings = []
            warn = self._build_warnings.append
            chosen_sources, self.built = build_best_of_each(
                bodies, candidates, self.options.architectures, report_progress, warn
            )
            self.sources, self.forms = differing(chosen_sources, self.options.architectures)

    @at_callers_line
    def as_text(self, stage: str = "fuse") -> str:
        """Return the program at a stage as text, which `meshgen opt` reads. Raises UsageError for an unknown stage."""
        from meshgen.mlir.text import print_text

        if not isinstance(cast("Any", stage), str) or stage not in (*self.stages, "schedule"):
            hint = f"the stages are {', '.join(self.stages)}, schedule"
            raise UsageError(Diagnostic("MG0001", f"unknown stage '{stage}'", hint=hint))
        return print_text(self.scheduled() if stage == "schedule" else self.stages[stage])

    def scheduled(self) -> Module:
        """Return the program at stage `schedule` as a module."""
        from meshgen.codegen.scheduling.schedule_stage import scheduled

        return scheduled(self.fused, self.plan)

    def saved(self, resources: Resources) -> dict[str, bytes]:
        """Return no members. `Executable` overrides this method to save its decisions."""
        del resources
        return {}

    def texts(self) -> dict[str, Any]:
        """Return the text of every stage, the saved decisions as a file member, and the large constants by name."""
        from meshgen.mlir.text import print_text

        resources = Resources()
        stages = self.stages | {"schedule": self.scheduled()}
        texts = {stage: print_text(module, resources) for stage, module in stages.items()}
        return {"stages": texts, "decisions": self.saved(resources), "resources": resources.by_name}
