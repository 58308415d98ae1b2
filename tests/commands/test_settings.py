"""Option values from `[tool.meshgen]` in pyproject.toml: which commands use them, how the command line overrides them,
and which are refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import COMMANDS, Parser, add_common, main
from meshgen.commands.settings import Setting, parse_configured, shared_options

PROGRAM = """import meshgen as mg

def mlp(x, w):
    return mg.tanh(x @ w)
"""
TYPES = ["--arg", "f32[8,16]", "--arg", "f32[16,32]"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with a settings file, and change to a folder below it. Return the project's folder."""
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


def test_settings_apply_to_programs_of_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = explained(capsys)
    assert "Cost per device and step" in output  # --verbose
    assert main(["check", "settings_program:mlp", *TYPES]) == 0
    assert "2 ranks of Mesh(x=2)" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--mesh", "x=4"], ["--mesh=x=4"], ["--mes", "x=4"]])
def test_command_line_overrides_settings(project: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["check", "settings_program:mlp", *TYPES, *words]) == 0
    assert "4 ranks of Mesh(x=4)" in capsys.readouterr().out


def test_settings_do_not_apply_to_modules(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "settings_program:mlp", *TYPES, "--mesh", "x=4", "-o", "mlp.mgx"]) == 0
    capsys.readouterr()
    assert main(["explain", "mlp.mgx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"x": 4}


def test_doctor_lists_settings_and_their_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings == {
        "tool.meshgen.mesh": "x=2",
        "tool.meshgen.target": "cpu",
        "tool.meshgen.spec": ["x=x", "w=_"],
        "tool.meshgen.explain.verbose": True,
    }
    main(["doctor"])
    assert str(project / "pyproject.toml") in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[tool.meshgen]\nmseh = "x=2"', "did you mean 'mesh'"),
        ("[tool.meshgen.explian]\ntop = 3", "did you mean 'explain'"),
        ("[tool.meshgen.explain]\ntopp = 3", "did you mean 'top'"),
        ('[tool.meshgen.explain]\nverbose = "yes"', "must be true or false"),
        ("[tool.meshgen]\nmesh = [[1]]", "must be a string"),
        ("[tool]\nmeshgen = 3", "is not a table"),
        ("[tool.meshgen", "cannot be read"),
        (f"[tool.meshgen]\nmesh = {'[' * 5000}{']' * 5000}", "cannot be read"),
        ("[tool.meshgen.explain]\nhelp = true", "'help' is not an option"),
    ],
)
def test_invalid_settings_are_refused(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (project / "pyproject.toml").write_text(text)
    assert main(["explain", "settings_program:mlp", *TYPES]) == 2
    errors = capsys.readouterr().err
    assert "error MG0001" in errors and reason in errors and "pyproject.toml" in errors


def parser_of(command: str) -> Parser:
    parser = Parser(prog=command)
    import_module(f"meshgen.commands.{command}").add_arguments(parser)
    add_common(parser)
    return parser


PARSERS = {command: parser_of(command) for command in COMMANDS}
OPTIONS = [
    (command, option.removeprefix("--"), action)
    for command, parser in PARSERS.items()
    for action in parser._actions
    for option in action.option_strings
    if option.startswith("--") and action.dest not in ("help", "list_passes")
]


def settable(action: argparse.Action) -> Any:
    """Return a valid value of the option that is not its default, as a settings file contains it."""
    if action.nargs == 0:
        return True
    if action.choices:
        return list(action.choices)[-1]
    for text in ("7", "3=1.5") if callable(action.type) else ("a.mgx",):
        with contextlib.suppress(argparse.ArgumentTypeError):
            if not callable(action.type) or action.type(text):
                return [text] if action.nargs == "+" else text
    raise AssertionError(action)


def operands(parser: Parser) -> list[str]:
    """Return a word for each required argument of the command. It is the path of a module if the argument accepts one."""
    needed = [action for action in parser._actions if action.required or action.dest == "program"]
    program = "p.mlir" if parser.prog == "compile" else "model:mlp"
    words: list[str] = []
    for action in needed:
        value = next(iter(action.choices)) if action.choices else program if action.dest == "program" else "out.mgx"
        words += [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]
    return words


def parsed(command: str, words: list[str], **from_file: Any) -> dict[str, Any]:
    settings = [
        Setting(option, value, scope, Path("pyproject.toml")) for (scope, option), value in from_file["of"].items()
    ]
    return vars(parse_configured(command, PARSERS[command], words, settings))


@pytest.mark.parametrize(("command", "option", "action"), OPTIONS, ids=[f"{row[0]}-{row[1]}" for row in OPTIONS])
def test_option_means_the_same_in_file_and_on_line(command: str, option: str, action: argparse.Action) -> None:
    value, needed = settable(action), operands(PARSERS[command])
    needed = [word for word in needed if not word.startswith(f"--{option}=")]
    words = [f"--{option}", *value] if isinstance(value, list) else [f"--{option}" + f"={value}" * (value is not True)]
    on_line = parsed(command, needed + words, of={})
    assert on_line[action.dest] != action.default
    assert parsed(command, needed, of={(command, option): value}) == on_line
    if option in shared_options() and "program" in on_line:
        assert parsed(command, needed, of={("", option): value}) == on_line
        assert parsed(command, needed, of={("", option): "b", (command, option): value}) == on_line
        module_words = [word if word not in ("p.mlir", "model:mlp") else "own.mgx" for word in needed]
        assert parsed(command, module_words, of={("", option): value})[action.dest] == action.default


def test_every_command_that_reads_a_program_has_shared_options() -> None:
    reading = {
        command for command, parser in PARSERS.items() if any(action.dest == "program" for action in parser._actions)
    }
    assert reading == {"compile", "check", "opt", "search", "explain", "report"}
    assert {f"--{name}" for name in shared_options()} <= set(PARSERS["compile"]._option_string_actions)
    assert not set(shared_options()) & set(COMMANDS)


SHARED_VALUES = {
    "machine": "dgx-a100",
    "memory-limit": "1MB",
    "mesh": "x=4",
    "precision": "high",
    "spec": "x=_,x",
    "target": "cpu",
}


def test_shared_option_from_file_compiles_the_same_module(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SHARED_VALUES) == set(shared_options())
    words = ["compile", "settings_program:mlp", *TYPES]
    lines = [f"--{name}={value}" for name, value in SHARED_VALUES.items()]
    settings = "".join(f"{name} = {value!r}\n" for name, value in SHARED_VALUES.items())
    (project / "pyproject.toml").write_text(f"[tool.meshgen]\n{settings}")
    assert main([*words, "--output", "file.mgx"]) == 0
    (project / "pyproject.toml").write_text("")
    assert main([*words, *lines, "--output=line.mgx"]) == 0
    modules = [Path(name).read_bytes() for name in ("file.mgx", "line.mgx")]
    assert modules[0] == modules[1]
    assert "for Mesh(x=4), cpu: file.mgx" in capsys.readouterr().out


def test_bad_value_in_file_is_located(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.meshgen.explain]\ntop = -1\n")
    assert main(["explain", "settings_program:mlp", *TYPES]) == 2
    errors = capsys.readouterr().err
    assert "--top" in errors and "pyproject.toml" in errors
