"""Limits of a module, far above those of real programs: they bound the loader's work for forged files.

Checks take time linear in these counts, so a file within them is refused or loaded in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, MeshgenError, ModuleError
from meshgen.ir.predicates import is_scan
from meshgen.ir.regions import all_nodes
from meshgen.printable import is_plain
from meshgen.runtime.module_file.json_values import MAX_NAME, read_json, shown
from meshgen.runtime.module_file.manifest import Manifest
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.plan import Schedule

LIMITS = {
    "mesh axes": 1 << 10,
    "meshes": 1 << 8,
    "inputs": 1 << 16,
    "outputs": 1 << 16,
    "kernels": 1 << 16,
    "launches": 1 << 17,  # static items of the schedule, those of loops once, those of scans at each trip
    "buffers": 1 << 18,
    "operations in kernels": 1 << 20,
    "trips of nested loops": 1 << 62,
    "specialisations": 1 << 12,
    "entries": 1 << 8,
}


def over(word: str, count: int) -> Iterator[str]:
    """The fault of a count; None within the limit."""
    if count > LIMITS[word]:
        yield f"it has {count:,} {word}; the limit is {LIMITS[word]:,}"


def faults(manifest: Manifest) -> Iterator[str]:
    """Every limit that a module of one mesh exceeds."""
    plans = list(_plans(manifest.plan, 1))
    counts = {
        "mesh axes": len(manifest.mesh.axes),
        "inputs": len(manifest.inputs),
        "outputs": len(manifest.outputs),
        "kernels": len(manifest.kernels),
        "launches": _launches(manifest.plan),
        "buffers": sum(len(plan.buffers) for plan, _ in plans),
        "operations in kernels": sum(1 for body in manifest.plan.kernels.values() for _ in all_nodes(body)),
        "trips of nested loops": max(times for _, times in plans),
    }
    for word, count in counts.items():
        yield from over(word, count)
    bindings = (*manifest.inputs, *manifest.outputs)
    yield from name_faults([manifest.name, *manifest.mesh.names, *(binding.name for binding in bindings)])


def name_faults(names: Iterable[str]) -> Iterator[str]:
    """Names with control characters, or that are too long."""
    for name in names:
        if len(name) > MAX_NAME or not is_plain(name):
            yield f"the name {shown(name)} has control characters, or more than {MAX_NAME} characters"


def open_faults(program: OpenProgram) -> Iterator[str]:
    """Every limit that a module with open sizes exceeds, apart from its specialisations."""
    yield from over("specialisations", len(program.held))
    yield from over("inputs", len(program.inputs))
    yield from over("outputs", len(program.outputs))


def refuse_unreadable(name: str, document: bytes, read: Callable[[Any], object]) -> None:
    """Raise ModuleError MG0504 for a written manifest that `read` would refuse."""
    try:
        read(read_json(document))
    except ValueError as error:
        raise beyond(name, str(error)[:300]) from error
    except MeshgenError as error:
        raise beyond(name, error.diagnostics[0].message) from error


def _launches(plan: Schedule) -> int:
    """The items of a step and of the regions in it, those of scans at each trip."""
    inner = ((item.times if is_scan(item) else 1, region) for item in plan.items for region in item.regions)
    return len(plan.items) + sum(times * _launches(region) for times, region in inner)


def _plans(plan: Schedule, times: int) -> Iterator[tuple[Schedule, int]]:
    """A step and those of its regions, each with how often it runs."""
    yield plan, times
    for item in plan.items:
        for region in item.regions:
            yield from _plans(region, times * item.times)


def beyond(path: Path | str, fault: str) -> ModuleError:
    """The error for a module that is too large, when it is written and when it is read."""
    return ModuleError(Diagnostic("MG0504", f"'{path}' exceeds the limits of a module: {fault}"))
