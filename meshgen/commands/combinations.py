"""The combinations of sizes that a command line lists, `--mesh dp=2|4` and `--shape x=16x?|32x?`: those to compile for ahead of time."""

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
    """A size for each axis that has several, and a shape for each input that has several."""

    axes: Mapping[tuple[str, str], int]  # by names of mesh and axis
    shapes: Mapping[str, Shape]

    @property
    def choices(self) -> set[tuple[object, object]]:
        return {*self.axes.items(), *self.shapes.items()}

    @property
    def meshes(self) -> list[Mesh]:
        """The sizes of axes, mesh by mesh."""
        found: dict[str, dict[str, int]] = {}
        for (mesh, axis), size in self.axes.items():
            found.setdefault(mesh, {})[axis] = size
        return [make_mesh(sizes, mesh) for mesh, sizes in found.items()]


def combinations(options: argparse.Namespace) -> list[Combination]:
    """Every combination of the sizes with several choices; empty without any."""
    meshes = [parse_mesh_choices(text) for text in options.mesh]
    axes = {(mesh.name, axis): sizes for mesh, choices in meshes for axis, sizes in choices.items()}
    shapes = {name: each for name, each in shapes_option(options.shape).items() if len(each) > 1}
    if not axes and not shapes:
        return []
    rows = itertools.product(itertools.product(*axes.values()), itertools.product(*shapes.values()))
    return [Combination(dict(zip(axes, a, strict=True)), dict(zip(shapes, s, strict=True))) for a, s in rows]


def at_combinations(
    module: Module, choice: Options, options: argparse.Namespace, output: Output
) -> dict[Sizes, Module]:
    """The program for each combination of sizes that it allows; empty where no sizes are given."""
    if not (wanted := combinations(options)):
        return {}
    program = open_program(module, fixed_shapes(options), choice)
    return _fitting(module, program, wanted, output) if program.is_open else {}


def specialise(executable: Executable, options: argparse.Namespace, output: Output) -> None:
    """Compile a program with open sizes, without binaries, for each combination that it allows."""
    wanted = combinations(options)
    if isinstance(executable, OpenExecutable):
        (module,) = executable.stages.values()
        for sizes in _fitting(module, executable.program, wanted, output):
            executable.specialise_for(sizes)
    elif wanted:
        output.note(
            "note: the program does not depend on the sizes that are given several times: one module covers all"
        )


def _fitting(
    module: Module, program: OpenProgram, wanted: Sequence[Combination], output: Output
) -> dict[Sizes, Module]:
    """The program for the combinations that fit it. Raises the fault of a size that fits in none."""
    found: dict[Sizes, Module] = {}
    refused: list[tuple[Combination, MeshgenError]] = []
    used: set[tuple[object, object]] = set()
    for each in wanted:
        try:
            sizes = program.sizes(bound(program.meshes, each.meshes), each.shapes)
            found[sizes] = closed(module, program, sizes)
            used |= each.choices
        except (ArgumentError, ProgramError) as error:
            refused.append((each, error))
    for each, error in refused:
        if not each.choices <= used:
            raise error
    if refused:
        output.note(f"note: {len(refused)} of {len(wanted)} combinations of sizes contradict the program: skipped")
    return found
