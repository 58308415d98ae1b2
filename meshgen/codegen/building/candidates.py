"""Choose the candidate of each kernel that is shipped: the first whose build has no fault.

`candidate_sources` says in which order they are built: the measured tile, then by predicted time. A measured tile may spill, because its
measured time contains that.

What a tile costs in registers is known only once it is built with its epilogue. Further candidates are built only for kernels that
spill registers, need more than a device has, or miss the tensor cores or asynchronous copies that their products could use; of candidates that
all have faults the one that spills least is kept, and of these the first that misses least. One that the compiler refuses is dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from meshgen.codegen.building.built import BuiltKernel
from meshgen.codegen.triton_source import KernelSource, kernel_sources
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph
from meshgen.kernels.architectures import tensor_cores
from meshgen.mesh import Mesh
from meshgen.ops.classes import PRODUCTS
from meshgen.ops.dot_dims import is_depthwise

if TYPE_CHECKING:
    from meshgen.codegen.building.build import Progress

WARPS_OF_A_BLOCK = (1, 2, 4, 8, 16, 32)
_WARPS = "warps"  # the field of a measured tile with the number of warps, where only that was chosen
_MOST_WARPS = 16  # chosen: blocks of more leave half of a multiprocessor's threads to one
_TRIED_FOR_SPEED = 3  # candidates, of a kernel that can be launched without spills but misses something
# Instructions that copy to shared memory while others compute; see `cubin.Resources`.
_ASYNCHRONOUS = ("UTMALDG", "LDGSTS")
_NARROW = (
    "bf16",
    "f16",
    "i8",
    "f8E4M3FN",
    "f8E5M2",
)  # element types of operands of tensor cores, whatever the precision

Binaries = dict[tuple[str, str], BuiltKernel]  # by kernel and architecture


def candidate_sources(name: str, body: Graph, mesh: Mesh, target: str,
                      measured: Mapping[str, Any] | None = None) -> Iterator[KernelSource]:  # fmt: skip
    """Generate the kernel of a body with each candidate on demand, in the order in which they are built.

    Args:
        measured: the tile that was measured to be best, which comes first if it is a candidate; the others follow by predicted time.
    Raises:
        CodegenError: MG0301, for every op or type that no kernel can be generated for.
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
    """Return the same kernel with another number of warps per block, which its tile says."""
    return replace(source, num_warps=warps, tile={**source.tile, _WARPS: warps})


@dataclass(frozen=True)
class _Candidate:
    """A source with its binary per architecture.

    Attributes:
        limits: reasons why some architecture cannot launch it.
        multiplies: whether it has tiles of types that tensor cores multiply.
    """

    source: KernelSource
    built: Mapping[str, BuiltKernel]
    limits: Sequence[Diagnostic]
    multiplies: bool

    @property
    def faults(self) -> tuple[int, int, int]:
        """What speaks against it, the worst first: limits exceeded and, unless it was measured, bytes that each thread spills, what it misses."""
        if self.source.is_measured:
            return len(self.limits), 0, 0
        spilled = max(kernel.spill_bytes for kernel in self.built.values())
        missed = sum(missing(kernel.instructions, arch) for arch, kernel in self.built.items())
        return len(self.limits), spilled, missed if self.multiplies else 0


def missing(instructions: Mapping[str, int], arch: str) -> int:
    """How much a kernel of products misses: two for the tensor cores of its architecture, one for asynchronous copies."""
    return 2 * (not any(map(instructions.get, tensor_cores(arch).instructions))) + (
        not any(map(instructions.get, _ASYNCHRONOUS))
    )


def multiplies_tiles(body: Graph) -> bool:
    """Whether tensor cores can take the operands of a kernel's products as they are."""
    products = [node for node in body.nodes if node.op in PRODUCTS and not is_depthwise(node)]
    return bool(products) and all(value.type.dtype in _NARROW for node in products for value in node.operands[:2])


