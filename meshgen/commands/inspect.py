"""`meshgen inspect OUT.mgx`: show signature, kernels, buffers and schedule of a module, or a stage or kernel as text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.commands.output import Output
from meshgen.commands.sizes import add_sizes, closing, meshes_option, open_record, specializations_table
from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.comms import collective_records, comms_of, comms_table
from meshgen.reports.kernels import binary_table, kernel_record, kernel_table
from meshgen.reports.memory import memory_of, memory_record, memory_table
from meshgen.reports.tables import seconds_text, table_of
from meshgen.runtime.loading import load
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Binding
from meshgen.runtime.open_module import OpenModule
from meshgen.runtime.plan import Schedule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    add_sizes(parser)
    parser.add_argument("--stage", metavar="STAGE", help="print the program at this stage")
    parser.add_argument(
        "--kernel", metavar="NAME", help="print this kernel's Triton source, resources and instructions"
    )
    parser.add_argument("--ptx", action="store_true", help="with --kernel: also print the PTX")
    parser.add_argument("--schedule", action="store_true", help="also show the schedule")


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module, meshes_option(options.mesh), entry=options.entry, runs=False)
    entries = {} if options.entry or len(module.entries) == 1 else module.entries
    if not entries:
        output.document(_show_entry(module, options, output))
        return 0
    records: dict[str, Any] = {}
    for name, entry in entries.items():
        output.text(f"Entry function {name}:")
        records[name] = _show_entry(entry, options, output)
    output.document({"entries": records})
    return 0


def _show_entry(module: LoadedModule, options: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Show one entry function of a module, and return its record."""
    shapes = closing(options)
    if isinstance(module, OpenModule) and not (shapes or options.kernel):
        return _show_open(module, options.stage, output)
    module = module.at(args=shapes)
    if options.stage:
        output.text(_text_called("stage", options.stage, module.stages))
    if options.kernel:
        output.text(_text_called("kernel", options.kernel, {name: module.source(name) for name in module.kernel_names}))
        _show_binaries(module, options.kernel, output, options.ptx)
    if not options.stage and not options.kernel:
        for part, first in zip(module.parts, first_numbers(module), strict=True):
            show(part, output, options.schedule, first)
    return program_record(module)


def _show_open(module: OpenModule, stage: str | None, output: Output) -> dict[str, Any]:
    """Show the open sizes and the specializations of a module. This loads, and so checks, all specializations."""
    program, reports = module.program, {sizes: module.held(sizes).record() for sizes in module.specializations}
    if stage:
        output.text(_text_called("stage", stage, module.stages))
    else:
        rows = [(a.name, direction, a.type, "yes" if a.stored else "") for direction, a in program.signature]
        title = f"{module.name}: {module.place}, {program.target}, arguments {program.arguments}; open until load: {program.open_sizes_text()}"
        output.tables(
            table_of(title, ("name", "", "type", "stored"), rows, left=("", "type")), specializations_table(reports)
        )
    return {
        "name": module.name,
        "mesh": module.mesh.by_name,
        "arguments": program.arguments,
        "target": program.target,
        "open": open_record(program),
        **{
            f"{direction}puts": [
                {"name": a.name, "type": str(a.type), "stored": a.stored}
                for own_direction, a in program.signature
                if own_direction == direction
            ]
            for direction in ("in", "out")
        },
        "specialisations": list(reports.values()),
        "stages": list(module.stages),
    }


def _show_binaries(module: LoadedModule, kernel: str, output: Output, ptx: bool) -> None:
    """Show a kernel: its sources for single architectures, the resources and instructions of each binary, and
    optionally PTX.
    """
    for arch in module.manifest.kernels[kernel].forms:
        output.text(f"\nFor {arch}:\n\n{module.source(kernel, arch)}")
    (kernel_entry,) = (entry for entry in kernels(module) if entry["name"] == kernel)
    if kernel_entry["binaries"]:
        output.text("")
        output.tables(binary_table(kernel_entry))
    for arch in kernel_entry["binaries"] if ptx else ():
        output.text(module.ptx(kernel, arch))


def _text_called(word: str, name: str, texts: dict[str, str]) -> str:
    if name not in texts:
        raise UsageError(Diagnostic("MG0001", f"unknown {word} '{name}'", hint=f"known {word}s are {', '.join(texts)}"))
    return texts[name]


def first_numbers(module: LoadedModule) -> list[int]:
    """Return for each mesh the number of its first collective. As in `explain`, numbers are counted over all meshes."""
    counts = [len(comms_of(part.schedule, part.mesh)) for part in module.parts]
    return [sum(counts[:mesh_index]) for mesh_index in range(len(counts))]


