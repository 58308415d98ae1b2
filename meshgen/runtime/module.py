"""Loaded modules: the Python interface of a compiled program, with functions that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.calls.arguments import bound_arrays
from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature, signature_of
from meshgen.calls.state import State
from meshgen.errors import ArgumentError, Diagnostic, ShardingError, UsageError, listed
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.arguments import Arguments, Shapes, arrays_of, validated_shapes
from meshgen.runtime.emulation_options import Emulation, first_arch
from meshgen.runtime.engine_interfaces import Loaded, Prepared, Run
from meshgen.runtime.engines import ENGINES
from meshgen.runtime.kernel_code import KernelCode
from meshgen.runtime.memory_estimate import out_of_memory, require_memory
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.module_file.resources import complete_text
from meshgen.runtime.module_file.stage_texts import stage_of
from meshgen.runtime.module_reports import ModuleReports
from meshgen.runtime.open_program import Argument
from meshgen.runtime.plan import Schedule
from meshgen.runtime.processes import bootstrap
from meshgen.runtime.processes.ranks import propagating_failures, require_same
from meshgen.runtime.sizes import Given, bound, require_device_count
from meshgen.runtime.validation.checker import check

if TYPE_CHECKING:
    from meshgen.runtime.emulate import EmulatedKernel
    from meshgen.runtime.sessions.session import Session
    from meshgen.runtime.sessions.weights import Weights

Array = np.ndarray[Any, Any]
DEVICES = tuple(ENGINES)


class LoadedModule(ModuleReports):
    """A compiled program that has been loaded and can be run, as returned by `load`."""

    def __init__(self, container: Members, manifest: Manifest, constants: Mapping[int, Array],
                 weights: Mapping[str, Array]) -> None:  # fmt: skip
        self._manifest = manifest
        self._container = container
        self._constants = constants
        self._weights = weights
        self._prepared = Prepared()

    _entries: Mapping[str, LoadedModule] | None = None
    _is_chosen = True

    @property
    def entries(self) -> Mapping[str, LoadedModule]:
        """Return the modules of all entry functions in the file by function name, including this module."""
        return self._entries or {self.name: self}

    def among(self, entries: Mapping[str, LoadedModule], is_chosen: bool) -> None:
        """Record the modules of all entry functions in the file, and whether the caller chose this one."""
        self._entries, self._is_chosen = entries, is_chosen

    def require_entry(self) -> None:
        """Raise UsageError MG0001 if the module has several entry functions and the caller has not chosen one."""
        if not self._is_chosen:
            names = [*self.entries]
            hint = f"choose one: --entry {names[0]}, in Python load(path, entry={names[0]!r})"
            text = f"the module has {len(names)} entry functions: {listed(names)}"
            raise UsageError(Diagnostic("MG0001", text, hint=hint))

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    @property
    def members(self) -> Members:
        """Return the members of the module's file."""
        return self._container

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def mesh(self) -> Mesh:
        return self.manifest.mesh

    @property
    def parts(self) -> tuple[LoadedModule, ...]:
        """Return one module per mesh. A program on one mesh has only this module."""
        return (self,)

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """Return the mesh of each of `parts`."""
        return tuple(part.mesh for part in self.parts)

    @property
    def ranks(self) -> int:
        """Return the number of ranks, which is the number of devices."""
        return self.mesh.size

    @property
    def kernel_names(self) -> list[str]:
        return list(self.manifest.kernels)

    @property
    def place(self) -> str:
        """Return the number of ranks and the mesh as text, for display."""
        ranks = self.mesh.size if self.mesh.is_static else "?"
        return f"{ranks} rank{'' if ranks == 1 else 's'} of {self.mesh}"

    def record(self) -> dict[str, Any]:
        """Return the compiler's report in the form of `explain --json`, without the planning options (`planned`)."""
        return {name: value for name, value in self.manifest.report.items() if name != "planned"}

    @property
    def planned(self) -> Mapping[str, Any]:
        """Return the planning options and the source locations of operations, or {} if the module does not store them."""
        return self.manifest.report.get("planned", {})

    @property
    def target(self) -> str:
        """Return the compilation target: `cpu`, or `cuda:` followed by architectures."""
        if isinstance(target := self.planned.get("target"), str):
            return target
        architectures = ",".join(self.manifest.toolchain)
        return f"cuda:{architectures}" if architectures else "cpu"

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Return all arguments of the program."""
        return self.manifest.inputs

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """Return the arguments that callers pass: all arguments except those whose value is stored in the module."""
        return tuple(b for b in self.bindings if not b.stored)

    @property
    def input_names(self) -> list[str]:
        """Return the names of `inputs`."""
        return [b.name for b in self.inputs]

    @property
    def outputs(self) -> tuple[Binding, ...]:
        return self.manifest.outputs

    @property
    def schedule(self) -> Schedule:
        return self.manifest.plan

    @property
    def stages(self) -> dict[str, str]:
        """Return a map from each compilation stage to its text, for the stages whose text the module stores."""
        return {stage: complete_text(self._container, n) for n in self._container if (stage := stage_of(n))}

    def source(self, kernel: str, arch: str = "") -> str:
        """Return the Triton source of a kernel, for `arch` if it is not empty, or "". Raises UsageError MG0001."""
        return self._code.source(kernel, arch)

    def cubin(self, kernel: str, arch: str) -> bytes:
        """Return the binary of a kernel. Raises UsageError MG0001, or MissingError MG0602 if it has none for `arch`."""
        return self._code.cubin(kernel, arch)

    def ptx(self, kernel: str, arch: str) -> str:
        """Return the PTX from which the binary of a kernel was assembled. Raises the same errors as `cubin`."""
        return self._code.ptx(kernel, arch)

    @property
    def _code(self) -> KernelCode:
        return KernelCode(self._container, self.manifest.kernels)

    @property
    def call(self) -> Signature | None:
        """Return the structures of arguments and results, or None if callers pass and get plain arrays in order."""
        return self.manifest.call

    @property
    def state(self) -> State | None:
        """Return which result is the next value of each donated argument, or None if the module has no call signature."""
        return self.manifest.state

    @property
    def input_types(self) -> dict[str, TensorType]:
        """Return the global types of `inputs`, by name."""
        return {b.name: b.type for b in self.inputs}

    @cached_property
    def signature(self) -> Signature:
        """Return the structures of arguments and results, without the weights that the module stores."""
        call = self.call
        if call is None:
            return signature_of(self.input_names)
        return call.storing({slot.name for slot in call.slots if slot.number is not None} - {*self.input_names})

    @at_callers_line
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step with the arguments of the compiled program: global arrays in the structures of its parameters.

        Returns the results in the structure that the program returned. A module stores only class names, so an object
        in this structure has a class that occurs in the arguments, or else is a plain record with the same fields.
        Raises ArgumentError MG0601, and the errors of `run`.
        """
        self.require_entry()
        arrays = bound_arrays(self.signature, self.input_types, args, kwargs)
        return self.signature.results(self.run(arrays), (args, kwargs))

    def __repr__(self) -> str:
        meshes = ", ".join(map(str, self.meshes))
        return f"{type(self).__name__}({self.name!r}, {meshes}, {len(self.input_types)} inputs)"

    def __copy__(self) -> LoadedModule:
        return self  # immutable; `pickling.py` implements pickling

    def __deepcopy__(self, memo: Any) -> LoadedModule:
        return self

    @at_callers_line
    def at(self, mesh: Given = None, args: Shapes = None) -> LoadedModule:
        """Return this module with sizes for its open mesh axes.

        All tensor dims have known sizes, so `args` is only checked. Raises the errors of `load`, and ArgumentError MG0601.
        """
        kinds, shapes = {binding.name: binding.type for binding in self.bindings}, validated_shapes(args)
        faults = [
            Diagnostic("MG0601", f"argument '{name}' has type {kinds[name]}, not {kinds[name].with_shape(shape)}")
            for name, shape in shapes.items()
            if name in kinds and not Argument(name, kinds[name]).takes(shape)
        ]
        faults += [Diagnostic("MG0601", f"unknown argument '{name}'") for name in shapes if name not in kinds]
        if faults:
            raise ArgumentError(*faults)
        return self.on(mesh)

    def on(self, mesh: Given, devices: int | None = None) -> LoadedModule:
        """Return this module with `mesh` or `devices` as the sizes of its mesh, as in `load`."""
        (bound_mesh,) = bound((self.mesh,), mesh, devices)
        if devices is not None:
            require_device_count((bound_mesh,), devices)
        if bound_mesh == self.mesh:
            return self
        if bound_mesh.is_static:
            check(self.manifest.plan, bound_mesh)
        module = LoadedModule(self._container, replace(self.manifest, mesh=bound_mesh), self._constants, self._weights)
        return module.viewed_by(self.viewer)

    @at_callers_line
    def run(self, args: Arguments, device: str | Emulation = "reference") -> list[Array]:
        """Run one step on all ranks, or on the rank of this process if a launcher started one process per rank.

        Every process passes the global arguments, uses its rank's shards of them, and gets the global results.

        Args:
            args: global arrays in the order of `inputs`, or by name.
            device: `reference` evaluates kernels with NumPy; `interpret` executes their Triton source, code from the
                module, on the CPU; `emulate`, or an `Emulation`, runs their PTX on emulated GPUs; `cuda` runs on GPUs.
        Raises:
            ArgumentError: MG0601, with all arguments that do not match.
            MissingError: MG0602, the device is missing.
            ShardingError: MG0201, the size of a mesh axis is unknown.
            RuntimeFailure: MG0604, the step does not fit into memory; MG0608, a kernel faults; MG0609, a rank is lost;
                MG0610, other processes run another module.
        """
        self.require_entry()
        self.require_sizes()
        world = bootstrap.world()
        name, emulation = ("emulate", device) if isinstance(device, Emulation) else (device, Emulation())
        if name not in ENGINES:
            raise UsageError(Diagnostic("MG0001", f"unknown device '{name}'", hint=f"use one of {', '.join(DEVICES)}"))
        with propagating_failures(world), out_of_memory():
            if world:
                require_device_count(self.meshes, world.size, "processes were started by a launcher")
                require_same(world, self._prepared, self.name, self._container, self.meshes, name)
            arrays = arrays_of(self.inputs, args)
            self.require_memory()
            parts = [part.loaded for part in self.parts]
            run = Run(self._prepared, parts, [part.filled(arrays) for part in self.parts], emulation, world)
            return self._in_order(ENGINES[name](run))

    @at_callers_line
    def session(
        self, device: str | Emulation = "reference", weights: Weights = None, *, ignore_extra: bool = False
    ) -> Session:
        """Return a session of the file's entry functions, with weights and state that stay on the devices.

        Args:
            device: see `run`.
            weights: values of arguments that calls do not pass: global arrays by name, or the path of safetensors
                files, a folder of them or its index. Each rank reads its shards. Files must have all parameters of the
                model.
            ignore_extra: ignore tensors that the program does not have.
        Raises:
            UsageError: MG0001, MG0002; ArgumentError: MG0601, missing, unknown or mismatched weights; errors of `run`.
        """
        from meshgen.runtime.sessions.session import Session
        from meshgen.runtime.sessions.session_devices import devices_of

        modules = self.entries
        chosen = next((name for name, module in modules.items() if module is self), None) if self._is_chosen else None
        return Session(modules, chosen, devices_of(modules, device), weights, ignore_extra=ignore_extra)

    def weight(self, name: str) -> Array:
        """Return the global array of an argument that the module stores. Raises KeyError for an unknown name."""
        for part in self.parts:
            if name in part._weights:
                return part._weights[name]
        raise KeyError(name)

    @property
    def loaded(self) -> Loaded:
        """Return the single-mesh module in the form that engines need."""
        container = self._container  # not `self`: engines may keep this function until the module is deleted
        return Loaded(self.manifest, self._constants, lambda name: bytes(container[name]))

    def filled(self, passed: Mapping[str, Array]) -> list[Array]:
        """Return the values of all plan arguments in order: stored values, and those that `passed` has by name."""
        return [self._weights[b.name] if b.stored else passed[b.name] for b in self.manifest.inputs]

    def _in_order(self, results: Sequence[list[Array]]) -> list[Array]:
        """Return the results of all meshes in the order of the program's outputs."""
        return results[0]

    def require_memory(self) -> None:
        """Raise RuntimeFailure MG0604 if a step does not fit into the memory of this machine."""
        require_memory((part.manifest for part in self.parts), alone=bootstrap.world() is not None)

    def require_sizes(self) -> None:
        """Raise ShardingError MG0201 if the size of a mesh axis is unknown."""
        if unknown := [axis.name for axis in self.mesh.axes if axis.size is None]:
            hint = f"load(path, mesh={{'{unknown[0]}': 2}}) or meshgen run --mesh {unknown[0]}=2 sets it"
            texts = [f"the size of mesh axis '{name}' is unknown until load" for name in unknown]
            raise ShardingError(*(Diagnostic("MG0201", text, hint=hint) for text in texts))

    def emulated_kernels(self, arch: str = "") -> dict[str, EmulatedKernel]:
        """Return the kernels that have code as emulated kernels. Raises the errors of `ptx`, and DeviceFault MG0608."""
        from meshgen.runtime.emulate import EmulatedKernel

        kernels = self.manifest.kernels
        arch = arch or first_arch(kernels) or "sm_90"  # "sm_90": the architecture that the error then names
        names = [name for name, kernel in kernels.items() if kernel.source]
        return {
            name: EmulatedKernel(kernels[name], arch, self.ptx(name, arch), self.source(name, arch)) for name in names
        }
