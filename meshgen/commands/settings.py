"""Options that a project sets: `[tool.meshgen]` of the nearest pyproject.toml, in the working directory or above it.

    [tool.meshgen]              options of every command that reads a program
    mesh = "dp=2,tp=4"
    spec = ["x=dp", "*.w1=_,tp"]

    [tool.meshgen.explain]      options of one command
    top = 5

A key is the long name of an option. What the command line says wins, option by option. Compiled modules have the options that they were compiled with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError
from meshgen.names import nearest_names
from meshgen.records import dataclass

SHARED = ("machine", "memory-limit", "mesh", "precision", "spec", "target")
_FILE = "pyproject.toml"


@dataclass(frozen=True)
class Setting:
    """One option that a file sets; `command` is empty for all commands that read a program."""

    option: str
    value: Any
    command: str
    file: Path

    @property
    def key(self) -> str:
        return ".".join(filter(None, ("tool.meshgen", self.command, self.option)))


def settings(commands: Sequence[str], start: Path | None = None) -> list[Setting]:
    """What the nearest file sets; nothing without a file. Raises UsageError MG0001 for tables and keys that mean nothing."""
    here = (start or Path.cwd()).resolve()
    file = next((path for folder in (here, *here.parents) if (path := folder / _FILE).is_file()), None)
    table = _table(file) if file else {}
    found: list[Setting] = []
    for name, value in table.items():
        assert file is not None
        if isinstance(value, dict):
            _known(name, commands, "a command", file)
            found += [Setting(option, each, name, file) for option, each in value.items()]
        else:
            _known(name, SHARED, "an option of all programs", file)
            found.append(Setting(name, value, "", file))
    return found


def _table(file: Path) -> dict[str, Any]:
    import tomllib  # only where there is a file: each command takes a look

    try:
        found = tomllib.loads(file.read_text()).get("tool", {}).get("meshgen", {})
    except (OSError, ValueError, AttributeError) as error:
        raise _settings_fault(f"the file cannot be read: {error}", file) from error
    if not isinstance(found, dict):
        raise _settings_fault("tool.meshgen is not a table", file)
    return found


def configured(
    command: str, parser: argparse.ArgumentParser, words: Sequence[str], given: Sequence[Setting]
) -> list[str]:
    """The words of a command line with those that files add before them. Raises UsageError MG0001 for a key that is not an option."""
    options = {
        string.removeprefix("--"): action
        for action in parser._actions
        for string in action.option_strings
        if string.startswith("--")
    }
    reads_program = any(action.dest == "program" for action in parser._actions) and not any(
        word.endswith(".mgx") for word in words
    )
    added: list[str] = []
    for setting in given:
        if setting.command == command:
            _known(setting.option, options, f"an option of meshgen {command}", setting.file)
        is_for_it = setting.command == command or (not setting.command and reads_program and setting.option in options)
        if is_for_it and not _is_given(options[setting.option], words):
            added += _option_words(setting, options[setting.option])
    return [*added, *words]


def _is_given(action: argparse.Action, words: Sequence[str]) -> bool:
    """Whether a command line has the option, in full, as a prefix or by its letter."""
    named = [word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1]
    return any(
        string == word or (word.startswith("--") and len(word) > 2 and string.startswith(word))
        for word in named for string in action.option_strings
    )  # fmt: skip


def _option_words(setting: Setting, action: argparse.Action) -> Iterator[str]:
    """`--mesh dp=2`; once for each element of a list; a flag where the value is true."""
    values = setting.value if isinstance(setting.value, list) else [setting.value]
    if action.nargs == 0:
        if not isinstance(setting.value, bool):
            raise _settings_fault(f"{setting.key} must be true or false", setting.file)
        yield from [f"--{setting.option}"] * setting.value
        return
    for value in values:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise _settings_fault(f"{setting.key} must be a string, a number or a list of them", setting.file)
        yield f"--{setting.option}={value}"


def _known(name: str, names: Any, what: str, file: Path) -> None:
    if name not in names:
        near = nearest_names(name, list(names), 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise _settings_fault(
            f"tool.meshgen: '{name}' is not {what}", file, f"{hint}there are {', '.join(sorted(names))}"
        )


def _settings_fault(text: str, file: Path, hint: str = "") -> UsageError:
    return UsageError(Diagnostic("MG0001", text, Location(str(file), 0), hint=hint))
