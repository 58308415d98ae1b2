"""What `make setup` installs: exact versions with hashes of all that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
ASKED = {
    "requirements.txt": CORE,
    "requirements-release.txt": PROJECT["project"]["optional-dependencies"]["release"],
    "requirements-dev.txt": [*CORE, *PROJECT["project"]["optional-dependencies"]["dev"]],
}


def pins(name: str) -> dict[str, str]:
    """Versions by package. Every line but comments is a pin or a hash of it."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        if pin := re.fullmatch(r"([\w.-]+)==([\w.]+) \\", line):
            found[canonicalize_name(pin[1])] = pin[2]
            assert lines[number + 1].startswith("    --hash="), f"{pin[1]} has no hash"
        else:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    return found


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_pinned(name: str) -> None:
    pinned = pins(name)
    for each in map(Requirement, ASKED[name]):
        version = pinned[canonicalize_name(each.name)]
        assert each.specifier.contains(version), f"{each} is pinned to {version}"


def test_both_files_agree() -> None:
    core, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert core.items() < dev.items()


def test_release_tools_have_the_versions_of_the_environment() -> None:
    dev, release = pins("requirements-dev.txt"), pins("requirements-release.txt")
    assert {name: release[name] for name in dev.keys() & release.keys()} == {
        name: dev[name] for name in dev.keys() & release.keys()
    }
