"""Compiled programs with open sizes: each requested combination of sizes is compiled to a separate executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.calls.arguments import bound_arrays, weight_arrays
from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature, signature_of
from meshgen.codegen.packaging.package import signature_names
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.frontend.arguments import shapes_of
from meshgen.ir.graph import Module, TensorType
from meshgen.mesh import Mesh
from meshgen.pipeline import Options, Progress, Timing, verify_program
from meshgen.reports.tables import render
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.open_program import AHEAD, Argument, OpenProgram, Shapes
from meshgen.runtime.plan import Schedule
from meshgen.runtime.sessions.weights import Weights, weights_by_name
from meshgen.runtime.sizes import Given, Sizes, bound, with_sizes
from meshgen.sharding.unknown_axes import open_axes
from meshgen.sizes.program import (
    at_meshes,
    has_open_results,
    input_names,
    require_known_dims,
    types_with_shapes,
    with_shapes,
)

Array = np.ndarray[Any, Any]
Plan = Callable[[Module, Options, Timing, Signature | None], Executable]


def open_program(module: Module, shapes: Mapping[str, Sequence[int | None]], options: Options) -> OpenProgram:
    """Return the description of a program with open sizes, after the sizes in `shapes` have been fixed.

    Args:
        shapes: input name -> shape. A size of None leaves the size in the program unchanged.
    Raises:
        UsageError: MG0001, a shape contradicts the program.
        ProgramError: MG0208, a program of local tensors has tiles of unknown size.
    """
    outs = module.graph.outputs
    kinds = types_with_shapes(module.graph, shapes)
    names = input_names(module.graph)
    # Callers pass global arrays, whose shapes do not determine unknown tile sizes.
    if module.in_types and any(None in kind.shape for kind in kinds):
        require_known_dims(module)
    return OpenProgram(
        module.name,
        module.meshes or (module.mesh,),
        open_axes(module),
        tuple(name for name, kind in zip(names, kinds, strict=True) if None in kind.shape),
        _arguments(names, module.in_types or kinds),
        _arguments(signature_names("result", outs), module.out_types or [value.type for value in outs]),
        module.stage,
        options.arguments,
        options.target,
    )


def _arguments(names: Sequence[str], types: Sequence[TensorType]) -> tuple[Argument, ...]:
    return tuple(Argument(name, kind) for name, kind in zip(names, types, strict=True))


def closed(module: Module, program: OpenProgram, sizes: Sizes) -> Module:
    """Specialize the module for `sizes`. Raises ProgramError if `sizes` contradict it or do not determine all sizes."""
    module = at_meshes(module, with_sizes(program.meshes, dict(sizes.axes)))
    shapes = dict(sizes.shapes)
    if any(None in value.type.shape for value in module.graph.inputs) or has_open_results(module):
        kinds = [value.type for value in module.graph.inputs] if module.in_types else [a.type for a in program.inputs]
        pairs = zip(input_names(module.graph), kinds, strict=True)
        module = with_shapes(module, {name: shapes.get(name, kind.shape) for name, kind in pairs})
    verify_program(module)
    return module


class OpenExecutable(Executable):
    """A compiled program with open sizes; `compile` returns it.

    `at` returns the executable for sizes that the caller gives. `specializations` has the executables that the module
    file will contain. Properties that depend on sizes, such as `plan` and `comms`, raise an error as long as sizes are
    open.
    """

    def __init__(self, module: Module, program: OpenProgram, options: Options, timing: Timing, signature: Signature,
                 make: Plan) -> None:  # fmt: skip
        self.stages = {module.stage: module}
        self.program = program
        self.options = options
        self.specializations: dict[Sizes, Executable] = {}
        self._module = module
        self._timing, self._signature, self._make = timing, signature, make
        self._executables: dict[Sizes, Executable] = {}

    @property
    def plan(self) -> Schedule:
        """Return the schedule if no size is open. Raises ShardingError MG0201 or ArgumentError MG0601 with the missing
        sizes.
        """
        return self.at().plan

    @cached_property
    def signature(self) -> Signature:
        return self._signature or signature_of(input_names(self._module.graph))

    @property
    def fused(self) -> Module:
        """Return the module at stage `fuse`. Raises the same errors as `plan`."""
        return self.at().fused

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def mesh(self) -> Mesh:
        return self.program.meshes[0]

    @property
    def parts(self) -> tuple[Executable, ...]:
        """Return one executable per mesh. Raises the same errors as `plan`."""
        return self.at().parts

    @property
    def warnings(self) -> list[Diagnostic]:
        """Return the distinct warnings of all specializations."""
        return list(
            dict.fromkeys(warning for executable in self.specializations.values() for warning in executable.warnings)
        )

    @property
    def build_warnings(self) -> list[Diagnostic]:
        """Return the distinct build warnings of all specializations."""
        return list(
            dict.fromkeys(
                warning for executable in self.specializations.values() for warning in executable.build_warnings
            )
        )

    @property
    def place(self) -> str:
        """Return the meshes as text, for display."""
        meshes = self.program.meshes
        return " and ".join(f"@{mesh.name} {mesh}" if len(meshes) > 1 else str(mesh) for mesh in meshes)

    def sizes(self, mesh: Given = None, args: Shapes = None) -> Sizes:
        """Return the sizes that `mesh` and `args` determine. Raises the same errors as `at`, except ProgramError."""
        return self.program.sizes(bound(self.program.meshes, mesh), shapes_of(args, self.signature))

    @at_callers_line
    def at(self, mesh: Given = None, args: Shapes = None) -> Executable:
        """Return the executable for these sizes. It has kernel binaries only if it is one of `specializations`.

        Args:
            mesh: sizes of open mesh axes.
            args: shapes of inputs, by name.
        Raises:
            ShardingError: MG0201, MG0202, a size of a mesh axis is missing or contradicts the program.
            ArgumentError: MG0601, a shape is missing or contradicts the program.
            ProgramError: the program is invalid for these sizes.
        """
        return self._at(self.sizes(mesh, args))

    def _at(self, sizes: Sizes) -> Executable:
        if sizes not in self._executables:
            module = closed(self._module, self.program, sizes)
            self._executables[sizes] = self._make(module, self.options, self._timing, self._signature)
            self._executables[sizes].specialized = sizes.record() | {"made": AHEAD}
        return self._executables[sizes]

    @at_callers_line
    def specialize(self, mesh: Given = None, args: Shapes = None) -> Executable:
        """Return the executable for these sizes, as `at` does, and include it in the module file."""
        return self.specialize_for(self.sizes(mesh, args))

    def specialize_for(self, sizes: Sizes) -> Executable:
        """Return the executable for `sizes`, and include it in the module file."""
        self.specializations[sizes] = self._at(sizes)
        return self.specializations[sizes]

    @property
    def without_code(self) -> list[str]:
        """Return the names of the kernels without generated code, over all specializations."""
        return list(
            dict.fromkeys(name for executable in self.specializations.values() for name in executable.without_code)
        )

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all specializations. Equal kernels are compiled once."""
        for executable in self.specializations.values():
            executable.build(progress)

    @at_callers_line
    def save(self, path: str | Path, weights: Weights = None) -> None:
        """Write the module file: the program's text and every specialization.

        Args:
            weights: global arrays of inputs that the module stores, so that callers do not pass them. The shapes of
                these arrays fix open sizes. Default: the program's own weights.
        Raises:
            ArgumentError: MG0601, weights do not match the inputs or a specialization.
        """
        from meshgen.runtime.module_file import container

        chosen = weights_by_name(self.signature.weights if weights is None else weights)
        container.write(path_of(path), self.members(weight_arrays(self.signature, chosen)))

    def members(self, weights: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """Return the members of the module file by name. Raises the same errors as `save`.

        If the shapes of the weights determine all sizes, the file is a module without open sizes.
        """
        from meshgen.codegen.packaging.open_sizes import open_members

        weights = weights or {}
        program = replace(self._with_weights(weights), call=self._signature)
        if not program.is_open:
            executable = self.at(args={name: weights[name].shape for name in self.program.shapes})
            executable.build()
            return executable.members(weights)
        specialized_members = {
            replace(
                sizes, shapes=tuple(pair for pair in sizes.shapes if pair[0] in program.shapes)
            ): specialized.members(weights)
            for sizes, specialized in self.specializations.items()
        }
        return open_members(program, self.as_text(program.stage), specialized_members, weights)

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with a section for each specialization."""
        from meshgen.reports.report import write_reports

        write_reports(self.name, list(self.specializations.values()), path_of(path))

    def _with_weights(self, weights: Mapping[str, Array]) -> OpenProgram:
        """Return the program description with the open sizes fixed that the shapes of the weights determine."""
        program = self.program
        inputs_by_name = {argument.name: argument for argument in program.inputs}
        messages = [f"weight for an unknown input '{name}'" for name in weights if name not in inputs_by_name]
        inputs: list[Argument] = []
        for argument in program.inputs:
            if argument.name in weights:
                array = weights[argument.name]
                if array.dtype != argument.type.numpy_dtype or not argument.takes(array.shape):
                    actual = f"{array.dtype}{list(array.shape)}"
                    messages.append(
                        f"weight '{argument.name}' has type {actual}, but the program takes {argument.type}"
                    )
                argument = argument._replace(type=argument.type.with_shape(array.shape), stored=True)
            inputs.append(argument)
        if messages:
            hint = f"the inputs are {', '.join(inputs_by_name)}"
            raise ArgumentError(*(Diagnostic("MG0601", message, hint=hint) for message in messages))
        shapes = tuple(name for name in program.shapes if name not in weights)
        return replace(program, inputs=tuple(inputs), shapes=shapes)

    @at_callers_line
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step on all simulated ranks, with the executable for the sizes of these arguments."""
        from meshgen.runtime.simulate import simulate

        types = {argument.name: argument.type for argument in self.program.inputs}
        arrays = bound_arrays(self.signature, types, args, kwargs)
        executable = self.at(args={name: arrays[name].shape for name in self.program.shapes})
        return self.signature.results(simulate(executable.fused, executable.ordered(arrays)), (args, kwargs))

    def _repr_html_(self) -> str:
        return render(repr(self), html=True)

    def __repr__(self) -> str:
        compiled_sizes = "; ".join(map(str, self.specializations)) or "no sizes"
        return f"OpenExecutable({self.name!r}, {self.place}, target={self.target!r}, compiled for {compiled_sizes})"
