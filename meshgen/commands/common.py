"""What commands share: options that describe a program, reading it, and where output goes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType

from meshgen import api
from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.executable import Executable
from meshgen.ir.graph import Module
from meshgen.ir.sizes import at_mesh
from meshgen.mesh import DEFAULT_NAME, Mesh, parse_mesh
from meshgen.pipeline import Options, Progress, Timing, verify_program
from meshgen.sharding.unknown import nominal_mesh, unknown_axes
from meshgen.spec import Sharding, parse_sharding
from meshgen.tables import WIDTH, render

Array = np.ndarray[Any, Any]


class Output:
    """Where a command writes: text and tables, or with `--json` one document; progress only on a terminal."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def text(self, text: str) -> None:
        """Write text to stdout, unless a document is asked for."""
        if not self.as_json:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def tables(self, *tables: RenderableType) -> None:
        """Write tables to stdout with an empty line after each, unless a document is asked for."""
        width = Console().width if sys.stdout.isatty() else WIDTH
        for table in tables:
            self.text(render(table, width=width) + "\n\n")

    def document(self, value: Mapping[str, Any]) -> None:
        """Write the document to stdout if one is asked for."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, indent=1, default=_plain) + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr."""
        sys.stderr.write(text + "\n")

    @contextmanager
    def progress(self) -> Generator[Progress | None]:
        """A status line on a terminal; None elsewhere."""
        if not sys.stderr.isatty():
            yield None
            return
        with Console(stderr=True).status("starting") as status:
            yield lambda what, done, total: status.update(f"{what} ({done}/{total})")


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def add_program(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """The options that describe a program and its shardings."""
    what = "a .mlir file, pkg.mod:function, or - for stdin"
    parser.add_argument("program", metavar="IN", nargs=None if needed else "?", help=what)
    parser.add_argument(
        "--mesh",
        metavar="[NAME:]AXES",
        action="append",
        default=[],
        help="the devices, such as dp=2,tp=4; else the mesh that the file declares; of several meshes each by name: "
        "--mesh first:dp=2 --mesh second:x=4",
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
        help="shape of an input whose sizes the program leaves open, such as x=8x64",
    )
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
        "--arguments",
        choices=("local", "global"),
        default="local",
        help="ranks get their shards, or whole arrays that they slice",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="cuda:sm_90", help="cuda:sm_90[,sm_80] or cpu (default: %(default)s)")


def program_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `api.compile` takes, from the command line. Raises UsageError, ShardingError."""
    return {
        "graph": read_program(options.program),
        "mesh": meshes_option(options.mesh),
        "args": _shapes(options.shape) or options.arg or None,
        "in_specs": specs_option(options.spec) or None,
        "out_specs": specs_option(options.out_spec) or None,
        "arguments": options.arguments,
    }


def planned(options: argparse.Namespace, output: Output) -> Executable:
    """The program as scheduled, without binaries. Mesh axes of unknown size that it uses get a nominal one; a note says so."""
    module, choice, timing = program(options)
    if unknown := unknown_axes(module):
        module = at_mesh(module, nominal_mesh(module))
        verify_program(module)
        output.note(
            f"note: the size of mesh axis {', '.join(unknown)} is unknown: planned for {module.mesh}; --mesh gives another"
        )
    with output.progress() as progress:
        return api.plan_module(module, choice, timing, progress=progress)


def program(options: argparse.Namespace) -> tuple[Module, Options, Timing]:
    """The program as it was entered, and what was chosen for its way."""
    chosen, timing = program_options(options), Timing()
    choice = Options(options.target, chosen.pop("arguments"))
    with timing.of("import"):
        return api.read(**chosen)[0], choice, timing


def mesh_option(text: str | None) -> Mesh | None:
    return None if text is None else parse_mesh(text)


def meshes_option(texts: Sequence[str]) -> tuple[Mesh, ...] | None:
    """The meshes by name, or the only one; None if none is given. Raises UsageError for names that are missing or repeated."""
    meshes = tuple(map(parse_mesh, texts))
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


def read_program(name: str) -> Any:
    """The program that IN names. Raises UsageError MG0002 where there is none."""
    if name == "-":
        return name
    path = Path(name)
    if path.suffix in (".onnx", ".pt2"):
        raise UsageError(
            Diagnostic(
                "MG0002",
                f"'{name}': this version does not read {path.suffix} files",
                hint="export the program as StableHLO text (.mlir)",
            )
        )
    if path.suffix == ".mgx":
        raise UsageError(
            Diagnostic(
                "MG0002", f"'{name}' is a compiled module, not a program", hint="use meshgen run or meshgen inspect"
            )
        )
    return name if ":" in name and not path.exists() else path


def _shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, sizes = text.partition("=")
        if name and equals and all(size.isdigit() for size in sizes.split("x")):
            found[name] = tuple(map(int, sizes.split("x")))
        else:
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SIZES", hint="write for example x=8x64"))
    if faults:
        raise UsageError(*faults)
    return found


def specs_option(texts: Sequence[str]) -> dict[str, Sharding]:
    """Shardings by name. Raises UsageError with all that is malformed."""
    found: dict[str, Sharding] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, spec = text.partition("=")
        if not equals or not name:
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SPEC", hint="write for example w1=_,tp"))
            continue
        try:
            found[name] = parse_sharding(spec)
        except ShardingError as error:
            faults += error.diagnostics
    if faults:
        raise UsageError(*faults)
    return found


def load_arrays(path: str) -> dict[str, Array]:
    """The arrays of a `.npz`, or the one of a `.npy` under an empty name. Raises UsageError MG0002."""
    try:
        content = np.load(path, allow_pickle=False)
        return {"": content} if isinstance(content, np.ndarray) else {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(
            Diagnostic("MG0002", f"'{path}' cannot be read as arrays: {error}", hint="give a .npy or .npz file")
        ) from error
