"""What `manifest.json` says, as values: signature, launch ABI of the kernels, plan, toolchain.

`encode` gives plain JSON values and `decode` takes them back, exactly; decoding checks types and bounds, since
a digest only says that a file is as it was written, not by whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from meshgen.ir.encode import (
    attrs_from_json,
    attrs_to_json,
    graph_from_json,
    graph_to_json,
    mesh_from_json,
    mesh_to_json,
    sharding_from_json,
    sharding_to_json,
)
from meshgen.ir.graph import DTYPES, TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Buffer, Exposure, Item, Schedule
from meshgen.spec import Sharding

FORMAT = 1
PARTS_FORMAT = 2  # of a program on several meshes: a manifest of manifests
OPEN_FORMAT = 3  # of a program with open sizes: a manifest of specialisations
T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True)
class Binding:
    """One argument or result of the step.

    Attributes:
        type: global type.
        local_shape: shape of every rank's buffer.
        buffer: its number in the plan.
        stored: whether the module holds its value (a weight), so that callers do not pass it.
    """

    name: str
    type: TensorType
    sharding: Sharding
    local_shape: tuple[int, ...]
    buffer: int
    stored: bool = False


@dataclass(frozen=True)
class Binary:
    """A cubin: the member that holds it, and what a launch needs to know of it (bytes, per thread or block)."""

    file: str
    regs: int
    spill_bytes: int
    stack_bytes: int
    shared: int
    threads: int
    instructions: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Param:
    """One launch parameter: a pointer to operand or result `index`, or the device's i32 index over `axes`."""

    kind: str
    index: int = -1
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """How a kernel is launched. `source` is empty for one that has no Triton form (it runs as its body)."""

    source: str = ""
    entry: str = ""
    params: tuple[Param, ...] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    constants: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    flops: float = 0.0
    nbytes: float = 0.0
    binaries: Mapping[str, Binary] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """A module without its code and weights. `plan.kernels` and `kernels` have the same names."""

    name: str
    mesh: Mesh
    arguments: str
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    kernels: Mapping[str, Kernel]
    plan: Schedule
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)


def encode(manifest: Manifest, files: Mapping[str, str]) -> Json:
    """The manifest as JSON values; `files` are the SHA-256 of the other members."""
    plan = manifest.plan
    return {
        "format": FORMAT,
        "name": manifest.name,
        "mesh": mesh_to_json(manifest.mesh),
        "arguments": manifest.arguments,
        "inputs": [_binding_to_json(b) for b in manifest.inputs],
        "outputs": [_binding_to_json(b) for b in manifest.outputs],
        "kernels": {
            name: _kernel_to_json(kernel, files) | {"body": _bare(graph_to_json(plan.kernels[name]))}
            for name, kernel in manifest.kernels.items()
        },
        "buffers": [_buffer_to_json(b) for b in plan.buffers],
        "arena_bytes": plan.arena_bytes,
        "schedule": [_item_to_json(item) for item in plan.items],
        "step_seconds": plan.step_seconds,
        "exposures": [asdict(e) for e in plan.exposures],
        "toolchain": dict(manifest.toolchain),
        "report": dict(manifest.report),
        "files": dict(files),
    }


@dataclass(frozen=True)
class Parts:
    """A program on several meshes: per part its mesh, and which of the program's inputs and outputs its own are.

    Part number n is a module by itself, in the folder `parts/n/` of the file.
    """

    name: str
    parts: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    report: Mapping[str, Any] = field(default_factory=dict)


def encode_parts(parts: Parts, files: Mapping[str, str]) -> Json:
    """As `encode`, for a program on several meshes."""
    rows = [{"mesh": name, "inputs": list(ins), "outputs": list(outs)} for name, ins, outs in parts.parts]
    return {
        "format": PARTS_FORMAT,
        "name": parts.name,
        "parts": rows,
        "report": dict(parts.report),
        "files": dict(files),
    }


