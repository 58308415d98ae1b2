"""The packages that `make setup` installs. Every requirement of pyproject.toml has an exact version with hashes."""

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
REQUIRED = {
    "requirements.txt": CORE,
    "requirements-release.txt": PROJECT["project"]["optional-dependencies"]["release"],
    "requirements-dev.txt": [*CORE, *PROJECT["project"]["optional-dependencies"]["dev"]],
}


def pins(name: str) -> dict[str, str]:
    """Return the version of each package in a file. Every line that is not a comment must be a version or a hash."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    versions: dict[str, str] = {}
    for index, line in enumerate(lines):
        if pin := re.fullmatch(r"([\w.-]+)==([\w.]+) \\", line):
            versions[canonicalize_name(pin[1])] = pin[2]
            assert lines[index + 1].startswith("    --hash="), f"{pin[1]} has no hash"
        else:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    return versions


@pytest.mark.parametrize("name", REQUIRED)
def test_every_requirement_is_pinned(name: str) -> None:
    pinned = pins(name)
    for requirement in map(Requirement, REQUIRED[name]):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_pins_of_core_and_dev_agree() -> None:
    core, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert core.items() < dev.items()


def test_release_tools_have_the_versions_of_the_environment() -> None:
    dev, release = pins("requirements-dev.txt"), pins("requirements-release.txt")
    assert {name: release[name] for name in dev.keys() & release.keys()} == {
        name: dev[name] for name in dev.keys() & release.keys()
    }
