"""Tests of damaged or forged modules with open sizes, which are rejected and never run."""

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


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("good") / "m.mgx")


def test_flipped_bytes_and_truncation_are_detected(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    raw, rng = good.read_bytes(), random.Random(5)
    for offset in {*range(40), *range(len(raw) - 100, len(raw)), *(rng.randrange(len(raw)) for _ in range(100))}:
        broken = bytearray(raw)
        broken[offset] ^= rng.randrange(1, 256)
        path.write_bytes(broken)
        with pytest.raises(ModuleError):
            mg.load(path)
    for size in (0, 30, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(ModuleError):
            mg.load(path)


def forged(path: Path, change: Callable[[Any], Any], members: Mapping[str, bytes] | None = None) -> Path:
    """Write a copy of the module with a changed manifest and corrected digests, and return its path."""
    container_file = container.Container(path)
    files = {name: bytes(container_file[name]) for name in container_file} | dict(members or {})
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    manifest["files"] = {n: hashlib.sha256(files[n]).hexdigest() for n in files if not n.startswith("manifest.")}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["manifest.sha256"] = hashlib.sha256(files["manifest.json"]).hexdigest().encode()
    container.write(path.with_name("forged.mgx"), files)
    return path.with_name("forged.mgx")


def used(path: Path) -> None:
    """Load a module, and then every specialization in it."""
    module = mg.load(path)
    assert isinstance(module, OpenModule)
    for sizes in module.specializations:
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


def test_forgery_without_change_is_valid(good: Path) -> None:
    used(forged(good, lambda _: None))


@pytest.mark.parametrize("change", FORGERIES)
def test_forged_manifest_is_rejected(change: Callable[[Any], Any], good: Path) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(good, change))


def test_unreferenced_member_is_rejected(good: Path) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(good, lambda _: None, {"sizes/00/more.txt": b"more"}))


def test_newer_open_module_format_is_reported(good: Path) -> None:
    with pytest.raises(ModuleError, match=r"MG0503.*format 99.*reads up to 16"):
        used(forged(good, lambda m: m.update(format=99)))


def test_random_manifest_changes_never_crash_loader(good: Path) -> None:
    rng = random.Random(17)
    junk = [None, True, -1, 0, 1 << 70, 0.5, "", "x", [], {}, [[]], {"a": 1}, [0, 0]]
    refused = 0
    for _ in range(75):
        try:
            used(forged(good, lambda manifest: scramble(manifest, rng, junk)))
        except MeshgenError as error:
            assert error.exit_code == 1
            refused += 1
    assert refused > 50