def show(module: LoadedModule, output: Output, schedule: bool, first: int = 0) -> None:
    """Show the module's tables, with its collectives numbered from `first` on."""
    bindings = [("in", b) for b in module.manifest.inputs] + [("out", b) for b in module.outputs]
    names = [b.name for b in module.outputs]
    rows = [
        (b.name, direction, b.type, b.sharding, list(b.local_shape), "yes" if b.stored else "", _next_value(b, names))
        for direction, b in bindings
    ]
    columns = ("name", "", "type", "sharding", "local shape", "stored", "donated to")
    ranks = module.mesh.size if module.mesh.is_static else "?"
    title = f"{module.name}: {module.mesh}, {ranks} ranks, arguments {module.manifest.arguments}"
    output.tables(
        table_of(title, columns, rows, left=("", "type", "sharding", "donated to")),
        kernel_table(kernels(module), module.manifest.report.get("kernels_without_code", ())),
        comms_table(comms_of(module.schedule, module.mesh), first),
        memory_table(memory_of(module.schedule)),
    )
    if schedule:
        output.tables(schedule_table(module))


def _next_value(binding: Binding, results: Sequence[str]) -> str:
    """Return the name of the result that an argument is donated to, or "" if it is not donated."""
    return "" if binding.donated_to is None else results[binding.donated_to]


def schedule_table(module: LoadedModule) -> Any:
    """Return a table of the schedule's items in issue order. Item j in region i of item 3 has number 3.i.j."""
    columns = ("#", "launch", "stream", "start", "takes", "waits", "records", "reads", "writes")
    return table_of(
        "Schedule of every rank", columns, list(_schedule_rows(module.schedule, "")), left=("launch", "reads", "writes")
    )


def _schedule_rows(plan: Schedule, prefix: str) -> Iterator[tuple[Any, ...]]:
    names = [b.name for b in plan.buffers]
    for index, item in enumerate(plan.items):
        yield (
            f"{prefix}{index}", item.label, item.stream, seconds_text(item.start), seconds_text(item.seconds),
            " ".join(map(str, item.waits)), "" if item.records is None else item.records,
            " ".join(names[b] for b in item.inputs), " ".join(names[b] for b in item.writes),
        )  # fmt: skip
        for region_index, region in enumerate(item.regions):
            yield from _schedule_rows(region, f"{prefix}{index}.{region_index}.")


def kernels(module: LoadedModule) -> list[dict[str, Any]]:
    """Return a record per kernel of a module, with the same fields as in `compile --json`."""
    launches, measured = module.schedule.launch_counts(), module.record().get("tuning", {})
    return [
        kernel_record(name, launches[name], kernel, measured.get(name, {}).get("device", ""), kernel.binaries)
        for name, kernel in module.manifest.kernels.items()
    ]


def program_record(module: LoadedModule) -> dict[str, Any]:
    """Return the document of `inspect --json`: the record of the module, or the records of its parts on several
    meshes.
    """
    if len(module.parts) == 1:
        return record(module)
    return {
        "name": module.name,
        "mesh": {part.mesh.name: part.mesh.by_name for part in module.parts},
        "inputs": [_binding(b, module.outputs) for b in module.inputs],
        "outputs": [_binding(b) for b in module.outputs],
        "parts": [record(part, first) for part, first in zip(module.parts, first_numbers(module), strict=True)],
        "stages": list(module.stages),
    }


def record(module: LoadedModule, first: int = 0) -> dict[str, Any]:
    """Return the record of the module on one mesh, for `inspect --json`. `first` is the number of its first
    collective.
    """
    plan, manifest = module.schedule, module.manifest
    rows = collective_records(comms_of(plan, module.mesh))
    return {
        "name": module.name,
        "mesh": module.mesh.by_name,
        "arguments": manifest.arguments,
        "inputs": [_binding(b, manifest.outputs) for b in manifest.inputs],
        "outputs": [_binding(b) for b in manifest.outputs],
        "kernel_list": kernels(module),
        "collectives": [{"number": number, **row} for number, row in enumerate(rows, first)],
        **memory_record(memory_of(plan)),
        "buffers": [b._asdict() | {"type": str(b.type)} for b in plan.buffers],
        "schedule": schedule_record(plan),
        "step_seconds": plan.step_seconds,
        "exposed_seconds": plan.exposed_seconds,
        "toolchain": dict(manifest.toolchain),
        "report": dict(manifest.report),
        "stages": list(module.stages),
    }


def _binding(b: Binding, outputs: Sequence[Binding] = ()) -> dict[str, Any]:
    return {
        "name": b.name,
        "type": str(b.type),
        "sharding": str(b.sharding),
        "local_shape": list(b.local_shape),
        "stored": b.stored,
        "donated_to": _next_value(b, [output.name for output in outputs]) or None,
    }


def schedule_record(plan: Schedule) -> list[dict[str, Any]]:
    """Return the launches of a step or region as records. Control flow contains the records of its regions."""
    return [
        {
            "launch": item.label,
            "stream": item.stream,
            "start": item.start,
            "seconds": item.seconds,
            "waits": item.waits,
            "records": item.records,
        }
        | ({"regions": [schedule_record(region) for region in item.regions]} if item.regions else {})
        for item in plan.items
    ]
