"""Shared by commands: options that describe a program, and reading it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshgen import api
from meshgen.codegen.targets import DEFAULT_TARGET, built_for
from meshgen.commands.combinations import at_combinations
from meshgen.commands.constants import add_constants, constants_option
from meshgen.commands.output import Output
from meshgen.commands.sizes import fixed_shapes, meshes_option
from meshgen.compiled.executable import Executable
from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.ir.graph import Module
from meshgen.machine.profiles import MACHINES
from meshgen.names import byte_count, whole_number
from meshgen.notation import parse_sharding
from meshgen.ops.precision import PRECISIONS
from meshgen.pipeline import Options, Timing, verify_program
from meshgen.reports.places import differences, program_of
from meshgen.sharding.unknown import nominal_mesh, unknown_axes
from meshgen.sizes.program import at_mesh, has_open_results, with_shapes
from meshgen.spec import Sharding

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
    parser.add_argument(
        "--machine",
        help=f"the hosts that the mesh is on: {', '.join(MACHINES)}, or a profile.json of your own (default: what the program says, else one host)",
    )
    parser.add_argument(
        "--entry",
        metavar="NAME",
        action="append",
        default=[],
        help="the entry function, where IN has several; compile accepts several, and takes all where none is @main",
    )
    parser.add_argument(
        "--arg",
        metavar="TYPE",
        action="append",
        default=[],
        help="type of the function's next parameter, such as f32[8,16]",
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=SIZES",
        action="append",
        default=[],
        help="shape of an input with open sizes, such as x=8x64 (? keeps the program's size); x=8x?|16x? lists several",
    )
    add_constants(parser)
    _add_annotations(parser)


def _add_annotations(parser: argparse.ArgumentParser) -> None:
    """Add the options for annotations and donation of arguments and results."""
    parser.add_argument(
        "--spec",
        metavar="NAME=SPEC",
        action="append",
        default=[],
        help="required sharding of an input, such as w1=_,tp (* matches names); on one of several meshes w1=_,tp@first",
    )
    parser.add_argument(
        "--out-spec",
        metavar="NAME=SPEC",
        action="append",
        default=[],
        help="required sharding of an output (result, result.0, ...)",
    )
    parser.add_argument(
        "--donate",
        metavar="NAME[=RESULT]",
        action="append",
        default=[],
        help="an argument whose memory a result reuses: the one of its structure, or the named one (params=result.0)",
    )
    parser.add_argument(
        "--arguments",
        choices=("local", "global"),
        default="local",
        help="ranks get their shards, or whole arrays that they slice",
    )
    parser.add_argument(
        "--precision",
        choices=tuple(PRECISIONS),
        default="",
        help="of all f32 dots and convolutions on GPUs: tf32, three products of it, or f32 (default: what the program says)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    default = f"the machine's, else {DEFAULT_TARGET}"
    parser.add_argument("--target", help=f"cuda:sm_90[,sm_80] or cpu (default: {default})")
    text = "refuse values that are gathered though no annotation replicates them"
    parser.add_argument("--strict", action="store_true", help=text)
    parser.add_argument(
        "--strict-at", metavar="VALUE|LINE", action="append", default=[], help="the same, of one value or line only"
    )
    limit = "device memory, such as 80GB, that a step may use to hide communication (default: the machine's, else what it needs without)"
    parser.add_argument("--memory-limit", metavar="SIZE", help=limit)
    text = "a pass to skip, such as chunks (meshgen opt --list-passes)"
    parser.add_argument("--skip", metavar="NAME", action="append", default=[], help=text)


def target_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `api.plan` for what `add_target` adds. Raises UsageError."""
    return {
        "target": options.target,
        "strict": options.strict or tuple(line_or_name(each) for each in options.strict_at),
        "memory_limit": bytes_of(options.memory_limit, "--memory-limit") if options.memory_limit else None,
        "skip": tuple(options.skip),
    }


def program_options(options: argparse.Namespace, graph: Module | None = None) -> dict[str, Any]:
    """The keyword arguments of `api.compile`; the program is `graph`, or read. Raises UsageError, ShardingError."""
    return {
        "graph": graph or read_program(options.program),
        "mesh": meshes_option(options.mesh),
        "args": {**fixed_shapes(options), **constants_option(options.constant)} or options.arg or None,
        "in_specs": specs_option(options.spec) or None,
        "out_specs": specs_option(options.out_spec) or None,
        "donate": donate_option(options.donate),
        "arguments": options.arguments,
        "entry": _entry_option(options.entry),
        "machine": options.machine,
        "precision": options.precision,
    }


def _entry_option(names: Sequence[str]) -> str | Sequence[str]:
    """The function to compile; several for one module."""
    return names if len(names) > 1 else "".join(names)


def donate_option(texts: Sequence[str]) -> dict[str, str | None]:
    """Donated arguments by name, each with its result; None: the result of its structure."""
    pairs = (text.partition("=") for text in texts)
    return {name: result or None for name, _, result in pairs}


def planned(options: argparse.Namespace, output: Output) -> Executable:
    """The scheduled program, without binaries. Open sizes get the first ones given; mesh axes a nominal one by default.

    A note says so. A module's program is planned as it was for the module; a note says in which figures the module differs.
    """
    loaded = module_named(options)
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
    chosen, timing, asked = program_options(options), Timing(), target_options(options)
    asked["target"] = options.target or DEFAULT_TARGET
    choice = Options(arguments=chosen.pop("arguments"), **asked)
    with timing.of("import"):
        module, _ = api.read(**chosen)
    target = built_for(options.target, module.meshes or (module.mesh,))
    return module, replace(choice, target=target), timing


def _program_of_module(options: argparse.Namespace, loaded: LoadedModule) -> tuple[Module, Options, Timing]:
    """The program of a module, with what the options change."""
    timing, asked = Timing(), target_options(options)
    with timing.of("import"):
        module, choice = program_of(loaded, options.program)
        chosen = program_options(options, module)
        del chosen["arguments"], chosen["entry"]  # they are the module's
        module, _ = api.read(**chosen)
    given = {name: value for name, value in asked.items() if value}
    return module, replace(choice, **given), timing


def read_program(name: str) -> Any:
    """The program that IN names."""
    if name == "-":
        return name
    return name if ":" in name and not os.path.exists(name) else Path(name)


def specs_option(texts: Sequence[str]) -> dict[str, Sharding]:
    """Shardings by name. Raises UsageError with all that is malformed."""
    found: dict[str, Sharding] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, spec = text.partition("=")
        if not equals or not name:
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SPEC", hint="write for example w1=_,tp"))
            continue
        if name in found:
            faults.append(
                Diagnostic("MG0001", f"two shardings of '{name}' are given", hint="give one; * matches several names")
            )
        try:
            found[name] = parse_sharding(spec)
        except ShardingError as error:
            faults += error.diagnostics
    if faults:
        raise UsageError(*faults)
    return found


def line_or_name(text: str) -> int | str:
    """A line by its number, or a value by its name."""
    number = whole_number(text)
    return text if number is None else number


def bytes_of(text: str, option: str) -> int:
    """Return the bytes of a size such as `64GB`. Raises UsageError MG0001."""
    size = byte_count(text)
    if size is None:
        hint = f"write for example {option} 64GB, 64GiB or 64G (GiB)"
        raise UsageError(Diagnostic("MG0001", f"{option}: '{text:.40}' is not a size", hint=hint))
    return size
