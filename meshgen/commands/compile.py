"""`meshgen compile IN -o OUT.mgx`: compile a program into a module."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.commands.combinations import specialize
from meshgen.commands.common import add_program, add_target, source_of
from meshgen.commands.options import OF_PROGRAM, OF_TARGET, add_options, chosen_options
from meshgen.commands.output import Output, plain
from meshgen.commands.sizes import open_record, specializations_table
from meshgen.compiled.entries import EntriesExecutable
from meshgen.compiled.executable import Executable
from meshgen.compiled.kernels import kernel_records
from meshgen.compiled.open_sizes import OpenExecutable
from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.gc_pace import infrequent_gc
from meshgen.options import CompileOptions
from meshgen.pipeline import Timing
from meshgen.reports.comms import comms_table
from meshgen.reports.cost import cost_table
from meshgen.reports.gathers import gathers
from meshgen.reports.kernels import kernel_table
from meshgen.reports.link_classes import link_tables
from meshgen.reports.memory import memory_table
from meshgen.reports.passes import pass_records, pass_table
from meshgen.reports.tables import bytes_text, seconds_table
from meshgen.runtime.module_file import tensors
from meshgen.runtime.module_file.container import require_writable
from meshgen.runtime.module_file.files import write_file, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("-o", "--output", metavar="OUT.mgx", required=True, help="path of the module")
    parser.add_argument(
        "--dump",
        metavar="DIR",
        help="write every stage's text, every kernel's source, PTX and resources, and every decision (decisions.json) to this folder",
    )
    add_options(parser, ("tuning",))
    text = "write the weights that an ONNX or PyTorch model contains to this file instead of into the module"
    parser.add_argument("--weights", metavar="FILE.safetensors", help=text)
    parser.add_argument("--report", metavar="HTML", help="write an HTML report of the program to this path")
    parser.add_argument(
        "--timing",
        action="store_true",
        help="also print statistics of each pass: changes, kept and rejected ones, costs, seconds",
    )


@infrequent_gc()
def run(options: argparse.Namespace, output: Output) -> int:
    for path in (options.output, options.weights):
        if path:
            require_writable(Path(path))
    names = (*OF_PROGRAM, *OF_TARGET, "tuning")
    timing = Timing({"start": time.perf_counter() - options.began})
    with output.progress() as progress:
        chosen = CompileOptions(**chosen_options(options, names), progress=progress)
        executable = api.planned(*source_of(options), chosen, timing)
        specialize(executable, options, output)
        executable.build(progress)
        if progress:
            progress("save", 0, 1)
        with timing.of("save"):
            _save(executable, options)
    with timing.of("report"):
        _print_warnings(executable, output)
        if options.dump:
            dump(executable, Path(options.dump))
        if options.report:
            executable.report(options.report)
    if isinstance(executable, EntriesExecutable):
        _print_entries(executable, options.output, output)
    elif isinstance(executable, OpenExecutable):
        _print_open(executable, options.output, output)
    else:
        with timing.of("report"):
            record = _print_tables(executable, output)
        _print_summary(executable, record, options.output, output)
    if options.timing:
        output.tables(pass_table(executable.passes))
    return 0


def _save(executable: Executable, options: argparse.Namespace) -> None:
    """Write the module and, if requested, a separate file of weights.

    Raises:
        UsageError: MG0003 if a file cannot be written.
    """
    if not options.weights:
        executable.save(options.output)
        return
    executable.save(options.output, weights={})
    content = tensors.encode(dict(executable.signature.weights))
    write_file(Path(options.weights), lambda file: file.write(content))


def _print_warnings(executable: Executable, output: Output) -> None:
    output.warnings([*executable.warnings, *executable.build_warnings])
    if executable.without_code:
        names = ", ".join(executable.without_code)
        output.note(f"note: no code can be generated for {names}: they run on the reference device's NumPy only")


def _print_tables(executable: Executable, output: Output) -> Mapping[str, Any]:
    """Print all but the last table of a program without open sizes. With `--json`, return the JSON document instead."""
    if unannotated_gathers := gathers(executable):
        moved = bytes_text(sum(gather.ring_bytes for gather in unannotated_gathers))
        output.note(
            f"note: {len(unannotated_gathers)} gather{'s' if len(unannotated_gathers) > 1 else ''} that no annotation requires, {moved} per device: explain lists them"
        )
    kernels = kernel_records(executable)
    output.tables(
        comms_table(executable.comms), *link_tables(executable), kernel_table(kernels, executable.without_code),
        memory_table(executable.memory),
        cost_table(executable.cost),
    )  # fmt: skip
    if not output.as_json:
        return {}
    return executable.record() | {
        "kernel_list": kernels,
        "refused": executable.without_code,
        "passes": pass_records(executable.passes),
    }


def _print_summary(executable: Executable, record: Mapping[str, Any], path: str, output: Output) -> None:
    """Print the time spent in each part of the compilation, and the path of the written file."""
    output.tables(seconds_table(executable.seconds))
    size = Path(path).stat().st_size
    output.text(f"{executable.name} for {executable.place}, {executable.target}: {path}, {size} bytes")
    output.document({**record, "seconds": executable.seconds, "output": path, "bytes": size})


def _print_entries(executable: EntriesExecutable, path: str, output: Output) -> None:
    """Print a line for each entry function."""
    size = Path(path).stat().st_size
    for name, entry in executable.entries.items():
        output.text(f"{name} for {entry.place}, {entry.target}")
    output.text(f"{len(executable.entries)} entry functions: {path}, {size} bytes")
    output.document(executable.record() | {"output": path, "bytes": size})


def _print_open(executable: OpenExecutable, path: str, output: Output) -> None:
    """Print the open sizes of a program, and its specializations."""
    records = {sizes: specialization.record() for sizes, specialization in executable.specializations.items()}
    size = Path(path).stat().st_size
    output.tables(specializations_table(records), seconds_table(executable.seconds))
    output.text(f"{executable.name} for {executable.place}, {executable.target}: {path}, {size} bytes")
    output.text(f"open until load: {executable.program.open_sizes_text()}")
    if not records:
        output.note("note: the module has no specialization: loading it needs the compiler")
    summary = {"name": executable.name, "mesh": executable.mesh.by_name, "open": open_record(executable.program)}
    output.document(summary | {"specialisations": list(records.values()), "output": path, "bytes": size})


def dump(executable: Executable, folder: Path) -> None:
    """Write a numbered file per stage, the source, PTX and resources of each kernel, and `decisions.json` to `folder`.

    Raises:
        UsageError: MG0003 if a file cannot be written.
    """
    if isinstance(executable, EntriesExecutable):
        for name, nested in executable.entries.items():
            dump(nested, folder / _file_name(name))
        return
    if isinstance(executable, OpenExecutable):
        for sizes, nested in executable.specializations.items():
            dump(nested, folder / _file_name(str(sizes)))
        return
    from meshgen.reports.decisions import decisions

    try:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        for index, stage in enumerate((*executable.stages, "schedule")):
            write_text(folder / f"{index:02}_{stage}.mlir", executable.as_text(stage))
        document = json.dumps(decisions(executable), indent=1, default=plain)
        write_text(folder / "decisions.json", document + "\n")
        binaries = {record["name"]: record["binaries"] for record in kernel_records(executable)}
        for name, source in executable.sources.items():
            # kernels of each mesh are in a folder of their own
            file = folder.joinpath("kernels", *map(_file_name, f"{name}.py".rsplit("/", 1)))
            file.parent.mkdir(exist_ok=True)
            write_text(file, source.text)
            write_text(file.with_suffix(".json"), json.dumps(binaries[name], indent=1) + "\n")
            for arch in binaries[name]:
                if form := executable.forms.get((name, arch)):
                    write_text(file.with_suffix(f".{arch}.py"), form.text)
                write_text(file.with_suffix(f".{arch}.ptx"), executable.built[name, arch].ptx.decode())
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL byte
        raise UsageError(Diagnostic("MG0003", f"'{folder}' cannot be written: {system_reason(error)}")) from error


def _file_name(text: str) -> str:
    """Convert a name to a file name, without path separators."""
    return re.sub(r"[^\w.=-]+", "_", text).lstrip(".") or "_"
