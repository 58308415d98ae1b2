"""Writer of deployable modules: manifest, stages, kernel sources, cubins, PTX, constants and weights in one file.

The output is reproducible: nothing in it depends on time, machine or process.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.codegen.building.sources import LaunchedSource
from meshgen.codegen.scheduling.buffers import constants_of
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.donation import settled
from meshgen.ir.graph import Module, TensorType, Value
from meshgen.ir.multi_mesh import parts_of
from meshgen.runtime.arguments import array_of
from meshgen.runtime.module_file import container, tensors
from meshgen.runtime.module_file.limits import beyond, faults, over, require_readable
from meshgen.runtime.module_file.manifest import Binary, Binding, Form, Kernel, Manifest, Param, Parts
from meshgen.runtime.module_file.manifest_json import manifest_to_json, parts_to_json, sealed
from meshgen.runtime.module_file.manifest_reading import manifest_from_json, parts_from_json
from meshgen.runtime.module_file.resources import Content, resource_members
from meshgen.runtime.module_file.stage_texts import packed, stage_member
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from meshgen.codegen.building.built_kernel import BuiltKernel

Array = np.ndarray[Any, Any]
Names = tuple[Sequence[str], Sequence[str]]  # (names of arguments, names of results)


Forms = Mapping[tuple[str, str], LaunchedSource]  # sources by (kernel name, architecture)


def write_module(path: str | Path, module: Module, plan: Schedule, *, sources: Mapping[str, LaunchedSource] | None = None,
                 forms: Forms | None = None, built: Mapping[tuple[str, str], BuiltKernel] | None = None, stages: Mapping[str, str] | None = None,
                 weights: Mapping[str, Array] | None = None, report: Mapping[str, Any] | None = None) -> Manifest:  # fmt: skip
    """Write `module` (stage `fuse` or `partition`) with its schedule, and return its manifest.

    Args:
        sources: Triton source per kernel; a kernel without source is interpreted from its body.
        forms: source per (kernel, architecture), for kernels whose source depends on the architecture.
        built: cubin per (kernel, architecture).
        stages: text of each stage to include.
        weights: values of inputs by name (global arrays), which callers then do not pass.
        report: JSON values that `inspect` shows.
    Raises:
        ArgumentError: MG0601, weights that do not fit the inputs.
        ScheduleError: the plan has a race or can deadlock.
        UsageError: MG0003, the file cannot be written.
    """
    members, manifest = module_members(
        module, plan, sources=sources, forms=forms, built=built, stages=stages, weights=weights, report=report
    )
    container.write(Path(path), members)
    return manifest


def module_members(module: Module, plan: Schedule, *, sources: Mapping[str, LaunchedSource] | None = None,
                   forms: Forms | None = None, built: Mapping[tuple[str, str], BuiltKernel] | None = None, stages: Mapping[str, str] | None = None,
                   weights: Mapping[str, Array] | None = None, report: Mapping[str, Any] | None = None,
                   resources: Mapping[str, Content] | None = None, names: Names | None = None,
                   call: Signature | None = None, decisions: Mapping[str, bytes] | None = None) -> tuple[dict[str, bytes], Manifest]:  # fmt: skip
    """Return the members of a module's file as `write_module` writes them, and its manifest.

    The other arguments are those of `write_module`.

    Args:
        resources: data that the texts of the stages refer to.
        names: names of arguments and results, if the module is a part of a program (`part_names`).
        call: the signature for callers, unless they pass arrays in order.
        decisions: the member that explanations read.
    """
    check(plan, module.mesh)
    sources, forms, built, weights = sources or {}, forms or {}, built or {}, weights_of(weights)
    in_names, out_names = names or _names(module)
    pairs = settled(module).pairs
    inputs = _bindings(in_names, module.graph.inputs, module.in_types, module.in_shardings, plan.inputs, weights)
    inputs = tuple(b._replace(donated_to=pairs.get(index)) for index, b in enumerate(inputs))
    _check_weights(inputs, weights)
    members = code_members(sources, stages or {})
    members |= {form_member(*key): form.text.encode() for key, form in forms.items()}
    binaries = add_binaries(members, built)
    members["constants.safetensors"] = tensors.encode(
        {str(n): node.attrs.value for n, node in constants_of(module, plan).items()}
    )
    members |= {**resource_members(resources or {}, members), **(decisions or {})}
    if weights:
        members["weights.safetensors"] = tensors.encode(weights)
    described = Manifest(
        name=module.name,
        mesh=module.mesh,
        arguments=module.arguments,
        inputs=inputs,
        outputs=_bindings(out_names, module.graph.outputs, module.out_types, module.out_shardings, plan.outputs, {}),
        kernels={name: kernel_entry(name, sources.get(name), binaries, forms) for name in plan.kernels},
        plan=plan,
        toolchain=_toolchains(built),
        report=report or {},
        call=call,
        state=call.state if call else None,
    )
    for fault in faults(described):
        raise beyond(module.name, fault)
    files = {name: hashlib.sha256(members[name]).hexdigest() for name in sorted(members)}
    manifest = sealed(manifest_to_json(described, files))
    require_readable(module.name, manifest["manifest.json"], manifest_from_json)
    return members | manifest, described


def parts_members(module: Module, parts: Sequence[Mapping[str, bytes]], *, stages: Mapping[str, str],
                  resources: Mapping[str, Content], report: Mapping[str, Any],
                  call: Signature | None = None, decisions: Mapping[str, bytes] | None = None) -> dict[str, bytes]:  # fmt: skip
    """Return the members of a program on several meshes. Each part (`module_members`) has a separate folder."""
    members = code_members({}, stages)
    for index, part in enumerate(parts):
        members |= {f"parts/{index:02}/{name}": content for name, content in part.items()}
    members |= {**resource_members(resources, members), **(decisions or {})}
    files = {name: hashlib.sha256(members[name]).hexdigest() for name in sorted(members)}
    described = Parts(
        module.name,
        tuple((part.mesh.name, tuple(ins), tuple(outs)) for part, ins, outs in parts_of(module)),
        report,
        call,
        call.state if call else None,
    )
    for fault in over("meshes", len(described.parts)):
        raise beyond(module.name, fault)
    manifest = sealed(parts_to_json(described, files))
    require_readable(module.name, manifest["manifest.json"], parts_from_json)
    return members | manifest


def write_plans(path: str | Path, module: Module, plans: Sequence[Schedule]) -> None:
    """Write a program with the schedule of every mesh. Kernels are included only as bodies, and stages are omitted."""
    if module.parts:
        pairs = zip(module.parts, plans, strict=True)
        named = part_names(module)
        parts = [module_members(part, plan, names=names)[0] for (part, plan), names in zip(pairs, named, strict=True)]
        container.write(Path(path), parts_members(module, parts, stages={}, resources={}, report={}))
    else:
        write_module(path, module, plans[0])


def code_members(sources: Mapping[str, LaunchedSource], stages: Mapping[str, str]) -> dict[str, bytes]:
    """Return the members with the texts of stages and the sources of kernels."""
    members = {stage_member(stage): packed(text) for stage, text in stages.items()}
    return members | {f"kernels/{name}.py": source.text.encode() for name, source in sources.items()}


def add_binaries(
    members: dict[str, bytes], built: Mapping[tuple[str, str], BuiltKernel]
) -> dict[tuple[str, str], Binary]:
    """Add each distinct cubin and PTX once, under the name of the first kernel that has it."""
    member_of: dict[bytes, str] = {}
    binaries: dict[tuple[str, str], Binary] = {}
    for (name, arch), kernel in built.items():
        file = member_of.setdefault(kernel.cubin, f"cubins/{arch}/{name}.cubin")
        members[file] = kernel.cubin
        ptx = member_of.setdefault(kernel.ptx, f"ptx/{arch}/{name}.ptx") if kernel.ptx else ""
        if ptx:
            members[ptx] = kernel.ptx
        binaries[name, arch] = Binary(
            file, kernel.regs, kernel.spill_bytes, kernel.stack_bytes, kernel.shared, kernel.threads, kernel.instructions,
            kernel.metadata, ptx,
        )  # fmt: skip
    return binaries


def _toolchains(built: Mapping[tuple[str, str], BuiltKernel]) -> dict[str, dict[str, str]]:
    """Return the versions of the tools that built the kernels, by architecture."""
    if not built:
        return {}
    from meshgen.codegen.building.build import toolchain  # Imported here because only programs for GPUs are built.

    return {arch: toolchain(arch) for arch in dict.fromkeys(arch for _, arch in built)}


def form_member(name: str, arch: str) -> str:
    """Return the name of the member that stores a kernel's source for one architecture."""
    return f"kernels/{name}.{arch}.py"