def decode_parts(value: Json) -> Parts:
    """What `encode_parts` was given. Raises ValueError, with what is wrong, for anything else."""
    try:
        rows = tuple(
            (read_text(v["mesh"]), each_of(v["inputs"], read_count), each_of(v["outputs"], read_count))
            for v in value["parts"]
        )
        found = Parts(read_text(value["name"]), rows, dict(value["report"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"malformed manifest: {error!r}") from error
    for side in (1, 2):
        numbers = sorted(number for row in rows for number in row[side])
        if numbers != list(range(len(numbers))):
            raise ValueError(
                f"the parts have the numbers {numbers} of the program's {'inputs' if side == 1 else 'outputs'}"
            )
    if len(rows) < 2:
        raise ValueError("a program on several meshes has two parts at least")
    return found


def _bare(value: Any) -> Any:
    """A body without source locations, which would make the file depend on where the program lay.

    NumPy's scalars become 0-d arrays: they mean the same in a body, and one form is checked at load.
    """
    if isinstance(value, list):
        return [_bare(entry) for entry in value]
    if isinstance(value, dict):
        if list(value) == ["scalar"]:
            return {"array": value["scalar"]}
        return {key: _bare(entry) for key, entry in value.items() if key != "loc"}
    return value


def decode(value: Json) -> Manifest:
    """The manifest that `encode` was given. Raises ValueError, with what is wrong, for anything else."""
    try:
        return _decode(value)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"malformed manifest: {error!r}") from error


def _decode(value: Json) -> Manifest:
    bodies = {str(name): graph_from_json(kernel["body"]) for name, kernel in value["kernels"].items()}
    inputs = tuple(_binding_from_json(b) for b in value["inputs"])
    outputs = tuple(_binding_from_json(b) for b in value["outputs"])
    plan = Schedule(
        items=tuple(_item_from_json(item) for item in value["schedule"]),
        buffers=tuple(_buffer_from_json(b) for b in value["buffers"]),
        arena_bytes=read_count(value["arena_bytes"]),
        inputs=tuple(b.buffer for b in inputs),
        outputs=tuple(b.buffer for b in outputs),
        kernels=bodies,
        step_seconds=float(value["step_seconds"]),
        exposures=tuple(
            Exposure(read_count(e["item"]), float(e["hidden"]), float(e["exposed"])) for e in value["exposures"]
        ),
    )
    manifest = Manifest(
        name=read_text(value["name"]),
        mesh=mesh_from_json(value["mesh"]),
        arguments=one_of(value["arguments"], ("local", "global")),
        inputs=inputs,
        outputs=outputs,
        kernels={str(name): _kernel_from_json(kernel) for name, kernel in value["kernels"].items()},
        plan=plan,
        toolchain=dict(value["toolchain"]),
        report=dict(value["report"]),
    )
    _check_bindings(manifest)
    return manifest


def _check_bindings(manifest: Manifest) -> None:
    """Buffers hold what the signature says: a shard, or with global arguments the whole of an input."""
    for number, binding in enumerate((*manifest.inputs, *manifest.outputs)):
        if binding.buffer >= len(manifest.plan.buffers):
            raise ValueError(f"'{binding.name}' has no buffer {binding.buffer}")
        have = manifest.plan.buffers[binding.buffer].type
        if have != TensorType(binding.local_shape, binding.type.dtype):
            raise ValueError(f"'{binding.name}' has local shape {binding.local_shape}, but its buffer is {have}")
        if binding.sharding.rank != binding.type.rank:
            raise ValueError(f"'{binding.name}' of type {binding.type} has a sharding of rank {binding.sharding.rank}")
        whole = manifest.arguments == "global" and number < len(manifest.inputs)
        sizes = binding.type.sizes
        if binding.local_shape != (sizes if whole else binding.sharding.local_shape(sizes, manifest.mesh)):
            raise ValueError(f"'{binding.name}' of type {binding.type} is not {binding.local_shape} on each device")


def _binding_to_json(b: Binding) -> Json:
    return {
        "name": b.name, "dtype": b.type.dtype, "shape": list(b.type.sizes), "sharding": sharding_to_json(b.sharding),
        "local_shape": list(b.local_shape), "buffer": b.buffer, "stored": b.stored,
    }  # fmt: skip


def _binding_from_json(v: Json) -> Binding:
    return Binding(
        read_text(v["name"]), _type(v), sharding_from_json(v["sharding"]), read_counts(v["local_shape"]), read_count(v["buffer"]),
        bool(v["stored"]),
    )  # fmt: skip


def _buffer_to_json(b: Buffer) -> Json:
    return {
        "name": b.name, "dtype": b.type.dtype, "shape": list(b.type.sizes), "bytes": b.type.nbytes,
        "offset": b.offset, "kind": b.kind, "storage": b.storage, "source": b.source,
    }  # fmt: skip


def _buffer_from_json(v: Json) -> Buffer:
    return Buffer(
        read_text(v["name"]),
        _type(v),
        read_text(v["kind"]),
        read_count(v["storage"]),
        read_count(v["offset"]),
        read_text(v["source"]),
    )


def _item_to_json(item: Item) -> Json:
    return asdict(item) | {"attrs": attrs_to_json(item.attrs)}


def _item_from_json(v: Json) -> Item:
    return Item(
        op=read_text(v["op"]), kernel=read_text(v["kernel"]), attrs=attrs_from_json(v["attrs"]), inputs=each_of(v["inputs"], read_count),
        outputs=each_of(v["outputs"], read_count), stream=read_count(v["stream"]), waits=each_of(v["waits"], read_count),
        records=None if v["records"] is None else read_count(v["records"]), seconds=float(v["seconds"]),
        start=float(v["start"]), why=read_text(v["why"]), source=read_text(v["source"]),
        edges=each_of(v["edges"], read_count),
    )  # fmt: skip


def _kernel_to_json(kernel: Kernel, files: Mapping[str, str]) -> Json:
    """A binary's digest is repeated beside it, so that a launcher needs to look at one place only."""
    binaries = {arch: asdict(b) | {"sha256": files[b.file]} for arch, b in kernel.binaries.items()}
    return asdict(kernel) | {"binaries": binaries}


def _kernel_from_json(v: Json) -> Kernel:
    grid = read_counts(v["grid"])
    if len(grid) != 3:
        raise ValueError(f"a grid has three sizes, not {grid}")
    return Kernel(
        source=read_text(v["source"]), entry=read_text(v["entry"]), params=tuple(_param_from_json(p) for p in v["params"]),
        grid=(grid[0], grid[1], grid[2]), constants=dict(v["constants"]), num_warps=read_count(v["num_warps"]),
        num_stages=read_count(v["num_stages"]), flops=float(v["flops"]), nbytes=float(v["nbytes"]),
        binaries={str(arch): _binary_from_json(b) for arch, b in v["binaries"].items()},
    )  # fmt: skip


def _param_from_json(v: Json) -> Param:
    kind = one_of(v["kind"], ("operand", "result", "coordinate"))
    return Param(kind, int(v["index"]), each_of(v["axes"], read_text))


def _binary_from_json(v: Json) -> Binary:
    return Binary(
        read_text(v["file"]), read_count(v["regs"]), read_count(v["spill_bytes"]), read_count(v["stack_bytes"]), read_count(v["shared"]),
        read_count(v["threads"]), dict(v["instructions"]), dict(v["metadata"]),
    )  # fmt: skip


def _type(v: Json) -> TensorType:
    return TensorType(read_counts(v["shape"]), one_of(v["dtype"], tuple(DTYPES)))


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def one_of(value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{value!r} is none of {', '.join(choices)}")
    return value


def read_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is not a count")
    return value


def read_counts(values: Any) -> tuple[int, ...]:
    """Counts whose product is one too, so that byte sizes cannot overflow."""
    found = each_of(values, read_count)
    if math.prod(n for n in found if n) >= 1 << 58:
        raise ValueError(f"{found} is too big")
    return found


def each_of(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is not a list")
    return tuple(read(value) for value in values)
