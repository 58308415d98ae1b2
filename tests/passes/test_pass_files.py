"""Tests of each pass by an .mlir file with a program and FileCheck directives for `meshgen opt`."""

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
    """Return the output of the RUN line's command, for the file's text or for `text`."""
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
def test_pass_output_matches_the_check_lines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--passes {path.stem.partition('.')[0]} " in path.read_text()
    assert matches(path, opt(path, capsys))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_check_lines_fail_without_the_pass(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = path.stem.partition(".")[0]
    command = path.read_text().replace(f"--passes {name} ", "")
    assert not matches(path, opt(path, capsys, command))


def test_every_pass_has_a_filecheck_test() -> None:
    assert {path.stem.partition(".")[0] for path in FILES} == set(PASSES)
