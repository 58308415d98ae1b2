"""The combinations of sizes that a command line lists, as in `--mesh dp=2|4 --shape x=16x?|32x?`. A program is compiled
for each.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.commands.output import Output
from meshgen.commands.sizes import Shape, fixed_shapes, shapes_option
from meshgen.compiled.executable import Executable
from meshgen.compiled.open_sizes import OpenExecutable, closed, open_program
from meshgen.errors import ArgumentError, MeshgenError, ProgramError
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh, make_mesh
from meshgen.notation import parse_mesh_choices
from meshgen.pipeline import Options
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.sizes import Sizes, bound


class Combination(NamedTuple):
    """One combination: a size for each mesh axis with several listed sizes, and a shape for each input with several
    listed shapes.
    """

    axes: Mapping[tuple[str, str], int]  # (mesh name, axis name) -> size
    shapes: Mapping[str, Shape]

    @property
    def choices(self) -> set[tuple[object, object]]:
        return {*self.axes.items(), *self.shapes.items()}

    @property
    def meshes(self) -> list[Mesh]:
        """Return the chosen axis sizes as meshes."""
        sizes_by_mesh: dict[str, dict[str, int]] = {}
        for (mesh, axis), size in self.axes.items():
            sizes_by_mesh.setdefault(mesh, {})[axis] = size
        return [make_mesh(sizes, mesh) for mesh, sizes in sizes_by_mesh.items()]


def combinations(options: argparse.Namespace) -> list[Combination]:
    """Return all combinations of the listed sizes and shapes, or none if no axis and no input has several."""
    meshes = [parse_mesh_choices(text) for text in options.mesh]
    axes = {(mesh.name, axis): sizes for mesh, choices in meshes for axis, sizes in choices.items()}
    shapes = {
        name: alternatives for name, alternatives in shapes_option(options.shape).items() if len(alternatives) > 1
    }
    if not axes and not shapes:
        return []
    rows = itertools.product(itertools.product(*axes.values()), itertools.product(*shapes.values()))
    return [
        Combination(dict(zip(axes, axis_sizes, strict=True)), dict(zip(shapes, input_shapes, strict=True)))
        for axis_sizes, input_shapes in rows
    ]


def at_combinations(
    module: Module, choice: Options, options: argparse.Namespace, output: Output
) -> dict[Sizes, Module]:
    """Return the program for each listed combination of sizes that is valid for it. The result is empty without listed
    sizes.
    """
    if not (requested := combinations(options)):
        return {}
    program = open_program(module, fixed_shapes(options), choice)
    return _fitting(module, program, requested, output) if program.is_open else {}


def specialize(executable: Executable, options: argparse.Namespace, output: Output) -> None:
    """Compile a program with open sizes for each listed combination of sizes that is valid for it. No binaries are
    built.
    """
    requested = combinations(options)
    if isinstance(executable, OpenExecutable):
        (module,) = executable.stages.values()
        for sizes in _fitting(module, executable.program, requested, output):
            executable.specialize_for(sizes)
    elif requested:
        output.note(
            "note: the program does not depend on the sizes that are given several times: one module covers all"
        )


def _fitting(
    module: Module, program: OpenProgram, requested: Sequence[Combination], output: Output
) -> dict[Sizes, Module]:
    """Return the program for each requested combination, except combinations that contradict the program.

    Raises:
        ArgumentError, ProgramError: a listed size contradicts the program in every combination.
    """
    programs: dict[Sizes, Module] = {}
    refused: list[tuple[Combination, MeshgenError]] = []
    fitting_choices: set[tuple[object, object]] = set()
    for combination in requested:
        try:
            sizes = program.sizes(bound(program.meshes, combination.meshes), combination.shapes)
            programs[sizes] = closed(module, program, sizes)
            fitting_choices |= combination.choices
        except (ArgumentError, ProgramError) as error:
            refused.append((combination, error))
    for combination, error in refused:
        if not combination.choices <= fitting_choices:
            raise error
    if refused:
        output.note(f"note: {len(refused)} of {len(requested)} combinations of sizes contradict the program: skipped")
    return programs
