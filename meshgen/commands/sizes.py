"""Open sizes on the command line: `--mesh dp=2` and `--shape x=16x?` set them, `--shape x=16x?|32x?` lists several."""

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
        "--entry", metavar="NAME", default="", help="the entry function, if the module has several (default: main)"
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
    """Parse the meshes of `--mesh`. Returns None if the option is absent.

    Raises:
        UsageError: MG0001 for a malformed mesh and, if there are several meshes, for a missing or repeated name.
    """
    try:
        meshes = tuple(map(parse_mesh, texts))
    except ShardingError as error:  # raised as an error of the command line, not of a program
        raise UsageError(*error.diagnostics) from error
    names = [mesh.name for mesh in meshes]
    faults = [
        Diagnostic("MG0001", f"--mesh {text}: one of several meshes needs a name", hint=f"write NAME:{text}")
        for text, mesh in zip(texts, meshes, strict=True)
        if len(meshes) > 1 and mesh.name == DEFAULT_NAME
    ]
    duplicates = dict.fromkeys(name for name in names if name != DEFAULT_NAME and names.count(name) > 1)
    faults += [Diagnostic("MG0001", f"--mesh gives @{name} {names.count(name)} times") for name in duplicates]
    if faults:
        raise UsageError(*faults)
    return meshes or None


def shapes_option(texts: Sequence[str]) -> dict[str, tuple[Shape, ...]]:
    """Parse the shapes of `--shape`, and return them by input. `?` keeps the size that the program has.

    Raises:
        UsageError: MG0001, one diagnostic per malformed or repeated shape.
    """
    shapes_by_input: dict[str, tuple[Shape, ...]] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, shapes = text.partition("=")
        rows = [shape.strip().split("x") for shape in shapes.split("|")]
        if name in shapes_by_input:
            faults.append(
                Diagnostic("MG0001", f"--shape gives the shape of '{name}' twice", hint="x=8x64|16x64 lists several")
            )
        if name and equals and all(size == "?" or whole_number(size) is not None for row in rows for size in row):
            shapes_by_input[name] = tuple(tuple(whole_number(size) for size in row) for row in rows)
        else:
            hint = "write for example x=8x64; x=8x64|16x64 names two shapes"
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SIZES", hint=hint))
    if faults:
        raise UsageError(*faults)
    return shapes_by_input


def closing(options: argparse.Namespace) -> dict[str, Shape]:
    """Return the shapes of `--shape` for a run, which needs exactly one size per axis and dim.

    Raises:
        UsageError: MG0001 for several shapes of an input or several sizes of a mesh axis.
    """
    if ambiguous := [name for name, shapes in shapes_option(options.shape).items() if len(shapes) > 1]:
        text = f"--shape gives several shapes of {', '.join(ambiguous)}"
        raise UsageError(Diagnostic("MG0001", text, hint="a module runs with one; compile accepts several"))
    for text in options.mesh:
        if choices := parse_mesh_choices(text)[1]:
            fault = f"--mesh gives several sizes of {', '.join(choices)}"
            raise UsageError(Diagnostic("MG0001", fault, hint="a module runs with one; compile accepts several"))
    return fixed_shapes(options)


def fixed_shapes(options: argparse.Namespace) -> dict[str, Shape]:
    """Return the shapes of those inputs for which exactly one shape is listed."""
    return {name: shapes[0] for name, shapes in shapes_option(options.shape).items() if len(shapes) == 1}


def open_record(program: OpenProgram) -> dict[str, Any]:
    """Return the open sizes, for `--json`."""
    types_by_name = {value.name: str(value.type) for value in program.inputs}
    return {"axes": list(program.axes), "inputs": {name: types_by_name[name] for name in program.shapes}}


def specializations_table(records: Mapping[Sizes, Mapping[str, Any]]) -> Any:
    """Return a table of the specializations of a program, with a row for each.

    Args:
        records: `Executable.record` of each specialization.
    """
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
    title = f"Specializations made ahead of time: {len(rows) or 'none'}"
    return table_of(
        title, ("sizes", "kernels", "collectives", "moved", "memory", "step"), rows, left=("kernels", "collectives")
    )
