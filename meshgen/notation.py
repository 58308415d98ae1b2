"""The notation of the command line for meshes and shardings: `dp=2,tp=4` and `dp,_,a+b/sum:tp`.

It needs no quoting in a shell. Diagnostics instead use the `str` of a mesh or sharding.
"""

from __future__ import annotations

import re

from meshgen.errors import Diagnostic, ShardingError
from meshgen.mesh import DEFAULT_NAME, Mesh, make_mesh
from meshgen.spec import PARTIAL_KINDS, Halo, Sharding

_SIZE = r"(?:\?|-?[0-9]{1,18})"


def parse_mesh(text: str) -> Mesh:
    """Parse a mesh such as `dp=2,tp=4`, or `first:dp=2,tp=4` for a mesh called `first`. `?` is a size that is unknown
    until load.
    """
    return parse_mesh_choices(text)[0]


def parse_mesh_choices(text: str) -> tuple[Mesh, dict[str, tuple[int, ...]]]:
    """Parse a mesh such as `dp=2|4,tp=4`.

    Returns:
        The mesh, in which the axes with several sizes are open, and the listed sizes of each of these axes.
    """
    axes: dict[str, int | None] = {}
    choices: dict[str, tuple[int, ...]] = {}
    name, colon, listed = text.rpartition(":")
    name = name.strip().removeprefix("@")
    if colon and not re.fullmatch(r"[\w$.-]+", name):
        fault = Diagnostic(
            "MG0201", f"mesh '{text}': '{name}' is not a valid name", hint="write for example first:dp=2,tp=4"
        )
        raise ShardingError(fault)
    for part in listed.split(","):
        match = re.fullmatch(rf"\s*([A-Za-z_]\w*|\d+)\s*=\s*({_SIZE}(?:\s*\|\s*{_SIZE})*)\s*", part)
        if not match or match[1] in axes:
            reason = f"axis '{match[1]}' is given twice" if match else f"'{part.strip()}' is not NAME=SIZE"
            hint = "write for example dp=2,tp=4; dp=? or dp=2|4 leaves a size open"
            raise ShardingError(Diagnostic("MG0201", f"mesh '{text}': {reason}", hint=hint))
        sizes = [None if size.strip() == "?" else int(size) for size in match[2].split("|")]
        axes[match[1]] = sizes[0] if len(sizes) == 1 else None
        if alternatives := tuple(dict.fromkeys(size for size in sizes if size is not None)) if len(sizes) > 1 else ():
            choices[match[1]] = alternatives
    mesh = make_mesh(axes, name or DEFAULT_NAME)
    for axis, sizes in choices.items():
        for size in sizes:
            mesh.with_sizes({axis: size})  # raises an error for an invalid size
    return mesh, choices


def format_sharding(sharding: Sharding) -> str:
    """Format a sharding as `parse_sharding` reads it, such as `dp,_,a+b/sum:tp/halo:0:1:2/offsets:1:0:2:5@stage1`."""
    text = ",".join("+".join(axes) or "_" for axes in sharding.dims)
    tails = [f"{kind}:{axis}" for axis, kind in sharding.partial]
    tails += [f"halo:{d}:{before}:{after}" for d, (before, after) in enumerate(sharding.halo) if before or after]
    tails += [f"offsets:{d}:{':'.join(map(str, row))}" for d, row in enumerate(sharding.offsets) if row]
    return "/".join([text, *tails]) + (f"@{sharding.mesh}" if sharding.mesh else "")


def parse_sharding(text: str) -> Sharding:
    """Parse a sharding in the notation of the command line.

    The text has an entry per dim, separated by commas: the axes joined by `+`, or `_` for none. Further entries follow
    after slashes: KIND:AXIS for partial axes, halo:DIM:BEFORE:AFTER and offsets:DIM:0:...:SIZE. In a program on several
    meshes, the text ends with @MESH.

    Raises:
        ShardingError: the text is malformed.
    """
    body, _, mesh = text.partition("@")
    body, *tails = body.split("/")
    if not re.fullmatch(r"[\w:()+,\s]*", body):
        raise ShardingError(
            Diagnostic("MG0204", f"'{text}' is not a sharding", hint="write for example dp,_,a+b or dp,_/sum:tp")
        )
    entries = [part.strip() for part in body.split(",")] if body.strip() else []
    dims = tuple(() if entry in ("_", "") else tuple(a.strip() for a in entry.split("+")) for entry in entries)
    partial: list[tuple[str, str]] = []
    halo: dict[int, Halo] = {}
    offsets: dict[int, tuple[int, ...]] = {}
    for tail in tails:
        kind, _, argument = tail.strip().partition(":")
        numbers = [int(n) for n in argument.split(":")] if re.fullmatch(r"[0-9]{1,18}(:[0-9]{1,18})+", argument) else []
        if kind == "halo" and len(numbers) == 3 and numbers[0] < len(dims):
            halo[numbers[0]] = (numbers[1], numbers[2])
        elif kind == "offsets" and numbers and numbers[0] < len(dims):
            offsets[numbers[0]] = tuple(numbers[1:])
        elif kind in PARTIAL_KINDS and argument:
            partial.append((argument.strip(), kind))
        else:
            hint = f"after a slash write KIND:AXIS with KIND one of {', '.join(PARTIAL_KINDS)}, halo:DIM:BEFORE:AFTER or offsets:DIM:0:...:SIZE"
            raise ShardingError(Diagnostic("MG0204", f"cannot parse '{tail}' in sharding '{text}'", hint=hint))
    rows = range(len(dims))
    return Sharding(
        dims,
        tuple(partial),
        tuple(halo.get(d, (0, 0)) for d in rows) if halo else (),
        tuple(offsets.get(d, ()) for d in rows) if offsets else (),
        mesh.strip(),
    )
