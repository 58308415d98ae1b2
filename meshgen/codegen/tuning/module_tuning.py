"""Tuning of a module file. Measurements are saved even if tuning fails, and the written file is always a complete
module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.tuning.kernel_replacement import Change, modules_of, with_forms
from meshgen.codegen.tuning.table import TuningTable, read_table
from meshgen.codegen.tuning.tuner import Bench, Measured, measure
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Graph
from meshgen.runtime.cuda.api import emulated, real
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.timing import EventTimer, Timing
from meshgen.runtime.emulation_options import first_arch
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import SIGNATURE, Held, Members
from meshgen.runtime.signatures import signed


class PredictedTimer:
    """A timer that returns the same predicted time for every form of a kernel. Tuning then keeps the shipped form."""

    def __init__(self, device: Device, body: Graph) -> None:
        major, minor = device.capability
        self._seconds = kernel_seconds(body, f"sm_{major}{minor}")

    def seconds(self, launch: Launch) -> Timing:
        del launch
        return Timing(self._seconds, self._seconds)


def on_gpu(seconds: float, candidates: int) -> Bench:
    """Return a bench on the first GPU of this machine. Raises MissingError MG0602 or MG0603 if no GPU can be used."""
    return Bench(real(1), lambda device, _: EventTimer(device), seconds, candidates)


def on_emulated(members: Members, seconds: float, candidates: int) -> Bench:
    """Return a bench on an emulated GPU for a module. It compares the results of candidates, but all have the same
    time.
    """
    archs = (first_arch(module.manifest.kernels) for module in modules_of(members))
    arch = next(filter(None, archs), "sm_90")  # Without any architecture, `measure` raises the error.
    return Bench(emulated(1, arch), PredictedTimer, seconds, candidates, rounds=1)


def tune_file(members: Members, bench: Bench, tell: Callable[[Measured], object], *, output: Path | None,
              table: Path | None = None, key: Path | None = None) -> list[Measured]:  # fmt: skip
    """Measure the kernels of a module, then write the module with the best candidates, and a table with their rows.

    The table is written after each kernel. The module is written at the end, even if the measurement fails or is
    interrupted.

    Args:
        tell: called with the measurement of each kernel.
        output: path of the written module, or None to write no module.
        table: a file to which rows are added. They replace rows with the same keys.
        key: a PEM file with the private key that signs the module again.
    Raises:
        UsageError: MG0001, the module is signed, and `key` is missing; MG0002, MG0003, MG0007, of files.
        MissingError: MG0602, no kernel has code for the device.
        RuntimeFailure: MG0604, MG0608.
    """
    if output and SIGNATURE in members and not key:
        hint = "--key PEM signs it again"
        raise UsageError(
            Diagnostic("MG0001", f"'{members.path}' is signed, and tuning would invalidate its signature", hint=hint)
        )
    if key:
        signed(members, key)  # Reject an unusable key before measuring.
    for path in filter(None, (output, table)):
        container.require_writable(path)
    rows = read_table(table) if table and table.exists() else TuningTable()
    measurements: list[Measured] = []
    try:
        for measurement in measure(list(modules_of(members)), bench):
            measurements.append(measurement)
            tell(measurement)
            if table and measurement.row:
                rows = rows.with_rows([measurement.row])
                rows.write(table)
    finally:
        if output:
            _write(members, measurements, output, key)
    return measurements


def _write(members: Members, measurements: Sequence[Measured], output: Path, key: Path | None) -> None:
    changes: dict[str, dict[str, Change]] = {}
    for measurement in measurements:
        if measurement.change:
            changes.setdefault(measurement.module, {})[measurement.kernel] = measurement.change
    changed = with_forms(members, changes)
    container.write(output, signed(Held(members.path, changed), key)[0] if key else changed)
