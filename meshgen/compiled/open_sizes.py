"""A program with open sizes: it is compiled for each requested combination of sizes."""

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
from meshgen.sharding.unknown import open_axes
from meshgen.sizes.program import (
    at_meshes,
    given_types,
    has_open_results,
    input_names,
    refuse_unknown_dims,
    with_shapes,
)

Array = np.ndarray[Any, Any]
Plan = Callable[[Module, Options, Timing, Signature | None], Executable]


def open_program(module: Module, shapes: Mapping[str, Sequence[int | None]], options: Options) -> OpenProgram:
    """The sizes that stay open once these shapes of inputs are given (None: as the program has it).

    Raises UsageError MG0001 for shapes that do not fit, ProgramError MG0208 for open tiles in a program of local tensors.
    """
    outs = module.graph.outputs
    kinds = given_types(module.graph, shapes)
    names = input_names(module.graph)
    if module.in_types and any(None in kind.shape for kind in kinds):  # callers pass global arrays
        refuse_unknown_dims(module)
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
    """The program for these sizes. Raises ProgramError where they contradict it, or do not determine all others."""
    module = at_meshes(module, with_sizes(program.meshes, dict(sizes.axes)))
    given = dict(sizes.shapes)
    if any(None in value.type.shape for value in module.graph.inputs) or has_open_results(module):
        kinds = [value.type for value in module.graph.inputs] if module.in_types else [a.type for a in program.inputs]
        pairs = zip(input_names(module.graph), kinds, strict=True)
        module = with_shapes(module, {name: given.get(name, kind.shape) for name, kind in pairs})
    verify_program(module)
    return module


