"""Helpers that commands share: the options that describe a program, and functions that read the program."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshgen import api
from meshgen.codegen.targets import resolve_target
from meshgen.commands.combinations import at_combinations
from meshgen.commands.options import OF_PROGRAM, OF_TARGET, add_options, chosen_options
from meshgen.commands.output import Output
from meshgen.commands.sizes import meshes_option
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Module
from meshgen.mesh import Meshes
from meshgen.options import CompileOptions
from meshgen.pipeline import Options, Timing, verify_program
from meshgen.reports.plan_record import differences, program_of
from meshgen.sharding.unknown_axes import nominal_mesh, unknown_axes
from meshgen.sizes.program import at_mesh, has_open_results, with_shapes

if TYPE_CHECKING:
    from meshgen.runtime.module import LoadedModule


def add_program(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Add the options that describe a program and its shardings."""
    input_help = "a .mlir, .onnx or .pt2 file, pkg.mod:function, or - for stdin"
    parser.add_argument("program", metavar="IN", nargs=None if needed else "?", help=input_help)
    parser.add_argument(
        "--mesh",
        metavar="[NAME:]AXES",
        action="append",
        default=[],
        help="the mesh of devices, such as dp=2,tp=4 (default: the mesh that the program declares); several meshes by name: "
        "--mesh first:dp=2 --mesh second:x=4; dp=? leaves a size open, dp=2|4 lists the sizes to try or compile for",
    )
    add_options(parser, OF_PROGRAM)


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the options that select how a program is planned."""
    add_options(parser, OF_TARGET)


def source_of(options: argparse.Namespace) -> tuple[Any, Meshes]:
    """Return the program that the argument IN names, and the meshes of `--mesh`."""
    return read_program(options.program), meshes_option(options.mesh)


def planned(options: argparse.Namespace, output: Output) -> Executable:
    """Return the program that IN names after all stages, but without binaries.

    Open sizes get the first size listed for them, and open mesh axes a nominal size. A note reports both. If IN is a
    module, its program is planned with the options stored in the module, and a note lists the figures that differ from
    the stored ones.
    """
    loaded = module_named(options)
    if loaded and (saved_executable := _saved_executable(loaded, options)) is not None:
        return saved_executable
    module, choice, timing = program(options, loaded)
    if combinations := at_combinations(module, choice, options, output):
        sizes, module = next(iter(combinations.items()))
        if len(combinations) > 1:
            output.note(f"note: planned for {sizes}, the first of {len(combinations)} combinations of sizes")
    if unknown := unknown_axes(module):
        module = at_mesh(module, nominal_mesh(module))
        module = with_shapes(module, {}) if has_open_results(module) else module
        verify_program(module)
        output.note(
            f"note: the size of mesh axis {', '.join(unknown)} is unknown: planned for {module.mesh}; --mesh sets another"
        )
    with output.progress() as progress:
        executable = api.plan_module(module, choice, timing, progress=progress)
    if (
        loaded
        and choice == program_of(loaded, options.program)[1]
        and (changed_figures := differences(loaded, executable))
    ):
        output.note(
            f"note: this version of meshgen plans the program otherwise: {', '.join(changed_figures)} are not the module's"
        )
    return executable


def _saved_executable(loaded: LoadedModule, options: argparse.Namespace) -> Executable | None:
    """Return the program of a module, scheduled with the decisions that the module stores.

    Returns None if the module has no decisions or the command line changes options.
    """
    from meshgen.compiled.restored import saved_program

    names = [name for name in (*OF_PROGRAM, *OF_TARGET) if name != "entry"]
    is_changed = options.mesh or CompileOptions(**chosen_options(options, names)) != CompileOptions(donate={})
    return None if is_changed else saved_program(loaded)


def module_named(options: argparse.Namespace) -> LoadedModule | None:
    """Return the module that IN names, or None if IN is not a module."""
    if Path(options.program).suffix != ".mgx":
        return None
    from meshgen.runtime.loading import load

    return load(options.program, entry=options.entry[0] if options.entry else "", runs=False)


def program(options: argparse.Namespace, loaded: LoadedModule | None = None) -> tuple[Module, Options, Timing]:
    """Return the program that IN names, or the program of the module `loaded`, with the options for its stages."""
    if loaded:
        return _program_of_module(options, loaded)
    timing, chosen = Timing(), CompileOptions(**chosen_options(options, (*OF_PROGRAM, *OF_TARGET)))
    choice = chosen.for_stages()
    with timing.of("import"):
        module, _ = api.read_with(*source_of(options), chosen)
    target = resolve_target(chosen.target, module.meshes or (module.mesh,))
    return module, replace(choice, target=target), timing


def _program_of_module(options: argparse.Namespace, loaded: LoadedModule) -> tuple[Module, Options, Timing]:
    """Return the program and the options that a module stores. Options of the command line replace stored options."""
    timing, target_options = Timing(), chosen_options(options, OF_TARGET)
    with timing.of("import"):
        module, choice = program_of(loaded, options.program)
        # these two options cannot be changed: the module determines them
        names = [name for name in OF_PROGRAM if name not in ("arguments", "entry")]
        module, _ = api.read_with(module, meshes_option(options.mesh), CompileOptions(**chosen_options(options, names)))
    changes = {name: value for name, value in target_options.items() if value}
    return module, replace(choice, **changes), timing


def read_program(name: str) -> Any:
    """Return IN as a path, or as text if it names stdin or a Python function."""
    if name == "-":
        return name
    return name if ":" in name and not os.path.exists(name) else Path(name)
