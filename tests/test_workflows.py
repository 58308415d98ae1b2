"""CI workflows: each step is a target of the Makefile, actions are pinned, and jobs have the least permissions."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][\w-]*)(?: [\w-]+)*:(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
PINNED = re.compile(r"uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# Permissions beyond reading the code, by the only job that has them.
GRANTED = {("release.yml", "attach"): {"contents": "write"}, ("release.yml", "publish"): {"id-token": "write"}}


def document(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    return {"on" if key is True else key: value for key, value in content.items()}  # YAML 1.1 reads `on` as true


def jobs() -> Iterator[tuple[Path, str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in document(path)["jobs"].items():
            yield path, name, job


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a workflow as its location and its words."""
    for path, job_name, job in jobs():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                yield f"{path.name}: {job_name}", shlex.split(line)


def test_workflows_are_ci_nightly_and_release() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "nightly", "release"]
    assert document(WORKFLOWS[2])["on"] == {"push": {"tags": ["v*"]}}


def test_every_workflow_step_is_a_make_target() -> None:
    for location, words in commands():
        if words[:3] != ["gh", "release", "create"]:  # creating a release is the only step that the Makefile cannot do
            assert words[0] == "make" and words[1] in TARGETS, f"{location}: {words}"
            assert all("=" in word for word in words[2:]), f"{location}: {words}"


def test_workflows_and_ci_run_make_the_same_targets() -> None:
    local = set(re.findall(r"^make (\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert local <= {*(words[1] for _, words in commands()), "test", "lint"}


def test_actions_are_pinned_to_commits() -> None:
    for path in WORKFLOWS:
        uses = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
        assert uses and [line for line in uses if not PINNED.fullmatch(line)] == []


def test_jobs_have_least_permissions_and_time_limits() -> None:
    for path in WORKFLOWS:
        assert document(path)["permissions"] == {}
    for path, name, job in jobs():
        assert job["permissions"] == GRANTED.get((path.name, name), {"contents": "read"}), name
        assert job["timeout-minutes"] <= 360
        checkouts = [step for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_quick_runs_on_every_supported_python() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = [text.rpartition(" ")[2] for text in classifiers if text.startswith("Programming Language :: Python")]
    matrix = document(FOLDER / "workflows" / "ci.yml")["jobs"]["quick"]["strategy"]["matrix"]
    assert matrix["python"] == supported


def test_workflow_runs_all_shards_of_the_suite() -> None:
    shards = document(FOLDER / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["shard"]
    assert shards == [f"{number}/{len(shards)}" for number in range(1, len(shards) + 1)]


@pytest.mark.parametrize(
    "path",
    sorted({*FOLDER.rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"}),
    ids=lambda p: p.name,
)
def test_yaml_of_the_repository_parses(path: Path) -> None:
    assert document(path)


def test_citation_has_the_version_and_license() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = document(ROOT / "CITATION.cff")
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] and {"cff-version", "message", "title"} <= citation.keys()


def test_hooks_run_programs_of_the_environment() -> None:
    for repository in document(ROOT / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"  # other repositories would need a second list of pinned versions
        for hook in repository["hooks"]:
            assert hook["language"] == "system" and hook["entry"].startswith(".venv/bin/")


def test_make_dry_run_succeeds_for_workflow_targets() -> None:
    """The dry run fails if a recipe has a syntax error or needs a missing file."""
    targets = sorted({words[1] for _, words in commands() if words[0] == "make"})
    shown = subprocess.run(
        ["make", "-n", "-o", ".venv/dev.stamp", "-o", ".venv/release.stamp", *targets],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
