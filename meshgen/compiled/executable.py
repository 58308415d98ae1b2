"""A compiled program on one mesh: its costs and reasons, and methods to run, save and explain it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.calls.argument_tree import Slot
from meshgen.calls.arguments import bound_arrays, fitting, weight_arrays
from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature, signature_of
from meshgen.compiled.program import CompiledProgram
from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.comms import Comms, comms_of
from meshgen.reports.cost import Cost, cost_of
from meshgen.reports.memory import Memory, memory_of
from meshgen.reports.overlap import overlap_of
from meshgen.reports.program_record import program_record
from meshgen.runtime.module_file.resources import Resources
from meshgen.runtime.open_program import Shapes
from meshgen.runtime.sessions.weights import Weights, weights_by_name
from meshgen.runtime.sizes import Given, bound
from meshgen.sizes.program import input_names

if TYPE_CHECKING:
    from meshgen.reports.gathers import Gather
    from meshgen.sharding.analyze import Analysis, Volume
    from meshgen.sharding.arithmetic import Work

Array = np.ndarray[Any, Any]


class Executable(CompiledProgram):
    """A compiled program at stage `schedule`; `compile` returns it.

    A call runs one step on all ranks, simulated with NumPy. Arguments and results are global arrays.
    """

    @property
    def parts(self) -> tuple[Executable, ...]:
        """Return one executable per mesh. A program on one mesh has itself as the only part."""
        return (self,)

    @property
    def place(self) -> str:
        """Return the mesh as text, for display."""
        return str(self.mesh)

    @cached_property
    def signature(self) -> Signature:
        """Return the signature of the program: the parameters and results as callers see them."""
        return self._signature or signature_of(input_names(self.fused.graph))

    def ordered(self, arrays: Mapping[str, Array]) -> list[Array]:
        """Return the arrays in the order of the inputs. Raises ArgumentError MG0601 for arrays of other types."""
        return fitting(arrays, input_names(self.fused.graph), self.fused.in_types)

    overlap = cached_property(overlap_of)

    def started(self, number: int = 0) -> list[float]:
        """Return the start time of each schedule item in a step, in seconds. `number` is the index of a part."""
        del number
        return [item.start for item in self.plan.items]

    def busy_seconds(self, number: int) -> float:
        """Return the seconds per step in which a device of part `number` computes or communicates instead of waiting."""
        starts, items = self.started(number), self.parts[number].plan.items
        busy, end = 0.0, 0.0
        for start, seconds in sorted((start, item.seconds) for start, item in zip(starts, items, strict=True)):
            busy += max(0.0, start + seconds - max(start, end))
            end = max(end, start + seconds)
        return busy

    @cached_property
    def comms(self) -> Comms:
        """Return the collectives of a step in execution order, each with the reason for it."""
        return comms_of(self.plan, self.mesh)

    @cached_property
    def memory(self) -> Memory:
        """Return the memory report: the peak of the device memory per rank, and the largest buffers."""
        return memory_of(self.plan)

    @cached_property
    def cost(self) -> Cost:
        """Return floating-point operations, bytes moved and predicted times, per device and step."""
        from meshgen.codegen.scheduling.schedule import unlimited
        from meshgen.codegen.targets import predicted_on
        from meshgen.ops.flops import graph_flops

        redundant = None if self.work is None else sum(work.redundant for work in self.work)
        flops = {name: graph_flops(body) for name, body in self.plan.kernels.items()}
        target, _ = predicted_on(self.target, None, self.mesh)
        return cost_of(self.plan, self.comms, flops, redundant, unlimited(self.fused, target))

    @cached_property
    def work(self) -> tuple[Work, ...] | None:
        """Return the arithmetic work of each op before partitioning, or None if the earlier stages are not available."""
        from meshgen.sharding.analyze import work_in

        return work_in(self.stages)

    @cached_property
    def analysis(self) -> Analysis | None:
        """Return traffic, memory and work before partitioning, or None if the earlier stages are not available."""
        from meshgen.sharding.analyze import analyze

        module = self.stages.get("optimize") or self.stages.get("materialize")
        return analyze(module) if module else None

    @cached_property
    def volume(self) -> Volume | None:
        """Return the bytes that the final program moves, as formulas in device counts, open sizes and trip counts."""
        from meshgen.sharding.local_volume import local_volume

        return local_volume(self.stages, self.options.skip)

    def record(self) -> dict[str, Any]:
        """Return the JSON document of `explain --json`."""
        return program_record(self)

    @at_callers_line
    def at(self, mesh: Given = None, args: Shapes = None) -> Executable:
        """Return this executable itself, because the program has no open sizes.

        Raises ShardingError if `mesh` contradicts the program's mesh.
        """
        bound([part.mesh for part in self.parts], mesh)
        return self

    @at_callers_line
    def explain(self, what: str | int | None = None, *, verbose: bool = False) -> str:
        """Return a step's figures and collectives by cause, or the reasons for a value or source line, as text.

        Args:
            what: the name of a value or the number of a source line. By default the report covers the entire program.
            verbose: whether to list each collective in IR notation.
        """
        from meshgen.reports.explain import explain

        return explain(self, self._question(what), verbose=verbose)

    @at_callers_line
    def show(self, what: str | int | None = None) -> str:
        """Return a text picture: the timeline of a step, or how values are split into tiles.

        Args:
            what: the name of a value, or the number of a source line (all values of the line). By default the timeline.

        `mg.show` draws any sharding.
        """
        from meshgen.reports.explain import shown

        return shown(self, self._question(what))

    def _question(self, what: Any) -> Any:
        """Check the argument of `explain`: a value or line. An input is translated to the input's name in the program.

        Raises UsageError for anything else.
        """
        if what is not None and not isinstance(what, (str, int)):
            hint = "give the name of a value, or the number of a line"
            raise UsageError(Diagnostic("MG0001", f"{what!r:.60} is neither a value nor a line", hint=hint))
        node = self.signature.node(what) if isinstance(what, str) else None
        return node.name if isinstance(node, Slot) and node.number is not None else what

    def tree(self) -> str:
        """Return the collectives as a text tree, below the operations and the reshards that they belong to."""
        from meshgen.reports.comms_tree import comms_tree, tree_text

        return tree_text(comms_tree(self), self.comms)

    def gathers(self) -> list[Gather]:
        """Return the values that are gathered although no annotation replicates them, largest traffic first."""
        from meshgen.reports.gathers import gathers

        return gathers(self)

    @property
    def warnings(self) -> list[Diagnostic]:
        """Return the warnings about the program, as diagnostics with codes."""
        return [*(self._signature.warnings if self._signature else ()), *self._found_warnings]

    @cached_property
    def _found_warnings(self) -> list[Diagnostic]:
        from meshgen.reports.warnings import warnings_of

        return warnings_of(self)

    @property
    def build_warnings(self) -> list[Diagnostic]:
        """Return the warnings about the build environment, such as an unusable kernel cache. Modules do not store them."""
        return list(dict.fromkeys(warning for part in self.parts for warning in part._build_warnings))

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with collectives, kernels, memory and the predicted timeline. Raises UsageError MG0003."""
        from meshgen.reports.report import write_report

        write_report(self, path)

    @at_callers_line
    def save(self, path: str | Path, weights: Weights = None) -> None:
        """Write the deployable module, with every stage, kernel source and binary.

        Args:
            weights: global arrays of inputs that the module stores, so that callers do not pass them. Default: the
                program's own weights. Arrays are given by name or in structures: `{"params": {"w1": w1}}` is
                `{"params.w1": w1}`. Safetensors files are given as a path, several paths, or a folder.
        Raises:
            UsageError: MG0003, the file cannot be written.
            ArgumentError: MG0601, weights do not fit the inputs.
        """
        from meshgen.runtime.module_file import container

        chosen = weights_by_name(self.signature.weights if weights is None else weights)
        container.write(container.path_of(path), self.members(weight_arrays(self.signature, chosen)))

    def saved(self, resources: Resources) -> dict[str, bytes]:
        """Return the module member with the decisions (`saved_decisions.py`). Large arrays are added to `resources` instead."""
        from meshgen.compiled.saved_decisions import saved_member

        return saved_member(self, resources)

    def members(self, weights: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """Return the members of the module file. Raises ArgumentError MG0601 for weights that do not fit the inputs."""
        from meshgen.codegen.packaging.package import module_members

        return module_members(self.fused, self.plan, **self.contents(), weights=weights, call=self._signature)[0]

    def contents(self) -> dict[str, Any]:
        """Return the contents of a module file except the plan: sources, binaries, stages and the report."""
        from meshgen.reports.plan_record import packaged_record

        report = packaged_record(self) | ({"kernels_without_code": code} if (code := self.without_code) else {})
        report |= {"tuning": measured} if (measured := self.measured) else {}
        return {"sources": self.sources, "forms": self.forms, "built": self.built, "report": report} | self.texts()

    @at_callers_line
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step on all simulated ranks.

        The arguments are global arrays in the structure of the function's parameters, by position or name. Leaves of
        dicts are bound by key.

        Returns:
            The result structure of the function, or one array or a tuple of arrays if the structure is unknown.
        Raises:
            ArgumentError: MG0601, arguments do not fit.
        """
        from meshgen.runtime.simulate import simulate

        types = dict(zip(input_names(self.fused.graph), self.fused.in_types, strict=True))
        arrays = bound_arrays(self.signature, types, args, kwargs)
        return self.signature.results(simulate(self.fused, self.ordered(arrays)), (args, kwargs))

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from meshgen.reports.report import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        return f"Executable({self.name!r}, {self.place}, target={self.target!r}, {self.cost.kernels} kernels, {self.comms.runs} collectives)"
