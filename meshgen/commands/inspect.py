"""`meshgen inspect OUT.mgx`: signature, kernels, buffers and schedule of a module, and the text of a stage or kernel."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.commands.output import Output
from meshgen.commands.sizes import add_sizes, closing, meshes_option, open_record, specialisations_table
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
    parser.add_argument("--ptx", action="store_true", help="with --kernel: print its PTX too")
    parser.add_argument("--schedule", action="store_true", help="show the schedule too")


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module, meshes_option(options.mesh), entry=options.entry, runs=False)
    several = {} if options.entry or len(module.entries) == 1 else module.entries
    if not several:
        output.document(_show_entry(module, options, output))
        return 0
    records: dict[str, Any] = {}
    for name, each in several.items():
        output.text(f"Entry function {name}:")
        records[name] = _show_entry(each, options, output)
    output.document({"entries": records})
    return 0


def _show_entry(module: LoadedModule, options: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Show one entry function; returns its record."""
    shapes = closing(options)
    if isinstance(module, OpenModule) and not (shapes or options.kernel):
        return _show_open(module, options.stage, output)
    module = module.at(args=shapes)
    if options.stage:
        output.text(_chosen("stage", options.stage, module.stages))
    if options.kernel:
        output.text(_chosen("kernel", options.kernel, {name: module.source(name) for name in module.kernel_names}))
        _show_binaries(module, options.kernel, output, options.ptx)
    if not options.stage and not options.kernel:
        for part, first in zip(module.parts, first_numbers(module), strict=True):
            show(part, output, options.schedule, first)
    return program_record(module)


def _show_open(module: OpenModule, stage: str | None, output: Output) -> dict[str, Any]:
    """Show the open sizes and the specialisations; all of them are checked."""
    program, reports = module.program, {sizes: module.held(sizes).record() for sizes in module.specialisations}
    if stage:
        output.text(_chosen("stage", stage, module.stages))
    else:
        rows = [(a.name, way, a.type, "yes" if a.stored else "") for way, a in program.signature]
        title = f"{module.name}: {module.place}, {program.target}, arguments {program.arguments}; open until load: {program.what_is_open()}"
        output.tables(
            table_of(title, ("name", "", "type", "stored"), rows, left=("", "type")), specialisations_table(reports)
        )
    return {
        "name": module.name,
        "mesh": module.mesh.by_name,
        "arguments": program.arguments,
        "target": program.target,
        "open": open_record(program),
        **{
            f"{way}puts": [
                {"name": a.name, "type": str(a.type), "stored": a.stored} for w, a in program.signature if w == way
            ]
            for way in ("in", "out")
        },
        "specialisations": list(reports.values()),
        "stages": list(module.stages),
    }


def _show_binaries(module: LoadedModule, kernel: str, output: Output, ptx: bool) -> None:
    """Sources for single architectures; what each architecture's binary needs and is made of, and the PTX that it was assembled from."""
    for arch in module.manifest.kernels[kernel].forms:
        output.text(f"\nFor {arch}:\n\n{module.source(kernel, arch)}")
    (found,) = (each for each in kernels(module) if each["name"] == kernel)
    if found["binaries"]:
        output.text("")
        output.tables(binary_table(found))
    for arch in found["binaries"] if ptx else ():
        output.text(module.ptx(kernel, arch))


def _chosen(word: str, name: str, texts: dict[str, str]) -> str:
    if name not in texts:
        raise UsageError(Diagnostic("MG0001", f"unknown {word} '{name}'", hint=f"known {word}s are {', '.join(texts)}"))
    return texts[name]


def first_numbers(module: LoadedModule) -> list[int]:
    """Per mesh the number of its first collective: numbers run through all meshes, as in `explain`."""
    counts = [len(comms_of(part.schedule, part.mesh)) for part in module.parts]
    return [sum(counts[:place]) for place in range(len(counts))]


def show(module: LoadedModule, output: Output, schedule: bool, first: int = 0) -> None:
    """The module's tables, its collectives numbered from `first` on."""
    bindings = [("in", b) for b in module.manifest.inputs] + [("out", b) for b in module.outputs]
    names = [b.name for b in module.outputs]
    rows = [
        (b.name, way, b.type, b.sharding, list(b.local_shape), "yes" if b.stored else "", _next_value(b, names))
        for way, b in bindings
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
    """The result that an argument is donated to; empty if it is not donated."""
    return "" if binding.donated_to is None else results[binding.donated_to]


def schedule_table(module: LoadedModule) -> Any:
    """Items in the order of issue; those of the regions of item 3 are numbered 3.0.0, 3.0.1, 3.1.0."""
    columns = ("#", "launch", "stream", "start", "takes", "waits", "records", "reads", "writes")
    return table_of(
        "Schedule of every rank", columns, list(_schedule_rows(module.schedule, "")), left=("launch", "reads", "writes")
    )


def _schedule_rows(plan: Schedule, before: str) -> Iterator[tuple[Any, ...]]:
    names = [b.name for b in plan.buffers]
    for n, item in enumerate(plan.items):
        yield (
            f"{before}{n}", item.label, item.stream, seconds_text(item.start), seconds_text(item.seconds),
            " ".join(map(str, item.waits)), "" if item.records is None else item.records,
            " ".join(names[b] for b in item.inputs), " ".join(names[b] for b in item.writes),
        )  # fmt: skip
        for number, region in enumerate(item.regions):
            yield from _schedule_rows(region, f"{before}{n}.{number}.")


def kernels(module: LoadedModule) -> list[dict[str, Any]]:
    """The table of kernels, as `compile` shows it."""
    launches, measured = module.schedule.launch_counts(), module.record().get("tuning", {})
    return [
        kernel_record(name, launches[name], kernel, measured.get(name, {}).get("device", ""), kernel.binaries)
        for name, kernel in module.manifest.kernels.items()
    ]


def program_record(module: LoadedModule) -> dict[str, Any]:
    """The document of `inspect --json`: the record of the module, or those of all meshes."""
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
    """The record of a module, for `inspect --json`."""
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
        "donated_to": _next_value(b, [each.name for each in outputs]) or None,
    }


def schedule_record(plan: Schedule) -> list[dict[str, Any]]:
    """The launches of a step, or of a region: control flow has those of its regions."""
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
