"""Forms of a kernel: the form with which the module was shipped, and the candidates (tiles) for its architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from meshgen.codegen.building.build import BuiltKernel, compile_each, limit_faults, request_of
from meshgen.codegen.building.candidates import WARPS_OF_A_BLOCK, with_warps
from meshgen.codegen.packaging.package import add_binaries, form_member, kernel_entry
from meshgen.codegen.triton_source import KernelSource, kernel_sources
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Form as LaunchForm
from meshgen.runtime.module_file.manifest import Kernel


@dataclass(frozen=True)
class Form:
    """A form of a kernel that can be launched.

    Attributes:
        source: the source of the candidate, or None for a shipped kernel that equals no candidate.
        kernel: the kernel's entry in the manifest, which says how it is launched.
        files: the members of the module file that `kernel` names.
    """

    source: KernelSource | None
    kernel: Kernel
    files: Mapping[str, bytes]

    def member(self, name: str) -> bytes:
        return self.files[name]


def candidates(name: str, body: Graph, mesh: Mesh, arch: str, most: int) -> list[KernelSource]:
    """Return the first `most` candidates by predicted time. Candidates with the same source and launch count once.

    A kernel with only one candidate gets variants with other numbers of warps. Raises CodegenError MG0301 if no kernel
    can be generated.
    """
    unique: dict[tuple[object, ...], KernelSource] = {}
    for source in kernel_sources(name, body, mesh, f"cuda:{arch}"):
        unique.setdefault(_identity(source.text, source.constants, source.num_warps, source.num_stages), source)
    sources = list(unique.values())
    if len(sources) == 1:
        shipped_warps = sources[0].num_warps
        counts = sorted(
            WARPS_OF_A_BLOCK, key=lambda warps: (max(warps, shipped_warps) // min(warps, shipped_warps), -warps)
        )
        sources = [
            with_warps(sources[0], warps)
            for warps in counts
            if max(warps, shipped_warps) <= 4 * min(warps, shipped_warps)
        ]
    return sources[:most]


def _identity(text: str, constants: Mapping[str, object], *options: int) -> tuple[object, ...]:
    return text, tuple(sorted(constants.items())), options


def shipped(module: LoadedModule, name: str, arch: str, sources: Sequence[KernelSource]) -> Form:
    """Return the form of a kernel in the module for an architecture.

    Its `source` is the candidate in `sources` from which the form was built, or None if no candidate equals it.
    """
    kernel = module.manifest.kernels[name]
    launch = kernel.on(arch)
    identity = _identity(module.source(name, arch), launch.constants, launch.num_warps, launch.num_stages)
    same = (s for s in sources if _identity(s.text, s.constants, s.num_warps, s.num_stages) == identity)
    return Form(next(same, None), kernel, {file: bytes(module.members[file]) for file in kernel.files})


def built_forms(name: str, body: Graph, sources: Sequence[KernelSource], arch: str) -> Iterator[Form]:
    """Yield the candidates that compile and can be launched, built for one architecture."""
    requests = [request_of(name, source, body)._replace(name=f"{name}/{n}") for n, source in enumerate(sources)]
    built, _ = compile_each(requests, [arch])
    for source, request in zip(sources, requests, strict=True):
        kernel = built.get((request.name, arch))
        if kernel and not limit_faults(request, arch, kernel):
            yield form_of(name, source, {arch: kernel})


def form_of(name: str, source: KernelSource, built: Mapping[str, BuiltKernel]) -> Form:
    """Return the form of a candidate `source`, given its binary for each architecture."""
    files = {f"kernels/{name}.py": source.text.encode()}
    binaries = add_binaries(files, {(name, arch): kernel for arch, kernel in built.items()})
    return Form(source, kernel_entry(name, source, binaries), files)


def in_place_of(shipped_form: Form, form: Form, name: str, arch: str) -> Form:
    """Return the manifest entry of a kernel with `form` as its form for one architecture. Forms for other architectures
    stay.
    """
    if [*shipped_form.kernel.binaries] == [arch]:
        return form
    new, binary = form.kernel, form.kernel.binaries[arch]
    source = form_member(name, arch)
    launched = LaunchForm(source, new.grid, new.constants, new.num_warps, new.num_stages)
    kernel = replace(
        shipped_form.kernel,
        binaries={**shipped_form.kernel.binaries, arch: binary},
        forms={**shipped_form.kernel.forms, arch: launched},
    )
    files = {**shipped_form.files, **{file: form.files[file] for file in new.files}, source: form.files[new.source]}
    return Form(
        form.source,
        kernel,
        {file: files[file] for file in kernel.files} | {kernel.source: shipped_form.files[shipped_form.kernel.source]},
    )
