"""Choice of the candidate (tile) to ship for each kernel: the first candidate whose build has no fault.

Candidates are built in the order of `candidate_sources`: first the measured tile, then by predicted time. A measured
tile may spill registers, because its measured time includes the spills.

The register use of a tile is known only after it is built with its epilogue. Further candidates are built only for a
kernel with a fault: it spills registers, exceeds a device limit, or does not use tensor cores or asynchronous copies
although its GEMMs could. If all candidates have faults, the candidate with the fewest spills is shipped or, among
equals, the one that misses the fewest of these instructions. Candidates that do not compile are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from meshgen.codegen.building.built_kernel import BuiltKernel
from meshgen.codegen.triton_source import KernelSource, kernel_sources
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph
from meshgen.kernels.architectures import tensor_cores
from meshgen.mesh import Mesh
from meshgen.ops.classes import PRODUCTS
from meshgen.ops.dot_dims import is_depthwise

if TYPE_CHECKING:
    from meshgen.codegen.building.build import Progress

WARPS_OF_A_BLOCK = (1, 2, 4, 8, 16, 32)  # warps per block that are tried, up to the limit of 1,024 threads per block
# The field of a measured tile that holds the number of warps, for kernels of which only this number was tuned.
_WARPS = "warps"
_MAX_WARPS = 16  # most warps per block; chosen: a block with more warps takes half of a multiprocessor's threads
# Candidates to build for a kernel without spills that misses instructions (chosen: each costs one compilation).
_MAX_TRIALS_FOR_SPEED = 3
# Instructions that copy to shared memory asynchronously; see `cubin.Resources`.
_ASYNCHRONOUS = ("UTMALDG", "LDGSTS")
TENSOR_CORE_DTYPES = (
    "bf16",
    "f16",
    "i8",
    "f8E4M3FN",
    "f8E5M2",
)  # Operand types that tensor cores multiply at any precision setting.

Binaries = dict[tuple[str, str], BuiltKernel]  # built kernels by (kernel name, architecture)


def candidate_sources(name: str, body: Graph, mesh: Mesh, target: str,
                      measured: Mapping[str, Any] | None = None) -> Iterator[KernelSource]:  # fmt: skip
    """Yield the source of a kernel for each candidate, generated on demand, in build order.

    Args:
        measured: the tile that was measured to be fastest. If it is a candidate, it comes first. Other candidates
            follow by predicted time.
    Raises:
        CodegenError: MG0301, for every op or type that kernels do not support.
    """
    measured_tile = {field: value for field, value in (measured or {}).items() if field != _WARPS}
    for source in kernel_sources(name, body, mesh, target, is_first=lambda tile: tile == measured_tile):
        if not measured or source.tile != measured_tile:
            yield source
            continue
        warps = measured.get(_WARPS, source.num_warps)
        if type(warps) is int and warps in WARPS_OF_A_BLOCK:
            yield replace(with_warps(source, warps) if _WARPS in measured else source, is_measured=True)
        if warps != source.num_warps:
            yield source


def with_warps(source: KernelSource, warps: int) -> KernelSource:
    """Return the same kernel with `warps` warps per block, which are also recorded in its tile."""
    return replace(source, num_warps=warps, tile={**source.tile, _WARPS: warps})


@dataclass(frozen=True)
class _Candidate:
    """A source with its binary for each architecture.

    Attributes:
        limits: reasons why some architecture cannot launch the binary.
        multiplies: whether the kernel's GEMMs have operand types that tensor cores support.
    """

    source: KernelSource
    built: Mapping[str, BuiltKernel]
    limits: Sequence[Diagnostic]
    multiplies: bool

    @property
    def faults(self) -> tuple[int, int, int]:
        """Return the faults by which candidates are compared: exceeded limits, spilled bytes per thread, missing
        instructions.

        For a measured tile, only the limits are faults.
        """
        if self.source.is_measured:
            return len(self.limits), 0, 0
        spilled = max(kernel.spill_bytes for kernel in self.built.values())
        missed = sum(missing(kernel.instructions, arch) for arch, kernel in self.built.items())
        return len(self.limits), spilled, missed if self.multiplies else 0


def missing(instructions: Mapping[str, int], arch: str) -> int:
    """Return a penalty for a GEMM kernel: 2 if it uses no tensor cores, plus 1 if it uses no asynchronous copies."""
    return 2 * (not any(map(instructions.get, tensor_cores(arch).instructions))) + (
        not any(map(instructions.get, _ASYNCHRONOUS))
    )


def supports_tensor_cores(body: Graph) -> bool:
    """Whether tensor cores support the operand types of all GEMMs of a kernel."""
    products = [node for node in body.nodes if node.op in PRODUCTS and not is_depthwise(node)]
    return bool(products) and all(
        value.type.dtype in TENSOR_CORE_DTYPES for node in products for value in node.operands[:2]
    )


def build_best(bodies: Mapping[str, Graph], candidates: Callable[[str], Iterator[KernelSource]], archs: Sequence[str],
               progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
               ) -> tuple[dict[str, KernelSource], Binaries]:  # fmt: skip
    """Build candidates for each kernel and choose one.

    Args:
        candidates: for each kernel name, an iterator over the sources to choose from, the fastest predicted first.
        progress, warn: as for `build.compile_kernels`, called once per round of candidates.
    Returns:
        The source to ship of each kernel, and its binary for each architecture.
    Raises:
        CodegenError, UsageError, MissingError: as `build.build_kernels`; MG0302 if no candidate compiles, MG0303 if
            none of the candidates that compile can be launched.
    """
    best: dict[str, _Candidate] = {}
    # for each kernel, the compiler's diagnostics of the candidates that do not compile
    refused: dict[str, list[Diagnostic]] = {}
    remaining = {name: _with_more_warps(candidates(name)) for name in bodies}
    tried = dict.fromkeys(bodies, 0)
    while remaining:
        for name, outcome in _round(bodies, remaining, archs, progress, warn).items():
            tried[name] += 1
            if not isinstance(outcome, _Candidate):
                refused.setdefault(name, outcome)
            elif name not in best or outcome.faults < best[name].faults:
                best[name] = outcome
        remaining = {
            name: rest
            for name, rest in remaining.items()
            if name not in best or _should_continue(best[name], tried[name])
        }
    compile_faults = [fault for name in bodies if name not in best for fault in refused[name]]
    if faults := compile_faults + [fault for candidate in best.values() for fault in candidate.limits]:
        raise CodegenError(*dict.fromkeys(faults))
    binaries = {(name, arch): kernel for name, outcome in best.items() for arch, kernel in outcome.built.items()}
    return {name: outcome.source for name, outcome in best.items()}, binaries


def build_best_of_each(bodies: Mapping[str, Graph], candidates: Callable[[str, str], Iterator[KernelSource]], archs: Sequence[str],
                       progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
                       ) -> tuple[dict[tuple[str, str], KernelSource], Binaries]:  # fmt: skip
    """Build and choose like `build_best`, separately for each architecture.

    Args:
        candidates: returns the iterator over sources, given the kernel name and the architecture.
    Returns:
        The source and the binary, each by (kernel, architecture).
    """
    sources, binaries = dict[tuple[str, str], KernelSource](), Binaries()
    for arch in archs:
        best, built = build_best(bodies, functools.partial(_for, candidates, arch), [arch], progress, warn)
        sources |= {(name, arch): source for name, source in best.items()}
        binaries |= built
    return sources, {(name, arch): binaries[name, arch] for name in bodies for arch in archs}


def _for(candidates: Callable[[str, str], Iterator[KernelSource]], arch: str, name: str) -> Iterator[KernelSource]:
    return candidates(name, arch)


def _with_more_warps(sources: Iterator[KernelSource]) -> Iterator[KernelSource]:
    """Yield `sources`. If there is only one, also yield variants with more warps, whose threads hold fewer elements."""
    first = next(sources)
    yield first
    if (second := next(sources, None)) is None:
        yield from (with_warps(first, warps) for warps in WARPS_OF_A_BLOCK if first.num_warps < warps <= _MAX_WARPS)
    else:
        yield second
        yield from sources


def _should_continue(best: _Candidate, tried: int) -> bool:
    """Whether to build another candidate after `tried` candidates, of which `best` is the best."""
    limits, spilled, missed = best.faults
    return bool(limits or spilled or (missed and tried < _MAX_TRIALS_FOR_SPEED))


def _round(bodies: Mapping[str, Graph], left: dict[str, Iterator[KernelSource]], archs: Sequence[str],
           progress: Progress | None, warn: Callable[[Diagnostic], object] | None,
           ) -> dict[str, _Candidate | list[Diagnostic]]:  # fmt: skip
    """Build the next candidate of every kernel in `left`, and remove kernels without further candidates from `left`.

    Returns:
        For each kernel the built candidate, or diagnostics if it does not compile.
    """
    from meshgen.codegen.building.build import compile_each, limit_faults, request_of

    sources = {name: source for name, rest in left.items() if (source := next(rest, None))}
    for name in set(left) - set(sources):
        del left[name]
    requests = {name: request_of(name, source, bodies[name]) for name, source in sources.items()}
    built, faults = compile_each(list(requests.values()), archs, progress=progress, warn=warn)
    outcome: dict[str, _Candidate | list[Diagnostic]] = {}
    for name, source in sources.items():
        if refused := [faults[name, arch] for arch in archs if (name, arch) in faults]:
            outcome[name] = refused
            continue
        binaries = {arch: built[name, arch] for arch in archs}
        limits = [fault for arch in archs for fault in limit_faults(requests[name], arch, binaries[arch])]
        outcome[name] = _Candidate(source, binaries, limits, supports_tensor_cores(bodies[name]))
    return outcome
