"""Source locations of the user's calls: they locate diagnostics that have no location, and Python warnings."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from meshgen.calls.lines import INSIDE, location_of
from meshgen.errors import ArgumentError, Diagnostic, Location, ShardingError, UsageError
from meshgen.names import nearest_names

_COMMAND_LINE = str(Path(__file__).parents[1] / "cli.py")
_NOT_TRACED = "meshgen runs compiled programs on arrays: wrap the call in torch.library.custom_op for fullgraph=True"
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def at_callers_line(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate a public function: faults in its arguments, including unknown keywords, are located at the line of the
    call.
    """
    keywords = _keywords(function)

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            if keywords and not kwargs.keys() <= keywords:
                raise _unknown_keyword(function, next(name for name in kwargs if name not in keywords), keywords)
            return function(*args, **kwargs)
        except (ArgumentError, ShardingError, UsageError) as error:
            # This is a private function of CPython, used because no public function is as cheap.
            line = _line(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
            if line is None or all(diagnostic.loc for diagnostic in error.diagnostics):
                raise
            faults = (replace(diagnostic, loc=diagnostic.loc or line) for diagnostic in error.diagnostics)
            raise type(error)(*faults) from error.__cause__

    # With this mark, torch.compile calls the function instead of tracing it.
    called.__dict__ |= {"_torchdynamo_disable": True, "_torchdynamo_disable_msg": _NOT_TRACED}
    return called


def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names that a function accepts as keywords, or an empty set if it accepts any keyword."""
    if (declared := getattr(function, "__signature__", None)) is not None:
        return frozenset(declared.parameters)
    code = function.__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return frozenset()
    return frozenset(code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount])


def _unknown_keyword(function: Callable[..., Any], name: str, keywords: frozenset[str]) -> UsageError:
    valid = sorted(keywords - {"self"})
    similar = nearest_names(name, valid, 1)
    hint = f"did you mean '{similar[0]}'? " if similar else ""
    text = f"{function.__name__} has no argument '{name}'"
    return UsageError(Diagnostic("MG0001", text, hint=f"{hint}the arguments are {', '.join(valid)}"))


def tell(diagnostics: Iterable[Diagnostic]) -> None:
    """Emit a Python warning for each diagnostic, at the diagnostic's source line.

    Does nothing if called by the command line, which prints diagnostics itself.
    """
    if not _is_command_line(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
        for diagnostic in diagnostics:
            location = diagnostic.loc or Location("<unknown>", 1)
            text = f"{diagnostic.code}: {diagnostic.message}; {diagnostic.hint}"
            warnings.warn_explicit(text, UserWarning, location.file, location.line)


def _is_command_line(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _COMMAND_LINE:
        frame = frame.f_back
    return frame is not None


def _line(frame: FrameType) -> Location | None:
    """Return the source location of the frame, or None if the frame is meshgen's own code, such as the command line."""
    return None if frame.f_code.co_filename.startswith(INSIDE) else location_of(frame)
