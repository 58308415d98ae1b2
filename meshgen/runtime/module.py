"""Load a `.mgx` file and run it. Needs NumPy only: no compiler, no Triton.

Everything is checked before it is used: structure and digests of the file, the manifest's values, the bodies
of the kernels, and the schedule, which must be proven free of races and deadlock again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.ccl.between import Post
from meshgen.errors import ArgumentError, Diagnostic, MeshgenError, MissingError, ModuleError, ShardingError, UsageError
from meshgen.ir.evaluate.evaluator import HANDLERS
from meshgen.ir.graph import Graph, Node, TensorType, dtype_name
from meshgen.ir.infer.inference import verify_node
from meshgen.mesh import Mesh
from meshgen.runtime import manifest as manifests
from meshgen.runtime import tensors
from meshgen.runtime.checker import check
from meshgen.runtime.container import Container, Members, damaged
from meshgen.runtime.launch import Launch, evaluated, interpreted
from meshgen.runtime.manifest import FORMAT, OPEN_FORMAT, PARTS_FORMAT, Binding, Kernel, Manifest
from meshgen.runtime.open_program import Shapes
from meshgen.runtime.plan import Schedule
from meshgen.runtime.reference import plan_steps, run_plan
from meshgen.runtime.simulate import rank_handlers
from meshgen.runtime.sizes import Given, bound

if TYPE_CHECKING:
    from meshgen.runtime.open_module import Specialise

Array = np.ndarray[Any, Any]
DEVICES = ("reference", "interpret", "cuda")


class LoadedModule:
    """A module that is ready to run. Made by `load`."""

    def __init__(self, container: Members, manifest: Manifest, constants: Mapping[int, Array],
                 weights: Mapping[str, Array]) -> None:  # fmt: skip
        self._manifest = manifest
        self._container = container
        self._constants = constants
        self._weights = weights

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def mesh(self) -> Mesh:
        return self.manifest.mesh

    @property
    def parts(self) -> tuple[LoadedModule, ...]:
        """The module of each mesh: this one."""
        return (self,)

    @property
    def ranks(self) -> int:
        """Number of devices."""
        return self.mesh.size

    @property
    def kernel_names(self) -> list[str]:
        return list(self.manifest.kernels)

    @property
    def place(self) -> str:
        """Where it runs, for people."""
        ranks = self.mesh.size if self.mesh.is_static else "?"
        return f"{ranks} ranks of {self.mesh}"

    @property
    def report(self) -> Mapping[str, Any]:
        """What was said of the program when it was compiled."""
        return self.manifest.report

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All arguments of the program."""
        return self.manifest.inputs

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """What callers pass: every argument whose value the module does not hold."""
        return tuple(b for b in self.bindings if not b.stored)

    @property
    def outputs(self) -> tuple[Binding, ...]:
        return self.manifest.outputs

    @property
    def schedule(self) -> Schedule:
        return self.manifest.plan

    @property
    def stages(self) -> dict[str, str]:
        """Text of each stage that the module keeps."""
        names = [n for n in self._container if n.startswith("stages/")]
        return {n[len("stages/00_") : -len(".mlir")]: bytes(self._container[n]).decode() for n in names}

    def source(self, kernel: str) -> str:
        """Triton source of a kernel; empty if it has none."""
        file = self.manifest.kernels[kernel].source
        return bytes(self._container[file]).decode() if file else ""

    def cubin(self, kernel: str, arch: str) -> bytes:
        """Binary of a kernel. Raises MissingError MG0602 if the module has none for the architecture."""
        binaries = self.manifest.kernels[kernel].binaries
        if arch not in binaries:
            raise MissingError(
                Diagnostic(
                    "MG0602",
                    f"kernel '{kernel}' was not compiled for {arch}, but for {', '.join(binaries) or 'no GPU'}",
                    hint=f"compile again with --target cuda:{arch}",
                )
            )
        return bytes(self._container[binaries[arch].file])

    def __call__(self, *args: Any) -> Array | tuple[Array, ...]:
        """Global arrays in, global arrays out: one array, or a tuple if there are several outputs."""
        outputs = self.run(args)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def at(self, mesh: Given = None, args: Shapes = None) -> LoadedModule:
        """This module, with sizes for mesh axes that are open still; it has no open dims."""
        return self.on(mesh)

    def on(self, mesh: Given, devices: int | None = None) -> LoadedModule:
        """This module on these meshes: see `load`."""
        (own,) = bound((self.mesh,), mesh, devices)
        if own == self.mesh:
            return self
        if own.is_static:
            check(self.manifest.plan, own)
        return LoadedModule(self._container, replace(self.manifest, mesh=own), self._constants, self._weights)

    def run(self, args: Sequence[Any] | Mapping[str, Any], device: str = "reference") -> list[Array]:
        """Run one step on all ranks in this process.

        Args:
            args: global arrays in the order of `inputs`, or by name.
            device: `reference` evaluates kernels with NumPy; `interpret` runs their Triton source, which is
                code from the module, on the CPU.
        Raises:
            ArgumentError: MG0601, with everything that does not fit.
            MissingError: MG0602, the device is not there.
            ShardingError: MG0201, the size of a mesh axis is unknown.
        """
        self.require_sizes()
        arrays = self._arguments(args)
        return run_plan(self.manifest, self._constants, arrays, self._launcher(device))

    def steps(self, args: Mapping[str, Any], device: str, post: Post) -> Generator[Node, None, list[Array]]:
        """As `run`, step by step, as a part of a program on several meshes (see `plan_steps`)."""
        arrays = self._arguments(args)
        return plan_steps(self.manifest, self._constants, arrays, self._launcher(device), post)

    def require_sizes(self) -> None:
        """Raises ShardingError MG0201 while the number of devices along an axis is unknown."""
        unknown = [axis.name for axis in self.mesh.axes if axis.size is None]
        if unknown:
            hint = f"load(path, mesh={{'{unknown[0]}': 2}}) or meshgen run --mesh {unknown[0]}=2 gives it"
            raise ShardingError(
                *(
                    Diagnostic("MG0201", f"the size of mesh axis '{name}' is unknown until load", hint=hint)
                    for name in unknown
                )
            )

    def _arguments(self, args: Sequence[Any] | Mapping[str, Any]) -> list[Array]:
        """All inputs of the plan, stored ones included."""
        given = args if isinstance(args, Mapping) else self._by_name(args)
        names = [b.name for b in self.inputs]
        texts = [f"argument '{name}' is missing" for name in names if name not in given]
        texts += [f"there is no argument '{name}'" for name in given if name not in names]
        arrays = {name: np.asarray(given[name]) for name in names if name in given}
        texts += [text for b in self.inputs if b.name in arrays and (text := _misfit(b, arrays[b.name]))]
        if texts:
            signature = ", ".join(f"{b.name}: {b.type}" for b in self.inputs)
            hint = f"the arguments are ({signature}), as global arrays"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
        return [self._weights[b.name] if b.stored else arrays[b.name] for b in self.manifest.inputs]

    def _by_name(self, args: Sequence[Any]) -> dict[str, Any]:
        if len(args) > len(self.inputs):
            raise ArgumentError(
                Diagnostic("MG0601", f"{len(args)} arguments were given, but the program takes {len(self.inputs)}")
            )
        return {b.name: value for b, value in zip(self.inputs, args, strict=False)}

    def _launcher(self, device: str) -> Launch:
        if device == "reference":
            return evaluated(self.manifest)
        if device == "interpret":  # only here, where the user asks for it by name, is code of the module executed
            return interpreted(self.manifest, {name: self.source(name) for name in self.manifest.kernels})
        if device == "cuda":
            raise MissingError(
                Diagnostic("MG0602", "this version runs modules on the CPU only", hint="use device='reference'")
            )
        raise UsageError(Diagnostic("MG0001", f"unknown device '{device}'", hint=f"use one of {', '.join(DEVICES)}"))


