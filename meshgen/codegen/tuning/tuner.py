"""Measurement of candidate forms for the kernels of a module on a device. Kernels with the most predicted time come
first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.tuning.forms import Form, built_forms, candidates, in_place_of, shipped
from meshgen.codegen.tuning.kernel_replacement import Change, key_of
from meshgen.codegen.tuning.keys import kernel_digest, shape_class
from meshgen.codegen.tuning.result_comparison import allowed, differences
from meshgen.codegen.tuning.table import Row
from meshgen.errors import CodegenError, Diagnostic, MissingError, RuntimeFailure
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh
from meshgen.packages import report_request
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.code import runs_on
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.kernel_runner import OneKernel
from meshgen.runtime.cuda.timing import Timer, Timing
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_operands

# Rounds of a measurement. Every form runs once per round, so that clocks and other users of the device affect all forms
# alike.
ROUNDS = 15
# Share of the time that a candidate must save. Measured: medians of `ROUNDS` rounds differ by about 1 % between runs.
LEAST_GAIN = 0.02
SEED = 0  # seed of the random operands, which are the same in every run
Array = np.ndarray[Any, Any]


def _not_used_hint() -> str:
    return f"the candidate is not used; {report_request('the module')}"


@dataclass(frozen=True)
class Bench:
    """The device and the settings of a measurement.

    Attributes:
        api: the driver API of the device.
        timer_of: returns the timer for a kernel with this body on a device.
        seconds: the time budget, after which no kernel is started.
        candidates: most candidates per kernel.
        rounds: samples of each candidate.
        clock: returns the seconds since an arbitrary moment.
    """

    api: Api
    timer_of: Callable[[Device, Graph], Timer]
    seconds: float = 300.0
    candidates: int = 16
    rounds: int = ROUNDS
    clock: Callable[[], float] = time.monotonic

    def name_and_capability(self) -> tuple[str, tuple[int, int]]:
        """Return the name of the device, as reported by the driver, and its compute capability."""
        device = Device(self.api, 0)
        name = bytes(self.api.cuda("cuDeviceGetName", 256, self.api.cuda("cuDeviceGet", 0)))
        capability = device.capability
        device.close()
        return name.split(b"\0")[0].decode(errors="replace"), capability


@dataclass(frozen=True)
class Measured:
    """The measurement of one kernel.

    Attributes:
        module: digest of the manifest of the kernel's module.
        kernel: the name of the kernel.
        change: the kernel's change in the module, or None if nothing was measured.
        row: the kernel's row in a table, or None if the kernel has no tile to record.
        others: number of candidates that were compared with the shipped form.
        warnings: MG0612, for each candidate with results that differ from the shipped form's.
    """

    module: str
    kernel: str
    change: Change | None
    row: Row | None
    others: int
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class Job:
    """A kernel of a module to measure, with the predicted seconds that its launches take in a step."""

    module: LoadedModule
    name: str
    arch: str
    seconds: float


def jobs_of(modules: Sequence[LoadedModule], capability: tuple[int, int]) -> list[Job]:
    """Return the kernels of modules with code for a device, the longest predicted time first.

    Raises MissingError MG0602 if there are none.
    """
    jobs: list[Job] = []
    for module in modules:
        launches = module.schedule.launch_counts()
        for name, kernel in module.manifest.kernels.items():
            archs = [arch for arch in kernel.binaries if runs_on(arch, capability)]
            if archs and 0 not in kernel.grid:
                arch = max(archs)
                jobs.append(
                    Job(module, name, arch, launches[name] * kernel_seconds(module.schedule.kernels[name], arch))
                )
    if not jobs:
        target = f"sm_{capability[0]}{capability[1]}"
        hint = f"compile it with --target cuda:{target}"
        raise MissingError(Diagnostic("MG0602", f"no kernel of the module is compiled for {target}", hint=hint))
    return sorted(jobs, key=lambda job: -job.seconds)


def measure(modules: Sequence[LoadedModule], bench: Bench) -> Iterator[Measured]:
    """Yield the measurement of each kernel until the time budget is spent. Raises the same errors as `jobs_of`, and
    RuntimeFailure.
    """
    began = bench.clock()
    device, capability = bench.name_and_capability()
    for job in jobs_of(modules, capability):
        if bench.clock() - began >= bench.seconds:
            return
        yield _Measurement(job, bench, device).run()


class _Measurement:
    """Measures the forms of one kernel."""

    def __init__(self, job: Job, bench: Bench, device: str) -> None:
        self.job, self.bench, self.device = job, bench, device
        self.body = job.module.schedule.kernels[job.name]
        mesh = job.module.mesh
        self.mesh: Mesh = mesh.with_sizes({axis.name: 1 for axis in mesh.axes if axis.size is None})
        self.warnings: list[Diagnostic] = []

    def run(self) -> Measured:
        job, key = self.job, key_of(self.job.module.members)
        forms = self._forms()
        if len(forms) < 2:
            return Measured(key, job.name, None, None, 0)
        timings = self._on_device(forms)
        best, form = self._best(forms, timings)
        row = self._row(forms[best], timings[best], timings[0])
        change = Change(form, row.provenance)
        candidate_count = len(timings) - 1
        return Measured(key, job.name, change, row if row.tile else None, candidate_count, tuple(self.warnings))

    def _forms(self) -> list[Form]:
        """Return the shipped form, followed by the forms of the other candidates."""
        job = self.job
        try:
            sources = candidates(job.name, self.body, job.module.mesh, job.arch, self.bench.candidates)
        # The shipped form remains if this version of meshgen cannot generate the kernel of a module from another
        # version.
        except CodegenError:
            sources = []
        shipped_form = shipped(job.module, job.name, job.arch, sources)
        other_sources = [source for source in sources if source is not shipped_form.source]
        return [shipped_form, *built_forms(job.name, self.body, other_sources, job.arch)]

    def _on_device(self, forms: Sequence[Form]) -> dict[int, Timing]:
        """Return the median time of each form with the same results as the shipped form, by the position of the form in
        `forms`.
        """
        job, rank = self.job, self.mesh.size - 1
        operands = random_operands(self.body, [SEED])
        launched = next(
            launch_of_step
            for launch_of_step in job.module.schedule.launches()
            if launch_of_step.item.kernel == job.name
        )
        with OneKernel(self.bench.api, self.mesh, launched.plan, launched.item, operands) as kernel:
            launches = {
                n: launch for n, form in enumerate(forms) if (launch := kernel.launch(form.kernel, form.member))
            }
            expected = kernel.results(launches[0])
            bounds = allowed(self.body, self.mesh, rank, operands, expected)
            for i in [*launches][1:]:
                if texts := list(differences(self._results(kernel, launches[i], forms[i]), expected, bounds)):
                    self.warnings.append(
                        Diagnostic("MG0612", self._text(forms[i], "; ".join(texts)), hint=_not_used_hint())
                    )
                    del launches[i]
            return self._medians(self.bench.timer_of(kernel.device, self.body), launches)

    def _results(self, kernel: OneKernel, launch: Launch, form: Form) -> list[Array]:
        """Return the results of a candidate.

        Raises RuntimeFailure with the tile if the candidate faults, because the device is unusable after a fault.
        """
        try:
            return kernel.results(launch)
        except RuntimeFailure as failure:
            why = failure.diagnostics[0]
            text = self._text(form, why.message)
            raise RuntimeFailure(Diagnostic(why.code, text, why.loc, why.notes, hint=_not_used_hint())) from failure

    def _text(self, form: Form, problem: str) -> str:
        assert form.source, "only candidates are reported"
        return f"kernel '{self.job.name}' with tile {form.source.tile} on {self.device}: {problem}"

    def _medians(self, timer: Timer, launches: Mapping[int, Launch]) -> dict[int, Timing]:
        """Return the median time of each launch. Each round runs all launches, starting with a different one."""
        samples: dict[int, list[Timing]] = {number: [] for number in launches}
        numbers = [*launches]
        for round_number in range(self.bench.rounds):
            first = round_number % len(numbers)
            for number in numbers[first:] + numbers[:first]:
                samples[number].append(timer.seconds(launches[number]))
        return {
            number: Timing(
                *(statistics.median(getattr(sample, side) for sample in timings) for side in ("warm", "cold"))
            )
            for number, timings in samples.items()
        }

    def _best(self, forms: Sequence[Form], timings: Mapping[int, Timing]) -> tuple[int, Form | None]:
        """Return the position of the fastest form in `forms`, and the kernel with this form for the device's
        architecture.

        Returns 0 and None if the shipped form stays.
        """
        least = (1 - LEAST_GAIN) * timings[0].seconds
        faster = [number for number in timings if number and timings[number].seconds < least]
        best = min(faster, key=lambda number: timings[number].seconds, default=0)
        return best, in_place_of(forms[0], forms[best], self.job.name, self.job.arch) if best else None

    def _row(self, form: Form, timing: Timing, before: Timing) -> Row:
        tile = form.source.tile if form.source else {}
        return Row(
            kernel_digest(self.body), shape_class(self.body), self.device, self.job.arch, form.kernel.template, tile,
            timing.warm, timing.cold, before.seconds, self.bench.rounds,
        )  # fmt: skip
