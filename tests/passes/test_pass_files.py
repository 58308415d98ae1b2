"""A file for each pass: a program, and what `meshgen opt` makes of it, compared by FileCheck as the file's RUN line says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from meshgen.cli import main
from meshgen.passes import PASSES

FILES = sorted(Path(__file__).parent.glob("*.mlir"))


def opt(path: Path, capsys: pytest.CaptureFixture[str], text: str = "") -> str:
    """What the command of the RUN line prints, that of the file or of another text."""
    (line,) = [line for line in (text or path.read_text()).splitlines() if line.startswith("// RUN: ")]
    command, check = line.removeprefix("// RUN: ").split(" | ")
    program, *words = shlex.split(command)
    assert (program, check) == ("meshgen", "filecheck %s")
    assert main([str(path) if word == "%s" else word for word in words]) == 0
    return capsys.readouterr().out


def matches(path: Path, text: str) -> bool:
    options = parse_argv_options(["filecheck", str(path)])
    return Matcher(options, FInput(path.name, text), Parser.from_opts(options)).run() == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_pass_makes_what_the_file_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--passes {path.stem.partition('.')[0]} " in path.read_text()
    assert matches(path, opt(path, capsys))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_the_pass_that_makes_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = path.stem.partition(".")[0]
    command = path.read_text().replace(f"--passes {name} ", "")
    assert not matches(path, opt(path, capsys, command))


def test_each_pass_has_a_file() -> None:
    assert {path.stem.partition(".")[0] for path in FILES} == set(PASSES)
