"""Open sizes on the command line: `--mesh dp=2` and `--shape x=16x?` say them; of several, as in `--shape x=16x?|32x?`, each is meant."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.mesh import DEFAULT_NAME, Mesh
from meshgen.names import whole_number
from meshgen.notation import parse_mesh, parse_mesh_choices
from meshgen.reports.tables import bytes_text, counted, seconds_text, table_of
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.sizes import Sizes

Shape = tuple[int | None, ...]


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose an entry function of a module and its open sizes."""
    parser.add_argument(
        "--entry", metavar="NAME", default="", help="the entry function of a module with several (default: main)"
    )
    parser.add_argument(
        "--mesh",
        metavar="[NAME:]AXES",
        action="append",
        default=[],
        help="sizes of mesh axes that are open in the module, such as dp=4",
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=SIZES",
        action="append",
        default=[],
        help="shape of an input with sizes that are open in the module, such as x=8x64",
    )


def meshes_option(texts: Sequence[str]) -> tuple[Mesh, ...] | None:
    """The meshes by name, or the only one; None if none is given. Raises UsageError for names that are missing or repeated."""
    try:
        meshes = tuple(map(parse_mesh, texts))
    except ShardingError as error:  # a fault of the call, not of a program
        raise UsageError(*error.diagnostics) from error
    names = [mesh.name for mesh in meshes]
    faults = [
        Diagnostic("MG0001", f"--mesh {text}: one of several meshes needs a name", hint=f"write NAME:{text}")
        for text, mesh in zip(texts, meshes, strict=True)
        if len(meshes) > 1 and mesh.name == DEFAULT_NAME
    ]
    twice = dict.fromkeys(name for name in names if name != DEFAULT_NAME and names.count(name) > 1)
    faults += [Diagnostic("MG0001", f"--mesh gives @{name} {names.count(name)} times") for name in twice]
    if faults:
        raise UsageError(*faults)
    return meshes or None


def shapes_option(texts: Sequence[str]) -> dict[str, tuple[Shape, ...]]:
    """The shapes of `--shape`, by input; `?` keeps the program's size. Raises UsageError with all faults."""
    found: dict[str, tuple[Shape, ...]] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, shapes = text.partition("=")
        rows = [shape.strip().split("x") for shape in shapes.split("|")]
        if name in found:
            faults.append(
                Diagnostic("MG0001", f"--shape gives the shape of '{name}' twice", hint="x=8x64|16x64 lists several")
            )
        if name and equals and all(size == "?" or whole_number(size) is not None for row in rows for size in row):
            found[name] = tuple(tuple(whole_number(size) for size in row) for row in rows)
        else:
            hint = "write for example x=8x64; x=8x64|16x64 names two shapes"
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SIZES", hint=hint))
    if faults:
        raise UsageError(*faults)
    return found


def closing(options: argparse.Namespace) -> dict[str, Shape]:
    """The shapes with which a module is run. Raises UsageError for several of one input."""
    if several := [name for name, shapes in shapes_option(options.shape).items() if len(shapes) > 1]:
        text = f"--shape gives several shapes of {', '.join(several)}"
        raise UsageError(Diagnostic("MG0001", text, hint="a module runs with one; compile accepts several"))
    for text in options.mesh:
        if choices := parse_mesh_choices(text)[1]:
            fault = f"--mesh gives several sizes of {', '.join(choices)}"
            raise UsageError(Diagnostic("MG0001", fault, hint="a module runs with one; compile accepts several"))
    return fixed_shapes(options)


def fixed_shapes(options: argparse.Namespace) -> dict[str, Shape]:
    """The shapes of inputs that have one."""
    return {name: shapes[0] for name, shapes in shapes_option(options.shape).items() if len(shapes) == 1}


def open_record(program: OpenProgram) -> dict[str, Any]:
    """The open sizes, for `--json`."""
    kinds = {each.name: str(each.type) for each in program.inputs}
    return {"axes": list(program.axes), "inputs": {name: kinds[name] for name in program.shapes}}


def specialisations_table(records: Mapping[Sizes, Mapping[str, Any]]) -> Any:
    """A row per specialisation, of its `Executable.record`."""
    rows = [
        (
            str(sizes),
            f"{counted(record['kernels'], 'launch')}, {record['distinct_kernels']} distinct",
            ", ".join(f"{count} {kind}" for kind, count in record["counts"].items()),
            bytes_text(record["ring_bytes"]),
            bytes_text(record["peak_memory_bytes"]),
            seconds_text(record["step_seconds"]),
        )
        for sizes, record in records.items()
    ]
    title = f"Specialisations made ahead of time: {len(rows) or 'none'}"
    return table_of(
        title, ("sizes", "kernels", "collectives", "moved", "memory", "step"), rows, left=("kernels", "collectives")
    )
