"""Ranks in processes of their own around a step: agreement on the module, gathering of results, propagation of failures."""

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
from meshgen.runtime.loaded import Prepared
from meshgen.runtime.module_file.manifest import Manifest
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.simulate import assemble

Array = np.ndarray[Any, Any]


def require_same(
    world: World, prepared: Prepared, name: str, container: Members, meshes: Sequence[Mesh], device: str
) -> None:
    """Check that all ranks run the same module on the same kind of device, at its first run there.

    Raises RuntimeFailure MG0610 on all ranks, with the module of each.
    """
    if device in prepared.compared:
        return
    prepared.compared.add(device)
    manifest = bytes(container["manifest.json"])
    said: dict[str, Any] = {
        "module": name,
        "digest": hashlib.sha256(manifest).hexdigest(),  # the manifest has the digests of all other members
        "format": json.loads(manifest)["format"],
        "meshes": [str(mesh) for mesh in meshes],
        "device": device,
    }
    with world.doing(lambda: "the comparison of modules"):
        found = [bytes(each) for each in world.all_gather("module", json.dumps(said).encode())]
    if len(set(found)) == 1:
        return
    views = "; ".join(f"{ranks_text(ranks)}: {_described(json.loads(text))}" for text, ranks in _holders(found).items())
    hint = "copy one module file to all machines, and start all ranks with the same options"
    raise RuntimeFailure(Diagnostic("MG0610", f"the ranks run different modules: {views}", hint=hint))


def _holders(found: Sequence[bytes]) -> dict[bytes, list[int]]:
    holders: dict[bytes, list[int]] = {}
    for rank, text in enumerate(found):
        holders.setdefault(text, []).append(rank)
    return holders


def _described(said: Mapping[str, Any]) -> str:
    digest, meshes = said["digest"][:12], " and ".join(said["meshes"])
    return f"'{said['module']}' with digest {digest}, format {said['format']}, on {meshes}, {said['device']}"


def gathered(world: World, manifests: Sequence[Manifest], own: Sequence[Array]) -> list[list[Array]]:
    """The global results of each mesh, on all ranks; `own`: the local ones of this rank."""
    content = b"".join(array.tobytes() for array in own)
    with world.doing(lambda: "the gathering of results"):
        contents = iter(world.all_gather("results", content))
    return [
        assembled(manifest, [_local(manifest, next(contents)) for _ in range(manifest.mesh.size)])
        for manifest in manifests
    ]


def _local(manifest: Manifest, content: bytes | bytearray) -> list[Array]:
    """The local results of a rank, from their bytes."""
    found: list[Array] = []
    offset = 0
    for binding in manifest.outputs:
        kind = manifest.plan.buffers[binding.buffer].type
        found.append(np.frombuffer(content, kind.numpy_dtype, kind.size, offset).reshape(kind.sizes))
        offset += kind.nbytes
    return found


def assembled(manifest: Manifest, local: Sequence[Sequence[Array]]) -> list[Array]:
    """The global results, from the local ones of each rank of the mesh."""
    return [
        assemble([each[number] for each in local], b.sharding, b.type.sizes, manifest.mesh)
        for number, b in enumerate(manifest.outputs)
    ]


@contextmanager
def told(world: World | None) -> Generator[None]:
    """A context that propagates a failure to all other ranks, which fail as well."""
    try:
        yield
    except BaseException as error:
        if world:
            world.fail(reason_of(error))
        raise


def reason_of(error: BaseException) -> str:
    """A failure in a line, for other ranks."""
    if isinstance(error, MeshgenError) and error.diagnostics:
        return "; ".join(f"{each.code}, {each.message}" for each in error.diagnostics)
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    return f"{type(error).__name__}: {error}"
