"""`meshgen run OUT.mgx`: run a module on all its ranks. The reference device needs neither xDSL nor Triton."""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from meshgen.ccl.world import TIME_OUT_SECONDS
from meshgen.commands.arrays import Array, load_arrays
from meshgen.commands.comparison import Expected, compare
from meshgen.commands.inputs import add_inputs, input_arrays, read_inputs
from meshgen.commands.output import Output
from meshgen.commands.sizes import add_sizes, closing, meshes_option
from meshgen.commands.time_limit import add_time_limit, seconds, time_limit
from meshgen.errors import ArgumentError, Diagnostic, MeshgenError, NumbersDiffer, RuntimeFailure, UsageError
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.numbers import natural, not_negative, positive
from meshgen.reports.tables import table_of
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.engines import LAUNCHES
from meshgen.runtime.loading import load
from meshgen.runtime.module import DEVICES, LoadedModule
from meshgen.runtime.module_file.container import require_writable
from meshgen.runtime.module_file.files import write_file, write_text
from meshgen.runtime.open_module import OpenModule
from meshgen.runtime.open_program import AT_LOAD
from meshgen.runtime.processes import bootstrap
from meshgen.runtime.processes.bootstrap import TIME_OUT
from meshgen.runtime.processes.ranks import propagating_failures
from meshgen.runtime.recording import measured
from meshgen.runtime.sizes import Sizes, sizes_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    _add_engine(parser)
    add_sizes(parser)
    parser.add_argument(
        "--verify-key",
        metavar="PEM",
        help="refuse the module unless it is signed with the private key of this public key",
    )
    parser.add_argument(
        "--devices",
        type=positive,
        metavar="N",
        help="number of devices to run on; it determines the size of the open mesh axis, or must match the module's mesh if no axis is open",
    )
    add_inputs(parser)
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="instead of running the step, compare each distinct kernel with NumPy: in Triton's interpreter, or with --device emulate as PTX",
    )
    parser.add_argument("--output", metavar="FILE.npz", help="write the results to this path, by name")
    parser.add_argument(
        "--expect",
        metavar="REF",
        help="compare with the results in a .npz file, or with those of an unpartitioned .mlir program",
    )
    parser.add_argument(
        "--tolerance",
        type=not_negative,
        help="allowed error relative to the largest expected value (default: the rounding bound, if REF is a program; half "
        "of the digits of the type, if REF is a file of results)",
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the random inputs (default: %(default)s)")
    parser.add_argument(
        "--trace",
        metavar="FILE.json",
        help="write the timeline of each rank as a trace for ui.perfetto.dev; only with --device reference and interpret",
    )
    add_time_limit(parser)
    parser.add_argument(
        "--time-out",
        type=seconds,
        metavar="SECONDS",
        help="under a launcher with a process per rank: seconds that a rank waits for other ranks before it fails "
        f"(default: the variable {TIME_OUT}, else {TIME_OUT_SECONDS:g})",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options that select and configure the engine."""
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="reference",
        help="where the module runs: in NumPy, as Triton kernels on the CPU, as PTX on emulated GPUs, or on GPUs (default: %(default)s)",
    )
    parser.add_argument(
        "--arch",
        metavar="sm_NN",
        help="architecture of the emulated GPU (default: the first architecture of the module; with --kernels all architectures)",
    )
    parser.add_argument(
        "--races",
        action="store_true",
        help="report races on emulated GPUs as faults: in shared memory, and between launches that no stream or event orders",
    )
    parser.add_argument(
        "--order",
        type=natural,
        default=0,
        metavar="SEED",
        help="seed that selects the order in which emulated GPUs execute work, among the orders that streams and events allow (default: %(default)s)",
    )
    parser.add_argument(
        "--instruction-limit",
        type=positive,
        default=0,
        metavar="N",
        help="report a kernel as endless after N instructions of the blocks that an emulated GPU runs concurrently "
        "(default: the variable MESHGEN_INSTRUCTION_LIMIT, else 20,000,000)",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Run a module. Under a launcher there is a process per rank. Only the first process reports, and each process that
    fails.
    """
    module = _loaded(options)
    if isinstance(module, MeshgenError) and any(diagnostic.code == "MG0603" for diagnostic in module.diagnostics):
        # Raise at once if the number of processes does not match the module: the ranks will never connect.
        raise module
    world = bootstrap.world(options.time_out)
    with propagating_failures(world):
        if isinstance(module, MeshgenError):
            raise module
        code = _run(module, options, Output(output.as_json, is_silent=world is not None and world.rank > 0))
        if world:
            world.finish()
        return code


def _loaded(options: argparse.Namespace) -> LoadedModule | MeshgenError:
    """Load the module. Errors are returned instead of raised, so that one rank can report them after all ranks are
    connected.
    """
    try:
        sizes, key = meshes_option(options.mesh), options.verify_key
        requested = {"entry": options.entry, "devices": options.devices}
        return load(options.module, sizes, **requested, specialize=_specialized, verify_key=key)
    except MeshgenError as error:
        return error


def _run(module: LoadedModule, options: argparse.Namespace, output: Output) -> int:
    explicit_inputs = read_inputs(options.input, mapped=bootstrap.world() is not None)
    module.require_entry()
    module = module.at(args=closing(options) | {name: array.shape for name, array in explicit_inputs.items() if name})
    specialization = module.record().get("specialised", {})
    if specialization.get("made") == AT_LOAD:
        output.note(f"note: compiled at load: {options.module} has no specialization for {sizes_text(specialization)}")
    emulation_options = {"--arch": options.arch, "--races": options.races, "--order": options.order, "--instruction-limit": options.instruction_limit}  # fmt: skip
    if any(emulation_options.values()) and options.device != "emulate":
        option = next(name for name, value in emulation_options.items() if value)
        raise UsageError(
            Diagnostic("MG0001", f"{option} applies to the emulated GPU only", hint="add --device emulate")
        )
    if options.trace and (options.kernels or options.device not in LAUNCHES):
        hint = f"measure a step with --device {' or '.join(LAUNCHES)}; `meshgen simulate --trace` predicts one of GPUs"
        raise UsageError(Diagnostic("MG0001", "--trace measures steps on the host only", hint=hint))
    for path in filter(None, (options.output, options.trace)):
        require_writable(Path(path))
    with time_limit(options.time_limit):
        if options.kernels:
            return run_kernels(module, options, output)
        return run_step(module, explicit_inputs, options, output)


def _specialized(module: OpenModule, sizes: Sizes) -> dict[str, bytes]:
    """Compile an open module for `sizes`. The compiler is imported only here, because this takes half of the startup
    time.
    """
    from meshgen.api import specialized

    return specialized(module, sizes)


def run_kernels(module: LoadedModule, options: argparse.Namespace, output: Output) -> int:
    """Check each distinct kernel of a module by itself, and report the result.

    Raises:
        RuntimeFailure: MG0608 with all faults that the emulated GPU reports.
    """
    from meshgen.commands.kernel_check import check_kernels

    module.require_sizes()
    module.require_memory()
    begin = time.perf_counter()
    limit = options.instruction_limit
    is_emulated = options.device == "emulate"
    emulation = Emulation(options.arch or "", options.races, instructions=limit) if is_emulated else None
    rows = check_kernels(module, options.seed, emulation)
    seconds = time.perf_counter() - begin
    if faults := [row["fault"] for row in rows if row["fault"]]:
        raise RuntimeFailure(*faults)
    engine_text = (
        f"PTX on the emulated GPU{', races refused,' * options.races}" if emulation else "Triton's interpreter"
    )
    kernels = len({row["name"] for row in rows})
    title = f"{kernels} distinct kernels, {engine_text} against NumPy: {seconds:.1f} s"
    output.tables(_checks_table(title, rows))
    device = "emulate" if emulation else "interpret"
    output.document({"device": device, "seconds": seconds, "kernel_checks": [_without_fault(row) for row in rows]})
    return 0 if all(row["ok"] for row in rows) else NumbersDiffer.exit_code


def _checks_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a table of kernel checks, with a row per kernel and architecture."""
    table = [
        (
            row["name"],
            row["arch"],
            "ok" if row["ok"] else "DIFFERS",
            f"{row['error']:.3g}",
            f"{row['tolerance']:.3g}",
            f"{row['seconds']:.2f}",
        )
        for row in rows
    ]
    return table_of(title, ("kernel", "arch", "", "error", "allowed", "seconds"), table)


def _without_fault(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "fault"}


def run_step(
    module: LoadedModule, explicit_inputs: Mapping[str, Array], options: argparse.Namespace, output: Output
) -> int:
    """Run one step on all ranks and report its results. Returns the exit code."""
    module.require_sizes()
    module.require_memory()
    args = input_arrays(module, explicit_inputs, options, output)
    reports = not output.is_silent
    tf32 = options.device in ("emulate", "cuda")
    expected = expectation(module, options.expect, args, tf32=tf32) if options.expect and reports else Expected({})
    begin = time.perf_counter()
    emulation = Emulation(options.arch or "", options.races, options.order, options.instruction_limit)
    with measured() as spans:
        results = module.run(args, emulation if options.device == "emulate" else options.device)
    seconds = time.perf_counter() - begin
    if not reports:
        return 0
    if options.trace:
        from meshgen.simulator.trace import measured_trace  # slow import that few runs need

        write_text(Path(options.trace), json.dumps(measured_trace(spans, module.meshes)))
    names = [b.name for b in module.outputs]
    if options.output:
        _save(Path(options.output), dict(zip(names, results, strict=True)))
    rows = [_described(name, array) for name, array in zip(names, results, strict=True)]
    title = f"{module.name} on {module.place}, {options.device}: {seconds:.2f} s"
    table = [(row["name"], row["type"], f"{row['mean']:.4g}", f"{row['largest']:.4g}") for row in rows]
    output.tables(table_of(title, ("result", "type", "mean", "largest"), table, left=("type",)))
    compared = compare(names, results, expected, options.tolerance) if options.expect else []
    for row in compared:
        verdict = "ok" if row["ok"] else "DIFFERS"
        output.text(f"{verdict}: {row['name']}: {row['measure']} {row['error']:.3g}, allowed {row['tolerance']:.3g}")
    record = {"device": options.device, "ranks": module.ranks, "seconds": seconds, "outputs": rows}
    record |= {"specialised": specialization} if (specialization := module.record().get("specialised")) else {}
    output.document(record | {"compared": compared})
    return 0 if all(row["ok"] for row in compared) else NumbersDiffer.exit_code


def expectation(module: LoadedModule, source: str, args: Mapping[str, Array], *, tf32: bool) -> Expected:
    """Return expected results: the arrays of a file, or the results of an unpartitioned program for the same arguments.

    Args:
        tf32: use the error bounds for GPUs, where f32 matmuls have the precision for which the module was compiled.
    """
    if not source.endswith(".mlir"):
        return Expected(load_arrays(source))
    from meshgen.frontend.mlir import read_mlir
    from meshgen.ops.precision import precision_of, with_precision
    from meshgen.sizes.program import input_names, with_shapes
    from meshgen.testing.oracle import meaning, whole

    program = read_mlir(Path(source))
    if precision := precision_of(body for part in module.parts for body in part.schedule.kernels.values()):
        program = with_precision(program, precision)
    if any(None in value.type.shape for value in program.graph.inputs):
        program = with_shapes(
            program, {n: a.shape for n, a in zip(input_names(program.graph), args.values(), strict=False)}
        )
    graph = whole(program)
    program_types, module_types = [v.type for v in graph.inputs], [b.type for b in module.inputs]
    if program_types != module_types:
        message = f"'{source}' takes ({', '.join(map(str, program_types))}), but the module ({', '.join(map(str, module_types))})"
        raise ArgumentError(Diagnostic("MG0601", message))
    expected, bounds = meaning(graph, list(args.values()), module.mesh, *program.meshes, tf32=tf32)
    return Expected({str(i): array for i, array in enumerate(expected)}, bounds)


def _described(name: str, array: Array) -> dict[str, Any]:
    wide = np.asarray(array, np.complex128 if np.iscomplexobj(array) else np.float64)
    mean = wide.mean() if wide.size else 0.0
    return {
        "name": name,
        "type": str(TensorType(array.shape, dtype_name(array.dtype))),
        "mean": float(abs(mean) if np.iscomplexobj(wide) else mean),
        "largest": float(np.max(np.abs(wide), initial=0)),
    }


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to an .npz file. NumPy's `savez` cannot be used: it rejects an array called `file`, and changes file
    names.
    """

    def content(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # a fixed time stamp, so that equal results give equal bytes
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_file(path, content)
