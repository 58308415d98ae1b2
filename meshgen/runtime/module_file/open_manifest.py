"""The content of `manifest.json` of a module with open sizes: the signature, the open sizes, and the specializations.

Each specialization is a complete module. It refers to its members by digest, so that members with equal content in
several specializations are stored once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from meshgen.ir.encode import mesh_to_json, type_from_json
from meshgen.ir.graph import STAGES
from meshgen.runtime.module_file.call_json import call_from_json, call_to_json
from meshgen.runtime.module_file.json_values import (
    get,
    one_of,
    optional,
    read_count,
    read_counts,
    read_flag,
    read_list,
    read_name,
    read_text,
    shown,
    table_of,
)
from meshgen.runtime.module_file.manifest import OPEN_FORMAT, Json
from meshgen.runtime.module_file.manifest_reading import read_mesh
from meshgen.runtime.open_program import Argument, Digests, OpenProgram
from meshgen.runtime.sizes import Sizes, axis_sizes

T = TypeVar("T")


def encode_open(program: OpenProgram, files: Digests) -> Json:
    """Return the manifest as JSON values. `files` maps the other members of the module to their SHA-256 digests."""
    return {
        "format": OPEN_FORMAT,
        "name": program.name,
        "meshes": [mesh_to_json(mesh) for mesh in program.meshes],
        "axes": list(program.axes),
        "shapes": list(program.shapes),
        "inputs": [_argument_to_json(argument) for argument in program.inputs],
        "outputs": [_argument_to_json(argument) for argument in program.outputs],
        "stage": program.stage,
        "arguments": program.arguments,
        "target": program.target,
        **call_to_json(program.call),
        "specialisations": [
            {
                "axes": [[name, size] for name, size in sizes.axes],
                "shapes": [[name, list(shape)] for name, shape in sizes.shapes],
                "members": dict(members),
            }
            for sizes, members in program.held.items()
        ],
        "files": dict(files),
    }


def decode_open(value: Json) -> OpenProgram:
    """Return the program that a manifest describes. This is the inverse of `encode_open`.

    Raises ValueError or ModuleError for malformed documents.
    """
    specializations = get(value, "specialisations", lambda rows: read_list(rows, _specialization_from_json))
    program = OpenProgram(
        name=get(value, "name", read_name),
        meshes=get(value, "meshes", lambda rows: read_list(rows, read_mesh)),
        axes=get(value, "axes", lambda rows: read_list(rows, read_name)),
        shapes=get(value, "shapes", lambda rows: read_list(rows, read_name)),
        inputs=get(value, "inputs", lambda rows: read_list(rows, _argument_from_json)),
        outputs=get(value, "outputs", lambda rows: read_list(rows, _argument_from_json)),
        stage=get(value, "stage", lambda word: one_of(word, STAGES)),
        arguments=get(value, "arguments", lambda word: one_of(word, ("local", "global"))),
        target=get(value, "target", read_name),
        held=dict(specializations),
    )
    call = call_from_json(value, [argument.name for argument in program.inputs], len(program.outputs))
    program = replace(program, call=call)
    _check(program, value["files"], len(specializations))
    return program


def _check(program: OpenProgram, files: Digests, count: int) -> None:
    """Raise ValueError unless the manifest is consistent.

    Specializations must be distinct and have exactly the open sizes of the program, and their members must exist.
    """
    if not program.meshes or len({mesh.name for mesh in program.meshes}) != len(program.meshes):
        raise ValueError("its meshes must have distinct names, and there must be at least one")
    sizes, input_names = axis_sizes(program.meshes), [argument.name for argument in program.inputs]
    if len({*program.axes}) != len(program.axes) or any(sizes.get(axis, 1) is not None for axis in program.axes):
        raise ValueError(f"the axes {list(program.axes)} must all be open")
    for role, arguments in (("input", program.inputs), ("output", program.outputs)):
        if len({argument.name for argument in arguments}) != len(arguments):
            raise ValueError(f"names of {role}s must be distinct")
    if [name for name in input_names if name in program.shapes] != list(program.shapes):
        raise ValueError(f"the open shapes {list(program.shapes)} are not those of inputs")
    if not program.axes and not program.shapes:
        raise ValueError("at least one size must be open")
    if len(program.held) != count:
        raise ValueError("two specializations have the same sizes")
    digests = {*files.values()}
    for specialized_sizes, members in program.held.items():
        if program.sizes_of(specialized_sizes) != specialized_sizes:
            raise ValueError(f"the specialization for {specialized_sizes} has other sizes than the program")
        if not {*members.values()} <= digests:
            raise ValueError(f"a member of the specialization for {specialized_sizes} is not in the file")
    used = {digest for members in program.held.values() for digest in members.values()}
    shared_members = {program.text_member, "weights.safetensors"}
    if program.text_member not in files or any(
        name not in shared_members and files[name] not in used for name in files
    ):
        raise ValueError("its members do not match its specializations")


def _argument_to_json(argument: Argument) -> Json:
    return {
        "name": argument.name,
        "dtype": argument.type.dtype,
        "shape": list(argument.type.shape),
        "stored": argument.stored,
    }


def _argument_from_json(value: Json) -> Argument:
    read_counts(
        [size for size in get(value, "shape", lambda v: read_list(v, optional(read_count))) if size is not None]
    )
    tensor_type = type_from_json([get(value, "dtype", read_text), value["shape"]])
    return Argument(get(value, "name", read_name), tensor_type, get(value, "stored", read_flag))


def _specialization_from_json(value: Json) -> tuple[Sizes, Digests]:
    axes = get(value, "axes", lambda rows: read_list(rows, lambda pair: _pair(pair, read_count)))
    shapes = get(value, "shapes", lambda rows: read_list(rows, lambda pair: _pair(pair, read_counts)))
    return Sizes(axes, shapes), get(value, "members", lambda table: table_of(table, read_text))


def _pair(value: Any, read: Callable[[Any], T]) -> tuple[str, T]:
    """Read a pair of a name and a value. The value is converted by `read`."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"expected a pair, got {shown(value)}")
    return read_name(value[0]), read(value[1])
