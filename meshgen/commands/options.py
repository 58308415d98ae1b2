"""Options of `compile` on the command line: the flags of `meshgen/options.py`, and the conversion of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from meshgen.commands.constants import constants_option
from meshgen.commands.sizes import fixed_shapes
from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.names import byte_count, whole_number
from meshgen.notation import parse_sharding
from meshgen.options import FLAGS, CompileOptions, Flag
from meshgen.spec import Sharding

OF_PROGRAM = ("machine", "entry", "args", "in_specs", "out_specs", "donate", "arguments", "precision")
OF_TARGET = ("target", "strict", "memory_limit", "skip")


def add_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the flags of the options called `names`."""
    defaults = {option.name: option.default for option in fields(cast("Any", CompileOptions))}
    for name in names:
        for flag in FLAGS[name]:
            parser.add_argument(flag.name, help=flag.help, **_settings(flag, defaults[name]))


def _settings(flag: Flag, default: Any) -> dict[str, Any]:
    if flag.is_switch:
        return {"action": "store_true"}
    settings: dict[str, Any] = {"metavar": flag.metavar} if flag.metavar else {}
    if flag.choices:
        return settings | {"choices": flag.choices, "default": default}
    return settings | ({"action": "append", "default": []} if flag.repeats else {})


def chosen_options(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Convert the values of the options called `names`, and return them as arguments of `CompileOptions`.

    Raises:
        UsageError, ShardingError: a value is malformed.
    """
    return {name: _READERS[name](options) for name in names}


def _entries(names: Sequence[str]) -> str | Sequence[str]:
    """Return the name of the entry function, or the names of several entry functions for one module."""
    return names if len(names) > 1 else "".join(names)


def donate_option(texts: Sequence[str]) -> dict[str, str | None]:
    """Map each donated argument to the result that reuses it. None means the result with the same structure."""
    pairs = (text.partition("=") for text in texts)
    return {name: result or None for name, _, result in pairs}


def specs_option(texts: Sequence[str]) -> dict[str, Sharding]:
    """Parse the shardings of `--spec` or `--out-spec`, and return them by name.

    Raises:
        UsageError: MG0001, one diagnostic per malformed or repeated sharding.
    """
    shardings: dict[str, Sharding] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, equals, spec = text.partition("=")
        if not equals or not name:
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=SPEC", hint="write for example w1=_,tp"))
            continue
        if name in shardings:
            faults.append(
                Diagnostic("MG0001", f"two shardings of '{name}' are given", hint="give one; * matches several names")
            )
        try:
            shardings[name] = parse_sharding(spec)
        except ShardingError as error:
            faults += error.diagnostics
    if faults:
        raise UsageError(*faults)
    return shardings


def line_or_name(text: str) -> int | str:
    """Parse `text` as a source line if it is a number, else as a value's name."""
    number = whole_number(text)
    return text if number is None else number


def bytes_of(text: str, option: str) -> int:
    """Parse a size such as `64GB`, and return it in bytes.

    Raises:
        UsageError: MG0001 for a malformed size.
    """
    size = byte_count(text)
    if size is None:
        hint = f"write for example {option} 64GB, 64GiB or 64G (GiB)"
        raise UsageError(Diagnostic("MG0001", f"{option}: '{text:.40}' is not a size", hint=hint))
    return size


_READERS: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "args": lambda options: {**fixed_shapes(options), **constants_option(options.constant)} or options.arg or None,
    "in_specs": lambda options: specs_option(options.spec) or None,
    "out_specs": lambda options: specs_option(options.out_spec) or None,
    "donate": lambda options: donate_option(options.donate),
    "arguments": lambda options: options.arguments,
    "entry": lambda options: _entries(options.entry),
    "machine": lambda options: options.machine,
    "precision": lambda options: options.precision,
    "target": lambda options: options.target,
    "strict": lambda options: options.strict or tuple(map(line_or_name, options.strict_at)) or False,
    "memory_limit": lambda options: bytes_of(options.memory_limit, "--memory-limit") if options.memory_limit else None,
    "skip": lambda options: tuple(options.skip),
    "tuning": lambda options: options.tuning,
}
