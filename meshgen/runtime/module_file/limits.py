"""Limits of a module, far above the counts of real programs. They bound the loader's work on forged files.

The checks take time linear in these counts, so any file is rejected or loaded within seconds.
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
    "launches": 1 << 17,  # items of the schedule: the body of a loop counts once, the body of a scan once per iteration
    "buffers": 1 << 18,
    "operations in kernels": 1 << 20,
    "iterations of nested loops": 1 << 62,
    "specializations": 1 << 12,
    "entries": 1 << 8,
}


def over(word: str, count: int) -> Iterator[str]:
    """Yield an error message if `count` exceeds the limit on the number of `word` (for example "inputs") in a module."""
    if count > LIMITS[word]:
        yield f"it has {count:,} {word}; the limit is {LIMITS[word]:,}"


def faults(manifest: Manifest) -> Iterator[str]:
    """Yield an error message for each limit that a single-mesh module exceeds."""
    plans = list(_plans(manifest.plan, 1))
    counts = {
        "mesh axes": len(manifest.mesh.axes),
        "inputs": len(manifest.inputs),
        "outputs": len(manifest.outputs),
        "kernels": len(manifest.kernels),
        "launches": _launch_count(manifest.plan),
        "buffers": sum(len(plan.buffers) for plan, _ in plans),
        "operations in kernels": sum(1 for body in manifest.plan.kernels.values() for _ in all_nodes(body)),
        "iterations of nested loops": max(times for _, times in plans),
    }
    for word, count in counts.items():
        yield from over(word, count)
    bindings = (*manifest.inputs, *manifest.outputs)
    yield from name_faults([manifest.name, *manifest.mesh.names, *(binding.name for binding in bindings)])


def name_faults(names: Iterable[str]) -> Iterator[str]:
    """Yield an error message for each name that has control characters or is too long."""
    for name in names:
        if len(name) > MAX_NAME or not is_plain(name):
            yield f"the name {shown(name)} has control characters, or more than {MAX_NAME} characters"


def open_faults(program: OpenProgram) -> Iterator[str]:
    """Yield an error message for each limit that a module with open sizes exceeds.

    Its specializations are checked on load.
    """
    yield from over("specializations", len(program.held))
    yield from over("inputs", len(program.inputs))
    yield from over("outputs", len(program.outputs))


def require_readable(name: str, document: bytes, read: Callable[[Any], object]) -> None:
    """Raise ModuleError MG0504 if `read` rejects `document`, the manifest of a module that is about to be written."""
    try:
        read(read_json(document))
    except ValueError as error:
        raise beyond(name, str(error)[:300]) from error
    except MeshgenError as error:
        raise beyond(name, error.diagnostics[0].message) from error


def _launch_count(plan: Schedule) -> int:
    """Return the number of items in a schedule and its regions. The body of a scan counts once per iteration."""
    inner = ((item.times if is_scan(item) else 1, region) for item in plan.items for region in item.regions)
    return len(plan.items) + sum(times * _launch_count(region) for times, region in inner)


def _plans(plan: Schedule, times: int) -> Iterator[tuple[Schedule, int]]:
    """Yield a schedule and the schedules of all nested regions, each with the number of times that it runs in a step."""
    yield plan, times
    for item in plan.items:
        for region in item.regions:
            yield from _plans(region, times * item.times)


def beyond(path: Path | str, fault: str) -> ModuleError:
    """Return the error for a module that exceeds a limit. Used when a module is written and when it is read."""
    return ModuleError(Diagnostic("MG0504", f"'{path}' exceeds the limits of a module: {fault}"))