def build_best(bodies: Mapping[str, Graph], candidates: Callable[[str], Iterator[KernelSource]], archs: Sequence[str],
               progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
               ) -> tuple[dict[str, KernelSource], Binaries]:  # fmt: skip
    """The source to ship of each kernel, and its binary for each architecture.

    Args:
        candidates: the sources to choose from by name of the kernel, the best predicted first; taken as they are needed.
        progress, warn: as for `build.compile_kernels`, once per round of candidates.
    Raises:
        CodegenError, UsageError, MissingError: as `build.build_kernels`; MG0302 where no candidate compiles, MG0303 where none
            that does can be launched.
    """
    best: dict[str, _Candidate] = {}
    refused: dict[str, list[Diagnostic]] = {}  # by the compiler
    left = {name: _with_more_warps(candidates(name)) for name in bodies}
    tried = dict.fromkeys(bodies, 0)
    while left:
        for name, found in _round(bodies, left, archs, progress, warn).items():
            tried[name] += 1
            if not isinstance(found, _Candidate):
                refused.setdefault(name, found)
            elif name not in best or found.faults < best[name].faults:
                best[name] = found
        left = {name: rest for name, rest in left.items() if name not in best or _goes_on(best[name], tried[name])}
    lost = [fault for name in bodies if name not in best for fault in refused[name]]
    if faults := lost + [fault for candidate in best.values() for fault in candidate.limits]:
        raise CodegenError(*dict.fromkeys(faults))
    binaries = {(name, arch): kernel for name, found in best.items() for arch, kernel in found.built.items()}
    return {name: found.source for name, found in best.items()}, binaries


def build_best_of_each(bodies: Mapping[str, Graph], candidates: Callable[[str, str], Iterator[KernelSource]], archs: Sequence[str],
                       progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
                       ) -> tuple[dict[tuple[str, str], KernelSource], Binaries]:  # fmt: skip
    """As `build_best`, by itself for each architecture: the source of each kernel for each, and its binary.

    `candidates`: by name of the kernel and architecture.
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
    """The sources; after the only one of a kernel the same with more warps, whose threads hold fewer elements each."""
    first = next(sources)
    yield first
    if (second := next(sources, None)) is None:
        yield from (with_warps(first, warps) for warps in WARPS_OF_A_BLOCK if first.num_warps < warps <= _MOST_WARPS)
    else:
        yield second
        yield from sources


def _goes_on(best: _Candidate, tried: int) -> bool:
    """Whether another candidate is built."""
    limits, spilled, missed = best.faults
    return bool(limits or spilled or (missed and tried < _TRIED_FOR_SPEED))


def _round(bodies: Mapping[str, Graph], left: dict[str, Iterator[KernelSource]], archs: Sequence[str],
           progress: Progress | None, warn: Callable[[Diagnostic], object] | None,
           ) -> dict[str, _Candidate | list[Diagnostic]]:  # fmt: skip
    """The next candidate of every kernel that is left, built, or why it does not compile; a kernel without one leaves the list."""
    from meshgen.codegen.building.build import compile_each, limit_faults, request_of

    sources = {name: source for name, rest in left.items() if (source := next(rest, None))}
    for name in set(left) - set(sources):
        del left[name]
    requests = {name: request_of(name, source, bodies[name]) for name, source in sources.items()}
    built, faults = compile_each(list(requests.values()), archs, progress=progress, warn=warn)
    found: dict[str, _Candidate | list[Diagnostic]] = {}
    for name, source in sources.items():
        if refused := [faults[name, arch] for arch in archs if (name, arch) in faults]:
            found[name] = refused
            continue
        binaries = {arch: built[name, arch] for arch in archs}
        limits = [fault for arch in archs for fault in limit_faults(requests[name], arch, binaries[arch])]
        found[name] = _Candidate(source, binaries, limits, multiplies_tiles(bodies[name]))
    return found