def _misfit(binding: Binding, array: Array) -> str:
    """What is wrong with an argument; empty: nothing."""
    try:
        have = TensorType(array.shape, dtype_name(array.dtype))
    except KeyError:
        return f"argument '{binding.name}' has element type {array.dtype}, which no program takes"
    if have == binding.type:
        return ""
    return f"argument '{binding.name}' is {have}, but the program takes {binding.type}"


def load(path: str | Path, mesh: Given = None, *, devices: int | None = None,
         specialise: Specialise | None = None) -> LoadedModule:  # fmt: skip
    """Open a module file and check all of it; of a program on several meshes a `LoadedProgram`, with a part for each.

    A module with open sizes is an `OpenModule` until all are known; what of it is used is checked then.

    Args:
        mesh: sizes of mesh axes that the module leaves open; others must be as compiled.
        devices: how many there are, which gives the size of the one axis that is open still; default: the processes
            that a launcher (torchrun, mpiexec, srun) has started.
        specialise: compiles an open module for sizes for which it was not compiled ahead of time.
    Raises:
        UsageError: MG0002, the file is missing or cannot be read.
        ShardingError: MG0201, MG0202, the mesh is not the module's.
        MissingError: MG0603, the devices do not fill the mesh; MG0602, an open module was not compiled for this mesh.
        ModuleError: MG0501, it is no module; MG0502, it is damaged; MG0503, it is newer than this meshgen.
        ScheduleError: its schedule has a race or can deadlock.
    """
    path = Path(path)
    container = Container(path)
    value = checked_manifest(container, path)
    if "specialisations" in value:
        from meshgen.runtime.open_module import load_open

        return load_open(container, value, specialise).on(mesh, devices)
    return _load_checked(container, path, value).on(mesh, devices)


def load_members(members: Members, path: Path) -> LoadedModule:
    """As `load`, from the members of a module that has no open sizes, or none that matter."""
    return _load_checked(members, path, checked_manifest(members, path))