def kernel_entry(
    name: str, source: LaunchedSource | None, binaries: Mapping[tuple[str, str], Binary], forms: Forms | None = None
) -> Kernel:
    """Return a kernel's launch configuration for the manifest. It is empty for a kernel without source."""
    if source is None:
        return Kernel()
    form, others = form_of_source(f"kernels/{name}.py", source), forms or {}
    assert all(list(other.params) == list(source.params) for (kernel, _), other in others.items() if kernel == name)
    return Kernel(
        source=form.source, entry=source.entry, params=tuple(_param(kind, what) for kind, what in source.params),
        grid=form.grid, constants=form.constants, num_warps=form.num_warps, num_stages=form.num_stages,
        flops=float(source.flops), nbytes=float(source.bytes), template=source.template,
        binaries={arch: binary for (kernel, arch), binary in binaries.items() if kernel == name},
        forms={a: form_of_source(form_member(name, a), other) for (kernel, a), other in others.items() if kernel == name},
    )  # fmt: skip


def form_of_source(member: str, source: LaunchedSource) -> Form:
    """Return the launch configuration of a source that is stored in `member`."""
    grid = (*source.grid, 1, 1, 1)[:3]
    sizes = int(grid[0]), int(grid[1]), int(grid[2])
    return Form(member, sizes, dict(source.constants), source.num_warps, source.num_stages)


