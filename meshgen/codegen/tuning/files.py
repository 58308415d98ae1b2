"""Tuning a module's file: what was measured is kept whatever happens, and the file is always a whole module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.tuning.rewrite import Change, modules_of, with_forms
from meshgen.codegen.tuning.table import TuningTable, read_table
from meshgen.codegen.tuning.tuner import Bench, Measured, measure
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Graph
from meshgen.runtime.cuda.api import emulated, real
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.timing import EventTimer, Timing
from meshgen.runtime.emulation import first_arch
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import SIGNATURE, Held, Members
from meshgen.runtime.signatures import signed


class PredictedTimer:
    """The model's time of a kernel, which is that of all its forms: none is faster than the shipped one."""

    def __init__(self, device: Device, body: Graph) -> None:
        major, minor = device.capability
        self._seconds = kernel_seconds(body, f"sm_{major}{minor}")

    def seconds(self, launch: Launch) -> Timing:
        del launch
        return Timing(self._seconds, self._seconds)


def on_gpu(seconds: float, candidates: int) -> Bench:
    """The first GPU of this machine. Raises MissingError MG0602, MG0603."""
    return Bench(real(1), lambda device, _: EventTimer(device), seconds, candidates)


def on_emulated(members: Members, seconds: float, candidates: int) -> Bench:
    """An emulated GPU for a module: candidates are compared with what was shipped, and have no times of their own."""
    archs = (first_arch(module.manifest.kernels) for module in modules_of(members))
    arch = next(filter(None, archs), "sm_90")  # without any, measuring raises what is missing
    return Bench(emulated(1, arch), PredictedTimer, seconds, candidates, rounds=1)


def tune_file(members: Members, bench: Bench, tell: Callable[[Measured], object], *, output: Path | None,
              table: Path | None = None, key: Path | None = None) -> list[Measured]:  # fmt: skip
    """Measure the kernels of a module; write it with the best candidates, and the table with their rows.

    The table is written after each kernel, the module at the end, also where measuring fails or is interrupted.

    Args:
        tell: called with what is found for each kernel.
        output: path of the written module; None: nothing is written.
        table: a file that rows are put into, in place of those with their keys.
        key: a PEM file with the private key that signs the module again.
    Raises:
        UsageError: MG0001, the module is signed, and `key` is missing; MG0002, MG0003, MG0007, of files.
        MissingError: MG0602, no kernel has code for the device.
        RuntimeFailure: MG0604, MG0608.
    """
    if output and SIGNATURE in members and not key:
        hint = "--key PEM signs it again"
        raise UsageError(
            Diagnostic("MG0001", f"'{members.path}' is signed, and no signature fits a changed module", hint=hint)
        )
    if key:
        signed(members, key)  # an unusable key is refused before anything is measured
    for place in filter(None, (output, table)):
        container.refuse_place(place)
    rows = read_table(table) if table and table.exists() else TuningTable()
    found: list[Measured] = []
    try:
        for each in measure(list(modules_of(members)), bench):
            found.append(each)
            tell(each)
            if table and each.row:
                rows = rows.with_rows([each.row])
                rows.write(table)
    finally:
        if output:
            _write(members, found, output, key)
    return found


def _write(members: Members, found: Sequence[Measured], output: Path, key: Path | None) -> None:
    changes: dict[str, dict[str, Change]] = {}
    for each in found:
        if each.change:
            changes.setdefault(each.module, {})[each.kernel] = each.change
    changed = with_forms(members, changes)
    container.write(output, signed(Held(members.path, changed), key)[0] if key else changed)