def _load_checked(members: Members, path: Path, value: dict[str, Any]) -> LoadedModule:
    if "parts" in value:
        from meshgen.runtime.program import load_parts

        return load_parts(members, value)
    return load_part(members, path, value)


def load_part(container: Members, path: Path, value: dict[str, Any]) -> LoadedModule:
    """The module of one mesh, from its checked manifest."""
    try:
        manifest = manifests.decode(value)
        constants = {int(n): array for n, array in tensors.decode(container["constants.safetensors"]).items()}
        weights = tensors.decode(container["weights.safetensors"]) if "weights.safetensors" in container else {}
    except ValueError as error:
        raise damaged(path, str(error)[:300]) from error
    except MeshgenError as error:
        raise damaged(path, error.diagnostics[0].message) from error
    one = manifest.mesh.with_sizes({axis.name: 1 for axis in manifest.mesh.axes if axis.size is None})
    try:
        _check_contents(path, container, replace(manifest, mesh=one), constants, weights)
    except ShardingError as error:
        raise damaged(path, error.diagnostics[0].message) from error
    check(manifest.plan, one)
    return LoadedModule(container, manifest, constants, weights)


def checked_manifest(container: Members, path: Path) -> dict[str, Any]:
    """The manifest, when its digest and those of all other members are right and its format is known."""
    if "manifest.json" not in container or "manifest.sha256" not in container:
        raise ModuleError(Diagnostic("MG0501", f"'{path}' is not a meshgen module: it has no manifest"))
    text = container["manifest.json"]
    if hashlib.sha256(text).hexdigest().encode() != bytes(container["manifest.sha256"]):
        raise damaged(path, "the manifest's digest is wrong")
    try:
        value: Any = json.loads(bytes(text))
        version, files = value["format"], dict(value["files"])
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"format {version!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path, f"the manifest cannot be read ({error!r:.200})") from error
    if version > (newest := _newest_format(value)):
        raise ModuleError(
            Diagnostic(
                "MG0503",
                f"'{path}' has format {version}, but this meshgen reads up to {newest}",
                hint="use a newer meshgen",
            )
        )
    if sorted([*files, "manifest.json", "manifest.sha256"]) != list(container):
        raise damaged(path, "its members are not those that the manifest lists")
    for name, digest in files.items():
        if hashlib.sha256(container[name]).hexdigest() != digest:
            raise damaged(path, f"the digest of '{name}' is wrong")
    return value


def _newest_format(value: Mapping[str, Any]) -> int:
    if "specialisations" in value:
        return OPEN_FORMAT
    return PARTS_FORMAT if "parts" in value else FORMAT


def _check_contents(path: Path, container: Members, manifest: Manifest, constants: Mapping[int, Array],
                    weights: Mapping[str, Array]) -> None:  # fmt: skip
    """Constants, weights, sources and binaries are there and fit; the bodies are well-formed programs."""
    buffers = manifest.plan.buffers
    wanted = [n for n, b in enumerate(buffers) if b.kind == "constant" and b.storage == n]
    if sorted(constants) != wanted or any(_type_of(constants[n]) != buffers[n].type for n in wanted):
        raise damaged(path, "its constants do not fit its buffers")
    stored = {b.name: b.type for b in manifest.inputs if b.stored}
    if {name: _type_of(array) for name, array in weights.items()} != stored:
        raise damaged(path, "its weights do not fit its inputs")
    for kernel in manifest.kernels.values():
        for file in (kernel.source, *(b.file for b in kernel.binaries.values())):
            if file and file not in container:
                raise damaged(path, f"it has no member '{file}'")
    known = (*HANDLERS, *rank_handlers(manifest.mesh, 0))
    for name, body in manifest.plan.kernels.items():
        fault = _body_fault(body, known) or _launch_fault(manifest.kernels[name], body, manifest.mesh)
        if fault:
            raise damaged(path, f"kernel '{name}' is malformed: {fault}")


def _launch_fault(kernel: Kernel, body: Graph, mesh: Mesh) -> str:
    """What is wrong with the launch parameters; empty: nothing."""
    counts = {"operand": len(body.inputs), "result": len(body.outputs)}
    for param in kernel.params:
        if param.kind == "coordinate":
            mesh.group_size(param.axes)  # raises for an unknown axis
        elif not 0 <= param.index < counts[param.kind]:
            return f"it has no {param.kind} {param.index}"
    return ""


def _body_fault(body: Graph, known: Sequence[str]) -> str:
    """What is wrong with a kernel's body, regions included; empty: nothing."""
    for node in body.nodes:
        if node.op not in known:
            return f"'{node.op}' is nothing that a kernel does"
        if faults := verify_node(node):
            return faults[0].message
        if inner := next(filter(None, (_body_fault(region, known) for region in node.regions)), ""):
            return inner
    return ""


def _type_of(array: Array) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))