def _param(kind: str, what: Any) -> Param:
    return Param(kind, axes=tuple(what)) if kind == "coordinate" else Param(kind, int(what))


def signature_names(word: str, values: Sequence[Value]) -> list[str]:
    """Return the names of arguments or results (`word`). Values without a name, or with a duplicate one, are numbered."""
    used = {value.name for value in values}
    names: dict[str, None] = {}
    for index, value in enumerate(values):
        numbered = (f"{word}{n}" for n in itertools.count(index) if f"{word}{n}" not in used)
        name = value.name if value.name and value.name not in names else next(n for n in numbered if n not in names)
        names[name] = None
    return list(names)


def _names(module: Module) -> Names:
    return signature_names("arg", module.graph.inputs), signature_names("result", module.graph.outputs)


def part_names(module: Module) -> list[Names]:
    """Return the names of the arguments and results of each part. They are the names used in the entire program."""
    ins, outs = _names(module)
    return [([ins[n] for n in inputs], [outs[n] for n in outputs]) for _, inputs, outputs in parts_of(module)]


def _bindings(names: Sequence[str], values: Sequence[Value], types: Sequence[TensorType], shardings: Sequence[Sharding],
              buffers: Sequence[int], weights: Mapping[str, Array]) -> tuple[Binding, ...]:  # fmt: skip
    """Return the bindings of arguments or results."""
    signature = zip(names, values, types, shardings, buffers, strict=True)
    return tuple(
        Binding(name, kind, sharding, value.type.sizes, buffer, name in weights)
        for name, value, kind, sharding, buffer in signature
    )


def weights_of(given: Any) -> dict[str, Array]:
    """Return a caller's weights as arrays by name.

    Raises:
        ArgumentError: MG0601, an invalid container or value.
    """
    if not isinstance(given, Mapping | None):
        hint = 'write for example weights={"w": array}'
        raise ArgumentError(
            Diagnostic("MG0601", f"weights must be a dict by name, got {type(given).__name__}", hint=hint)
        )
    converted = {str(name): array_of(str(name), value) for name, value in (given or {}).items()}
    if faults := [Diagnostic("MG0601", fault) for _, fault in converted.values() if fault]:
        raise ArgumentError(*faults)
    return {name: array for name, (array, _) in converted.items()}


def _check_weights(inputs: Sequence[Binding], weights: Mapping[str, Array]) -> None:
    """Raise ArgumentError MG0601 for weights of unknown inputs or of other types than the inputs."""
    types = {b.name: b.type for b in inputs}
    texts = [f"weight for an unknown input '{name}'" for name in weights if name not in types]
    for name, array in weights.items():
        if name in types and (array.shape, array.dtype) != (types[name].sizes, types[name].numpy_dtype):
            have = f"{array.dtype}{list(array.shape)}"
            texts.append(f"weight '{name}' has type {have}, but the program takes {types[name]}")
    if texts:
        raise ArgumentError(*(Diagnostic("MG0601", text, hint=f"the inputs are {', '.join(types)}") for text in texts))
