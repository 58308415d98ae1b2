"""Installation: the package tables of meshgen match `pyproject.toml`, and every text of the repository installs only
declared packages.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from meshgen.packages import CORE, EXTRAS, RUNTIME, name_of
from tests.sources import ROOT, refuse
from tests.test_pins import pins

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = {
    canonicalize_name(Requirement(requirement).name)
    for requirements in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in requirements
} | {PROJECT["name"]}
TEXTS = {".md", ".py", ".pyi", ".toml", ".txt", ".yml", ".html", ".js", ".c", ".h", ".mlir", ".sh", ""}
INSTALL = re.compile(r"\bpip3? install\b(?P<words>[^\n]*)")
WORD = re.compile(r"\s+('[^']*'|[^\s'`\"#;&|()]+)")
VALUED = {"-r", "-c", "--requirement", "--constraint", "--python", "--target", "--group"}


def texts() -> Iterator[tuple[str, int, str]]:
    """Yield file name, line number and line for every line of the repository's text files, except tests."""
    shown = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = shown.stdout.splitlines() or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    for name in names:
        path = ROOT / name
        if path.suffix in TEXTS and not name.startswith(("tests/", ".venv/")) and path.is_file():
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                yield name, number, line


def installed(text: str) -> list[str]:
    """Return the requirements that follow the words `pip install` in a line of text. Folders with extras have the form
    `.[...]`.
    """
    requirements: list[str] = []
    is_value = False
    while word := WORD.match(text):
        text, plain = text[word.end() :], word[1].strip("'").rstrip(",")
        if not (is_value or plain.startswith("-") or "{" in plain or "$" in plain):
            requirements.append(plain)
        is_value = plain in VALUED
        if word[1].endswith(","):  # a comma ends the command, and prose follows
            break
    return requirements


def is_declared(word: str) -> bool:
    """Whether a requirement is a package that the project declares, or the project itself with declared extras."""
    path, extras = re.fullmatch(r"(\.|[\w.-]*)(?:\[([\w,-]+)\])?.*", word).groups()  # type: ignore[union-attr]
    is_own = path in (".", PROJECT["name"])
    if any(extra not in PROJECT["optional-dependencies"] for extra in (extras or "").split(",") if extra):
        return False
    return is_own or (not extras and canonicalize_name(path) in DECLARED)


def test_every_text_installs_declared_packages_only() -> None:
    refuse(
        [
            f"{name}:{number}: {word}"
            for name, number, line in texts()
            for match in INSTALL.finditer(line)
            for word in installed(match["words"])
            if not is_declared(word)
        ]
        + [f"{name}:{number}: {line.strip()}" for name, number, line in texts() if re.search(r"\bmeshgen\[", line)]
    )


@pytest.mark.parametrize(
    ("words", "asked", "is_fine"),
    [
        (" 'meshgen[mpi]'", ["meshgen[mpi]"], False),
        (" meshgen -c requirements.txt`.", ["meshgen"], False),
        (" --no-deps .", ["."], True),
        (" -e '.[mpi]'", [".[mpi]"], True),
        (" '.[mpj]'", [".[mpj]"], False),
        (" --require-hashes -r requirements.txt", [], True),
        (" 'mpi4py>=4.1' 'mpich>=5'", ["mpi4py>=4.1", "mpich>=5"], True),
        (" 'cuda-bindings>=13' somebody-elses", ["cuda-bindings>=13", "somebody-elses"], False),
        (" 'meshgen-spmd[mpi]'", ["meshgen-spmd[mpi]"], True),
        (" -e '.[onnx]'`); running", [".[onnx]"], True),
    ],
)
def test_requirements_are_read_from_pip_install_words(words: str, asked: list[str], is_fine: bool) -> None:
    assert installed(words) == asked
    assert all(map(is_declared, asked)) == is_fine


def test_package_tables_match_pyproject() -> None:
    plain = [requirement.partition(";")[0].strip() for requirement in PROJECT["dependencies"]]
    assert [*CORE] == plain
    assert {extra: [*packages] for extra, packages in EXTRAS.items()} == {
        extra: PROJECT["optional-dependencies"][extra] for extra in EXTRAS
    }
    assert PROJECT["name"] == "meshgen-spmd"
    assert set(PROJECT["optional-dependencies"]) - set(EXTRAS) == {"models", "docs", "dev", "release"}


def test_runtime_pins_match_the_pins_of_the_compiler() -> None:
    assert {*RUNTIME} <= {name_of(requirement) for requirement in CORE}
    runtime, core = pins("requirements-runtime.txt"), pins("requirements.txt")
    assert set(runtime) == {canonicalize_name(name) for name in RUNTIME} and runtime.items() < core.items()
    assert f"RUNTIME = {RUNTIME!r}".replace("'", '"') in (ROOT / ".ci" / "pins.py").read_text()


def test_docs_name_packages_of_extras() -> None:
    page = Path(ROOT / "docs" / "configuration.md").read_text()
    for extra in ("cuda12", "mpi"):
        assert f"pip install {shlex.join(EXTRAS[extra])}\n" in page
    for extra in EXTRAS:
        assert f"pip install '.[{extra}]'" in page
