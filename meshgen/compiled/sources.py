"""The source of each kernel of a program, with tiles that were measured where a table has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from meshgen.codegen.building.candidates import candidate_sources
from meshgen.codegen.triton_source import KernelSource
from meshgen.codegen.tuning.table import Row
from meshgen.errors import CodegenError, Diagnostic, grouped
from meshgen.mesh import Mesh
from meshgen.pipeline import Options
from meshgen.runtime.plan import Schedule


def gpu_of(options: Options) -> str:
    """The architecture that kernels are tuned for: the first of the target."""
    return options.architectures[0] if options.architectures else "sm_90"


def measured_rows(plan: Schedule, options: Options) -> dict[str, Row]:
    """By kernel the row of the table of measured tiles, of those that have one."""
    if options.tuning is None:
        return {}
    rows = {name: options.tuning.find(body, gpu_of(options)) for name, body in plan.kernels.items()}
    return {name: row for name, row in rows.items() if row}


def first_sources(plan: Schedule, mesh: Mesh, options: Options, rows: Mapping[str, Row]) -> dict[str, KernelSource]:
    """Of each kernel the first candidate. Without a GPU among the targets some may have none; with one, raises CodegenError."""
    found: dict[str, KernelSource] = {}
    refused: list[Diagnostic] = []
    for name, body in plan.kernels.items():
        try:
            found[name] = next(candidate_sources(name, body, mesh, f"cuda:{gpu_of(options)}", _tile(rows, name)))
        except CodegenError as error:
            refused += error.diagnostics
    if refused and options.architectures:
        raise CodegenError(*grouped(refused))
    return found


def all_sources(name: str, arch: str, first: KernelSource, plan: Schedule, mesh: Mesh, options: Options) -> Iterator[KernelSource]:  # fmt: skip
    """The candidates of a kernel for an architecture; `first` is the first one for that which kernels are tuned for."""
    body = plan.kernels[name]
    row = options.tuning.find(body, arch) if options.tuning else None
    sources = candidate_sources(name, body, mesh, f"cuda:{arch}", row.tile if row else None)
    return chain([first], islice(sources, 1, None)) if arch == gpu_of(options) else sources


def differing(sources: Mapping[tuple[str, str], KernelSource], archs: Sequence[str]) -> tuple[dict[str, KernelSource], dict[tuple[str, str], KernelSource]]:  # fmt: skip
    """Of sources by kernel and architecture those for the first one, and those for others that are not the same."""
    first = {name: source for (name, arch), source in sources.items() if arch == archs[0]}
    return first, {key: source for key, source in sources.items() if _form(source) != _form(first[key[0]])}


def _form(source: KernelSource) -> tuple[object, ...]:
    return source.text, source.grid, source.constants, source.num_warps, source.num_stages


def _tile(rows: Mapping[str, Row], name: str) -> Mapping[str, Any] | None:
    return rows[name].tile if name in rows else None


def provenance(sources: Mapping[str, KernelSource], rows: Mapping[str, Row]) -> dict[str, dict[str, Any]]:
    """What a module's report says of the kernels whose tiles were measured."""
    return {name: rows[name].provenance for name, source in sources.items() if source.is_measured}
