"""Modules with open sizes that are damaged or forged: refused, never run."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.errors import MeshgenError, ModuleError
from meshgen.runtime.module_file import container
from meshgen.runtime.open_module import OpenModule
from tests.compiled.open_programs import written
from tests.runtime.scrambled import scramble


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx")
    raw, rng = path.read_bytes(), random.Random(5)
    for place in {*range(40), *range(len(raw) - 100, len(raw)), *(rng.randrange(len(raw)) for _ in range(200))}:
        broken = bytearray(raw)
        broken[place] ^= rng.randrange(1, 256)
        path.write_bytes(broken)
        with pytest.raises(ModuleError):
            mg.load(path)
    for size in (0, 30, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(ModuleError):
            mg.load(path)


def forged(path: Path, change: Callable[[Any], Any], members: Mapping[str, bytes] | None = None) -> Path:
    """The module with its manifest changed and all digests made right again."""
    found = container.Container(path)
    files = {name: bytes(found[name]) for name in found} | dict(members or {})
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    manifest["files"] = {n: hashlib.sha256(files[n]).hexdigest() for n in files if not n.startswith("manifest.")}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["manifest.sha256"] = hashlib.sha256(files["manifest.json"]).hexdigest().encode()
    container.write(path.with_name("forged.mgx"), files)
    return path.with_name("forged.mgx")


def used(path: Path) -> None:
    """Load a module, and every specialisation in it."""
    module = mg.load(path)
    assert isinstance(module, OpenModule)
    for sizes in module.specialisations:
        module.held(sizes)


def swapped(manifest: Any) -> None:
    first, second = manifest["specialisations"]
    first["members"], second["members"] = second["members"], first["members"]


FORGERIES: list[Callable[[Any], Any]] = [
    swapped,
    lambda m: m.update(axes=["1"]),
    lambda m: m.update(axes=["0", "0"]),
    lambda m: m.update(axes=[], shapes=[]),
    lambda m: m.update(shapes=["w"]),
    lambda m: m.update(shapes=["x", "x"]),
    lambda m: m.update(stage="export"),
    lambda m: m.update(stage="fuse"),
    lambda m: m.update(meshes=[]),
    lambda m: m.update(specialisations={}),
    lambda m: m["specialisations"].pop(),
    lambda m: m["specialisations"].append(m["specialisations"][0]),
    lambda m: m["specialisations"][0].update(axes=[["0", 4]]),
    lambda m: m["specialisations"][0].update(axes=[["0", -1]]),
    lambda m: m["specialisations"][0].update(axes=[]),
    lambda m: m["specialisations"][0].update(shapes=[["x", [7, 12]]]),
    lambda m: m["specialisations"][0].update(shapes=[["x", [6, 13]]]),
    lambda m: m["specialisations"][0]["members"].update({"manifest.json": "00"}),
    lambda m: m["specialisations"][0]["members"].pop("manifest.json"),
    lambda m: m["specialisations"][0]["members"].pop("constants.safetensors"),
    lambda m: m["inputs"][0].update(shape=[None, 13]),
    lambda m: m["inputs"][0].update(stored=True),
    lambda m: m["inputs"][0].update(name="w"),
    lambda m: m["inputs"][1].update(dtype="object"),
]


@pytest.mark.parametrize("change", FORGERIES)
def test_forged_manifests_are_refused(change: Callable[[Any], Any], tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx")
    used(forged(path, lambda _: None))
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(path, change))


def test_members_that_nobody_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(written(tmp_path / "m.mgx"), lambda _: None, {"sizes/00/more.txt": b"more"}))


def test_a_newer_format_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match=r"MG0503.*format 99.*reads up to 12"):
        used(forged(written(tmp_path / "m.mgx"), lambda m: m.update(format=99)))


def test_random_changes_of_the_manifest_never_crash(tmp_path: Path) -> None:
    path, rng = written(tmp_path / "m.mgx"), random.Random(17)
    junk = [None, True, -1, 0, 1 << 70, 0.5, "", "x", [], {}, [[]], {"a": 1}, [0, 0]]
    refused = 0
    for _ in range(150):
        try:
            used(forged(path, lambda manifest: scramble(manifest, rng, junk)))
        except MeshgenError as error:
            assert error.exit_code == 1
            refused += 1
    assert refused > 100
