"""What `manifest.json` of a module with open sizes says: the signature, what is open, and the specialisations.

A specialisation is a module by itself. Its members are found by their digests, so that equal members of several
specialisations are in the file once.
"""

from __future__ import annotations

from meshgen.ir.encode import mesh_from_json, mesh_to_json
from meshgen.ir.graph import DTYPES, STAGES, TensorType
from meshgen.runtime.json_values import each_of, one_of, read_count, read_counts, read_flag, read_text
from meshgen.runtime.manifest import OPEN_FORMAT, Json
from meshgen.runtime.open_program import Argument, Digests, OpenProgram
from meshgen.runtime.sizes import Sizes, axis_sizes


def encode_open(program: OpenProgram, files: Digests) -> Json:
    """The manifest as JSON values; `files` are the SHA-256 of the other members."""
    return {
        "format": OPEN_FORMAT,
        "name": program.name,
        "meshes": [mesh_to_json(mesh) for mesh in program.meshes],
        "axes": list(program.axes),
        "shapes": list(program.shapes),
        "inputs": [_argument_to_json(each) for each in program.inputs],
        "outputs": [_argument_to_json(each) for each in program.outputs],
        "stage": program.stage,
        "arguments": program.arguments,
        "target": program.target,
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
    """What `encode_open` was given. Raises ValueError, with what is wrong, for anything else."""
    try:
        program = OpenProgram(
            name=read_text(value["name"]),
            meshes=each_of(value["meshes"], mesh_from_json),
            axes=each_of(value["axes"], read_text),
            shapes=each_of(value["shapes"], read_text),
            inputs=each_of(value["inputs"], _argument_from_json),
            outputs=each_of(value["outputs"], _argument_from_json),
            stage=one_of(value["stage"], STAGES),
            arguments=one_of(value["arguments"], ("local", "global")),
            target=read_text(value["target"]),
            held=dict(each_of(value["specialisations"], _held_from_json)),
        )
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"malformed manifest: {error!r}") from error
    _check(program, dict(value["files"]), len(value["specialisations"]))
    return program


def _check(program: OpenProgram, files: Digests, count: int) -> None:
    """Every specialisation has all sizes, each once and as the program allows, and members that are in the file."""
    sizes, names = axis_sizes(program.meshes), [each.name for each in program.inputs]
    if len({*program.axes}) != len(program.axes) or any(sizes.get(axis, 1) is not None for axis in program.axes):
        raise ValueError(f"the axes {list(program.axes)} are not all open")
    for word, row in (("input", program.inputs), ("output", program.outputs)):
        if len({each.name for each in row}) != len(row):
            raise ValueError(f"two {word}s have one name")
    if [name for name in names if name in program.shapes] != list(program.shapes):
        raise ValueError(f"the open shapes {list(program.shapes)} are not those of inputs")
    if not program.axes and not program.shapes:
        raise ValueError("no size is open")
    if len(program.held) != count:
        raise ValueError("two specialisations have the same sizes")
    digests = {*files.values()}
    for held, members in program.held.items():
        if program.sizes_of(held) != held:
            raise ValueError(f"the specialisation for {held} has other sizes than the program")
        if not {*members.values()} <= digests:
            raise ValueError(f"a member of the specialisation for {held} is not in the file")
    used = {digest for members in program.held.values() for digest in members.values()}
    own = {program.text_member, "weights.safetensors"}
    if program.text_member not in files or any(name not in own and files[name] not in used for name in files):
        raise ValueError("its members are not those that its specialisations have")


def _argument_to_json(each: Argument) -> Json:
    return {"name": each.name, "dtype": each.type.dtype, "shape": list(each.type.shape), "stored": each.stored}


def _argument_from_json(value: Json) -> Argument:
    shape = each_of(value["shape"], lambda size: None if size is None else read_count(size))
    read_counts([size for size in shape if size is not None])
    kind = TensorType(shape, one_of(value["dtype"], tuple(DTYPES)))
    return Argument(read_text(value["name"]), kind, read_flag(value["stored"]))


def _held_from_json(value: Json) -> tuple[Sizes, Digests]:
    axes = each_of(value["axes"], lambda pair: (read_text(pair[0]), read_count(pair[1])))
    shapes = each_of(value["shapes"], lambda pair: (read_text(pair[0]), read_counts(pair[1])))
    return Sizes(axes, shapes), {read_text(name): read_text(digest) for name, digest in value["members"].items()}
