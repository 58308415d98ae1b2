"""Tests that the modules of the current and the previous format in tests/data/modules load and give the right results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ModuleError, UsageError
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.manifest import ENTRIES_FORMAT, FORMAT, OPEN_FORMAT, PARTS_FORMAT
from meshgen.runtime.module_file.upgrades import UPGRADES, upgraded
from tests.runtime.kept_modules import CHECKS, FOLDER, executables, format_of, whole
from tests.runtime.test_module_damage import forged

TODAY = {"mesh": FORMAT, "parts": PARTS_FORMAT, "open": OPEN_FORMAT, "entries": ENTRIES_FORMAT}
STATE = {"m": whole(4, 4), "w": whole(4, 4)}
BEFORE = {kind: old for kind, today in TODAY.items() for old, new in UPGRADES if new == today}


def test_stored_modules_cover_each_kind_and_format() -> None:
    """This fails after a format change without new modules or without an upgrade."""
    assert list(BEFORE) == list(TODAY)
    assert {path.name for path in FOLDER.iterdir()} == {f"{n}.mgx" for n in (*TODAY.values(), *BEFORE.values())}
    assert all(f"{format_of(path)}.mgx" == path.name for path in FOLDER.iterdir())


@pytest.mark.parametrize("kind", TODAY)
def test_stored_module_gives_expected_results(kind: str) -> None:
    CHECKS[kind](FOLDER / f"{TODAY[kind]}.mgx")


@pytest.mark.parametrize("kind", BEFORE)
def test_stored_module_of_previous_format_gives_expected_results(kind: str) -> None:
    CHECKS[kind](FOLDER / f"{BEFORE[kind]}.mgx")


def test_written_module_has_format_of_stored_module(tmp_path: Path) -> None:
    executables()["mesh"].save(tmp_path / "m.mgx")
    assert format_of(tmp_path / "m.mgx") == FORMAT


def test_session_of_previous_format_keeps_its_state() -> None:
    """The stored module contains its state, since the last versions that wrote format 10 added it."""
    with mg.load(FOLDER / "10.mgx").session(weights={"state": STATE}) as session:
        session(x=whole(4, 4))
        session(x=whole(4, 4))
        assert np.array_equal(session["state"]["m"], 4 * whole(4, 4) + 3 * whole(4, 4))


def stateless(path: Path) -> Path:
    """Return a copy of a module without `state`. The first versions of the format had no such field."""
    return forged(path, lambda manifest: manifest.pop("state"))


def test_session_of_format_10_rejects_ambiguous_next_values(tmp_path: Path) -> None:
    copied_module = tmp_path / "m.mgx"
    copied_module.write_bytes((FOLDER / "10.mgx").read_bytes())
    module = mg.load(stateless(copied_module))
    with pytest.raises(UsageError, match=r"(?s)MG0112.*format 10 does not say.*'state.m'.*compile the program again"):
        module.session(weights={"state": STATE})


def test_state_of_format_10_is_derived_from_unique_types() -> None:
    rows = [{"name": "p", "dtype": "f32", "shape": [4], "donated_to": 1}, {"name": "x", "dtype": "f32", "shape": [4]}]
    results = [{"name": "loss", "dtype": "f32", "shape": []}, {"name": "q", "dtype": "f32", "shape": [4]}]
    manifest = upgraded({"format": 10, "inputs": rows, "outputs": results})
    assert manifest is not None
    assert manifest["format"] == FORMAT and manifest["state"] == {"next_values": {"p": 1}, "undecided": {}}


def test_session_of_format_11_without_state_is_rejected() -> None:
    manifest = json.loads(bytes(container.Container(FOLDER / "11.mgx")["manifest.json"]))
    manifest.pop("state", None)
    upgraded_manifest = upgraded(manifest)
    assert upgraded_manifest is not None and list(upgraded_manifest["state"]["undecided"])


@pytest.mark.parametrize("value", [None, 3, [3], [{"name": 1}], [{}]])
def test_malformed_manifest_of_previous_format_is_damaged(value: object, tmp_path: Path) -> None:
    copied_module = tmp_path / "m.mgx"
    copied_module.write_bytes((FOLDER / "10.mgx").read_bytes())
    with pytest.raises(ModuleError, match="MG0502"):
        mg.load(forged(copied_module, lambda manifest: manifest.update(inputs=value)))
