"""The options of `compile`. One declaration of each option serves Python, the command line and pyproject.toml."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from dataclasses import fields

import pytest

import meshgen as mg
from meshgen.commands import compile as compile_command
from meshgen.commands.options import OF_PROGRAM, OF_TARGET, chosen_options
from meshgen.errors import UsageError
from meshgen.options import FLAGS, CompileOptions

NAMES = [field.name for field in fields(CompileOptions)]


def test_keywords_of_compile_are_documented_option_fields() -> None:
    parameters = inspect.signature(mg.compile).parameters
    assert [*parameters] == ["graph", "mesh", *NAMES]
    defaults = {option.name: option.default for option in fields(CompileOptions)}
    assert {name: parameters[name].default for name in NAMES} == defaults
    assert all(f"\n    {name}: " in (mg.compile.__doc__ or "") for name in NAMES)


def test_command_line_without_flags_selects_the_defaults() -> None:
    parser = ArgumentParser()
    compile_command.add_arguments(parser)
    options = parser.parse_args(["p.mlir", "-o", "p.mgx"])
    names = (*OF_PROGRAM, *OF_TARGET, "tuning")
    assert set(names) == {name for name, flags in FLAGS.items() if flags}
    parsed = CompileOptions(**chosen_options(options, names))
    assert parsed.for_stages() == CompileOptions().for_stages()
    assert all(getattr(parsed, name) in (getattr(CompileOptions(), name), {}) for name in names)


def test_options_by_entry_function_apply_to_that_function() -> None:
    options = CompileOptions(args={"f": ["f32[8]"], "g": ["f32[4]"]}, in_specs={"x": mg.P("d")}, donate={"f": "x"})
    entry_options = options.of_entry("g", "main", ("f", "g"))
    assert (entry_options.args, entry_options.in_specs, entry_options.donate, entry_options.entry) == (
        ["f32[4]"],
        {"x": mg.P("d")},
        None,
        "main",
    )


def test_unknown_keywords_are_refused_with_similar_ones() -> None:
    with pytest.raises(UsageError, match="compile has no argument 'in_spec'") as error:
        mg.compile("", in_spec={})  # type: ignore[call-arg]
    assert "did you mean 'in_specs'?" in str(error.value)
