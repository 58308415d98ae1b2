"""Options that a project sets in `[tool.meshgen]` of the nearest pyproject.toml, in the working directory or above it.

    [tool.meshgen]              options of every command that reads a program
    mesh = "dp=2,tp=4"
    spec = ["x=dp", "*.w1=_,tp"]

    [tool.meshgen.explain]      options of one command
    top = 5

A key is the long name of an option. An option on the command line overrides that of the project. Compiled modules keep
the options that they were compiled with.
"""

from __future__ import annotations

import argparse
from collections.abc import Container, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from meshgen.budget import read_file
from meshgen.errors import Diagnostic, Location, UsageError, system_reason
from meshgen.names import nearest_names

MOST_BYTES = 1 << 26  # chosen: bytes of the largest pyproject.toml that is read, to bound time and memory
_FILE = "pyproject.toml"


class Setting(NamedTuple):
    """An option that pyproject.toml sets. `command` is empty if the option applies to all commands that read a
    program.
    """

    option: str
    value: Any
    command: str
    file: Path

    @property
    def key(self) -> str:
        return ".".join(filter(None, ("tool.meshgen", self.command, self.option)))


def shared_options() -> tuple[str, ...]:
    """Return the names of options that can be set for all commands that read a program."""
    # imported late: commands that only read modules must not import the compiler's options
    from meshgen.options import FLAGS

    flags = (flag for option_flags in FLAGS.values() for flag in option_flags if flag.is_shared)
    return ("mesh", *(flag.name.removeprefix("--") for flag in flags))


def settings(commands: Sequence[str], start: Path | None = None) -> list[Setting]:
    """Return the options that the nearest pyproject.toml sets.

    Raises:
        UsageError: MG0001 for an unknown table or key.
    """
    directory = (start or Path.cwd()).resolve()
    file = next((path for folder in (directory, *directory.parents) if (path := folder / _FILE).is_file()), None)
    table = _table(file) if file else {}
    project_settings: list[Setting] = []
    for name, value in table.items():
        assert file is not None
        if isinstance(value, dict):
            _require_known(name, commands, "a command", file)
            project_settings += [Setting(option, option_value, name, file) for option, option_value in value.items()]
        else:
            _require_known(name, shared_options(), "an option of all programs", file)
            project_settings.append(Setting(name, value, "", file))
    return project_settings


def _table(file: Path) -> dict[str, Any]:
    import tomllib  # imported late: only needed if there is a pyproject.toml, and every command looks for one

    try:
        table = tomllib.loads(read_file(file, MOST_BYTES).decode()).get("tool", {}).get("meshgen", {})
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _settings_fault(f"the file cannot be read: {system_reason(error)}", file) from error
    if not isinstance(table, dict):
        raise _settings_fault("tool.meshgen is not a table", file)
    return table


def parse_configured(
    command: str, parser: argparse.ArgumentParser, words: Sequence[str], from_file: Sequence[Setting]
) -> argparse.Namespace:
    """Parse a command line. Options that it does not set are taken from the project's pyproject.toml.

    Raises:
        UsageError: MG0001 for words and keys that the command does not have.
    """
    options = {
        string.removeprefix("--"): action
        for action in parser._actions
        for string in action.option_strings
        if string.startswith("--") and string != "--help"
    }
    for setting in from_file:
        if setting.command == command:
            _require_known(setting.option, options, f"an option of meshgen {command}", setting.file)
    on_line = _explicit(parser, words) if from_file else {}
    applied = [
        setting
        for setting in from_file
        if setting.option in options
        and options[setting.option].dest not in on_line
        and (setting.command == command or (not setting.command and _is_program(on_line.get("program"))))
    ]
    command_options = [setting.option for setting in applied if setting.command]
    applied = [setting for setting in applied if setting.command or setting.option not in command_options]
    option_words = [word for setting in applied for word in _option_words(setting, options[setting.option])]
    try:
        configured = _explicit(parser, option_words)
    except UsageError as error:
        raise _settings_fault(error.diagnostics[0].message, applied[0].file) from error
    with _optional(parser, configured):
        return parser.parse_intermixed_args(words, argparse.Namespace(**configured))


def _is_program(name: str | None) -> bool:
    """Whether the input of a command is a program. A compiled module has its own options."""
    return name is not None and Path(name).suffix != ".mgx"


def _explicit(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """Return the option values that `words` set, keyed by `dest`, without the defaults of the parser."""
    absent = argparse.Namespace(**{action.dest: None for action in parser._actions})
    with _optional(parser, vars(absent)):
        values = vars(parser.parse_intermixed_args(words, absent))
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def _optional(parser: argparse.ArgumentParser, names: Container[str]) -> Generator[None]:
    """Make the arguments whose `dest` is in `names` optional on the command line."""
    required = [action for action in parser._actions if action.required and action.dest in names]
    for action in required:
        action.required = False
    try:
        yield
    finally:
        for action in required:
            action.required = True


def _option_words(setting: Setting, action: argparse.Action) -> Iterator[str]:
    """Yield the command-line words for a setting, such as `--mesh=dp=2`. A list repeats the option for each element. A
    flag without value is yielded if the setting is true.
    """
    values = setting.value if isinstance(setting.value, list) else [setting.value]
    if action.nargs == 0:
        if not isinstance(setting.value, bool):
            raise _settings_fault(f"{setting.key} must be true or false", setting.file)
        yield from [f"--{setting.option}"] * setting.value
        return
    for value in values:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise _settings_fault(f"{setting.key} must be a string, a number or a list of them", setting.file)
    if action.nargs == "+":
        yield from (f"--{setting.option}", *map(str, values))
    else:
        yield from (f"--{setting.option}={value}" for value in values)


def _require_known(name: str, names: Any, description: str, file: Path) -> None:
    if name not in names:
        similar_names = nearest_names(name, list(names), 1)
        hint = f"did you mean '{similar_names[0]}'? " if similar_names else ""
        raise _settings_fault(
            f"tool.meshgen: '{name}' is not {description}", file, f"{hint}there are {', '.join(sorted(names))}"
        )


def _settings_fault(text: str, file: Path, hint: str = "") -> UsageError:
    return UsageError(Diagnostic("MG0001", text, Location(str(file), 0), hint=hint))
