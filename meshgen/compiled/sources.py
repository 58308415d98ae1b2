"""The Triton source of each kernel of a program. Measured tile sizes are used if the tuning table has them."""

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
    """Return the architecture whose tuning results are used: the first GPU of the target, or sm_90."""
    return options.architectures[0] if options.architectures else "sm_90"


def measured_rows(plan: Schedule, options: Options) -> dict[str, Row]:
    """Return the tuning table's row for each kernel, by kernel name. Kernels without a row are omitted."""
    if options.tuning is None:
        return {}
    rows = {name: options.tuning.find(body, gpu_of(options)) for name, body in plan.kernels.items()}
    return {name: row for name, row in rows.items() if row}


def default_sources(plan: Schedule, mesh: Mesh, options: Options, rows: Mapping[str, Row]) -> dict[str, KernelSource]:
    """Return the first candidate source of each kernel.

    Without a GPU target, kernels for which no source can be generated are omitted. With a GPU target, the function
    raises CodegenError.
    """
    sources: dict[str, KernelSource] = {}
    diagnostics: list[Diagnostic] = []
    for name, body in plan.kernels.items():
        try:
            sources[name] = next(candidate_sources(name, body, mesh, f"cuda:{gpu_of(options)}", _tile(rows, name)))
        except CodegenError as error:
            diagnostics += error.diagnostics
    if diagnostics and options.architectures:
        raise CodegenError(*grouped(diagnostics))
    return sources


def candidate_sources_for(name: str, arch: str, first: KernelSource, plan: Schedule, mesh: Mesh, options: Options) -> Iterator[KernelSource]:  # fmt: skip
    """Yield the candidate sources of a kernel for architecture `arch`.

    `first` is the first candidate for architecture `gpu_of(options)`; it is reused instead of generated again.
    """
    body = plan.kernels[name]
    row = options.tuning.find(body, arch) if options.tuning else None
    sources = candidate_sources(name, body, mesh, f"cuda:{arch}", row.tile if row else None)
    return chain([first], islice(sources, 1, None)) if arch == gpu_of(options) else sources


def differing(sources: Mapping[tuple[str, str], KernelSource], archs: Sequence[str]) -> tuple[dict[str, KernelSource], dict[tuple[str, str], KernelSource]]:  # fmt: skip
    """Return the source of each kernel for the first architecture, and the sources of other architectures that differ.

    The keys are kernel names, and (kernel, architecture) pairs.
    """
    first = {name: source for (name, arch), source in sources.items() if arch == archs[0]}
    return first, {key: source for key, source in sources.items() if _form(source) != _form(first[key[0]])}


def _form(source: KernelSource) -> tuple[object, ...]:
    return source.text, source.grid, source.constants, source.num_warps, source.num_stages


def _tile(rows: Mapping[str, Row], name: str) -> Mapping[str, Any] | None:
    return rows[name].tile if name in rows else None


def provenance(sources: Mapping[str, KernelSource], rows: Mapping[str, Row]) -> dict[str, dict[str, Any]]:
    """Return the provenance of the tile sizes of each kernel with measured tiles, for a module's report."""
    return {name: rows[name].provenance for name, source in sources.items() if source.is_measured}
