"""Steps of ranks in separate processes: agreement on the module, exchange of results, reports of failures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from meshgen.ccl.world import World, ranks_text
from meshgen.errors import Diagnostic, MeshgenError, RuntimeFailure
from meshgen.mesh import Mesh
from meshgen.runtime.engine_interfaces import Prepared
from meshgen.runtime.module_file.manifest import Manifest
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.simulate import assemble

Array = np.ndarray[Any, Any]


def require_same(
    world: World, prepared: Prepared, name: str, container: Members, meshes: Sequence[Mesh], device: str
) -> None:
    """Check, before the first run on `device`, that all ranks run the same module on the same kind of device.

    Raises:
        RuntimeFailure: MG0610 on all ranks, with the module of each.
    """
    if device in prepared.compared:
        return
    prepared.compared.add(device)
    manifest = bytes(container["manifest.json"])
    description: dict[str, Any] = {
        "module": name,
        "digest": hashlib.sha256(
            manifest
        ).hexdigest(),  # this digest covers all members, because the manifest has theirs
        "format": json.loads(manifest)["format"],
        "meshes": [str(mesh) for mesh in meshes],
        "device": device,
    }
    with world.doing(lambda: "the comparison of modules"):
        descriptions = [bytes(content) for content in world.all_gather("module", json.dumps(description).encode())]
    if len(set(descriptions)) == 1:
        return
    texts = "; ".join(
        f"{ranks_text(ranks)}: {_described(json.loads(text))}" for text, ranks in _holders(descriptions).items()
    )
    hint = "copy one module file to all machines, and start all ranks with the same options"
    raise RuntimeFailure(Diagnostic("MG0610", f"the ranks run different modules: {texts}", hint=hint))


def _holders(descriptions: Sequence[bytes]) -> dict[bytes, list[int]]:
    holders: dict[bytes, list[int]] = {}
    for rank, text in enumerate(descriptions):
        holders.setdefault(text, []).append(rank)
    return holders


def _described(description: Mapping[str, Any]) -> str:
    digest, meshes = description["digest"][:12], " and ".join(description["meshes"])
    return f"'{description['module']}' with digest {digest}, format {description['format']}, on {meshes}, {description['device']}"


def gathered(world: World, manifests: Sequence[Manifest], local_results: Sequence[Array]) -> list[list[Array]]:
    """Return the global results of each mesh, on all ranks.

    Args:
        local_results: the local results of this rank.
    """
    content = b"".join(array.tobytes() for array in local_results)
    with world.doing(lambda: "the gathering of results"):
        contents = iter(world.all_gather("results", content))
    return [
        assembled(manifest, [_local(manifest, next(contents)) for _ in range(manifest.mesh.size)])
        for manifest in manifests
    ]


def _local(manifest: Manifest, content: bytes | bytearray) -> list[Array]:
    """Return the local results of a rank, parsed from the bytes that it has sent."""
    arrays: list[Array] = []
    offset = 0
    for binding in manifest.outputs:
        kind = manifest.plan.buffers[binding.buffer].type
        arrays.append(np.frombuffer(content, kind.numpy_dtype, kind.size, offset).reshape(kind.sizes))
        offset += kind.nbytes
    return arrays


def assembled(manifest: Manifest, local: Sequence[Sequence[Array]]) -> list[Array]:
    """Return the global results of a mesh, given the local results of each of its ranks."""
    return [
        assemble([results[index] for results in local], b.sharding, b.type.sizes, manifest.mesh)
        for index, b in enumerate(manifest.outputs)
    ]


@contextmanager
def propagating_failures(world: World | None) -> Generator[None]:
    """Return a context that reports a failure inside of it to all other ranks, which then fail as well."""
    try:
        yield
    except BaseException as error:
        if world:
            world.fail(reason_of(error))
        raise


def reason_of(error: BaseException) -> str:
    """Return a failure as one line of text that can be sent to other ranks."""
    if isinstance(error, MeshgenError) and error.diagnostics:
        return "; ".join(f"{diagnostic.code}, {diagnostic.message}" for diagnostic in error.diagnostics)
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    return f"{type(error).__name__}: {error}"
