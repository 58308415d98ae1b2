"""Shared by commands: options that describe a program, and reading it."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshgen import api
from meshgen.codegen.targets import built_for
from meshgen.commands.combinations import at_combinations
from meshgen.commands.options import OF_PROGRAM, OF_TARGET, add_options, chosen_options
from meshgen.commands.output import Output
from meshgen.commands.sizes import meshes_option
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Module
from meshgen.mesh import Meshes
from meshgen.options import CompileOptions
from meshgen.pipeline import Options, Timing, verify_program
from meshgen.reports.places import differences, program_of
from meshgen.sharding.unknown import nominal_mesh, unknown_axes
from meshgen.sizes.program import at_mesh, has_open_results, with_shapes

if TYPE_CHECKING:
    from meshgen.runtime.module import LoadedModule


def add_program(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """The options that describe a program and its shardings."""
    what = "a .mlir, .onnx or .pt2 file, pkg.mod:function, or - for stdin"
    parser.add_argument("program", metavar="IN", nargs=None if needed else "?", help=what)
    parser.add_argument(
        "--mesh",
        metavar="[NAME:]AXES",
        action="append",
        default=[],
        help="the devices, such as dp=2,tp=4; else the mesh that the file declares; of several meshes each by name: "
        "--mesh first:dp=2 --mesh second:x=4; dp=? leaves a size open, dp=2|4 lists those to try or compile for",
    )
    add_options(parser, OF_PROGRAM)


def add_target(parser: argparse.ArgumentParser) -> None:
    """The options that say how a program is planned."""
    add_options(parser, OF_TARGET)


def source_of(options: argparse.Namespace) -> tuple[Any, Meshes]:
    """The program that IN names, and its mesh."""
    return read_program(options.program), meshes_option(options.mesh)


def planned(options: argparse.Namespace, output: Output) -> Executable:
    """The scheduled program, without binaries. Open sizes get the first ones given; mesh axes a nominal one by default.

    A note says so. A module's program is planned as it was for the module; a note says in which figures the module differs.
    """
    loaded = module_named(options)
    if loaded and (saved := _as_compiled(loaded, options)) is not None:
        return saved
    module, choice, timing = program(options, loaded)
    if named := at_combinations(module, choice, options, output):
        sizes, module = next(iter(named.items()))
        if len(named) > 1:
            output.note(f"note: planned for {sizes}, the first of {len(named)} combinations of sizes")
    if unknown := unknown_axes(module):
        module = at_mesh(module, nominal_mesh(module))
        module = with_shapes(module, {}) if has_open_results(module) else module
        verify_program(module)
        output.note(
            f"note: the size of mesh axis {', '.join(unknown)} is unknown: planned for {module.mesh}; --mesh sets another"
        )
    with output.progress() as progress:
        found = api.plan_module(module, choice, timing, progress=progress)
    if loaded and choice == program_of(loaded, options.program)[1] and (others := differences(loaded, found)):
        output.note(
            f"note: this version of meshgen plans the program otherwise: {', '.join(others)} are not the module's"
        )
    return found


def _as_compiled(loaded: LoadedModule, options: argparse.Namespace) -> Executable | None:
    """The program of a module with its decisions; None where it has none, or the command line asks for other ones."""
    from meshgen.compiled.restored import saved_program

    names = [name for name in (*OF_PROGRAM, *OF_TARGET) if name != "entry"]
    is_changed = options.mesh or CompileOptions(**chosen_options(options, names)) != CompileOptions(donate={})
    return None if is_changed else saved_program(loaded)


def module_named(options: argparse.Namespace) -> LoadedModule | None:
    """The module, if IN is one."""
    if Path(options.program).suffix != ".mgx":
        return None
    from meshgen.runtime.loading import load

    return load(options.program, entry=options.entry[0] if options.entry else "", runs=False)


def program(options: argparse.Namespace, loaded: LoadedModule | None = None) -> tuple[Module, Options, Timing]:
    """The program as read, or that of a module, and the options for its stages."""
    if loaded:
        return _program_of_module(options, loaded)
    timing, chosen = Timing(), CompileOptions(**chosen_options(options, (*OF_PROGRAM, *OF_TARGET)))
    choice = chosen.for_stages()
    with timing.of("import"):
        module, _ = api.read_with(*source_of(options), chosen)
    target = built_for(chosen.target, module.meshes or (module.mesh,))
    return module, replace(choice, target=target), timing


def _program_of_module(options: argparse.Namespace, loaded: LoadedModule) -> tuple[Module, Options, Timing]:
    """The program of a module, with what the options change."""
    timing, asked = Timing(), chosen_options(options, OF_TARGET)
    with timing.of("import"):
        module, choice = program_of(loaded, options.program)
        names = [name for name in OF_PROGRAM if name not in ("arguments", "entry")]  # they are the module's
        module, _ = api.read_with(module, meshes_option(options.mesh), CompileOptions(**chosen_options(options, names)))
    given = {name: value for name, value in asked.items() if value}
    return module, replace(choice, **given), timing


def read_program(name: str) -> Any:
    """The program that IN names."""
    if name == "-":
        return name
    return name if ":" in name and not os.path.exists(name) else Path(name)