class OpenExecutable(Executable):
    """A program with open sizes. Made by `compile`.

    `specialisations` are compiled; `at` gives the executable for other sizes. Attributes that depend on sizes (`comms`, `plan`,
    ...) are those of one of them.
    """

    def __init__(self, module: Module, program: OpenProgram, options: Options, timing: Timing, signature: Signature,
                 make: Plan) -> None:  # fmt: skip
        self.stages = {module.stage: module}
        self.program = program
        self.options = options
        self.specialisations: dict[Sizes, Executable] = {}
        self._module = module
        self._timing, self._signature, self._make = timing, signature, make
        self._made: dict[Sizes, Executable] = {}

    @property
    def plan(self) -> Schedule:
        """Raises ShardingError MG0201 or ArgumentError MG0601 with the sizes that are missing."""
        return self.at().plan

    @cached_property
    def signature(self) -> Signature:
        return self._signature or signature_of(input_names(self._module.graph))

    @property
    def fused(self) -> Module:
        """As `plan`."""
        return self.at().fused

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def mesh(self) -> Mesh:
        return self.program.meshes[0]

    @property
    def parts(self) -> tuple[Executable, ...]:
        """As `plan`."""
        return self.at().parts

    @property
    def warnings(self) -> list[Diagnostic]:
        """Those of the specialisations, each once."""
        return list(dict.fromkeys(warning for each in self.specialisations.values() for warning in each.warnings))

    @property
    def build_warnings(self) -> list[Diagnostic]:
        """Those of the specialisations, each once."""
        return list(dict.fromkeys(warning for each in self.specialisations.values() for warning in each.build_warnings))

    @property
    def place(self) -> str:
        """The mesh, for display."""
        meshes = self.program.meshes
        return " and ".join(f"@{mesh.name} {mesh}" if len(meshes) > 1 else str(mesh) for mesh in meshes)

    def sizes(self, mesh: Given = None, args: Shapes = None) -> Sizes:
        """The sizes that the arguments determine. Raises as `at`, except ProgramError."""
        return self.program.sizes(bound(self.program.meshes, mesh), shapes_of(args, self.signature))

    @at_callers_line
    def at(self, mesh: Given = None, args: Shapes = None) -> Executable:
        """The program for these sizes, without binaries unless it is one of `specialisations`.

        Args:
            mesh: sizes of open mesh axes.
            args: shapes of inputs, by name.
        Raises:
            ShardingError: MG0201, MG0202, a size of a mesh axis is missing or contradicts the program.
            ArgumentError: MG0601, a shape is missing or contradicts the program.
            ProgramError: the program is refused for these sizes.
        """
        return self._at(self.sizes(mesh, args))

    def _at(self, sizes: Sizes) -> Executable:
        if sizes not in self._made:
            module = closed(self._module, self.program, sizes)
            self._made[sizes] = self._make(module, self.options, self._timing, self._signature)
            self._made[sizes].specialised = sizes.record() | {"made": AHEAD}
        return self._made[sizes]

    @at_callers_line
    def specialise(self, mesh: Given = None, args: Shapes = None) -> Executable:
        """As `at`; the specialisation becomes part of the module."""
        return self.specialise_for(self.sizes(mesh, args))

    def specialise_for(self, sizes: Sizes) -> Executable:
        """As `specialise`."""
        self.specialisations[sizes] = self._at(sizes)
        return self.specialisations[sizes]

    @property
    def without_code(self) -> list[str]:
        """Of all specialisations."""
        return list(dict.fromkeys(name for each in self.specialisations.values() for name in each.without_code))

    def build(self, progress: Progress | None = None) -> None:
        """Compile the kernels of all specialisations; equal ones are built once."""
        for executable in self.specialisations.values():
            executable.build(progress)

    @at_callers_line
    def save(self, path: str | Path, weights: Weights = None) -> None:
        """Write the module: the program's text, and every specialisation.

        Args:
            weights: global arrays of inputs that are stored and not passed when it runs; open dims have their sizes. Default: the program's own.
        Raises:
            ArgumentError: MG0601, weights that do not fit the inputs, or not those of a specialisation.
        """
        from meshgen.runtime.module_file import container

        chosen = weights_by_name(self.signature.weights if weights is None else weights)
        container.write(path_of(path), self.members(weight_arrays(self.signature, chosen)))

    def members(self, weights: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """The members of the module's file; of an ordinary module, where the weights determine all sizes. Raises as `save`."""
        from meshgen.codegen.packaging.open_sizes import open_members

        weights = weights or {}
        program = replace(self._with_weights(weights), call=self._signature)
        if not program.is_open:
            executable = self.at(args={name: weights[name].shape for name in self.program.shapes})
            executable.build()
            return executable.members(weights)
        held = {
            replace(sizes, shapes=tuple(pair for pair in sizes.shapes if pair[0] in program.shapes)): made.members(
                weights
            )
            for sizes, made in self.specialisations.items()
        }
        return open_members(program, self.as_text(program.stage), held, weights)

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with a part for each specialisation."""
        from meshgen.reports.report import write_reports

        write_reports(self.name, list(self.specialisations.values()), path_of(path))

    def _with_weights(self, weights: Mapping[str, Array]) -> OpenProgram:
        """The program with the sizes of the weights."""
        program = self.program
        table = {each.name: each for each in program.inputs}
        texts = [f"weight for an unknown input '{name}'" for name in weights if name not in table]
        inputs: list[Argument] = []
        for each in program.inputs:
            if each.name in weights:
                array = weights[each.name]
                if array.dtype != each.type.numpy_dtype or not each.takes(array.shape):
                    have = f"{array.dtype}{list(array.shape)}"
                    texts.append(f"weight '{each.name}' has type {have}, but the program takes {each.type}")
                each = each._replace(type=each.type.with_shape(array.shape), stored=True)
            inputs.append(each)
        if texts:
            hint = f"the inputs are {', '.join(table)}"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
        shapes = tuple(name for name in program.shapes if name not in weights)
        return replace(program, inputs=tuple(inputs), shapes=shapes)

    @at_callers_line
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step on all simulated ranks, for the sizes of these arguments."""
        from meshgen.runtime.simulate import simulate

        types = {each.name: each.type for each in self.program.inputs}
        arrays = bound_arrays(self.signature, types, args, kwargs)
        at = self.at(args={name: arrays[name].shape for name in self.program.shapes})
        return self.signature.results(simulate(at.fused, at.ordered(arrays)), (args, kwargs))

    def _repr_html_(self) -> str:
        return render(repr(self), html=True)

    def __repr__(self) -> str:
        held = "; ".join(map(str, self.specialisations)) or "no sizes"
        return f"OpenExecutable({self.name!r}, {self.place}, target={self.target!r}, compiled for {held})"
