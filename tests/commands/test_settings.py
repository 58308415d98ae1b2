"""Options from `[tool.meshgen]`: what applies to which command, what the command line overrides, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen.cli import COMMANDS, Parser, main
from meshgen.commands import compile as compile_command
from meshgen.commands.settings import SHARED

PROGRAM = """import meshgen as mg

def mlp(x, w):
    return mg.tanh(x @ w)
"""
TYPES = ["--arg", "f32[8,16]", "--arg", "f32[16,32]"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below the one with the file."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "settings_program.py").write_text(PROGRAM)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.meshgen]\nmesh = "x=2"\ntarget = "cpu"\nspec = ["x=x", "w=_"]\n[tool.meshgen.explain]\nverbose = true\n'
    )
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", "settings_program:mlp", *TYPES, *words]) == 0
    return capsys.readouterr().out


def test_a_program_has_the_options_of_its_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys)
    assert "Cost per device and step" in said  # --verbose
    assert main(["check", "settings_program:mlp", *TYPES]) == 0
    assert "2 ranks of Mesh(x=2)" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--mesh", "x=4"], ["--mesh=x=4"], ["--mes", "x=4"]])
def test_the_command_line_wins(project: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["check", "settings_program:mlp", *TYPES, *words]) == 0
    assert "4 ranks of Mesh(x=4)" in capsys.readouterr().out


def test_modules_keep_their_own(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "settings_program:mlp", *TYPES, "--mesh", "x=4", "-o", "mlp.mgx"]) == 0
    capsys.readouterr()
    assert main(["explain", "mlp.mgx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"x": 4}


def test_doctor_says_where_they_come_from(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["settings"]
    assert found == {
        "tool.meshgen.mesh": "x=2",
        "tool.meshgen.target": "cpu",
        "tool.meshgen.spec": ["x=x", "w=_"],
        "tool.meshgen.explain.verbose": True,
    }
    main(["doctor"])
    assert str(project / "pyproject.toml") in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.meshgen]\nmseh = "x=2"', "did you mean 'mesh'"),
        ("[tool.meshgen.explian]\ntop = 3", "did you mean 'explain'"),
        ("[tool.meshgen.explain]\ntopp = 3", "did you mean 'top'"),
        ('[tool.meshgen.explain]\nverbose = "yes"', "must be true or false"),
        ("[tool.meshgen]\nmesh = [[1]]", "must be a string"),
        ("[tool]\nmeshgen = 3", "is not a table"),
        ("[tool.meshgen", "cannot be read"),
    ],
)
def test_what_means_nothing_is_refused(project: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert main(["explain", "settings_program:mlp", *TYPES]) == 2
    told = capsys.readouterr().err
    assert "error MG0001" in told and said in told and "pyproject.toml" in told


def test_shared_options_are_options() -> None:
    parser = Parser()
    compile_command.add_arguments(parser)
    assert {f"--{name}" for name in SHARED} <= set(parser._option_string_actions)
    assert not set(SHARED) & set(COMMANDS)
